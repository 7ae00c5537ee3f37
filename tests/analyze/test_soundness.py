"""What must hold of windows whatever is trained: an arm that breaks it has no ratio."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Row, build_matrix
from harness.analyze.soundness import Absence, Outcome, bounds_seen, data_cache_seen
from harness.core.optimization import Numerics, Promise, Timing
from harness.core.records import Bounds, Ready, Record, Window
from tests.analyze.synthetic import ENVIRONMENT, comparison, plan, records

TWO = {"effective": {"layout": "contiguous", "workers": 2}, "loader_rate": 400.0}


def row(change: Callable[[Window], Window], *, ratio: float = 2.0, **start: object) -> Row:
    """A comparison whose treatment's windows are changed; those of the reference run evenly."""
    found: list[Record] = []
    for one in records(0, ratio, **start):
        if isinstance(one, Window):
            even = replace(one, first_half_s=0.5 * one.wall_s)
            found.append(change(even) if one.arm.position else even)
        else:
            found.append(one)
    return build_matrix(plan(comparison("workers")), found, ENVIRONMENT).rows[0]


def words(found: Row) -> str:
    assert isinstance(found.result, Absence), found.result
    assert found.result.outcome is Outcome.UNSOUND
    return found.result.words


def test_a_queue_that_neither_fills_nor_empties_gives_a_ratio() -> None:
    assert row(lambda one: replace(one, batches=10, produced=10), **TWO).estimate is not None


def test_windows_that_lived_on_a_queue_have_no_ratio() -> None:
    assert "finished 8 batches in windows that took 80" in words(
        row(lambda one: replace(one, batches=10, produced=1), **TWO)
    )


def test_the_edges_of_windows_may_miss_by_what_workers_finish_at_once() -> None:
    assert row(lambda one: replace(one, batches=10, produced=9), **TWO).estimate is not None


def part_of_a_group(window: Window, waited: float) -> Window:
    """Fifteen batches of two workers, of which so large a share was waited for."""
    return replace(window, batches=15, produced=15, wait_s=waited * window.wall_s)


def test_windows_that_hold_part_of_a_group_have_no_ratio() -> None:
    assert "15 batches held part of a group of 2" in words(row(lambda one: part_of_a_group(one, 0.9), **TWO))
    assert row(lambda one: part_of_a_group(one, 0.01), **TWO).estimate is not None, "it hardly waits for them"


def test_nothing_trains_faster_than_its_own_loader() -> None:
    slow = TWO | {"loader_rate": 186.0}
    assert "it trained 200 samples/s, and its loader alone gives 186" in words(row(lambda one: one, **slow))
    assert row(lambda one: one, **(TWO | {"loader_rate": 196.0})).estimate is not None, "a probe is not that exact"


def test_nor_than_what_a_helper_gives_that_no_pause_stops() -> None:
    def waiting(share: float) -> Callable[[Window], Window]:
        return lambda one: replace(one, wait_s=share * one.wall_s)

    assert "a service or a thread, prepares batches" in words(row(waiting(0.4), asked_rate=186.0))
    assert row(waiting(0.4), asked_rate=196.0).estimate is not None, "a probe is not that exact"
    assert row(waiting(0.6), asked_rate=186.0).estimate is not None, "it has waited for about what a batch takes"
    keeps = {"layout": "contiguous", "data_cache": "filled before"}
    assert row(waiting(0.1), asked_rate=186.0, effective=keeps).estimate is not None, "it was asked before it was full"


def test_nor_than_its_own_step() -> None:
    assert "its step alone gives 150" in words(row(lambda one: one, compute_rate=150.0, **TWO))


@pytest.mark.parametrize(("later", "refused"), [(200.0, True), (230.0, False)])
def test_a_bound_that_was_probed_at_a_slow_moment_forbids_nothing(later: float, *, refused: bool) -> None:
    """It trains 200 and then 250 samples/s, beyond its bound each time; the largest bound tells what it can do."""
    found: list[Record] = []
    for one in records(0, 2.0, compute_rate=150.0, **TWO):
        if isinstance(one, Window):
            found.append(replace(one, wall_s=one.wall_s / (1.25 if one.arm.replicate and one.arm.position else 1)))
        else:
            found.append(replace(one, compute_rate=later) if one.arm.replicate and one.arm.position else one)
    row = build_matrix(plan(comparison("workers")), found, ENVIRONMENT).rows[0]
    assert (row.estimate is None) is refused


