"""The command beside a ratio: typed as it stands, it plans that very comparison and nothing else."""

import shlex
import sys
from dataclasses import replace
from importlib import import_module

import pytest

from harness.catalogue import read_catalogue
from harness.cli import main
from harness.core.configuration import Comparison
from harness.core.optimization import Timing
from harness.core.plan import Request
from harness.core.protocol import PROTOCOLS
from harness.plan.planning import commands, planned
from harness.store import Run
from tests.test_store import RUN_FACTS

CATALOGUE = read_catalogue()


def wish(*, protocol: str = "brief", **given: object) -> Request:
    usual = Request(workloads=("leak",), size="quick", protocol=protocol, device="cpu")
    return replace(usual, **given)


def run_of(asked: Request) -> Run:
    return replace(RUN_FACTS, plan=planned(asked, CATALOGUE, RUN_FACTS.environment))


def typed(command: str, monkeypatch: pytest.MonkeyPatch) -> Request:
    """What the command line makes of a command."""
    caught: list[Request] = []
    monkeypatch.setattr(
        import_module("harness.cli.measuring"), "measure", lambda asked, _place, _shown: caught.append(asked) or 0
    )
    program, *words = shlex.split(command)
    assert program == "./speedmatrix"
    monkeypatch.setattr(sys, "argv", ["speedmatrix", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    return caught[0]


def question(one: Comparison) -> tuple[object, ...]:
    return one.treatment, one.reference, one.timing


@pytest.mark.parametrize(
    "asked",
    [
        wish(),
        wish(protocol="standard", seed=7, replicates=3, rounds=9),
        wish(protocol="standard", replicates=3, target="1.5%"),
        wish(target="none"),
        wish(workloads=("speaker", "imagenet"), design="claims"),
        wish(reference="original", batch=1024, probe="loader"),
        wish(only=("batch_scale=4", "persistent_workers", "batched_evaluation")),
        wish(workloads=("spoof",), stack="all", size="standard"),
    ],
    ids=("alone", "protocol", "target", "fixed", "claims", "loader", "particular", "stack"),
)
def test_every_command_asks_for_its_own_comparison_alone(asked: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(asked)
    found = commands(run.plan, run.environment, run.plan.comparisons, CATALOGUE)
    assert len(found) >= 0.8 * len(run.plan.comparisons)
    for one in list(found)[:12]:
        plan = planned(typed(found[one], monkeypatch), CATALOGUE, run.environment)
        assert [question(other) for other in plan.comparisons] == [question(one)]
        assert (plan.protocol, plan.seed) == (run.plan.protocol, run.plan.seed)


def test_the_command_is_as_short_as_it_may_be() -> None:
    run = run_of(wish())
    found = {
        one.label: command
        for one, command in commands(run.plan, run.environment, run.plan.comparisons, CATALOGUE).items()
        if one.timing is Timing.STEP
    }
    words = "./speedmatrix run leak --size quick --only batched_fetch --replicates 2"
    expected = f"{words} --target 5% --device cpu --budget none"
    assert found["batched_fetch"] == expected
    run = run_of(wish(rounds=4))
    chosen = [one for one in run.plan.comparisons if one.label == "batched_fetch" and one.timing is Timing.STEP]
    (command,) = commands(run.plan, run.environment, chosen, CATALOGUE).values()
    assert command == f"{words} --rounds 4 --device cpu --budget none"


def test_what_no_command_of_this_version_asks_for_has_none() -> None:
    run = run_of(wish(design="against_itself"))
    assert commands(run.plan, run.environment, run.plan.comparisons, CATALOGUE) == {}
    run = run_of(wish(only=("workers=2",)))
    one = run.plan.comparisons[0]
    other_protocol = replace(run.plan, protocol=replace(PROTOCOLS["brief"], loss_steps=5))
    assert commands(other_protocol, run.environment, [one], CATALOGUE) == {}
    assert commands(replace(run.plan, data={"leak": "real"}), run.environment, [one], CATALOGUE) == {}
    strange = replace(one, treatment=replace(one.treatment, workload="mine"))
    assert commands(run.plan, run.environment, [strange], CATALOGUE) == {}
    assert commands(run.plan, run.environment, [replace(one, timing=Timing.EVALUATION)], CATALOGUE) == {}
    assert set(commands(run.plan, run.environment, [one], CATALOGUE)) == {one}


def test_a_run_from_before_steps_led_into_windows_is_asked_again_in_those_of_today() -> None:
    run = run_of(wish())
    short = replace(
        run.plan.protocol, rounds=20, window_s=0.1, window_steps=1, upper_bound_s=0.2, discarded_rounds=0, slow_s=0.4,
        timed_s=3.2, lead_s=0.0, whole_s=0.0,
    )  # fmt: skip
    older = replace(run, plan=replace(run.plan, protocol=short))
    chosen = run.plan.comparisons[:6]
    again = commands(run.plan, run.environment, chosen, CATALOGUE)
    assert commands(older.plan, older.environment, chosen, CATALOGUE) == again != {}
