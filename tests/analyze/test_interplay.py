import pytest

from harness.analyze.attribution import JointEffect, Kind
from tests.analyze.advised import Made, advice_on

FAST_LOADER = {"loader_rate": 900.0, "effective": {"bfloat16_layers": True, "pinned_batches": True, "workers": 2}}


def one(*made: Made) -> JointEffect:
    (found,) = advice_on(*made).joint_effects
    return found


def pair(first: float, second: float, both: float, names: tuple[str, str] = ("pin_memory", "workers")) -> list[Made]:
    return [
        Made(on=(names[0],), ratio=first), Made(on=(names[1],), ratio=second), Made(on=tuple(names), ratio=both)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (pair(2.0, 1.5, 2.0), Kind.REDUNDANT),
        (pair(1.5, 1.2, 2.5), Kind.SYNERGY),
        (pair(2.0, 1.5, 2.0, ("amp", "workers")), Kind.MASKED),
        (pair(1.0, 2.0, 3.0, ("amp", "workers")), Kind.MASKED),
        (pair(2.0, 1.5, 1.6), Kind.CONFLICT),
        (pair(2.0, 1.5, 1.6, ("amp", "workers")), Kind.CONFLICT),
    ],
)
def test_two_switches_meet_in_four_ways(made: list[Made], kind: Kind) -> None:
    assert one(*made).kind is kind


def test_the_weaker_one_is_the_one_that_is_named_with_what_it_brings_beside_the_other() -> None:
    found = one(*pair(2.0, 1.5, 2.0, ("amp", "workers")))
    assert (found.label, found.among, found.held_by) == ("workers", "amp", "device")
    assert found.alone.ratio == pytest.approx(1.5)
    assert found.beside.ratio == pytest.approx(1.0)
    assert found.gap.ratio == pytest.approx(1 / 1.5)


def test_what_multiplies_has_no_name() -> None:
    assert advice_on(*pair(2.0, 1.5, 3.0)).joint_effects == ()
    assert advice_on(*pair(2.0, 1.5, 3.0 * 1.028)).joint_effects == ()


@pytest.mark.parametrize(("margin", "kind"), [(0.01, Kind.CONFLICT), (0.03, Kind.REDUNDANT)])
def test_a_conflict_must_leave_the_machines_margin_behind(margin: float, kind: Kind) -> None:
    (found,) = advice_on(*pair(2.0, 1.5, 1.9), margin=margin).joint_effects
    assert found.beside.ratio == pytest.approx(0.95)
    assert found.kind is kind


ALL = ("amp", "pin_memory", "workers")


def three(last: float, wait: float | None = None, **start: object) -> list[Made]:
    """A stack of three, of which `amp` gives 1.1 alone and `last` beside the others."""
    return [
        Made(on=ALL, ratio=3.0, start=dict(start), wait=wait),
        Made(on=("amp",), ratio=1.1),
        Made(on=ALL, over=("pin_memory", "workers"), ratio=last),
    ]


def test_a_switch_that_shows_once_the_input_is_mended_was_masked_by_the_input() -> None:
    found = one(*three(1.6))
    assert (found.label, found.kind, found.held_by) == ("amp", Kind.MASKED, "input")
    assert found.gap.ratio == pytest.approx(1.6 / 1.1)


def test_a_switch_that_its_own_stage_makes_useless_is_redundant() -> None:
    found = one(*three(1.0, wait=0.1, **FAST_LOADER))  # the step holds the whole back, and it acts on the step
    assert (found.kind, found.held_by) == (Kind.REDUNDANT, None)


def test_a_switch_that_hurts_in_the_stack_conflicts() -> None:
    assert one(*three(0.8)).kind is Kind.CONFLICT
