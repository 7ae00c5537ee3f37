"""Arms that share a process: their losses are those of isolated arms, and whoever fails is tried again alone."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from rich.console import Console

from benchmarks.invented.rehearsal import Effects, RehearsedArm, VirtualClock
from harness.analyze.evidence import gather
from harness.analyze.matrix import build_matrix
from harness.cli.measuring import Progress
from harness.core.configuration import Configuration, compose, parse_option
from harness.core.optimization import Timing
from harness.core.plan import Plan, Request
from harness.core.protocol import BRIEF
from harness.core.recipe import OF_PROCESS, Recipe, of_process
from harness.core.records import Fault, Lost, Ready, Record, Window
from harness.measure.first_batches import FirstBatches
from harness.plan.planning import OF_FILE, OF_PASSES, own_process
from harness.plan.schedule import by_replicate
from harness.run.arm import ArmLost, Bereft, Hosts, Job, ProcessArm
from harness.run.execution import Campaign
from harness.run.preparation import epoch_of, known_elsewhere, prepared
from harness.run.preparation import job_of as prepared_job_of
from harness.run.sentinel import Sentinel
from tests.analyze.synthetic import ENVIRONMENT, LOSSES, arm, comparison, ready
from tests.analyze.synthetic import plan as plan_of
from tests.faults.hurried import SHARING
from tests.faults.stage import Stage
from tests.measure.tasks import CATALOGUE

WORKLOADS = ("imagenet", "leak", "patches3d", "speaker", "spoof")
QUICKLY = replace(BRIEF, loss_steps=2, floor_s=0.0, upper_bound_s=0.05)
# What neighbours do to a process: another type of numbers, another layout, loader workers, no collector.
NEIGHBOURS = ((), ("amp_bfloat16",), ("garbage_collector_off",), ("workers=1",))
SLOW = {"imagenet", "spoof"}  # in bfloat16, without matrix units


# Real processes.


def job_of(workload: str, folder: Path, names: tuple[str, ...], *, shared: bool, service: str | None = None) -> Job:
    one = CATALOGUE.workloads[workload]
    size, options = one.sizes["smoke"], tuple(sorted(map(parse_option, names)))
    return Job(
        config=Configuration(workload=workload, size="smoke", batch=size.batch, options=options),
        size=size,
        recipe=compose(one, options, CATALOGUE.optimizations),
        proof={},
        timing=Timing.STEP,
        protocol=QUICKLY,
        data=str(folder),
        device="cpu",
        seed=7,
        other_seeds=False,
        shared=shared,
        workload_path=None,
        service=service,
    )


@contextmanager
def alive(jobs: list[Job]) -> Iterator[list[ProcessArm]]:
    """Arms of these jobs that have arrived: those that share do so in one process."""
    sentinel = Sentinel()
    hosts = Hosts(sentinel=sentinel)
    arms = [ProcessArm(job, sentinel, host=hosts.of(job) if job.shared else None) for job in jobs]
    try:
        for arm in arms:
            arm.arrive()
        yield arms
    finally:
        for arm in arms:
            arm.close()
        hosts.end()
        sentinel.close()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_first_losses_are_those_of_an_isolated_arm_to_the_last_bit(
    workload: str, smoke_data: Mapping[str, Path]
) -> None:
    losses: dict[bool, list[Any]] = {}
    neighbours = [one for one in NEIGHBOURS if one != ("amp_bfloat16",) or workload not in SLOW]
    for shared in (False, True):
        jobs = [job_of(workload, smoke_data[workload], names, shared=shared) for names in neighbours]
        with alive(jobs) as arms:
            found = [arms[0].begin()["losses"]]
            for arm in arms[1:]:
                found.append(arm.begin()["losses"])
                arms[0].window(1, 1, 0)  # another arm takes steps before the next is built
                arm.window(1, 1, 0)
            losses[shared] = found
            assert len({arm._host.process.group for arm in arms}) == (1 if shared else len(arms))
    assert losses[True] == losses[False]


STEPS = ((), ("amp_bfloat16",), ("set_to_none",), ("anomaly_detection",))  # options of the step alone


@pytest.mark.thorough
@pytest.mark.parametrize("workload", ["leak", "spoof"])
def test_first_batches_are_loaded_once_and_losses_are_those_of_an_isolated_arm(
    workload: str, smoke_data: Mapping[str, Path]
) -> None:
    losses: dict[bool, list[Any]] = {}
    for shared in (False, True):
        alone = [job_of(workload, smoke_data[workload], names, shared=shared) for names in STEPS]
        jobs = [replace(one, timing=Timing.COMPUTE, batches="baseline" if shared else None) for one in alone]
        with alive(jobs) as arms:
            ready = []
            for arm in arms:
                ready.append(arm.begin())
                arm.window(1, 1, 0)
            losses[shared] = [one["losses"] for one in ready]
    assert losses[True] == losses[False]
    assert len(set(map(tuple, losses[True]))) > 1, "one of them computes otherwise"


def test_batches_that_were_kept_stay_as_they_were_loaded() -> None:
    loaded = [[torch.full((2,), float(number)), (torch.ones(1), "a name")] for number in range(2)]
    device, numbers = torch.device("cpu"), iter(loaded)

    def load() -> Any:
        torch.rand(3)  # as a data set does that augments
        return next(numbers)

    first, drawn = FirstBatches(), []
    for _ in range(3):
        torch.manual_seed(5)
        for number in range(2):
            batch = first.fetch(number, load, device)
            assert batch[0].tolist() == [number, number]
            assert batch[1][1] == "a name"
            batch[0].mul_(7)  # as a step may do
        drawn.append(torch.rand(1).item())
    assert len(set(drawn)) == 1, "whoever draws next draws what it would have drawn after loading"


def test_only_arms_that_differ_in_their_step_take_the_batches_of_others() -> None:
    usual = prepared(Request(workloads=("leak",), size="quick", device="cpu", isolation="shared"))
    data = {("leak", "quick"): Path()}
    told: dict[Timing, set[str | None]] = {}
    for block in usual.plan.blocks:
        for position in range(len(block.comparisons) + 1) if block.shared else ():
            job = prepared_job_of(usual, data, block, 0, position)
            told.setdefault(block.timing, set()).add(job.batches)
    assert told.pop(Timing.COMPUTE) == {f"{usual.plan.blocks[0].reference} in epochs of 32 steps"}
    assert set().union(*told.values()) == {None}


def test_batches_of_another_epoch_are_others_and_workers_show_their_own() -> None:
    usual = prepared(Request(workloads=("leak",), size="quick", device="cpu", isolation="shared"))
    data = {("leak", "quick"): Path()}
    block = next(one for one in usual.plan.blocks if one.shared and one.timing is Timing.COMPUTE)
    first = block.comparisons[0]
    loading = replace(block.reference, options=(parse_option("workers=4"),))
    shortened = replace(block, comparisons=(replace(first, treatment=loading),))
    ours, theirs = (prepared_job_of(usual, data, one, 0, 0) for one in (block, shortened))
    assert (ours.size.epoch_steps, theirs.size.epoch_steps) == (32, 31)
    assert None not in {ours.batches, theirs.batches}
    assert ours.batches != theirs.batches
    reference = replace(shortened, reference=loading)
    assert prepared_job_of(usual, data, reference, 0, 0).batches is None


def test_a_process_serves_the_blocks_of_its_replicate_and_no_other(smoke_data: Mapping[str, Path]) -> None:
    sentinel = Sentinel()
    hosts = Hosts(sentinel=sentinel)
    job = job_of("leak", smoke_data["leak"], (), shared=True)
    try:
        first, groups = hosts.of(job), []
        for _ in range(2):  # a block, and the next one
            arm = ProcessArm(job, sentinel, host=hosts.of(job))
            arm.arrive()
            arm.begin()
            groups.append(arm._host.process.group)
            arm.close()
        assert groups[0] == groups[1]
        assert not first.arms
        assert hosts.of(replace(job, seed=8)) is not first
        first.end()
        assert hosts.of(job) is not first
    finally:
        hosts.end()
        sentinel.close()


@pytest.mark.thorough
def test_a_crash_costs_the_process_and_only_the_culprit_is_tried_alone(stage: Stage) -> None:
    planted = {"foreach_optimizer": "raise", "preallocated_loss_history": "exit", "garbage_collector_off": "segfault"}
    words = " ".join(f"--only {name}" for name in (*planted, "in_place_activations", "deferred_metrics"))
    seen = stage.run(
        f"run {words} --replicates 2 --rounds 1 --budget none --isolation shared",
        {"TROUBLE": ",".join(f"{name}:step:{deed}" for name, deed in planted.items()), SHARING: "1"},
    )
    stage.assert_nothing_is_left()
    losses = {one.arm.position: [] for one in seen.lost}  # type: dict[int, list[tuple[bool, str]]]
    for one in seen.lost:
        losses[one.arm.position].append((one.arm.shared, one.outcome))
    assert len(losses) == len(planted), "nobody else is blamed"
    for found in losses.values():
        assert found[0] == (True, "interrupted")
        assert (False, "failed") in found
    timed = {(one.arm.position, one.arm.replicate, one.arm.shared) for one in seen.after if isinstance(one, Window)}
    honest = {position for position, _, _ in timed} - {0, *losses}
    assert len(honest) == 2
    assert {(one, replicate, True) for one in honest for replicate in (0, 1)} <= timed


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    (tmp_path / "data").mkdir()
    one = Stage(folder=tmp_path, data=tmp_path / "data")
    yield one
    for process in one.processes():
        process.kill()


# Plans: who shares.


def test_everything_that_a_process_has_once_needs_its_own() -> None:
    plain = Recipe()
    assert of_process(plain, plain, {}) is None
    shares = Recipe(autocast="bfloat16", workers=2, matmul_precision="high", cudnn_deterministic=True)
    assert of_process(shares, plain, {}) is None
    others = {
        "threads": 2, "pinned_cores": True, "malloc": "tuned", "expandable_segments": True, "start_method": "spawn",
        "sharing_strategy": "file_system", "compile": "default", "cuda_graph": True, "cudnn_benchmark": True,
        "blocking_sync": True, "empty_cache": True, "ranks": 2, "evaluation_persistent_workers": True,
    }  # fmt: skip
    assert others.keys() == OF_PROCESS.keys()
    for name, value in others.items():
        recipe = Recipe(**{"workers": 2, "evaluation_workers": 2, name: value})
        assert str(of_process(recipe, plain, {})).startswith(f"{name}: ")
    recipe = replace(plain, own=(("swmr", False),))
    assert of_process(recipe, replace(plain, own=(("swmr", True),)), {"swmr": "one mode"}) == "swmr: one mode"


WISH = Request(
    workloads=("leak",), size="quick", only=("foreach_optimizer", "tuned_malloc", "in_place_activations"), replicates=2,
    rounds=3, device="cpu", isolation="shared",
)  # fmt: skip


def test_a_plan_keeps_those_apart_that_need_it_with_a_reference_of_their_own() -> None:
    ready = prepared(WISH)
    labels = {block.shared: [one.label for one in block.comparisons] for block in ready.plan.blocks}
    assert labels == {True: ["foreach_optimizer", "in_place_activations"], False: ["tuned_malloc"]}
    (alone,) = [one for one in ready.plan.comparisons if one.label == "tuned_malloc"]
    assert str(own_process(alone, ready.catalogue, "cpu")).startswith("malloc: ")
    assert not any(block.shared for block in prepared(replace(WISH, isolation="process")).plan.blocks)


def test_epochs_evaluations_and_users_files_have_processes_of_their_own() -> None:
    ready = prepared(WISH)
    one = next(each for each in ready.plan.comparisons if each.label == "foreach_optimizer")
    assert own_process(one, ready.catalogue, "cpu") is None
    for timing in (Timing.EPOCH, Timing.EVALUATION):
        assert own_process(replace(one, timing=timing), ready.catalogue, "cpu") == OF_PASSES
    leak = replace(ready.catalogue.workloads["leak"], path="/somewhere/train.py")
    own = replace(ready.catalogue, workloads={**ready.catalogue.workloads, "leak": leak})
    assert own_process(one, own, "cpu") == OF_FILE


def test_what_takes_away_the_large_arrays_of_speaker_has_its_own_process() -> None:
    names = ("seek_read", "split_noise", "mapped_noise", "float32_augmentation", "fftconvolve")
    plan = prepared(replace(WISH, workloads=("speaker",), only=names)).plan
    assert {one.label for block in plan.blocks if block.shared for one in block.comparisons} == {"fftconvolve"}


# Invented processes: what a campaign makes of losses.


@dataclass(slots=True, kw_only=True)
class InventedHost:
    """A process that ends when one of its arms has taken so many windows."""

    ended: bool = False


@dataclass(slots=True, kw_only=True)
class InventedArm:
    """A rehearsed arm that takes its process with it in a window, if it shares one."""

    arm: RehearsedArm
    host: InventedHost | None
    lethal: bool
    started: list[bool] = field(default_factory=list)

    begins_beside = False

    def arrive(self) -> None:
        self._live()
        self.arm.arrive()

    def begin(self) -> dict[str, Any]:
        self._live()
        return self.arm.begin()

    def settle(self, steps: int, offset: int) -> int:
        self._live()
        return self.arm.settle(steps, offset)

    def window(self, lead: int, steps: int, start: int) -> dict[str, Any]:
        self._live()
        if self.lethal and self.host:
            self.host.ended = True
            raise ArmLost(Fault.CRASHED, "ended by SIGSEGV")
        return self.arm.window(lead, steps, start)

    def close(self) -> None:
        pass

    def _live(self) -> None:
        if self.host and self.host.ended:
            raise Bereft


def campaign(plan: Plan, lethal: dict[int, int]) -> Campaign:
    """A campaign in which a position's windows are lethal in one replicate."""
    clock, hosts = VirtualClock(), dict[tuple[str, int], InventedHost]()

    def start(block: Any, replicate: int, position: int) -> InventedArm:
        config = block.comparisons[position - 1].treatment if position else block.reference
        key = block.identity, replicate
        if block.shared and (key not in hosts or hosts[key].ended):
            hosts[key] = InventedHost()
        return InventedArm(
            arm=RehearsedArm(config=config, timing=block.timing, effects=Effects(), clock=clock, random=Random(1)),
            host=hosts[key] if block.shared else None,
            lethal=lethal.get(position) == replicate,
        )

    return Campaign(
        plan=plan, records=list[Record](), start=start, append=lambda _: None,
        watcher=Progress(plan, Console(quiet=True)), clock=clock,
    )  # fmt: skip


