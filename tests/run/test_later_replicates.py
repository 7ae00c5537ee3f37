"""What the first replicate of a comparison has shown is not paid for again by later ones."""

import gc
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rich.console import Console

from benchmarks.invented.rehearsal import Effects, RehearsedArm, VirtualClock
from harness.cli.measuring import Progress
from harness.core.configuration import expected, parse_option
from harness.core.optimization import Timing
from harness.core.plan import Block, Request
from harness.core.protocol import UNTIMED
from harness.core.records import Arm, Bounds, Record, Window
from harness.measure.feed import Feed, open_feed
from harness.measure.trial import begin
from harness.plan.schedule import leads_seen
from harness.run.execution import Campaign
from harness.run.preparation import prepared
from tests.analyze.synthetic import window
from tests.measure.tasks import CATALOGUE, task_of

WISH = Request(workloads=("leak",), size="quick", only=("set_to_none",), replicates=3, rounds=3, device="cpu")

THREE = replace(UNTIMED, loss_steps=3)
TRANSIENT = 3  # steps that a resumption tells on


@dataclass(slots=True, kw_only=True)
class CountedArm(RehearsedArm):
    """A rehearsed arm whose turns without a clock are counted."""

    replicate: int
    workers: int
    settled: Counter[int] = field(default_factory=Counter)

    def begin(self) -> dict[str, Any]:
        ready = RehearsedArm.begin(self)
        return ready | {"effective": {"workers": self.workers}}

    def settle(self, steps: int, offset: int) -> int:
        self.settled[self.replicate] += 1
        return RehearsedArm.settle(self, steps, offset)


def measured(workers: int) -> tuple[Counter[int], list[Window]]:
    """Turns without a clock by replicate, and the windows of a plan whose arms have so many loader workers."""
    plan, clock, settled = prepared(WISH).plan, VirtualClock(), Counter[int]()

    def start(block: Block, replicate: int, position: int) -> CountedArm:
        config = block.comparisons[position - 1].treatment if position else block.reference
        return CountedArm(
            config=config, timing=block.timing, effects=Effects(), clock=clock, random=Random(position),
            transient_steps=TRANSIENT, replicate=replicate, workers=workers, settled=settled,
        )  # fmt: skip

    made = Campaign(
        plan=plan, records=list[Record](), start=start, append=lambda _: None,
        watcher=Progress(plan, Console(quiet=True)), clock=clock,
    )  # fmt: skip
    assert made.run()
    return settled, [one for one in made.records if isinstance(one, Window)]


def test_plain_arms_are_led_in_as_in_their_first_replicate() -> None:
    settled, windows = measured(workers=0)
    assert settled == {0: 3}, "both arms, and once more the one that had hardly stood still"
    for replicate in range(3):
        assert min(one.lead_steps or 0 for one in windows if one.arm.replicate == replicate) >= TRANSIENT


def test_arms_with_loader_workers_take_a_turn_in_every_replicate() -> None:
    assert measured(workers=2)[0] == {0: 3, 1: 3, 2: 3}


def proof_of(name: str) -> dict[str, Any]:
    option = parse_option(name)
    return expected(CATALOGUE.optimizations[option.name], option.level)


def led(replicate: int, position: int, lead: int | None, extra: int = 0) -> Window:
    arm = Arm(block="b00", replicate=replicate, attempt=0, position=position)
    return replace(window(arm, 0, 100.0), lead_steps=lead, extra_steps=extra)


def test_the_lead_in_of_the_first_replicate_counts_without_its_extra_steps() -> None:
    first, second = [led(0, 0, 2), led(0, 0, 1), led(0, 1, 4, extra=1)], [led(1, 0, 5), led(1, 2, 3)]
    assert leads_seen([first, second]) == {0: 1, 1: 3, 2: 3}, "one window was led in by a step more, by chance"
    assert leads_seen([[led(0, 0, None)]]) == {}


