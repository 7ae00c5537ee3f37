from dataclasses import replace

import pytest

from harness.core.mistake import Mistake
from harness.core.optimization import LEVEL
from tests.analyze.synthetic import ENVIRONMENT
from tests.core.invented import KNOWN, SIZE, optimization, workload


def test_another_batch_leaves_the_samples_of_an_epoch() -> None:
    toy = workload()
    assert toy.at("quick", 12) == SIZE
    assert (toy.at("quick", 24).batch, toy.at("quick", 24).epoch_steps) == (24, 5)
    assert toy.at("quick", 7).epoch_steps == 17  # 119 of 120 samples: the short batch is left out
    assert toy.at("quick", 120).epoch_steps == 1


def test_a_batch_beyond_the_epoch_is_a_mistake() -> None:
    with pytest.raises(Mistake, match="has 120 samples in an epoch; choose a batch of at most 120"):
        workload().at("quick", 121)


@pytest.mark.parametrize(
    ("batch", "steps", "passes", "samples"),
    [(24, 5, 1, 120), (50, 3, 1, 150), (700, 1, 1, 700), (1000, 1, 1, 1000), (1992, 1, 2, 996)],
)
def test_an_epoch_that_is_a_part_of_the_data_set_takes_more_of_it(
    batch: int, steps: int, passes: int, samples: int
) -> None:
    short = replace(SIZE, shape={"items": 1000})
    toy = replace(workload(), sizes={"quick": short})
    assert toy.at("quick", 12) == short
    found = toy.at("quick", batch)
    assert (found.epoch_steps, found.passes, found.samples) == (steps, passes, samples)
    with pytest.raises(Mistake, match="has 1000 samples in an epoch; choose a batch of at most 1000"):
        toy.at("quick", 1200)


def test_the_usual_level() -> None:
    assert KNOWN["workers"].usual_level(ENVIRONMENT) == ENVIRONMENT.cores
    assert KNOWN["prefetch"].usual_level(ENVIRONMENT) == 4
    assert KNOWN["tf32"].usual_level(ENVIRONMENT) is None
    assert repr(optimization("one", {"workers": LEVEL}).sets["workers"]) == "LEVEL"