def test_workers_that_went_on_beside_the_clock_are_measured_again() -> None:
    assert "measure it again" in words(row(lambda one: replace(one, lead_steps=None), **TWO))
    without = row(lambda one: replace(one, lead_steps=None))
    assert without.estimate is not None
    assert any("too few untimed steps" in one for one in without.notes)


@pytest.mark.parametrize(("share", "told", "refused"), [(0.5, False, False), (0.48, True, False), (0.4, False, True)])
def test_a_pace_that_changes_within_windows_is_told_and_then_refused(
    share: float, *, told: bool, refused: bool
) -> None:
    """A service that nobody can stop fills its queue in every pause, so that windows begin too fast."""
    found = row(lambda one: replace(one, first_half_s=share * one.wall_s))
    assert (found.estimate is None) is refused
    assert any("second half of its windows" in one for one in found.notes) is told
    if refused:
        assert "before the arm was back at its usual pace" in words(found)


def test_a_ratio_of_whole_epochs_says_how_long_they_were() -> None:
    timed = replace(comparison("workers"), timing=Timing.EPOCH)
    seen = [
        replace(one, cycle_steps=8) if isinstance(one, Ready) else one for one in records(0, 2.0, timing=Timing.EPOCH)
    ]
    (found,) = build_matrix(plan(timed), seen, ENVIRONMENT).rows
    assert any("whole epochs of 8 steps" in one for one in found.notes), found.notes


def test_a_ratio_of_evaluations_says_how_long_a_pass_was() -> None:
    seen = records(0, 2.0, timing=Timing.EVALUATION)
    (found,) = build_matrix(plan(comparison("workers", timing=Timing.EVALUATION)), seen, ENVIRONMENT).rows
    assert any("passes over 64 items" in one for one in found.notes), found.notes


def test_a_step_alone_on_batches_with_shapes_of_their_own_has_no_ratio() -> None:
    timed = replace(comparison("workers"), timing=Timing.COMPUTE)
    effective = {"layout": "contiguous", "varying_shapes": True}
    varying = records(0, 2.0, timing=Timing.COMPUTE, effective=effective)
    (found,) = build_matrix(plan(timed), varying, ENVIRONMENT).rows
    assert "shapes of their own" in words(found)
    alike = records(0, 2.0, timing=Timing.COMPUTE, effective=effective | {"varying_shapes": False})
    (found,) = build_matrix(plan(timed), alike, ENVIRONMENT).rows
    assert found.estimate is not None


def test_a_cache_that_was_not_filled_is_told() -> None:
    found = row(lambda one: one, effective={"layout": "contiguous", "data_cache": "still filling"})
    assert any("the cache was still filling" in one for one in found.notes), found.notes


@pytest.mark.parametrize(
    ("timing", "effective", "is_sound"),
    [
        (Timing.LOADER, {"s3_state": "warm"}, False),
        (Timing.STEP, {"s3_state": "cold"}, False),
        (Timing.LOADER, {"s3_state": "warm", "quickest_object_ms": 16.4}, True),
        (Timing.COMPUTE, {"s3_state": "warm"}, True),
        (Timing.LOADER, {}, True),  # which does not tell what it did
    ],
)
def test_loads_from_a_store_that_counted_decoding_have_no_ratio(
    timing: Timing, effective: dict[str, object], is_sound: bool
) -> None:
    one = replace(comparison("workers"), timing=timing)
    configs = {name: replace(getattr(one, name), workload="imagenet") for name in ("treatment", "reference")}
    seen = [
        replace(ready, effective={**ready.effective, **effective})
        if isinstance(ready, Ready) and ready.arm.position and not ready.arm.replicate else ready
        for ready in records(0, 2.0, timing=timing)
    ]  # fmt: skip
    found = build_matrix(plan(replace(one, **configs)), seen, ENVIRONMENT).rows[0]
    assert (found.estimate is not None) is is_sound
    if not is_sound:
        assert "held the decoding too" in words(found)