@pytest.fixture(scope="module")
def plan() -> Plan:
    return prepared(replace(WISH, only=("foreach_optimizer", "in_place_activations", "deferred_metrics"))).plan


def sharing(plan: Plan, records: list[Record]) -> dict[str, tuple[bool, bool]]:
    """By label: whether the estimate rests on a process that was shared, and whether its row says so."""
    rows = build_matrix(plan, records, ENVIRONMENT).rows
    told = {row.label: any("shared process" in note for note in row.notes) for row in rows}
    return {row.label: (row.estimate.shared, told[row.label]) for row in rows if row.estimate}


def test_what_ended_the_process_is_measured_alone_in_all_its_replicates_and_nobody_else_is(plan: Plan) -> None:
    made = campaign(plan, {2: 1})  # crashes in the second replicate, when the first is complete
    assert made.run()
    (lost,) = [one for one in made.records if isinstance(one, Lost)]
    assert (lost.arm.position, lost.arm.replicate, lost.arm.shared, lost.outcome) == (2, 1, True, "interrupted")
    assert lost.reason.endswith("next it gets a process of its own")
    evidence = list(gather(plan, made.records))
    assert [one.shared for one in evidence] == [True, False, True]
    for one in evidence:
        kinds = {window.arm.shared for window in one.windows}
        assert kinds == {one.shared}, "windows of both kinds are never taken together"
        assert {ready.arm.replicate for ready in one.treatment.readies} == {0, 1}
    assert sharing(plan, made.records) == {
        one.label: (position != 2, position != 2) for position, one in enumerate(plan.comparisons, 1)
    }


