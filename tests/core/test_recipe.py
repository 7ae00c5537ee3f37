from dataclasses import FrozenInstanceError, fields

import pytest

from harness.core.recipe import COMMON_FIELDS, ImpossibleRecipe, Recipe, as_mapping, difference, patched


def test_plain_has_everything_off_and_pinned() -> None:
    plain = as_mapping(Recipe())
    assert plain.pop("threads") == plain.pop("micro_batches") == 1
    assert plain.pop("start_method") == "fork"
    for kernel in ("optimizer_kernel", "clip_kernel", "average_kernel"):
        assert plain.pop(kernel) == "loop"
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
    recipe = Recipe(tf32=True, own=(("reader", "slow"),))
    found = patched(recipe, {"reader": "fast", "cache": None, "workers": 2})
    assert found == Recipe(tf32=True, workers=2, own=(("cache", None), ("reader", "fast")))
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
