import pytest

from harness.analyze.advice import LEAST_GAIN, MOST_MEMORY, ReadyMade, Style, WorkloadAdvice
from tests.analyze.advised import Made, advice_on

CLOSE = {"losses": (2.31, 2.1, 1.9)}


def made(found: WorkloadAdvice, style: Style) -> ReadyMade:
    return next(one for one in found.ready_made if one.style is style)


def best(found: WorkloadAdvice, style: Style) -> str | None:
    one = made(found, style).best
    return one.label if one else None


def test_each_rule_takes_the_best_that_keeps_it() -> None:
    found = advice_on(
        Made(on=("augment",), ratio=9.0),
        Made(on=("amp", "workers"), ratio=4.0, start=CLOSE, host=1.5),
        Made(on=("amp",), ratio=2.0, start=CLOSE),
        Made(on=("workers",), ratio=1.5),
    )
    assert best(found, Style.FASTEST) == "amp+workers"  # augment changes what is learned
    assert best(found, Style.REPRODUCIBLE) == "workers"
    assert best(found, Style.BALANCED) == "amp"  # the pair takes half as much memory again


@pytest.mark.parametrize(
    ("one", "kept"),
    [
        (Made(on=("workers",), ratio=1.5, host=MOST_MEMORY - 0.01), True),
        (Made(on=("workers",), ratio=1.5, host=MOST_MEMORY + 0.01), False),
        (Made(on=("workers",), ratio=1.5, slow_s=100.0), True),
        (Made(on=("workers",), ratio=1.5, slow_s=5000.0), False),
        (Made(on=("workers",), ratio=LEAST_GAIN - 0.004), False),
        (Made(on=("workers",), ratio=1.5, start={"losses": (2.3, 2.9, 1.9)}), False),
    ],
)
def test_balanced_refuses_what_costs_too_much(one: Made, kept: bool) -> None:
    assert (best(advice_on(one), Style.BALANCED) is not None) is kept


def test_a_stack_that_nobody_measured_has_no_number_but_is_asked_for() -> None:
    found = advice_on(Made(on=("workers",), ratio=1.5), Made(on=("pin_memory",), ratio=1.3))
    one = made(found, Style.REPRODUCIBLE)
    assert one.untried is not None
    assert str(one.untried.treatment) == "leak@quick#64:pin_memory+workers"
    assert one.best is not None
    assert one.best.label == "workers"


def test_a_stack_that_was_measured_is_not_asked_for_again() -> None:
    found = advice_on(
        Made(on=("workers",), ratio=1.5),
        Made(on=("pin_memory",), ratio=1.3),
        Made(on=("pin_memory", "workers"), ratio=1.9),
    )
    one = made(found, Style.REPRODUCIBLE)
    assert one.untried is None
    assert one.best is not None
    assert one.best.label == "pin_memory+workers"


def test_what_conflicts_is_not_put_together() -> None:
    found = advice_on(
        Made(on=("workers",), ratio=1.5),
        Made(on=("chunk_cache",), ratio=2.0),
        Made(on=("pin_memory",), ratio=1.8),
        Made(on=("amp",), ratio=0.9),
    )
    one = made(found, Style.FASTEST)
    assert one.untried is not None
    assert {option.name for option in one.untried.treatment.options} == {"chunk_cache", "workers"}


def test_a_loss_in_the_whole_leads_to_the_whole_without_it() -> None:
    found = advice_on(
        Made(on=("amp", "workers"), ratio=3.0, start=CLOSE), Made(on=("workers",), over=("amp", "workers"), ratio=1.5)
    )
    one = made(found, Style.FASTEST).best
    assert one is not None
    assert one.gain.ratio == pytest.approx(4.5)
    assert [str(option) for option in one.config.options] == ["workers"]
    assert len(one.rows) == 2


def test_of_many_the_one_that_is_surely_fast_wins() -> None:
    found = advice_on(Made(on=("workers",), ratio=1.5), Made(on=("pin_memory",), ratio=1.6))
    assert made(found, Style.FASTEST).among == 2
    assert best(found, Style.FASTEST) == "pin_memory"


def test_nothing_that_pays_gives_no_stack() -> None:
    found = advice_on(Made(on=("workers",), ratio=0.9))
    assert {one.style for one in found.ready_made} == {*Style}
    assert all((one.best, one.untried) == (None, None) for one in found.ready_made)
