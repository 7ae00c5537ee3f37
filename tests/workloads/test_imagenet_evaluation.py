"""The evaluation: both ways agree image by image, and what was mislabelled or mixed up shows."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import workloads.imagenet.evaluation as under_test
from harness.catalogue import read_catalogue
from harness.core.configuration import compose, parse_option
from harness.core.recipe import Recipe
from workloads.imagenet import WORKLOAD
from workloads.imagenet.corpus import Picture, write
from workloads.imagenet.data import validation
from workloads.imagenet.evaluation import evaluate, top_percent
from workloads.imagenet.synthesis import look

torch.set_num_threads(1)
SMOKE, CPU = replace(WORKLOAD.sizes["smoke"], evaluation_items=40), torch.device("cpu")
CLASSES = SMOKE.shape["classes"]
CATALOGUE = read_catalogue()


def recipe(*stack: str) -> Recipe:
    options = [parse_option(one) for one in ("local_copy", *stack)]
    return compose(WORKLOAD, options, CATALOGUE.optimizations)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("imagenet")
    for place in range(SMOKE.evaluation_items):
        picture = Picture("val", place, CLASSES)
        (path / picture.path).parent.mkdir(parents=True, exist_ok=True)
        write(path, picture)
    return path


class ByHue(nn.Module):
    """Knows the classes: the nearer a class's hue is to that of an image, the larger its logit."""

    def __init__(self) -> None:
        super().__init__()
        self.hues = nn.Parameter(torch.tensor([look(number).hue for number in range(CLASSES)]))
        self.mean = torch.tensor([0.485, 0.456, 0.406])
        self.deviation = torch.tensor([0.229, 0.224, 0.225])

    def forward(self, images: Tensor) -> Tensor:
        red, green, blue = ((images.mean((2, 3)) * self.deviation + self.mean) * 255).unbind(1)
        luma = 0.299 * red + 0.587 * green + 0.114 * blue
        hue = torch.atan2(0.713 * (red - luma), 0.564 * (blue - luma))
        return torch.cos(hue[:, None] - self.hues)


def test_who_knows_the_classes_scores_far_above_chance(folder: Path) -> None:
    assert evaluate(ByHue(), folder, SMOKE, recipe(), CPU).score > 2 * 100 / CLASSES


def test_shuffled_validation_labels_bring_the_score_to_chance(folder: Path, tmp_path: Path) -> None:
    """As in the real system once: the images lay in the wrong folders, and 1 % was taken for a hard task."""
    paths = sorted(folder.rglob("*.JPEG"))
    for number, path in enumerate(paths):
        wrong = tmp_path / "val" / f"n9{(number * 7 + number // 10) % CLASSES:07d}" / path.name
        wrong.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, wrong)
    right, wronged = (evaluate(ByHue(), root, SMOKE, recipe(), CPU).score for root in (folder, tmp_path))
    assert wronged == pytest.approx(100 / CLASSES, abs=15)
    assert right > wronged + 20


@pytest.mark.parametrize(
    "stack",
    [
        ("batched_evaluation",),
        ("device_results",),
        ("batched_evaluation", "inference_mode", "channels_last"),
        ("uint8_transfer",),
    ],
)
def test_every_way_gives_the_same_answers(folder: Path, stack: tuple[str, ...]) -> None:
    one_by_one = evaluate(ByHue(), folder, SMOKE, recipe(), CPU)
    other = evaluate(ByHue(), folder, SMOKE, recipe(*stack), CPU)
    assert replace(other, effective={}) == replace(one_by_one, effective={})
    assert other.effective.items() - one_by_one.effective.items() <= {("batched_results", "read once")}
    assert one_by_one.items == len(one_by_one.answers) == 40
    assert len(set(one_by_one.answers)) == CLASSES
    labels = torch.tensor([one.label for one in validation(folder, SMOKE, recipe()).files])
    agreed = (torch.tensor(one_by_one.answers) == labels).float().mean().item()
    assert one_by_one.score == pytest.approx(100 * agreed)


def test_five_guesses_are_scored_beside_one(folder: Path) -> None:
    found = evaluate(ByHue(), folder, SMOKE, recipe("batched_evaluation"), CPU)
    labels = np.array([one.label for one in validation(folder, SMOKE, recipe()).files])
    assert found.scores["top-5 accuracy"] >= found.score == top_percent(np.array(found.answers)[:, None], labels)
    ranked = np.array([[1, 2], [2, 1], [0, 3], [3, 0]])
    assert (top_percent(ranked[:, :1], np.array([1, 1, 1, 3])), top_percent(ranked, np.array([1, 1, 1, 3]))) == (50, 75)
    logits = torch.tensor([[0.1, 0.9, 0.3, 0.2, 0.8, 0.0, 0.4]])
    assert under_test.best(logits).tolist() == [[1, 4, 6, 2, 3]]


def test_workers_bring_the_images_in_their_order(folder: Path) -> None:
    fed = evaluate(ByHue(), folder, SMOKE, recipe("batched_evaluation", "workers=2"), CPU)
    alone = evaluate(ByHue(), folder, SMOKE, recipe(), CPU)
    assert replace(fed, effective={}) == replace(alone, effective={})
    assert (fed.effective["evaluation_workers"], alone.effective["evaluation_workers"]) == (2, 0)


def test_mixed_up_rows_show_in_the_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = under_test.read_once

    def mixed_up(forward: Callable[[Tensor], Tensor], batches: Iterable[object]) -> list[list[int]]:
        found = torch.tensor(honest(forward, batches))
        return found.unflatten(0, (-1, 8)).transpose(0, 1).flatten(0, 1).tolist()  # batch and place in it exchanged

    expected = evaluate(ByHue(), folder, SMOKE, recipe(), CPU)
    monkeypatch.setattr(under_test, "read_once", mixed_up)
    found = evaluate(ByHue(), folder, SMOKE, recipe("batched_evaluation"), CPU)
    assert sorted(found.answers) == sorted(expected.answers)
    assert found.answers != expected.answers
    assert found.score < expected.score


def test_batches_go_through_the_model_together(folder: Path) -> None:
    sizes: list[int] = []
    model = ByHue()
    model.register_forward_hook(lambda _module, inputs, _output: sizes.append(len(inputs[0])))
    evaluate(model, folder, SMOKE, recipe(), CPU)
    assert sizes == [1] * 40
    sizes.clear()
    evaluate(model, folder, SMOKE, recipe("batched_evaluation"), CPU)
    assert sizes == [8] * 5


def test_accuracy_by_hand() -> None:
    logits = np.array([[9, 8, 7, 6, 5, 4], [1, 9, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6]])
    labels = np.array([0, 2, 5, 5])  # right; fourth best; worst; right
    ranked = (-logits).argsort(1)
    assert top_percent(ranked[:, :1], labels) == 50
    assert top_percent(ranked[:, :5], labels) == 75
    assert top_percent(ranked, labels) == 100
