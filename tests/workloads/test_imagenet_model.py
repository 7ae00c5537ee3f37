"""ResNet-50 with 100 classes, and an optimizer that spares by name what the real system spares."""

import pytest
import torch
from torch import nn

from workloads.imagenet import WORKLOAD
from workloads.imagenet.model import build_loss, build_model, build_optimizer, decays, parameter_names

torch.set_num_threads(1)
KERNEL = {"foreach": False, "fused": False}


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return build_model(WORKLOAD.sizes["smoke"])


def count(module: nn.Module) -> int:
    return sum(one.numel() for one in module.parameters())


@pytest.mark.parametrize(
    ("size", "parameters"), [("smoke", 23_712_932), ("quick", 10_537_764), ("standard", WORKLOAD.parameters)]
)
def test_parameters_are_counted_at_every_size(size: str, parameters: int) -> None:
    with torch.device("meta"):
        model = build_model(WORKLOAD.sizes[size])
    assert count(model) == parameters
    assert tuple(name for name, _ in model.named_parameters()) == parameter_names()


def test_a_narrower_model_has_the_same_blocks_and_maps() -> None:
    with torch.device("meta"):
        full, narrow = (build_model(WORKLOAD.sizes[size]) for size in ("standard", "quick"))
    inner = [
        [getattr(model, f"layer{number}")[0].conv2.out_channels for number in (1, 2, 3, 4)] for model in (full, narrow)
    ]
    assert inner == [[64, 128, 256, 512], [32, 64, 128, 256]]
    assert [getattr(narrow, f"layer{number}")[-1].conv3.out_channels for number in (1, 2, 3, 4)] == [
        256,
        512,
        1024,
        2048,
    ]
    assert narrow.fc.in_features == full.fc.in_features == 2048


def test_the_layer_table(model: nn.Module) -> None:
    names = [name for name, _ in model.named_children()]
    assert names == ["conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool", "fc"]
    stages = [getattr(model, f"layer{number}") for number in (1, 2, 3, 4)]
    assert [len(stage) for stage in stages] == [3, 4, 6, 3]
    assert [count(stage) for stage in stages] == [215_808, 1_219_584, 7_098_368, 14_964_736]
    assert [stage[-1].conv3.out_channels for stage in stages] == [256, 512, 1024, 2048]
    # v1.5: the stride sits in the 3x3 convolution, and in the shortcut.
    assert [stage[0].conv1.stride[0] for stage in stages] == [1, 1, 1, 1]
    assert [stage[0].conv2.stride[0] for stage in stages] == [1, 2, 2, 2]
    assert [stage[0].downsample[0].stride[0] for stage in stages] == [1, 2, 2, 2]
    assert (model.conv1.kernel_size, model.conv1.stride, model.maxpool.stride) == ((7, 7), (2, 2), 2)
    assert (model.fc.in_features, model.fc.out_features) == (2048, 100)


@pytest.mark.parametrize(("px", "map_px"), [(224, 7), (160, 5), (56, 2), (42, 2)])
def test_the_last_map_before_pooling(px: int, map_px: int) -> None:
    with torch.device("meta"):
        trunk = nn.Sequential(*list(build_model(WORKLOAD.sizes["smoke"]).children())[:-2])
        assert trunk(torch.empty(1, 3, px, px)).shape == (1, 2048, map_px, map_px)


def test_logits_of_all_100_classes_whatever_lies_on_disk(model: nn.Module) -> None:
    model.eval()
    assert model(torch.randn(2, 3, 42, 42)).shape == (2, 100)


def test_decay_is_spared_by_name_and_the_shortcut_is_missed(model: nn.Module) -> None:
    parameters = dict(model.named_parameters())
    assert tuple(parameters) == parameter_names()
    decayed, spared = build_optimizer(list(parameters.values()), KERNEL).param_groups
    names = {id(one): name for name, one in parameters.items()}
    decayed_names = {names[id(one)] for one in decayed["params"]}
    one_dimensional = {name for name in decayed_names if parameters[name].dim() == 1}
    assert one_dimensional == {f"layer{number}.0.downsample.1.weight" for number in (1, 2, 3, 4)}
    assert len(decayed["params"]) == 53 + 1 + 4  # convolutions, the head, and those four
    assert len(decayed["params"]) + len(spared["params"]) == 161
    assert (decayed["weight_decay"], spared["weight_decay"], decayed["momentum"]) == (2e-5, 0.0, 0.9)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("conv1.weight", True), ("bn1.weight", False), ("fc.bias", False), ("layer2.0.downsample.1.bias", False)],
)
def test_the_rule_of_names(name: str, expected: bool) -> None:
    assert decays(name) is expected


def test_the_optimizer_refuses_other_parameters(model: nn.Module) -> None:
    with pytest.raises(ValueError, match="zip"):
        build_optimizer(list(model.parameters())[:-1], KERNEL)


def test_smoothing_by_hand() -> None:
    logits, label = torch.tensor([[2.0, 0.0, -1.0]]), torch.tensor([0])
    log_shares = logits[0] - logits[0].exp().sum().log()
    by_hand = -(0.9 * log_shares[0] + 0.1 * log_shares.mean())
    assert build_loss()(logits, label).item() == pytest.approx(by_hand.item(), rel=1e-6)