@pytest.mark.parametrize(
    ("timing", "effective", "is_sound"),
    [
        (Timing.STEP, {"update_in_backward": True}, False),
        (Timing.COMPUTE, {"update_in_backward": True}, False),
        (Timing.STEP, {"update_in_backward": True, "gpu_check": "CUDA"}, True),
        (Timing.STEP, {"update_in_backward": False}, True),
        (Timing.LOADER, {"update_in_backward": True}, True),
    ],
)
def test_updates_that_each_asked_a_driver_for_a_gpu_have_no_ratio(
    timing: Timing, effective: dict[str, object], is_sound: bool
) -> None:
    seen = [
        replace(ready, effective={**ready.effective, **effective})
        if isinstance(ready, Ready) and ready.arm.position else ready
        for ready in records(0, 2.0, timing=timing)
    ]  # fmt: skip
    found = build_matrix(plan(replace(comparison("workers"), timing=timing)), seen, ENVIRONMENT).rows[0]
    assert (found.estimate is not None) is is_sound
    if not is_sound:
        assert "asked a driver for a GPU" in words(found)


def test_steps_of_former_copies_of_patches3d_have_no_ratio() -> None:
    def patches(timing: Timing, effective: dict[str, object]) -> Row:
        one = comparison("workers")
        configs = {name: replace(getattr(one, name), workload="patches3d") for name in ("treatment", "reference")}
        timed = replace(one, timing=timing, **configs)  # type: ignore[arg-type]
        seen = [
            replace(one, effective={**one.effective, **effective}) if isinstance(one, Ready) else one
            for one in records(0, 2.0, timing=timing)
        ]
        return build_matrix(plan(timed), seen, ENVIRONMENT).rows[0]

    assert "collected garbage in every step" in words(patches(Timing.STEP, {}))
    assert "cheaper terms" in words(patches(Timing.STEP, {"uneven_steps": 4}))
    assert patches(Timing.STEP, {"uneven_steps": 4, "loss_terms": "bce, dice"}).estimate is not None
    emulated = {"uneven_steps": 4, "emulated_step_ms": 140.0, "emulated_host_ms": 20.0, "emulated_queue": 1024}
    assert patches(Timing.STEP, emulated).estimate is not None, "its loss is part of a time from a table"
    assert patches(Timing.LOADER, {}).estimate is not None, "its loader is as it was"


STAYING = {"evaluation_workers": 2, "evaluation_persistent_workers": True}


@pytest.mark.parametrize(
    ("workload", "effective", "says"),
    [
        ("spoof", STAYING, "had inherited what watches"),
        ("spoof", STAYING | {"scored_times": 2}, None),
        ("leak", STAYING, None),  # which does not tell when it was measured
        ("patches3d", {"evaluation_workers": 2}, "read every volume"),
        ("patches3d", {"evaluation_workers": 2, "evaluation_parts": 2}, None),
        ("patches3d", {"evaluation_workers": 1}, None),
        ("spoof", {"evaluation_workers": 2}, None),
        ("leak", {"files_per_batch": 256}, "a pass held all 64 files"),
        ("leak", {"files_per_batch": 64}, None),
    ],
)
def test_former_passes_over_an_evaluation_set_have_no_ratio(
    workload: str, effective: dict[str, object], says: str | None
) -> None:
    one = replace(comparison("workers"), timing=Timing.EVALUATION)
    configs = {name: replace(getattr(one, name), workload=workload) for name in ("treatment", "reference")}
    seen = [
        replace(ready, effective={**ready.effective, **effective})
        if isinstance(ready, Ready) and ready.arm.position else ready
        for ready in records(0, 2.0, timing=Timing.EVALUATION)
    ]  # fmt: skip
    found = build_matrix(plan(replace(one, **configs)), seen, ENVIRONMENT).rows[0]
    if says is None:
        assert found.estimate is not None
    else:
        assert says in words(found)


@pytest.mark.parametrize(
    ("workload", "names", "effective", "is_sound"),
    [
        ("spoof", ("evaluation_interval",), {}, False),
        ("spoof", ("evaluation_interval",), {"scored_times": 1}, True),
        ("spoof", ("evaluation_interval", "single_pass_scoring"), {}, True),
        ("spoof", ("workers",), {}, True),
        ("leak", ("evaluation_interval",), {}, True),
    ],
)
def test_epochs_whose_evaluations_scored_twice_have_no_ratio(
    workload: str, names: tuple[str, ...], effective: dict[str, object], *, is_sound: bool
) -> None:
    asked = plan(comparison(*names, timing=Timing.EPOCH, workload=workload))
    seen = [
        replace(ready, effective={**ready.effective, **effective})
        if isinstance(ready, Ready) and ready.arm.position else ready
        for ready in records(0, 2.0, timing=Timing.EPOCH)
    ]  # fmt: skip
    promised = dict.fromkeys(names, Promise(numerics=Numerics.EXACT, proof=(), pointless_where={}))
    found = build_matrix(replace(asked, promises=promised), seen, ENVIRONMENT).rows[0]
    assert (found.estimate is not None) is is_sound
    if not is_sound:
        assert "scored all clips twice" in words(found)


