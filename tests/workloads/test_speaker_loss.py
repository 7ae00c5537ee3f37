"""The objectives of the speaker workload."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from harness.core.recipe import Recipe
from workloads.speaker import WORKLOAD
from workloads.speaker.loss import AngularMarginLoss, AngularPrototypicalLoss, SoftmaxPrototypicalLoss, build_loss

torch.set_num_threads(1)

SIZE = WORKLOAD.sizes["smoke"]


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("objective", "count"),
    [("aam_softmax", 5 * 512), ("angular_prototypical", 2), ("softmax_prototypical", 5 * 513 + 2)],
)
def test_the_recipe_names_the_objective(objective: str, count: int) -> None:
    own = {**WORKLOAD.own, "objective": objective}
    assert parameters(build_loss(SIZE, Recipe(own=tuple(sorted(own.items()))))) == count


def test_angular_margin_holds_a_direction_for_each_of_the_5991_speakers() -> None:
    assert parameters(AngularMarginLoss(5991, 512)) == 3_067_392


@pytest.mark.parametrize("degrees", [20, 90, 160, 175])
def test_loss_moves_the_true_class_by_the_margin(degrees: int) -> None:
    loss = AngularMarginLoss(3, 2)
    true, others = math.radians(degrees), (0.3, -2.0)
    with torch.no_grad():
        loss.weight.copy_(torch.tensor([[math.cos(angle), math.sin(angle)] for angle in (true, *others)]) * 7)
    moved = math.cos(true + 0.2) if true + 0.2 < math.pi else math.cos(true) - math.sin(0.2) * 0.2
    logits = [30 * moved, *(30 * math.cos(angle) for angle in others)]
    expected = math.log(sum(math.exp(logit) for logit in logits)) - logits[0]
    assert loss(torch.tensor([[5.0, 0.0]]), torch.tensor([0])).item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_loss_has_a_finite_gradient_where_an_embedding_lies_on_its_class() -> None:
    loss = AngularMarginLoss(3, 4)
    embeddings = loss.weight.detach()[:1].clone().requires_grad_()
    loss(embeddings, torch.tensor([0])).backward()
    assert embeddings.grad is not None
    assert torch.isfinite(embeddings.grad).all()


def test_prototypical_loss_compares_each_first_with_all_seconds() -> None:
    loss = AngularPrototypicalLoss()
    angles = torch.tensor([[0.1, 0.3], [1.0, 1.4], [2.0, 1.9]])  # of the two utterances of three speakers
    embeddings = torch.stack([torch.cos(angles), torch.sin(angles)], dim=2).flatten(0, 1) * 3
    cosines = torch.cos(angles[:, :1] - angles[:, 1])
    expected = functional.cross_entropy(10 * cosines - 5, torch.arange(3))
    torch.testing.assert_close(loss(embeddings, torch.tensor([7, 8, 9])), expected)


def test_a_speaker_who_comes_twice_is_not_his_own_impostor() -> None:
    loss, embeddings = AngularPrototypicalLoss(), torch.randn(6, 4)
    without = loss(embeddings, torch.tensor([0, 1, 2]))
    twice = loss(embeddings, torch.tensor([0, 1, 0]))
    assert twice < without
    first, second = functional.normalize(embeddings).unflatten(0, (3, 2)).unbind(1)
    logits = 10 * first @ second.T - 5
    rows = [logits[0, [0, 1]].softmax(0)[0], logits[1].softmax(0)[1], logits[2, [1, 2]].softmax(0)[1]]
    torch.testing.assert_close(twice, -torch.stack(rows).log().mean())


def test_softmax_prototypical_is_the_sum_of_both() -> None:
    loss = SoftmaxPrototypicalLoss(4, 8)
    embeddings, labels = torch.randn(6, 8), torch.tensor([3, 0, 1])
    softmax = functional.cross_entropy(loss.classifier(embeddings), torch.tensor([3, 3, 0, 0, 1, 1]))
    torch.testing.assert_close(loss(embeddings, labels), softmax + loss.prototypical(embeddings, labels))