def test_a_reference_that_ended_the_process_takes_its_block_out_of_it(plan: Plan) -> None:
    made = campaign(plan, {0: 0})
    assert made.run()
    assert [one.shared for one in gather(plan, made.records)] == [False] * 3
    assert len([one for one in made.records if isinstance(one, Lost)]) == 1


def test_a_campaign_goes_on_from_its_records_as_if_it_had_never_stopped(plan: Plan) -> None:
    made = campaign(plan, {2: 1})
    assert made.run()
    kept = by_replicate(made.records)
    assert not any(
        isinstance(one, Window) and one.arm.shared and one.arm.position == 2 for same in kept.values() for one in same
    )
    again = campaign(plan, {})
    again.records = list(made.records)
    again.__post_init__()
    assert again.run()
    assert again.attempts == 0


def test_records_of_a_campaign_say_of_every_arm_whether_it_shared(plan: Plan) -> None:
    made = campaign(plan, {})
    assert made.run()
    assert {one.arm.shared for one in made.records if isinstance(one, Ready)} == {True}
    alone = campaign(replace(plan, blocks=tuple(replace(one, shared=False) for one in plan.blocks)), {})
    assert alone.run()
    assert {one.arm.shared for one in alone.records} == {False}


# First losses of a reference: in full once in a run, where they are the same to the last bit.