@pytest.mark.parametrize(
    ("effective", "is_sound"),
    [
        ({"start_method": "spawn"}, False),
        ({"start_method": "forkserver"}, False),
        ({"start_method": "spawn", "bytecode": True}, True),
        ({"start_method": None}, True),
    ],
)
def test_epochs_whose_workers_may_have_compiled_what_they_import_have_no_ratio(
    effective: dict[str, object], *, is_sound: bool
) -> None:
    seen = [
        replace(one, effective={**one.effective, **effective}) if isinstance(one, Ready) and one.arm.position else one
        for one in records(0, 0.2, timing=Timing.EPOCH)
    ]
    found = build_matrix(plan(comparison("workers", timing=Timing.EPOCH)), seen, ENVIRONMENT).rows[0]
    assert (found.estimate is not None) is is_sound
    if not is_sound:
        assert "without bytecode" in words(found)


FED = {"workers": 1, "automatic_collection": True, "emulated_step_ms": 4.0, "emulated_queue": 1024}


@pytest.mark.parametrize(
    ("effective", "slowest_s", "says"),
    [
        ({"page_cache": "cold"}, 0.0, "reading its files back"),
        ({"page_cache": "cold", "read_back_kib": 64}, 0.0, None),
        (FED, 0.3, "looked through all objects"),
        (FED, 0.0, None),  # no batch was late
        (FED | {"collected_before": True}, 0.3, None),
        (FED | {"automatic_collection": False}, 0.3, None),
        (FED | {"workers": 0}, 0.3, None),
    ],
)
def test_loaders_of_former_arms_have_no_ratio(effective: dict[str, object], slowest_s: float, says: str | None) -> None:
    late = [
        replace(one, effective={**one.effective, **effective}) if isinstance(one, Ready) and one.arm.position
        else replace(one, slowest_s=(one.wall_s / one.steps + slowest_s,)) if isinstance(one, Window) else one
        for one in records(0, 2.0, timing=Timing.LOADER)
    ]  # fmt: skip
    found = build_matrix(plan(comparison("workers", timing=Timing.LOADER)), late, ENVIRONMENT).rows[0]
    if says is None:
        assert found.estimate is not None
    else:
        assert says in words(found)


def test_halves_of_a_whole_epoch_of_unequal_samples_are_no_transient() -> None:
    def halves(window: Window) -> Window:
        return replace(window, steps=8, first_half_s=(0.3 if window.arm.position else 0.5) * window.wall_s)

    short = [replace(one, cycle_steps=8) if isinstance(one, Ready) else halves(one) if isinstance(one, Window) else one
             for one in records(0, 2.0)]  # fmt: skip
    assert build_matrix(plan(comparison("workers")), short, ENVIRONMENT).rows[0].estimate is not None
    parts = [replace(one, cycle_steps=80) if isinstance(one, Ready) else one for one in short]
    assert "second half of its windows" in words(build_matrix(plan(comparison("workers")), parts, ENVIRONMENT).rows[0])


def seen(replicate: int = 2, **start: object) -> Bounds | None:
    """Of a treatment that trains 200 samples a second."""
    return bounds_seen(records(0, 2.0, **start), plan(comparison("workers")).blocks[0], replicate, 1)


def test_bounds_that_no_window_beat_are_probed_once() -> None:
    assert seen(loader_rate=900.0, compute_rate=400.0) == Bounds(loader_rate=900.0, compute_rate=400.0)
    assert seen(loader_rate=None, compute_rate=None, asked_rate=196.0) == Bounds(loader_rate=None, compute_rate=None)
    assert seen(0, loader_rate=900.0, compute_rate=400.0) is None, "nothing came before"


def test_bounds_are_probed_again_where_that_may_change_what_is_told() -> None:
    assert seen(loader_rate=186.0, compute_rate=900.0) is None, "a second replicate may confirm that it is beaten"
    assert seen(loader_rate=None, compute_rate=None, asked_rate=186.0) is None
    assert seen(loader_rate=400.0, compute_rate=300.0) is None, "too alike to tell whether the queue fills"


