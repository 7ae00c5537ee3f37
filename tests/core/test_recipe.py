from dataclasses import FrozenInstanceError, fields

import pytest

from harness.core.recipe import BARRED, COMMON_FIELDS, ImpossibleRecipe, Recipe, as_mapping, difference, patched

PINNED = {
    "threads": 1, "worker_threads": 1, "micro_batches": 1, "batch_scale": 1, "ranks": 1,
    "malloc": "glibc", "start_method": "fork", "sharing_strategy": "file_descriptor",
    "matmul_precision": "highest", "garbage_collector": "automatic",
    "collate": "default", "batch_transport": "shared_memory", "page_cache": "warm",
    "optimizer_kernel": "loop", "clip_kernel": "loop", "average_kernel": "loop", "learning_rate_rule": "fixed",
}  # fmt: skip


def test_plain_has_everything_off_and_pinned() -> None:
    plain = as_mapping(Recipe())
    assert {name: plain.pop(name) for name in PINNED} == PINNED
    assert not any(plain.values())


def test_a_recipe_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Recipe().workers = 2  # type: ignore[misc]


@pytest.mark.parametrize("choice", [{"persistent_workers": True}, {"prefetch_factor": 4}])
def test_what_loader_workers_do_needs_loader_workers(choice: dict[str, int]) -> None:
    with pytest.raises(ImpossibleRecipe, match="needs loader workers: add workers=2"):
        patched(Recipe(), choice)
    assert as_mapping(patched(Recipe(), {**choice, "workers": 2})).items() >= choice.items()


@pytest.mark.parametrize(("workers", "factor", "ahead"), [(0, None, 0), (3, None, 6), (3, 1, 3), (2, 8, 16)])
def test_batches_that_the_loader_may_hold_ahead(workers: int, factor: int | None, ahead: int) -> None:
    assert Recipe(workers=workers, prefetch_factor=factor).prefetched_batches == ahead


def test_patching_keeps_the_workloads_own_choices_sorted_and_leaves_the_rest() -> None:
    recipe = Recipe(tf32_convolutions=True, own=(("reader", "slow"),))
    found = patched(recipe, {"reader": "fast", "cache": None, "workers": 2})
    assert found == Recipe(tf32_convolutions=True, workers=2, own=(("cache", None), ("reader", "fast")))
    assert recipe.own == (("reader", "slow"),)
    assert (found.choice("reader"), found.choice("cache")) == ("fast", None)
    with pytest.raises(KeyError):
        found.choice("colour")


def test_differences_say_from_what_to_what() -> None:
    reference = Recipe(own=(("reader", "slow"),))
    found = Recipe(workers=2, autocast="bfloat16", own=(("reader", "fast"),))
    assert difference(found, reference) == {
        "workers": (0, 2),
        "autocast": (None, "bfloat16"),
        "reader": ("slow", "fast"),
    }
    assert difference(found, found) == {}


def test_the_common_fields_are_all_but_the_workloads_own() -> None:
    assert {field.name for field in fields(Recipe)} - {"own"} == COMMON_FIELDS


BARRED_PAIRS = [(choice, other, reason) for choice, others in BARRED.items() for other, reason in others.items()]


@pytest.mark.parametrize(("choice", "other", "reason"), BARRED_PAIRS)
def test_what_cannot_be_together_is_refused_with_both_names_and_the_reason(
    choice: str, other: str, reason: str
) -> None:
    assert {choice, other} <= COMMON_FIELDS
    value = 2 if other in {"micro_batches", "ranks"} else True
    several = {"ranks": 2} if choice == "sharded_weights" else {}
    patched(Recipe(), {**several, other: value})
    with pytest.raises(ImpossibleRecipe) as found:
        patched(Recipe(), {**several, choice: 2 if choice == "ranks" else True, other: value})
    assert str(found.value) == f"{choice} and {other} cannot be together: {reason}"


def test_a_learning_rate_that_follows_the_batch_needs_a_larger_one() -> None:
    assert patched(Recipe(), {"learning_rate_rule": "linear", "batch_scale": 2}).batch_scale == 2
    with pytest.raises(ImpossibleRecipe, match="linear_learning_rate needs a larger batch: add batch_scale=2"):
        patched(Recipe(), {"learning_rate_rule": "linear"})


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_gradients_of_captured_passes_add_up_only_where_they_have_memory_of_their_own(mode: str) -> None:
    with pytest.raises(ImpossibleRecipe, match=f"compile={mode} and gradient_accumulation exclude set_to_none"):
        Recipe(compile=mode, micro_batches=2, set_to_none=True)
    for possible in ({"micro_batches": 2}, {"set_to_none": True}):
        assert patched(Recipe(), {"compile": mode, **possible}).compile == mode
    assert Recipe(compile="default", micro_batches=2, set_to_none=True).compile == "default"
