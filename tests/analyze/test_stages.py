from dataclasses import replace
from time import process_time

import numpy as np
import pytest

from harness.analyze.search import stage_model as stages
from harness.analyze.search.stage_model import (
    Arrangement,
    Compared,
    Fitted,
    Sight,
    Signal,
    Stack,
    Study,
    configs,
    expectation,
    fit,
    frame_of,
    log_times,
    measured_rows,
    slopes,
)
from harness.core.configuration import Option
from harness.core.optimization import Stage
from tests.analyze.worlds import GPU, PROFILED, study, world
from tests.pipelines import drawn

OPTIONS = {name: Option(name=name) for name in ("cache", "half", "launch")}
WORKERS = tuple(Option(name="workers", level=level) for level in (2, 4))
DECLARED = {"workers": Stage.INPUT, "cache": Stage.INPUT, "half": Stage.DEVICE, "launch": Stage.HOST}
EFFECTS = {"workers=2": (0, -0.7), "workers=4": (0, -1.2), "cache": (0, -0.4), "half": (1, -0.6), "launch": (2, -0.3)}
BASE = np.log([2.0, 1.0, 0.5, 0.1])


def arrangement(stack: Stack) -> Arrangement:
    return Arrangement(options=stack, overlapped=any(one.name == "workers" for one in stack))


def stage_seconds(stack: Stack) -> np.ndarray:
    logs = BASE.copy()
    for option in stack:
        stage, effect = EFFECTS[str(option)]
        logs[stage] += effect
    return np.exp(logs)


def seconds(stack: Stack) -> float:
    loading, device, host, sync = stage_seconds(stack)
    busy = (device**5 + host**5) ** 0.2
    return float(((loading**6 + busy**6) ** (1 / 6) if arrangement(stack).overlapped else loading + busy) + sync)


def measured(*treated: Stack, signals: tuple[Signal, ...] = PROFILED, reference: Stack = ()) -> Study:
    """Ratios and signals without noise, of a system whose stages add up as the model has it."""
    stacks = (reference, *treated)
    kinds = {Signal.LOADER: 0, Signal.DEVICE: 1, Signal.HOST: 2}
    return Study(
        ratios=tuple(
            Compared(
                treatment=arrangement(one),
                reference=arrangement(reference),
                log_ratio=float(np.log(seconds(reference) / seconds(one))),
                deviation=0.001,
            )
            for one in treated
        ),
        sights=tuple(
            Sight(arrangement=arrangement(one), seconds={kind: stage_seconds(one)[kinds[kind]] for kind in signals})
            for one in stacks
        ),
        seconds=seconds(reference),
        declared=DECLARED,
        asynchronous=True,
    )


def stack(*names: str) -> Stack:
    known = {**OPTIONS, **{str(one): one for one in WORKERS}}
    return tuple(sorted(known[name] for name in names))


def times_of(model: Fitted, one: Stack) -> dict[Stage, float]:
    """Seconds that each stage of a stack takes for a sample, as the model has it."""
    found = stages.stage_logs(model.frame, model.point, configs(model.frame, (arrangement(one),)))
    return dict(zip(stages.STAGES, np.exp(found[0]).tolist(), strict=True))


ALONE = tuple(stack(name) for name in EFFECTS)
WHOLE = stack("workers=4", "cache", "half", "launch")


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    return fit(measured(*ALONE, WHOLE))


def test_stacks_that_nobody_measured_are_foretold(fitted: Fitted) -> None:
    new = [
        stack("cache", "half"), stack("workers=2", "half"), stack("workers=4", "cache"), stack("launch", "workers=2"),
        stack("cache", "half", "launch"), stack("workers=2", "cache", "half"),
    ]  # fmt: skip
    found, deviations = fitted.log_ratios([arrangement(one) for one in new], arrangement(()))
    truth = np.array([seconds(()) / seconds(one) for one in new])
    assert np.exp(found) == pytest.approx(truth, rel=0.05)
    assert np.abs(np.exp(found) / truth - 1).mean() < 0.02
    assert (deviations >= stages.MISFIT).all()


def test_every_level_has_an_effect_of_its_own(fitted: Fitted) -> None:
    input_s = [times_of(fitted, stack(name))[Stage.INPUT] for name in ("workers=2", "workers=4")]
    plain = times_of(fitted, ())[Stage.INPUT]
    assert np.log(np.array(input_s) / plain) == pytest.approx([-0.7, -1.2], abs=0.1)


def test_a_wrong_label_is_overruled_by_what_is_seen() -> None:
    wrong = replace(measured(*ALONE, WHOLE), declared={**DECLARED, "half": Stage.INPUT})
    found = fit(wrong)
    device = [times_of(found, one)[Stage.DEVICE] for one in ((), stack("half"))]
    assert np.log(device[1] / device[0]) == pytest.approx(-0.6, abs=0.1)


@pytest.mark.parametrize(("declared", "other"), [(Stage.DEVICE, Stage.HOST), (Stage.HOST, Stage.DEVICE)])
def test_without_signals_a_label_decides_between_stages(declared: Stage, other: Stage) -> None:
    known = measured(*ALONE, WHOLE, signals=())
    found = fit(replace(known, declared={**DECLARED, "half": declared}))
    before, after = (times_of(found, one) for one in ((), stack("half")))
    assert np.log(after[declared] / before[declared]) < 2 * np.log(after[other] / before[other]) < 0.1


