from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from harness.catalogue import read_catalogue
from harness.core.configuration import Comparison, Configuration, Option, batch_scale, compose, parse_option, settings
from harness.core.environment import Environment
from harness.core.optimization import LEVEL, NEW_SHAPES, PARTS_OF_A_STEP, SEVERAL_ITEMS, Stage, Timing
from harness.core.plan import NoResult
from harness.core.protocol import BRIEF, Protocol
from harness.core.recipe import Recipe, difference
from harness.core.workload import Workload
from harness.plan.designs import DESIGNS, against_itself, alone, combined, distributed, levels, stages
from harness.plan.feasibility import Entry, Scope, all_options, based_on, compare, ordered, single
from tests.analyze.synthetic import ENVIRONMENT
from tests.core.invented import ALL, GPU, KNOWN, optimization, workload

TOY = workload()
RANKS = optimization("ranks", {"ranks": LEVEL}, levels=(2,), stage=Stage.RANKS)
RANKED = optimization("ranked", {"static_graph": True}, requires=("ranks",), stage=Stage.RANKS)
SCALE = optimization("batch_scale", {"batch_scale": LEVEL}, levels=(2,), stage=Stage.DEVICE)


def scope(*below: str, environment: Environment = ENVIRONMENT, **facts: Any) -> Scope:
    names = tuple(sorted(map(parse_option, below)))
    given = {"protocol": Protocol(), "optimizations": ALL, "original": (Option(name="workers", level=3),), **facts}
    return Scope(
        workload=TOY,
        reference=Configuration(workload="toy", size="quick", batch=12, options=names),
        known=KNOWN,
        environment=environment,
        **given,
    )


def comparisons(entries: Iterable[Entry]) -> dict[str, Comparison]:
    return {one.label: one for one in entries if isinstance(one, Comparison)}


def no_results(entries: Iterable[Entry]) -> dict[str, str]:
    return {one.label: one.reason for one in entries if isinstance(one, NoResult)}


@pytest.mark.parametrize("design", ["alone", "levels"])
@pytest.mark.parametrize("below", [(), ("workers=4", "halved")])
@pytest.mark.parametrize("environment", [ENVIRONMENT, GPU])
def test_a_comparison_differs_from_its_reference_in_what_its_subject_says(
    design: str, below: tuple[str, ...], environment: Environment
) -> None:
    found = comparisons(DESIGNS[design](scope(*below, environment=environment)))
    singles = {label: one for label, one in found.items() if label not in {"all", "original"}}
    assert singles
    for label, one in singles.items():
        option = parse_option(label)
        ours, theirs = (compose(TOY, config.options, KNOWN) for config in (one.treatment, one.reference))
        said = settings(KNOWN[option.name], option.level)
        assert {name: value for name, (_, value) in difference(ours, theirs).items()} == said
        assert one.treatment.batch == one.reference.batch
        assert set(one.treatment.options) - set(one.reference.options) == {option}


def test_alone_begins_with_all_together_and_tries_each_once_stage_after_stage_in_turns() -> None:
    found = [one.label for one in alone(scope(environment=GPU))]
    assert found == [
        "all",
        "best_reader", "fast_reader",  # the workload's own
        "workers=2", "compile=default", "whole_evaluation",  # the first of each stage
        "fused", "halved", "split=2", "tf32",  # the others, stage after stage in turns
        "prefetch=4", "original",
    ]  # fmt: skip


def test_what_is_required_stands_in_the_reference_too() -> None:
    one = comparisons(alone(scope()))["prefetch=4"]
    assert one.reference.options == (Option(name="workers", level=2),)
    assert one.treatment.options == (Option(name="prefetch", level=4), Option(name="workers", level=2))


def test_what_is_required_is_left_at_the_level_that_the_reference_has() -> None:
    one = comparisons(alone(scope("workers=4")))["prefetch=4"]
    assert one.reference.options == (Option(name="workers", level=4),)


def test_every_hole_has_words() -> None:
    found = no_results(alone(replace(scope("workers=2"), protocol=BRIEF)))
    assert found == {
        "workers=2": "on in the reference already",
        "tf32": "needs a CUDA device",
        "compile=default": "starts too slowly for a first look (about 90 s): --protocol standard tries it",
    }


