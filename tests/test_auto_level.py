"""The level `auto` becomes the machine's usual level wherever a switch is read, so that results show a number."""

from dataclasses import replace

import pytest

from harness.catalogue import read_catalogue
from harness.cli.planning import Wish, prepared
from harness.core.cell import Switch, parse_switch, settled
from harness.core.mistake import Mistake
from tests.analyze.synthetic import ENVIRONMENT

CATALOGUE = read_catalogue()
LARGE = replace(ENVIRONMENT, cores=6)


def wish(**words: object) -> Wish:
    usual: dict[str, object] = {
        "workloads": ("leak",),
        "size": "smoke",
        "batch": None,
        "design": "alone",
        "only": (),
        "stack": None,
        "reference": "plain",
        "probe": None,
        "protocol": "brief",
        "restarts": None,
        "rounds": None,
        "seed": 0,
        "device": "cpu",
        "own": None,
    }
    return Wish(**{**usual, **words})  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "level"), [("workers=auto", 5), ("trainer_threads=auto", 6), ("workers=2", 2)])
def test_it_stands_for_the_usual_level(text: str, level: int) -> None:
    switch = parse_switch(text)
    assert settled(switch, CATALOGUE.optimizations[switch.name], LARGE) == replace(switch, level=level)
    (found,) = CATALOGUE.switches(CATALOGUE.workload("leak"), (text,), LARGE)
    assert found.level == level


def test_what_has_no_levels_has_no_automatic_one() -> None:
    switch = Switch(name="set_to_none", level="auto")
    assert settled(switch, CATALOGUE.optimizations["set_to_none"], LARGE) == switch
    with pytest.raises(Mistake, match="has no level auto"):
        prepared(wish(only=("set_to_none=auto",)))


def test_the_real_system_may_have_had_it() -> None:
    leak = replace(CATALOGUE.workload("leak"), as_found=("workers=auto",))
    assert CATALOGUE.as_found(leak, LARGE) == (Switch(name="workers", level=5),)


@pytest.mark.parametrize("words", [{"only": ("workers=auto",)}, {"stack": "workers=auto"}])
def test_a_plan_shows_the_number(words: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cli.planning.read_environment", lambda _: LARGE)
    (comparison,) = prepared(wish(**words)).plan.comparisons
    assert comparison.subject == "workers=5"
    assert comparison.treatment.switches == (Switch(name="workers", level=5),)


def test_a_reference_may_be_written_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cli.planning.read_environment", lambda _: LARGE)
    (comparison,) = prepared(wish(reference="workers=auto", only=("set_to_none",))).plan.comparisons
    assert comparison.reference.switches == (Switch(name="workers", level=5),)
