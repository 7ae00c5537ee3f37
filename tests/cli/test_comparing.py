"""`compare` on kept runs: what it reads, which runs it takes, and what it refuses in one sentence."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.environment import Environment
from harness.store import finish
from tests.analyze.machines import LARGE, SMALL
from tests.analyze.synthetic import plan, records
from tests.cli.test_claims import compared, kept
from tests.cli.test_commands import Ended, call, elsewhere
from tests.test_layers import ROOT

__all__ = ["elsewhere"]  # an empty folder and a wide terminal for every test


def made(environment: Environment, ratio: float, day: int = 1, **facts: Any) -> Path:
    """A finished run with one configuration."""
    size = facts.pop("size", "quick")
    folder = kept(
        plan(compared("workers=2", size=size)),
        records(0, ratio, effective={"workers": 2}, loader_rate=450.0),
        day,
        environment=environment,
        **facts,
    )
    finish(folder)
    return folder


def shown(arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ended:
    return call(f"compare {arguments}", monkeypatch, capsys)


def test_two_runs_are_shown_in_every_form(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = made(SMALL, 1.5), made(LARGE, 3.0)
    ended = shown(f"{one} {other}", monkeypatch, capsys)
    assert (ended.status, ended.err) == (0, "")
    assert "2.00x [" in ended.out
    assert "pays more" in ended.out
    document = json.loads(shown(f"{one} {other} --format json", monkeypatch, capsys).out)
    assert [place["runs"] for place in document["places"]] == [[one.name], [other.name]]
    assert shown(f"{one} {other} --format markdown --output page.md", monkeypatch, capsys).out == ""
    assert Path("page.md").read_text(encoding="utf-8").startswith("# Comparison\n")


def test_the_first_run_named_is_what_others_are_held_against(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = made(SMALL, 1.5), made(LARGE, 3.0)
    assert "0.500x [" in shown(f"{other} {one}", monkeypatch, capsys).out


def test_machines_takes_all_below_results(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made(SMALL, 1.5)
    newer = made(SMALL, 1.6, day=2)
    made(LARGE, 3.0)
    made(replace(LARGE, cores=3), 9.0, rehearsed=True)
    made(replace(LARGE, cores=5), 9.0, size="smoke")
    document = json.loads(shown("--machines --format json", monkeypatch, capsys).out)
    assert [place["machine"] for place in document["places"]] == ["cpu-16-example-9000", "cpu-2-example-9000"]
    assert document["places"][1]["runs"] == [newer.name]


def test_a_run_that_was_taken_in_is_marked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = made(SMALL, 1.5), made(LARGE, 3.0)
    (other / "origin.json").write_text("{}", encoding="utf-8")
    document = json.loads(shown(f"{one} {other} --format json", monkeypatch, capsys).out)
    assert [place["contributed"] for place in document["places"]] == [False, True]


PRICES = 'currency = "EUR"\n[[price]]\nmachine = "cpu-2-example-9000"\nper_hour = 3.6\nsource = "a bill"\n'


def test_prices_are_read_below_results_or_where_the_user_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = f"{made(SMALL, 1.5)} {made(LARGE, 3.0)}"
    assert "no price is known" in shown(runs, monkeypatch, capsys).out
    Path("results/prices.toml").write_text(PRICES, encoding="utf-8")
    assert "10.00" in shown(runs, monkeypatch, capsys).out  # 3.6 an hour at 100 samples a second
    Path("mine.toml").write_text(PRICES.replace("3.6", "7.2"), encoding="utf-8")
    assert "20.00" in shown(f"{runs} --prices mine.toml", monkeypatch, capsys).out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("currency =", "is not TOML"),
        (PRICES.replace('"EUR"', '""'), "names no currency; add a line such as"),
        (PRICES.replace("3.6", "-1.0"), "has no price above 0 for cpu-2-example-9000"),
        (PRICES.replace("3.6", "nan"), "has no price above 0 for cpu-2-example-9000"),
        (PRICES.replace("3.6", '"3.6"'), "per_hour must be float; put the file right"),
        (PRICES.replace("a bill", " "), "without a source; say where it was read, and when"),
        (PRICES + PRICES.partition("\n")[2], "has two prices of cpu-2-example-9000; keep one"),
        (PRICES + "colour = 1\n", "colour is unknown; put the file right"),
        ("[prices]\n", "has an entry 'prices'; it may hold currency and price alone"),
        ("price = 1\n", "must hold 'price' as tables [[price]]"),
    ],
)
def test_a_bad_price_file_is_one_sentence(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = f"{made(SMALL, 1.5)} {made(LARGE, 3.0)}"
    Path("mine.toml").write_text(text, encoding="utf-8")
    ended = shown(f"{runs} --prices mine.toml", monkeypatch, capsys)
    assert (ended.status, ended.out) == (2, "")
    assert words in ended.err
    assert "mine.toml" in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "Name the folders of two runs or more, or compare --machines"),
        ("{one}", "A comparison needs two runs; name a second"),
        ("{one} {one}", "is named twice, or is a copy of a run that is; name two different runs."),
        ("{one} copy", "is named twice, or is a copy of a run that is; name two different runs."),
        ("{one} {rehearsed}", "was rehearsed: its times are invented and prove nothing"),
        ("{one} absent", "absent is not a run: it has no run.json"),
        ("{one} --machines", "Name runs, or compare --machines; both together"),
        ("--machines --results absent", "There is no finished run in absent"),
        ("--machines", "It was measured in one environment alone; run the same workloads on another machine"),
        ("{one} {other} --prices absent.toml", "absent.toml cannot be read"),
        ("{one} {other} --format pdf", "There is no format 'pdf'; choose terminal, markdown or json."),
        ("{one} {other} --output absent/page.md", "choose another path for --output"),
        ("{one} {small}", "has quick with batch 256 on A, smoke with batch 64 on B; give both the same --size"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = made(SMALL, 1.5)
    folders = {"one": one, "rehearsed": made(SMALL, 1.5, day=2, rehearsed=True)}
    if "{other}" in arguments:
        folders["other"] = made(LARGE, 3.0)
    if "{small}" in arguments:
        folders["small"] = made(LARGE, 3.0, size="smoke")
    shutil.copytree(one, "copy")
    ended = shown(arguments.format(**folders), monkeypatch, capsys)
    assert (ended.status, ended.out) == (2, "")
    assert words in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_named_run_at_a_small_size_is_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = made(SMALL, 1.5, size="smoke"), made(LARGE, 3.0, size="smoke")
    assert "leak, size smoke" in shown(f"{one} {other}", monkeypatch, capsys).out


WITHOUT_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "torchvision", "torchaudio"}:
            raise AssertionError(f"{name} was imported")
sys.meta_path.insert(0, Refuse())
import harness.cli
sys.argv = ["speedmatrix", "compare", "--machines"]
harness.cli.main()
"""


def test_it_needs_no_torch() -> None:
    made(SMALL, 1.5)
    made(LARGE, 3.0)
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "2 places side by side" in done.stdout


def test_the_price_file_that_ships_names_no_price_and_its_example_can_be_used() -> None:
    from harness.analyze.matrix import NO_PRICES, parse_prices

    text = (ROOT / "results" / "prices.toml").read_text(encoding="utf-8")
    assert parse_prices(text, "prices.toml") == NO_PRICES
    lines = text.splitlines()
    example = "\n".join(line.removeprefix("# ") for line in lines[lines.index('# currency = "USD"') :])
    assert set(parse_prices(example, "prices.toml").by_machine) == {"h200"}


def test_the_limits_that_ship_are_read_and_each_has_a_source() -> None:
    from harness.analyze.comparison import parse_limits
    from harness.results import LIMITS

    limits = parse_limits(LIMITS.read_text(encoding="utf-8"), LIMITS.name)
    by_device = {device: limit.operations_per_s for limit in limits for device in limit.devices}
    assert by_device["NVIDIA H200"] == 989.4e12
    assert all(1e13 < one < 1e16 for one in by_device.values())