@pytest.mark.parametrize("option", ["channels_last", "workers=2"])
def test_what_was_looked_at_in_full_is_told_only_as_far_as_it_costs_no_step(
    option: str, smoke_data: dict[str, Path]
) -> None:
    task, proof = task_of("leak", smoke_data["leak"], (option,)), proof_of(option)
    told: list[dict[str, Any]] = []
    for observed in (False, True):
        protocol = replace(UNTIMED, judged_again=True)
        trial, ready = begin(task, Timing.STEP, protocol, proof, other_seeds=False, observed=observed)
        trial.session.feed.close()
        assert ready["inactive"] == ()
        told.append(ready)
    full, again = (one["effective"] for one in told)
    again.pop("keeps_nothing", None)  # told of clocks alone: a busy machine hides it from one of both
    assert again.items() <= full.items()
    assert set(proof) <= set(full)
    assert told[0]["losses"] == told[1]["losses"]


def test_an_option_that_is_seen_to_be_off_in_a_later_replicate_is_told(smoke_data: dict[str, Path]) -> None:
    task = task_of("leak", smoke_data["leak"], ())
    trial, ready = begin(task, Timing.STEP, UNTIMED, proof_of("workers=2"), other_seeds=False, observed=True)
    trial.session.feed.close()
    assert any(words.startswith("workers is ") for words in ready["inactive"])


@pytest.mark.parametrize("timing", [Timing.STEP, Timing.LOADER, Timing.COMPUTE])
def test_a_first_look_judges_first_losses_once(timing: Timing, smoke_data: dict[str, Path]) -> None:
    task = task_of("leak", smoke_data["leak"], ())
    for observed in (False, True):
        trial, ready = begin(task, timing, THREE, {}, other_seeds=True, observed=observed)
        window = trial.window(1, 2)
        trial.session.feed.close()
        judged = 0 if observed else THREE.loss_steps
        assert (len(ready["losses"]), ready["seed_spread"] is None) == (judged, observed)
        # One batch shows no other shape, and must not deny that there are some.
        assert ("varying_shapes" in ready["effective"]) is (not observed or timing is Timing.COMPUTE)
        assert window["steps"] == 2


@pytest.mark.parametrize(("loader", "fills"), [(900.0, True), (90.0, False)])
def test_bounds_of_a_former_replicate_are_not_probed_again(
    loader: float, fills: bool, smoke_data: dict[str, Path]
) -> None:
    task, bounds = task_of("leak", smoke_data["leak"], ("workers=2",)), Bounds(loader_rate=loader, compute_rate=300.0)
    trial, ready = begin(task, Timing.STEP, UNTIMED, {}, other_seeds=False, observed=True, bounds=bounds)
    trial.session.feed.close()
    assert [ready[one] for one in ("loader_rate", "compute_rate", "asked_rate")] == [None] * 3
    assert trial.fills_queue is fills


def test_an_emulated_arm_that_was_looked_at_before_takes_the_one_step_that_counts_its_launches(
    smoke_data: dict[str, Path],
) -> None:
    task = task_of("spoof", smoke_data["spoof"], (), device="emulated:5ms")
    steps: list[float] = []
    for observed in (False, True):
        trial, ready = begin(task, Timing.STEP, THREE, {}, other_seeds=False, observed=observed)
        trial.session.feed.close()
        (state, *_) = trial.session.trainee.optimizer.state.values()
        steps.append(float(state["step"]))
        assert len(ready["losses"]) == (0 if observed else THREE.loss_steps)
    assert steps[0] - steps[1] >= THREE.loss_steps - 1


def test_loader_workers_look_through_all_that_they_inherit(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[int] = []

    def counting(*args: Any, **keywords: Any) -> Feed:
        frozen.append(gc.get_freeze_count())
        return open_feed(*args, **keywords)

    monkeypatch.setattr("harness.measure.session.open_feed", counting)
    task = task_of("leak", smoke_data["leak"], ("workers=1",))
    trial, _ = begin(task, Timing.STEP, UNTIMED, {}, other_seeds=False)
    trial.session.feed.close()
    assert frozen == [0], "a worker would never search what was set aside before it was forked; in a training it does"