def test_the_first_replicate_whose_bounds_hold_tells_them() -> None:
    found = records(0, 2.0, loader_rate=900.0, compute_rate=400.0)
    doubted = [
        replace(one, loader_rate=100.0) if isinstance(one, Ready) and one.arm.replicate == 0 else one for one in found
    ]
    block = plan(comparison("workers")).blocks[0]
    assert bounds_seen(doubted, block, 1, 1) is None
    assert bounds_seen(doubted, block, 2, 1) == Bounds(loader_rate=900.0, compute_rate=400.0)


def test_what_became_of_a_cache_is_told_by_the_first_replicate() -> None:
    block = plan(comparison("workers")).blocks[0]
    found = list(records(0, 2.0, effective={"data_cache": "still filling"}, replicates=3))
    assert data_cache_seen(found, block, 0, 1) is None
    assert data_cache_seen(found, block, 2, 1) == "still filling"
    for seen_so_far in (found, caches("", "", replicates=3)):
        assert data_cache_seen(seen_so_far, block, 1, 0) is None, "it has looked once, and a busy machine hides a cache"
        assert data_cache_seen(seen_so_far, block, 2, 0) == ""


def test_an_arm_that_surely_keeps_nothing_looks_once() -> None:
    block = plan(comparison("workers")).blocks[0]
    found = list(records(0, 2.0, replicates=3))
    plain = [replace(one, effective={"keeps_nothing": True}) if isinstance(one, Ready) else one for one in found]
    treatments = [was if one.arm.position == 0 else one for was, one in zip(found, plain, strict=True)]
    assert data_cache_seen(plain, block, 0, 1) is None
    assert {data_cache_seen(plain, block, 1, position) for position in (0, 1)} == {""}
    assert data_cache_seen(treatments, block, 1, 1) is None, "the reference said nothing of the kind"


def caches(treatment: str, reference: str, **start: object) -> list[Record]:
    found: list[Record] = []
    for one in records(0, 2.0, **start):
        if isinstance(one, Ready):
            told = treatment if one.arm.position else reference
            one = replace(one, epoch_steps=80, effective={"layout": "contiguous", "data_cache": told})  # noqa: PLW2901
        found.append(one)
    return found


def test_a_cache_goes_the_way_of_the_references() -> None:
    """Else one arm would read from a full cache and the other not, in every replicate alike."""
    block, found = plan(comparison("workers")).blocks[0], caches("filled before", "still filling", replicates=3)
    assert data_cache_seen(found, block, 1, 1) == data_cache_seen(found, block, 1, 0) == "still filling"


def looked(first: str, later: str) -> list[Record]:
    """A treatment that had read all before, beside a reference that told one thing first and another one later."""
    before, after = (caches("filled before", one, replicates=4) for one in (first, later))
    return [one for one in before if one.arm.replicate == 0] + [one for one in after if one.arm.replicate]


def test_a_cache_that_was_overlooked_is_looked_for_again() -> None:
    """Else its arm would never fill it, beside one that always does."""
    block, found = plan(comparison("workers")).blocks[0], looked("", "filled before")
    assert [data_cache_seen(found, block, one, 0) for one in (1, 2)] == [None, "filled before"]
    assert [data_cache_seen(found, block, one, 1) for one in (1, 2)] == ["filled before", "filled before"]


@pytest.mark.parametrize(("later", "processes"), [("filled before", 3), ("", 4)])
def test_a_replicate_that_overlooked_a_cache_is_left_out(later: str, processes: int) -> None:
    """Where it is found later; a reference that never shows one has none."""
    found = build_matrix(plan(comparison("workers")), looked("", later), ENVIRONMENT).rows[0]
    assert found.estimate is not None
    assert found.estimate.processes == processes


def in_turn(treatment: str, reference: str, replicates: int = 2) -> list[Record]:
    """Arms that were alive one after the other, each in an attempt of its own."""
    made = caches(treatment, reference, replicates=replicates)
    return [replace(one, arm=replace(one.arm, attempt=one.arm.position, turn=0)) for one in made]


@pytest.mark.parametrize(
    ("treatment", "reference", "refused"),
    [
        ("filled before", "filled before", False),
        ("still filling", "filled before", True),
        ("filled before", "still filling", True),
        ("still filling", "still filling", False),  # nobody comes back to what was read
    ],
)
def test_caches_of_arms_in_turn_are_compared_too(treatment: str, reference: str, *, refused: bool) -> None:
    result = build_matrix(plan(comparison("workers")), in_turn(treatment, reference), ENVIRONMENT).rows[0].result
    if refused:
        assert isinstance(result, Absence)
        assert "had not read all before its windows" in result.words
    else:
        assert isinstance(result, Estimate), result