def test_a_need_of_what_is_required_is_a_hole_that_says_for_whom() -> None:
    wanting = optimization("wanting", {"pin_memory": True}, requires=("tf32",))
    entry = single(replace(scope(), optimizations=(wanting,)), wanting, None)
    assert entry == NoResult(workload="toy", label="wanting", reason="needs a CUDA device, for tf32")


def test_a_batch_that_cannot_be_split_is_a_hole() -> None:
    assert no_results(levels(scope()))["split=5"] == "a batch of 12 cannot be taken in 5 equal parts"


def test_a_part_of_a_batch_too_small_to_be_normalised_is_a_hole() -> None:
    found = no_results(levels(replace(scope(), workload=replace(TOY, least_samples=7))))
    assert found["split=2"] == "toy normalises over 7 samples at least, so it cannot train on fewer"


def test_a_conflict_with_the_reference_is_a_hole_that_names_both() -> None:
    assert no_results(alone(scope("fused")))["halved"] == "halved excludes fused: they quarrel"


def test_everything_composes_and_leaves_out_what_conflicts_or_changes_the_task() -> None:
    for environment in (ENVIRONMENT, GPU):
        names = [str(one) for one in all_options(scope(environment=environment))]
        compose(TOY, map(parse_option, names), KNOWN)
        expected = ["best_reader", "compile=default", "fused", "prefetch=4", "workers=2"]
        assert names == sorted([*expected, *(["tf32"] if environment is GPU else [])])


def test_everything_is_stacked_on_the_reference() -> None:
    assert Option(name="fast_reader") in all_options(scope("fast_reader"))


def test_as_found_is_compared_unless_it_is_the_reference_or_nothing() -> None:
    assert comparisons(combined(scope()))["original"].treatment.options == (Option(name="workers", level=3),)
    assert "original" not in comparisons(combined(scope("workers=3")))
    assert "original" not in comparisons(combined(scope(original=())))


def test_no_part_of_a_loop_is_timed_that_may_run_ahead_of_its_gpu() -> None:
    """Its step is no sum of loading and computing: a loader that costs nothing may gain nothing."""
    catalogue = read_catalogue(ledger=False)
    leak, known = catalogue.workload("leak"), catalogue.optimizations
    loop = replace(leak, fixed={"deferred_metrics": "your loop reads its loss or not"})

    def timed(workload: Workload, environment: Environment) -> set[Timing]:
        found = replace(
            scope(environment=environment, optimizations=tuple(known.values()), original=()),
            workload=workload,
            reference=Configuration(workload="leak", size="quick", batch=256),
            known=known,
        )
        return {one.timing for one in comparisons(stages(found)).values()}

    assert not timed(loop, GPU) & PARTS_OF_A_STEP
    assert Timing.LOADER in timed(loop, ENVIRONMENT)
    assert Timing.LOADER in timed(leak, GPU)


def test_options_of_ranks_have_a_design_of_their_own() -> None:
    added = {one.name: one for one in (RANKS, RANKED, SCALE)}
    both = replace(scope(), optimizations=(*ALL, RANKS, RANKED), known={**KNOWN, **added})
    assert not {"ranks=2", "ranked"} & set(comparisons(stages(both)))
    found = comparisons(distributed(both))
    assert set(found) == {"ranks=2", "ranked", "batch_scale=2+ranks=2"}
    assert found["ranked"].reference.options == (Option(name="ranks", level=2),)
    assert found["ranks=2"].reference.options == ()
    weak = found["batch_scale=2+ranks=2"]
    assert weak.treatment.batch == weak.reference.batch == 24
    assert weak.reference.options == (Option(name="split", level=2),)


def test_levels_tries_every_level_of_each() -> None:
    found = list(levels(scope(environment=GPU)))
    names = [one.label for one in found]
    for one in ALL:
        for level in one.levels or (None,):
            assert names.count(str(Option(name=one.name, level=level))) == 1
    assert len(names) == sum(len(one.levels) or 1 for one in ALL)


def test_against_itself_are_ten_copies_of_one_cell() -> None:
    found = list(against_itself(scope("workers=2")))
    assert [one.copy for one in found if isinstance(one, Comparison)] == list(range(10))
    assert all(one.treatment == one.reference for one in comparisons(found).values())