def test_absolute_times_are_those_of_the_first_reference(fitted: Fitted) -> None:
    assert np.exp(fitted.log_times([arrangement(())])) == pytest.approx([seconds(())], rel=0.02)


def test_a_reference_with_switches_of_its_own_costs_no_effects() -> None:
    found = fit(measured(stack("cache", "half"), stack("cache", "launch"), reference=stack("cache")))
    assert [str(one) for one in found.frame.options] == ["half", "launch"]
    logs, _ = found.log_ratios([arrangement(stack("cache", "half", "launch"))], arrangement(stack("cache")))
    assert logs[0] > 0


def test_a_switch_that_was_never_measured_is_not_guessed(fitted: Fitted) -> None:
    with pytest.raises(KeyError, match="workers=8"):
        fitted.log_times([arrangement((Option(name="workers", level=8),))])


def test_nothing_measured_is_no_model() -> None:
    with pytest.raises(ValueError, match="at least"):
        fit(replace(measured(*ALONE), ratios=()))


def test_errors_of_one_block_go_together() -> None:
    ratios = [replace(one, deviation=0.03) for one in measured(*ALONE).ratios]
    blocks = ["b0", "b0", None, None, "b1"]
    placed = [replace(one, block=block) for one, block in zip(ratios, blocks, strict=True)]
    weights = stages.whitening(placed)
    errors = np.full((5, 5), 0.0)
    np.fill_diagonal(errors, 0.03**2 + stages.MISFIT**2)
    errors[0, 1] = errors[1, 0] = stages.SHARED * 0.03**2
    assert weights @ errors @ weights.T == pytest.approx(np.eye(5))


def test_a_block_tells_more_of_two_treatments_than_as_many_blocks() -> None:
    """The luck of their reference is in both, and in no contrast of the two."""
    apart = measured(*ALONE, WHOLE, signals=())
    apart = replace(apart, ratios=tuple(replace(one, deviation=0.03) for one in apart.ratios))
    beside = replace(apart, ratios=tuple(replace(one, block="b0") for one in apart.ratios))
    whole, half = arrangement(WHOLE), arrangement(stack("half"))
    alone, together = (fit(study).log_ratios([whole], half)[1][0] for study in (apart, beside))
    assert together < 0.9 * alone


@pytest.mark.parametrize("asynchronous", [True, False])
def test_slopes_of_all_residuals_are_those_of_the_values(asynchronous: bool) -> None:
    generator = np.random.default_rng(5)
    there = world(drawn(generator, 6))
    known = replace(study(there, there.matrix, tuple(Signal), generator), asynchronous=asynchronous)
    frame = frame_of(known)
    rows = measured_rows(known, frame)
    point = expectation(known, frame).mean + generator.normal(0, 0.2, frame.size)
    _, found = rows(point)
    assert found.shape[1] == frame.size == 4 + 4 * 6 + 3 + 6
    for index in range(frame.size):
        away = np.zeros(frame.size)
        away[index] = 1e-5
        change = (rows(point + away)[0] - rows(point - away)[0]) / 2e-5
        assert found[:, index] == pytest.approx(change, abs=1e-5)


def test_deviations_are_those_of_drawn_models(fitted: Fitted) -> None:
    """Laplace: near the best point, drawn models differ by as much as the deviations say."""
    generator = np.random.default_rng(0)
    new, plain = [arrangement(stack("cache", "half")), arrangement(stack("workers=2", "half"))], arrangement(())
    drawn_ratios = [fitted.drawn(generator).log_ratios(new, plain)[0] for _ in range(300)]
    _, deviations = fitted.log_ratios(new, plain)
    spread = np.hypot(np.std(drawn_ratios, axis=0), stages.MISFIT)
    assert spread == pytest.approx(deviations, rel=0.25)


def test_a_cell_against_itself_is_uncertain_by_the_misfit_alone(fitted: Fitted) -> None:
    for one in (arrangement(()), arrangement(stack("half"))):
        logs, deviations = fitted.log_ratios([one], one)
        assert (logs[0], deviations[0]) == (0.0, pytest.approx(stages.MISFIT))


@pytest.mark.repeats
def test_thirty_switches_are_fitted_in_seconds_of_one_core() -> None:
    generator = np.random.default_rng(8)
    there = world(drawn(generator, 30))
    known = study(there, there.matrix, GPU, generator)
    assert len(known.arrangements) == 77
    began = process_time()
    model = fit(known)
    assert process_time() - began < 60  # a few, and more on a busy machine
    found = configs(model.frame, known.arrangements)
    traced = log_times(model.frame, model.point, found)
    assert np.isfinite(slopes(model.frame, found, traced)).all()
    plain = known.ratios[0].reference
    errors = [model.log_ratios([one.treatment], one.reference)[0][0] - one.log_ratio for one in known.ratios]
    assert np.abs(errors).mean() < 0.02
    assert model.log_ratios([plain], plain)[0][0] == 0.0
