"""`rehearse --coverage`: the whole check, small; and that it sees a method that is wrong."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.invented.coverage import PROMISED, Check, checked
from benchmarks.invented.coverage_command import Asked, Pool, rehearsed, show_coverage, trials_of
from benchmarks.invented.machines import WORLDS
from harness.cli import main
from harness.core.mistake import Mistake

SMALL = Asked(configs=10, protocol="standard", seed=3)


@pytest.fixture(scope="module")
def quiet() -> Check:
    """Some hundred configurations on the quiet machine."""
    world = WORLDS[0]
    asked = Asked(configs=300, protocol="standard", seed=0)
    return checked(
        world.name, [trials_of(Pool(world=world, number=number, configs=30, asked=asked)) for number in range(10)]
    )


@pytest.mark.thorough
def test_intervals_hold_and_cost_less(quiet: Check) -> None:
    assert quiet.ours.coverage.configs == 300
    assert quiet.ours.coverage.low <= PROMISED[1]
    assert quiet.ours.coverage.high >= PROMISED[0]
    assert quiet.conventional_s > 1.6 * quiet.ours.machine_s  # 2 times, in the 500 configurations and more of the page
    assert quiet.truthful
    assert 2 <= quiet.replicates < 6


@pytest.mark.thorough
def test_a_method_that_takes_brackets_as_independent_is_caught(quiet: Check) -> None:
    assert quiet.window_pairs_alone.coverage.high < PROMISED[0]


def test_the_conventional_plan_is_caught_where_the_machine_heats_up() -> None:
    asked = Asked(configs=60, protocol="standard", seed=0)
    pools = [trials_of(Pool(world=WORLDS[1], number=number, configs=30, asked=asked)) for number in range(2)]
    check = checked(WORLDS[1].name, pools)
    assert check.conventional.coverage.high < PROMISED[0]
    assert check.ours.coverage.high > PROMISED[0]


@pytest.mark.parametrize("name", ["rare long stalls", pytest.param("steps of two speeds", marks=pytest.mark.thorough)])
def test_total_time_holds_where_trimmed_means_miss_what_a_workload_waits_for(name: str) -> None:
    (world,) = (one for one in WORLDS if one.name == name)
    asked = Asked(configs=160, protocol="brief", seed=1)
    pools = [trials_of(Pool(world=world, number=number, configs=40, asked=asked)) for number in range(4)]
    check = checked(world.name, pools)
    assert check.ours.coverage.value >= PROMISED[0] - 0.03
    assert check.trimmed.coverage.value <= check.ours.coverage.value
    assert check.price > 0.5


@pytest.mark.thorough
def test_what_total_time_costs_on_a_quiet_machine(quiet: Check) -> None:
    assert quiet.trimmed.coverage.high >= PROMISED[0]
    assert quiet.ours.half_width < 1.5 * quiet.trimmed.half_width


def test_the_same_seed_gives_the_same_in_any_order_and_another_seed_another() -> None:
    pools = [Pool(world=WORLDS[3], number=number, configs=4, asked=SMALL) for number in (0, 1)]
    first, second = map(trials_of, pools)
    assert tuple(map(trials_of, reversed(pools))) == (second, first)
    other = Pool(world=WORLDS[3], number=0, configs=4, asked=Asked(configs=10, protocol="standard", seed=4))
    assert trials_of(other) != first


@pytest.mark.thorough
def test_all_worlds_are_rehearsed_with_as_many_cells_as_were_asked_for() -> None:
    shares: list[float] = []
    checks = rehearsed(Asked(configs=12, protocol="brief", seed=1), shares.append)  # in processes of their own
    assert [one.name for one in checks] == [world.name for world in WORLDS]
    assert {one.ours.coverage.configs for one in checks} == {12}
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.thorough
def test_figures_come_as_json_and_as_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "coverage.md"
    status = show_coverage(SMALL, page, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert status == (0 if document["kept"] else 1)
    assert [one["name"] for one in document["environments"]] == [world.name for world in WORLDS]
    for one in document["environments"]:
        assert one["coverage_low"] <= one["coverage"] <= one["coverage_high"]
        assert one["conventional"]["machine_s_same_width"] == pytest.approx(
            one["conventional"]["machine_s"] * (one["conventional"]["half_width"] / one["half_width"]) ** 2
        )
        assert f"| {one['name']} | {100 * one['coverage']:.1f} % " in page.read_text(encoding="utf-8")
    assert "--cells 10 --protocol standard --seed 3" in page.read_text(encoding="utf-8")


@pytest.mark.thorough
def test_without_json_a_table_and_a_sentence_for_each_promise(capsys: pytest.CaptureFixture[str]) -> None:
    show_coverage(SMALL, None, as_json=False)
    shown = capsys.readouterr().out
    assert all(word in shown for world in WORLDS for word in world.name.split())
    assert shown.count("everywhere.") + shown.count(": not in ") == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--coverage leak", "leave out WORKLOADS"),
        ("--coverage --effect workers=2", "leave out --effect"),
        ("--coverage --design pairs", "leave out --design"),
        ("--cells 20", "--cells is for rehearse --coverage"),
        ("--luck 0", "--luck is for rehearse --coverage"),
        ("--json", "--json is for rehearse --coverage"),
        ("--coverage --protocol hasty", "There is no protocol 'hasty'"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    arguments: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["speedmatrix", "rehearse", *arguments.split()])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_a_page_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="--output"):
        show_coverage(SMALL, tmp_path / "missing" / "coverage.md", as_json=True)


def test_processes_that_differ_more_need_more_restarts() -> None:
    replicates = []
    for luck in (0.002, 0.02):
        world = replace(WORLDS[0], luck=luck)
        trials = trials_of(Pool(world=world, number=0, configs=12, asked=replace(SMALL, luck=luck)))
        replicates.append(checked(world.name, [trials]).replicates)
    assert replicates[1] > 2 * replicates[0]