def test_a_treatment_that_does_as_a_reference_whose_cache_still_fills_keeps_those_replicates() -> None:
    before, after = (in_turn(one, "still filling", replicates=3) for one in ("filled before", "still filling"))
    seen = [one for one in before if one.arm.replicate == 0] + [one for one in after if one.arm.replicate]
    found = build_matrix(plan(comparison("workers")), seen, ENVIRONMENT).rows[0]
    assert found.estimate is not None
    assert found.estimate.processes == 2


@pytest.mark.parametrize("other", ["filled before", "still filling"])
def test_a_full_cache_beside_one_that_fills_is_no_comparison(other: str) -> None:
    result = build_matrix(plan(comparison("workers")), caches("filled before", other), ENVIRONMENT).rows[0].result
    assert isinstance(result, Absence) is (other == "still filling")


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (("still filling", "filled before"), ("filled before", "filled before")),  # later ones go the reference's way
        (("", ""), ("", "filled before")),  # the reference's was overlooked, and it came back to what it had read
        (("", ""), ("filled before", "")),  # the treatment's was, which its windows then filled
        (("still filling", ""), ("filled before", "")),
    ],
)
def test_a_replicate_whose_caches_differed_from_those_of_others_is_left_out(
    first: tuple[str, str], later: tuple[str, str]
) -> None:
    seen = [one for one in caches(*first, replicates=4) if one.arm.replicate == 0]
    seen += [one for one in caches(*later, replicates=4) if one.arm.replicate > 0]
    found = build_matrix(plan(comparison("workers")), seen, ENVIRONMENT).rows[0]
    assert found.estimate is not None
    assert found.estimate.processes == 3


def test_a_cache_that_was_found_in_the_second_of_two_replicates_has_no_ratio() -> None:
    first, second = (caches(one, "") for one in ("", "filled before"))
    seen = [one for one in first if not one.arm.replicate] + [one for one in second if one.arm.replicate]
    found = build_matrix(plan(comparison("workers")), seen, ENVIRONMENT).rows[0]
    assert "some replicates it had not read all before its windows" in words(found)


@pytest.mark.parametrize("told", [("in part", ""), ("filled before", "in part")])
def test_an_arm_whose_cache_holds_a_part_has_a_ratio_of_whole_epochs_alone(told: tuple[str, str]) -> None:
    """Shorter windows find more of it than epochs do, or less."""
    reference, treatment = told

    def result(cycle: int) -> Absence | Estimate:
        found = [
            replace(one, cycle_steps=cycle) if isinstance(one, Ready) else one for one in caches(treatment, reference)
        ]
        return build_matrix(plan(comparison("workers")), found, ENVIRONMENT).rows[0].result

    refused = result(80)
    assert isinstance(refused, Absence)
    assert "keeps a part of what it reads" in refused.words
    assert isinstance(result(1), Estimate)


@pytest.mark.parametrize(
    ("shown", "is_part"),
    [
        ({"cache_hits_percent": 54}, True),
        ({"cache_hits_percent": 54, "volume_cache": "half"}, True),
        ({"cache_hits_percent": 94, "volume_cache": "all", "data_cache": "filled before"}, False),
        ({"cache_hits_percent": 94, "volume_cache": "all", "data_cache": ""}, True),
    ],
)
def test_what_an_arm_shows_of_its_cache_tells_a_part_too(shown: dict[str, object], *, is_part: bool) -> None:
    found = [
        replace(one, cycle_steps=80, effective={**one.effective, **shown}) if isinstance(one, Ready) else one
        for one in caches("filled before", "filled before")
    ]
    result = build_matrix(plan(comparison("workers")), found, ENVIRONMENT).rows[0].result
    assert isinstance(result, Absence) is is_part
    if isinstance(result, Absence):
        assert "keeps a part of what it reads" in result.words


@pytest.mark.parametrize(("reference", "refused"), [("still filling", True), ("filled before", False), ("", False)])
def test_a_reference_whose_cache_still_fills_has_no_ratio(reference: str, *, refused: bool) -> None:
    """What it reads before the first treatment of a round it has kept before the second one."""
    found = build_matrix(plan(comparison("workers")), caches(reference, reference), ENVIRONMENT).rows[0]
    assert (found.estimate is None) is refused
    if refused:
        assert "had no time to read all of it before" in words(found)