def test_each_is_timed_on_what_it_asks_for_and_a_probe_overrules_it() -> None:
    assert comparisons(alone(scope()))["whole_evaluation"].timing is Timing.EVALUATION
    assert comparisons(alone(scope()))["fused"].timing is Timing.STEP
    own = {"claims", "distributed", "evaluation"}  # claims say what they are timed on; no option here is of ranks
    for design in (design for name, design in DESIGNS.items() if name not in own):
        found = comparisons(design(scope(probe=Timing.LOADER)))
        assert {one.timing for one in found.values()} == {Timing.LOADER}
    (refused,) = DESIGNS["evaluation"](scope(probe=Timing.COMPUTE))
    assert isinstance(refused, NoResult)
    assert refused.reason == "acts on evaluations, and this times the step"


def test_the_design_of_evaluations_tries_their_options_alone_at_every_level() -> None:
    found = comparisons(DESIGNS["evaluation"](scope()))
    assert list(found) == ["whole_evaluation"]
    assert {one.timing for one in found.values()} == {Timing.EVALUATION}


def test_an_impossible_stack_has_words() -> None:
    stack = (Option(name="prefetch", level=4),)
    entry = compare(scope(), "mine", stack)
    assert isinstance(entry, NoResult)
    assert (entry.label, entry.reason) == ("mine", "prefetch_factor needs loader workers: add workers=2")


def test_a_workload_s_own_come_first_and_what_requires_others_last() -> None:
    found = ordered(scope())
    own = [one.workload is not None for one in found]
    assert own == sorted(own, reverse=True)
    assert found[-1].requires or found[-1].needs


def test_everything_takes_what_supersedes_and_leaves_what_it_supersedes() -> None:
    known = read_catalogue().optimizations
    leak = read_catalogue().workloads["leak"]
    whole = Scope(
        workload=leak, reference=Configuration(workload="leak", size="smoke", batch=64),
        optimizations=tuple(one for one in known.values() if one.workload in {None, "leak"}), known=known, original=(),
        environment=ENVIRONMENT, protocol=BRIEF,
    )  # fmt: skip
    names = {option.name for option in all_options(whole)}
    assert {"fused_optimizer", "data_on_device", "conv1d_rewrite"} <= names
    superseded = {"foreach_optimizer", "batched_fetch", "in_memory_data"}
    assert not names & (superseded | {"hdf5_chunk_cache", "inference_mode", "gradient_accumulation", "hdf5_layout"})


@pytest.mark.parametrize(("flags", "is_part"), [((), False), (("amx_bf16",), True)])
def test_everything_leaves_out_what_this_machine_emulates(flags: tuple[str, ...], is_part: bool) -> None:
    known = read_catalogue().optimizations
    here = replace(ENVIRONMENT, cpu_flags=flags)
    scope = Scope(
        workload=read_catalogue().workloads["leak"], reference=Configuration(workload="leak", size="smoke", batch=64),
        optimizations=(known["amp_bfloat16"], known["workers"]), known=known, original=(), environment=here,
        protocol=BRIEF,
    )  # fmt: skip
    assert ("amp_bfloat16" in {option.name for option in all_options(scope)}) == is_part
    assert "amp_bfloat16" in comparisons(DESIGNS["alone"](scope))


LARGER = optimization("larger", {"batch_scale": LEVEL}, levels=(2, 4), excludes={"split": "one piece or several"})
FASTER = optimization("faster", {"learning_rate_rule": "linear"}, requires=("larger",))


def scaled(*below: str, batch: int = 12) -> Scope:
    """The toy with larger batches; `batch` is the reference's."""
    known = {**KNOWN, "larger": LARGER, "faster": FASTER}
    found = replace(scope(*below), known=known, optimizations=(*ALL, LARGER, FASTER))
    return replace(found, reference=replace(found.reference, batch=batch))


def test_a_larger_batch_is_measured_against_as_many_samples_in_parts() -> None:
    for level in (2, 4):
        one = single(scaled("fused"), LARGER, level)
        assert isinstance(one, Comparison)
        assert str(one.treatment) == f"toy@quick#{12 * level}:fused+larger={level}"
        assert str(one.reference) == f"toy@quick#{12 * level}:fused+split={level}"