def begun(block: str, *, shared: bool, losses: tuple[float, ...] = LOSSES, position: int = 0) -> Ready:
    return ready(replace(arm(block, position=position), shared=shared), losses=losses)


def test_first_losses_of_the_other_kind_count_where_bits_are_the_same() -> None:
    usual = prepared(replace(WISH, replicates=2))
    known = replace(usual, plan=replace(usual.plan, protocol=replace(usual.plan.protocol, judged_again=False)))
    on_gpu = replace(known, environment=replace(known.environment, device="cuda"))
    together, alone = known.plan.blocks
    assert (together.shared, alone.shared) == (True, False)
    seen = [begun(together.identity, shared=True)]
    assert known_elsewhere(known, seen, alone, 0)
    assert known_elsewhere(known, seen, together, 0), "an attempt before had them"
    assert not known_elsewhere(known, [], together, 0)
    assert not known_elsewhere(known, seen, alone, 1), "another replicate has another seed"
    assert not known_elsewhere(on_gpu, seen, alone, 0)
    assert known_elsewhere(on_gpu, seen, replace(alone, shared=True), 0)


def test_a_treatment_is_judged_by_a_reference_of_its_own_kind_where_there_is_one() -> None:
    told = plan_of(comparison("workers"), comparison("amp"), comparison("pin_memory"))
    starts = [
        begun("0", shared=True, losses=()), begun("0", shared=True, position=1),
        begun("1", shared=True, losses=(9.0, 9.0, 9.0)), begun("2", shared=False, losses=(5.0, 5.0, 5.0)),
    ]  # fmt: skip
    first = next(iter(gather(told, starts)))
    assert (first.shared, first.judged_by[-1].losses) == (True, (9.0, 9.0, 9.0))
    assert next(iter(gather(told, starts[:2] + starts[3:]))).judged_by[-1].losses == (5.0, 5.0, 5.0)


