"""The level `auto` becomes the machine's usual level wherever an option is read, so that results show a number."""

from dataclasses import replace

import pytest

from harness.catalogue import read_catalogue
from harness.core.configuration import Option, parse_option, settled
from harness.core.mistake import Mistake
from harness.core.plan import Request
from harness.run.preparation import prepared
from tests.analyze.synthetic import ENVIRONMENT

CATALOGUE = read_catalogue()
LARGE = replace(ENVIRONMENT, cores=6)


def request_of(**words: object) -> Request:
    return replace(Request(workloads=("leak",), size="smoke", device="cpu"), **words)


@pytest.mark.parametrize(("text", "level"), [("workers=auto", 5), ("trainer_threads=auto", 6), ("workers=2", 2)])
def test_it_stands_for_the_usual_level(text: str, level: int) -> None:
    option = parse_option(text)
    assert settled(option, CATALOGUE.optimizations[option.name], LARGE) == replace(option, level=level)
    (found,) = CATALOGUE.options(CATALOGUE.workload("leak"), (text,), LARGE)
    assert found.level == level


def test_what_has_no_levels_has_no_automatic_one() -> None:
    option = Option(name="set_to_none", level="auto")
    assert settled(option, CATALOGUE.optimizations["set_to_none"], LARGE) == option
    with pytest.raises(Mistake, match="has no level auto"):
        prepared(request_of(only=("set_to_none=auto",)))


def test_the_real_system_may_have_had_it() -> None:
    leak = replace(CATALOGUE.workload("leak"), original=("workers=auto",))
    assert CATALOGUE.original(leak, LARGE) == (Option(name="workers", level=5),)


@pytest.mark.parametrize("words", [{"only": ("workers=auto",)}, {"stack": "workers=auto"}])
def test_a_plan_shows_the_number(words: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.run.preparation.read_environment", lambda _: LARGE)
    (comparison,) = prepared(request_of(**words)).plan.comparisons
    assert comparison.label == "workers=5"
    assert comparison.treatment.options == (Option(name="workers", level=5),)


def test_a_reference_may_be_written_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.run.preparation.read_environment", lambda _: LARGE)
    (comparison,) = prepared(request_of(reference="workers=auto", only=("set_to_none",))).plan.comparisons
    assert comparison.reference.options == (Option(name="workers", level=5),)