@pytest.mark.parametrize("design", ["alone", "levels", "combined"])
@pytest.mark.parametrize(("below", "batch"), [((), 12), (("larger=2",), 24), (("split=2",), 12)])
def test_no_ratio_is_made_between_different_samples_per_update(design: str, below: tuple[str, ...], batch: int) -> None:
    found = comparisons(DESIGNS[design](scaled(*below, batch=batch)))
    assert found
    for one in found.values():
        assert one.treatment.batch == one.reference.batch
        times = batch_scale(one.treatment.options, scaled().known)
        assert one.treatment.batch == 12 * times


def test_items_that_make_no_batch_are_a_hole_in_the_workload_s_words() -> None:
    def one_at_a_time(recipe: Recipe, batch: int) -> str | None:
        return "too many" if batch > 1 and recipe.choice("reader") == "slow" else None

    found = replace(scaled(batch=1), workload=replace(TOY, unstackable=one_at_a_time))
    entry = single(found, LARGER, 2)
    assert isinstance(entry, NoResult)
    assert entry.reason == "too many"
    assert isinstance(single(based_on(found, (Option(name="fast_reader"),)), LARGER, 2), Comparison)


def test_needs_are_judged_beside_the_reference() -> None:
    searched = optimization("searched", {"cudnn_benchmark": True}, needs=(NEW_SHAPES,))
    several = optimization("several", {"channels_last_3d": True}, needs=(SEVERAL_ITEMS,))
    ragged = replace(
        TOY, traits=frozenset({"few_shapes"}), one_shape=lambda recipe: recipe.choice("reader") == "fast",
        sizes={"quick": replace(TOY.sizes["quick"], batch=1, epoch_steps=120)},
    )  # fmt: skip

    def reasons(*below: str, batch: int) -> list[str | None]:
        found = replace(scope(*below), workload=ragged, known={**KNOWN, "searched": searched, "several": several})
        found = replace(found, reference=replace(found.reference, batch=batch))
        entries = (single(found, one, None) for one in (searched, several))
        return [one.reason if isinstance(one, NoResult) else None for one in entries]

    assert reasons(batch=1) == [NEW_SHAPES.missing, SEVERAL_ITEMS.missing]
    assert reasons("fast_reader", batch=1) == [None, SEVERAL_ITEMS.missing]
    assert reasons("fast_reader", batch=12) == [None, None]
    assert reasons("split=2", batch=2) == [NEW_SHAPES.missing, SEVERAL_ITEMS.missing]


def test_a_reference_with_the_larger_batch_keeps_it() -> None:
    one = single(scaled("larger=2", batch=24), KNOWN["fused"], None)
    assert isinstance(one, Comparison)
    assert str(one.reference) == "toy@quick#24:larger=2"
    assert one.treatment.batch == 24


def test_what_requires_a_larger_batch_has_it_on_both_sides() -> None:
    one = single(scaled(), FASTER, None)
    assert isinstance(one, Comparison)
    assert (str(one.treatment), str(one.reference)) == ("toy@quick#24:faster+larger=2", "toy@quick#24:larger=2")


def test_a_reference_that_takes_the_samples_in_as_many_parts_already_stays_as_it_is() -> None:
    one = compare(scaled("split=2"), "mine", (Option(name="larger", level=2),))
    assert isinstance(one, Comparison)
    assert str(one.reference) == "toy@quick#24:split=2"


@pytest.mark.parametrize(
    ("below", "batch", "stack", "words"),
    [
        (("larger=2",), 24, "fused", "an update takes 12 samples, in the reference 24"),
        (("larger=2",), 24, "larger=3", "an update takes 36 samples, in the reference 24"),
        (("larger=2",), 24, "larger=4", "larger=2 excludes split: one piece or several"),
        (("split=5",), 20, "larger=2", "the reference takes a batch in 5 parts already, and would have to take 2"),
        ((), 12, "larger=11", "toy at size quick has 120 samples in an epoch; choose a batch of at most 120"),
    ],
)
def test_a_batch_without_a_fair_partner_is_a_hole(below: tuple[str, ...], batch: int, stack: str, words: str) -> None:
    entry = compare(scaled(*below, batch=batch), "mine", (parse_option(stack),))
    assert isinstance(entry, NoResult)
    assert entry.reason == words