@pytest.mark.parametrize(("cycle", "is_judged"), [(32, True), (31, False)])
def test_a_treatment_is_judged_by_no_reference_that_met_the_samples_in_another_order(
    cycle: int, *, is_judged: bool
) -> None:
    """An epoch may be a step shorter, so that every loader worker comes to load all batches."""
    starts = [
        replace(begun("0", shared=False, losses=()), cycle_steps=cycle),
        replace(begun("0", shared=False, position=1), cycle_steps=cycle),
        replace(begun("1", shared=False), cycle_steps=32),
    ]
    first, _ = gather(plan_of(comparison("workers"), comparison("amp")), starts)
    assert (first.quality is not None) is is_judged


@pytest.mark.parametrize(
    ("timed", "epoch", "is_judged"), [(32, 32, True), (1, 32, True), (1, 31, False), (31, 31, False)]
)
def test_an_order_is_told_by_the_length_of_the_epoch_whatever_is_timed(
    timed: int, epoch: int, *, is_judged: bool
) -> None:
    """Evaluations and steps on resident batches go through no epoch, and their first losses are those of one."""
    starts = [
        replace(begun("0", shared=False, losses=()), cycle_steps=32, epoch_steps=32),
        replace(begun("0", shared=False, position=1), cycle_steps=32, epoch_steps=32),
        replace(begun("1", shared=False), cycle_steps=timed, epoch_steps=epoch),
    ]
    first, _ = gather(plan_of(comparison("workers"), comparison("amp")), starts)
    assert (first.quality is not None) is is_judged


def test_a_reference_whose_epoch_is_shorter_elsewhere_tells_its_own_losses() -> None:
    usual = prepared(replace(WISH, replicates=2))
    known = replace(usual, plan=replace(usual.plan, protocol=replace(usual.plan.protocol, judged_again=False)))
    together, alone = known.plan.blocks
    seen = [begun(together.identity, shared=True)]
    loading = parse_option("workers=4")
    first = alone.comparisons[0]
    treatment = replace(first.treatment, options=(loading,))
    shortened = replace(alone, comparisons=(replace(first, treatment=treatment),))
    size = epoch_of(known, alone, alone.reference)
    assert epoch_of(known, shortened, alone.reference) != size, "the workers share a divisor with the epoch"
    assert not known_elsewhere(known, seen, shortened, 0)
