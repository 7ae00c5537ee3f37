from dataclasses import replace

import numpy as np
import pytest

from harness.analyze.search.prediction import Trusted, Validation, is_held_out, trusted, validate
from harness.analyze.search.stage_model import Arrangement, Study
from harness.core.configuration import Option
from harness.plan.designs import space_of, varied
from harness.plan.search import every_stack
from tests.analyze.worlds import GPU, World, study, world
from tests.pipelines import drawn

SEED = 11


@pytest.fixture(scope="module")
def there() -> World:
    return world(drawn(np.random.default_rng(SEED), 12))


@pytest.fixture(scope="module")
def known(there: World) -> Study:
    return study(there, there.matrix, GPU, np.random.default_rng(SEED))


def test_only_balanced_stacks_are_foretold(known: Study) -> None:
    assert len(known.ratios) == 31
    tested = [one for one in known.ratios if is_held_out(known, one)]
    assert tested == list(known.ratios[-6:])


def test_a_model_that_foretells_balanced_stacks_predicts_the_others(there: World, known: Study) -> None:
    stacks = list(every_stack(space_of(there.scope, varied(there.scope))))
    found = trusted(known)
    assert isinstance(found, Trusted)
    said = found.predicted(there.arrangements(stacks))
    assert found.validation.failing is None
    assert found.validation.stacks == 6
    truth = np.exp(there.log_times([()])[0] - there.log_times([one.arrangement.options for one in said]))
    inside = np.mean([one.low <= true <= one.high for one, true in zip(said, truth, strict=True)])
    errors = [abs(one.ratio / true - 1) for one, true in zip(said, truth, strict=True)]
    assert inside > 0.8
    assert np.mean(errors) < 0.02
    assert found.reference.options == ()


def test_a_model_that_cannot_foretell_gives_words(known: Study) -> None:
    generator = np.random.default_rng(0)
    wild = tuple(
        replace(one, log_ratio=one.log_ratio + generator.choice([-0.3, 0.3])) if is_held_out(known, one) else one
        for one in known.ratios
    )
    words = trusted(replace(known, ratios=wild))
    assert isinstance(words, str)
    assert words.startswith("the stage model missed 6 stacks that it did not know by ")
    assert words.endswith("only measured configurations are shown")


def test_what_is_foretold_is_not_known_beforehand(known: Study) -> None:
    """Other values of the balanced stacks change the errors by as much, and not what was foretold."""
    moved = tuple(replace(one, log_ratio=one.log_ratio + 1) if is_held_out(known, one) else one for one in known.ratios)
    found = validate(replace(known, ratios=moved))
    assert found.median_error == pytest.approx(1 - np.exp(-1), abs=0.03)
    assert found.inside == 0


def test_too_few_balanced_stacks_test_nothing(known: Study) -> None:
    few = replace(known, ratios=known.ratios[:27])
    words = trusted(few)
    assert words == (
        "2 stacks that test the stage model were measured, and it takes 3: --design matrix of six options or more "
        "has them"
    )
    assert validate(replace(known, ratios=known.ratios[:25])).stacks == 0


def test_a_stack_with_an_option_that_was_seen_nowhere_else_tests_nothing(known: Study) -> None:
    """A second level, of which the single row has no ratio: the model cannot know it."""
    test = next(one for one in known.ratios if is_held_out(known, one))
    other = replace(test.treatment, options=(*test.treatment.options, Option(name="never")))
    more = replace(known, ratios=(*known.ratios, replace(test, treatment=other)))
    assert validate(more).stacks == validate(known).stacks


@pytest.mark.parametrize(
    ("median_error", "inside", "passes"),
    [(0.04, 0.8, True), (0.041, 1.0, False), (0.01, 0.79, False)],
)
def test_the_gate(median_error: float, inside: float, passes: bool) -> None:
    found = Validation(stacks=6, median_error=median_error, inside=inside)
    assert (found.failing is None) == passes


def test_a_stack_with_a_switch_that_nobody_measured_is_refused(known: Study) -> None:
    found = trusted(known)
    assert isinstance(found, Trusted)
    with pytest.raises(KeyError, match="never"):
        found.predicted([Arrangement(options=(Option(name="never"),), overlapped=False)])
