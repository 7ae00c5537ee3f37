"""The model, the loss and the facts of the patches3d workload."""

import gc
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.ndimage import distance_transform_edt
from torch import Tensor, nn

from harness.core.recipe import Recipe
from harness.measure.session import repeated_blocks
from tests.workloads.test_patches3d_data import recipe
from workloads.patches3d import WORKLOAD, terms
from workloads.patches3d.loss import WEIGHTS, SurfaceLoss
from workloads.patches3d.model import Block, Prediction, ResidualUNet3D

torch.set_num_threads(1)

SIZE = WORKLOAD.sizes["smoke"]
SMALLEST = (1, 1, 32, 16, 16)


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_facts_need_no_heavy_import() -> None:
    code = "import sys, workloads.patches3d; print({'torch', 'numpy', 'scipy', 'tifffile'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "set()\n"


@pytest.fixture(scope="module")
def on_paper() -> ResidualUNet3D:
    with torch.device("meta"):
        return ResidualUNet3D()


def test_parameter_count_is_the_published_one(on_paper: ResidualUNet3D) -> None:
    assert parameters(on_paper) == WORKLOAD.parameters == 33_671_604
    assert parameters(WORKLOAD.parts().loss(SIZE, recipe())) == 0


def test_every_part_has_its_own_count(on_paper: ResidualUNet3D) -> None:
    def block(inputs: int, outputs: int) -> int:
        projection = inputs * outputs + outputs if inputs != outputs else 0
        return 27 * outputs * (inputs + outputs) + 4 * outputs + projection

    def stage(inputs: int, outputs: int) -> int:
        return block(inputs, outputs) + 2 * block(outputs, outputs)

    encoder = [(1, 40), (40, 80), (80, 80), (80, 160), (160, 160)]
    assert [parameters(one) for one in on_paper.encoder] == [stage(*one) for one in encoder]
    assert parameters(on_paper.bottleneck) == stage(160, 320)
    decoder = [(320, 160, 160), (160, 80, 80), (80, 80, 80), (80, 40, 40)]
    for up, (inputs, skip, outputs) in zip(on_paper.decoder, decoder, strict=True):
        assert parameters(up) == 8 * inputs * outputs + outputs + stage(outputs + skip, outputs)
    assert [parameters(head) for head in (on_paper.head, *on_paper.aux_heads)] == [41, 161, 81, 81]


def test_shapes_at_the_real_patch(on_paper: ResidualUNet3D) -> None:
    pooled: list[tuple[int, ...]] = []
    hook = on_paper.pool.register_forward_hook(lambda _m, _i, output: pooled.append(tuple(output.shape[1:])))
    prediction = on_paper(torch.empty(2, 1, 72, 136, 136, device="meta"))
    hook.remove()
    assert prediction.logits.shape == (2, 1, 72, 136, 136)
    assert [tuple(one.shape[2:]) for one in prediction.aux_logits] == [(9, 17, 17), (18, 34, 34), (36, 68, 68)]
    assert pooled == [(40, 36, 68, 68), (80, 18, 34, 34), (80, 9, 17, 17), (160, 4, 8, 8)]


def test_any_shape_down_to_the_smallest_gives_logits_of_its_own_shape(on_paper: ResidualUNet3D) -> None:
    for shape in (SMALLEST, (1, 1, 16, 16, 32), (1, 1, 49, 92, 93), (2, 1, 17, 33, 50)):
        assert on_paper(torch.empty(shape, device="meta")).logits.shape == shape
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        on_paper(torch.empty(1, 1, 16, 16, 16, device="meta"))


def test_block_order_is_conv_norm_mish_conv_norm_dropout() -> None:
    block = Block(4, 6)
    names = [type(layer).__name__ for layer in block.residual]
    assert names == ["Conv3d", "InstanceNorm3d", "Mish", "Conv3d", "InstanceNorm3d", "Dropout3d"]
    assert (block.residual[0].bias, block.residual[1].affine, block.residual[5].p) == (None, True, 0.15)
    assert isinstance(Block(4, 4).shortcut, nn.Identity)
    assert block.shortcut.kernel_size == (1, 1, 1)
    block.eval()
    patch = torch.randn(1, 4, 3, 4, 5)
    before = block.residual(patch) + block.shortcut(patch)
    torch.testing.assert_close(block(patch), before * torch.tanh(torch.log1p(before.exp())))


def test_checkpointing_computes_the_first_block_of_a_stage_again_and_changes_no_gradient() -> None:
    def gradients(*, checkpointing: bool) -> tuple[list[Tensor], list[int]]:
        torch.manual_seed(0)
        model = ResidualUNet3D(checkpointing=checkpointing)
        calls = [0, 0, 0, 0]
        decoder = model.decoder[3].blocks
        for number, part in enumerate((model.encoder[0][0], model.bottleneck[0], decoder[0], decoder[1])):
            part.register_forward_pre_hook(lambda _m, _i, at=number: calls.__setitem__(at, calls[at] + 1))
        torch.manual_seed(1)  # of the dropout, which must fall alike when it is computed again
        prediction = model(torch.linspace(-1, 1, math.prod(SMALLEST)).reshape(SMALLEST))
        (prediction.logits.square().mean() + prediction.aux_logits[0].mean()).backward()
        return [one.grad for one in model.parameters() if one.grad is not None], calls

    (kept, once), (computed, twice) = gradients(checkpointing=False), gradients(checkpointing=True)
    assert (once, twice) == ([1, 1, 1, 1], [1, 2, 2, 1])
    assert all(torch.equal(one, other) for one, other in zip(kept, computed, strict=True))


def test_no_layer_of_a_repeated_block_is_called_outside_the_block() -> None:
    """Else blocks that are sharded would be without weights, and those compiled one by one partly in eager."""
    model, entered, outside = ResidualUNet3D(checkpointing=True, narrowing=10), list[nn.Module](), list[str]()
    blocks = list(repeated_blocks(model))
    for block in blocks:
        block.register_forward_pre_hook(lambda its, _: entered.append(its))
        block.register_forward_hook(lambda *_: entered.clear())
        for name, layer in block.named_modules():
            if not any(layer.children()):
                layer.register_forward_pre_hook(
                    lambda *_, of=block, at=name: outside.append(at) if of not in entered else None
                )
    model(torch.zeros(SMALLEST))
    assert [type(one).__name__ for one in blocks] == ["Block"] * 18 + ["Up"] * 4
    assert not outside


def test_recipe_chooses_checkpointing_and_the_optimizer_is_adamw() -> None:
    parts = WORKLOAD.parts()
    with torch.device("meta"):
        assert parts.model(SIZE, Recipe(checkpointing=True)).checkpointing
        assert not parts.model(SIZE, Recipe()).checkpointing
    optimizer = parts.optimizer(list(nn.Linear(2, 2).parameters()), {"foreach": True})
    assert isinstance(optimizer, torch.optim.AdamW)
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["foreach"]) == (3e-4, True)
    assert (parts.clip_norm, parts.average_decay) == (0.8, 0.998)


def box(*sides: int, within: int = 9) -> Tensor:
    mask = torch.zeros(1, 1, within, within, within)
    mask[0, 0, 2 : 2 + sides[0], 2 : 2 + sides[1], 2 : 2 + sides[2]] = 1
    return mask


def test_topology_compares_what_windows_of_five_voxels_leave() -> None:
    nothing, thin, thick = (box(*sides, within=16) for sides in ((0, 0, 0), (4, 9, 9), (7, 7, 7)))
    assert terms.topology(thick, thick).item() == 0
    assert terms.topology(thin, nothing).item() == 0  # nothing of a sheet of four voxels is left
    piece = 27 / 16**3
    assert terms.topology(thick, nothing).item() == pytest.approx(piece + 0.2 * piece, rel=1e-5)  # it is no hole either


def test_soft_dice_and_centre_dice_of_known_masks() -> None:
    sheet, other = box(1, 5, 5), torch.zeros(1, 1, 9, 9, 9)
    other[0, 0, 7, 2:7, 2:7] = 1
    assert terms.dice(sheet, sheet).item() == 0
    assert terms.dice(sheet, other).item() == pytest.approx(1 - 1 / 51)
    thick = box(3, 5, 5)
    assert torch.equal(terms.skeleton(sheet), sheet)  # a sheet of one voxel is its own skeleton
    assert terms.skeleton(thick)[0, 0, 3].sum() > 0
    assert terms.skeleton(thick)[0, 0, 2].sum() == 0  # that of three voxels lies in its middle
    assert terms.centre_dice(sheet, sheet).item() == pytest.approx(0, abs=1e-6)
    assert terms.centre_dice(sheet, other).item() > 0.9
    assert terms.skeleton_difference(sheet, other).item() == pytest.approx(50 / 9**3)


def test_surface_distance_rewards_a_surface_everywhere_as_found() -> None:
    sheet = torch.zeros(1, 1, 20, 4, 4)
    sheet[0, 0, 3] = 1

    def cost(guess: Tensor) -> float:
        return float(terms.surface_distance(guess, sheet, terms.distance(sheet), terms.distance(guess)))

    # 17 slices are far off and two half as far; a sheet in another place gains there what the true one loses.
    assert [cost(sheet.roll(offset, 2)) for offset in (0, 1, 2, 5)] == pytest.approx([18 / 20] * 4)
    assert cost(torch.ones_like(sheet)) == 0


def test_edges_of_equal_masks_do_not_differ() -> None:
    assert terms.edges(box(3, 3, 3), box(3, 3, 3)).item() == 0
    assert terms.edges(box(3, 3, 3), box(2, 3, 3)).item() > 0


def test_distances_are_those_of_scipy_for_each_sample() -> None:
    masks = torch.cat((box(1, 1, 1), torch.zeros(1, 1, 9, 9, 9), box(2, 2, 2)))
    found = terms.distance(masks)
    assert found.shape == masks.shape
    np.testing.assert_allclose(found[2, 0], distance_transform_edt(masks[2, 0].numpy() == 0), rtol=1e-6)
    assert found[1].abs().sum() == 0
    assert found[0, 0, 2, 2, 8] == 6


def prediction(shape: tuple[int, int, int] = (16, 16, 16)) -> Prediction:
    rng = torch.Generator().manual_seed(0)
    sides = [tuple(max(1, side // factor) for side in shape) for factor in (1, 8, 4, 2)]
    logits, *aux = (torch.randn(1, 1, *one, generator=rng).requires_grad_() for one in sides)
    return Prediction(logits, tuple(aux))


def loss_of(*names: str) -> SurfaceLoss:
    loss = WORKLOAD.parts().loss(SIZE, recipe(*names))
    assert isinstance(loss, SurfaceLoss)
    return loss


def test_the_loss_is_its_weighted_terms_at_full_scale_and_half_of_them_at_coarser_ones() -> None:
    assert sum(WEIGHTS.values()) == pytest.approx(1)
    seen: list[dict[str, float]] = []
    loss, guess, target = loss_of(), prediction(), box(2, 9, 9, within=16)
    composite = loss._composite
    loss._composite = lambda *a, **k: (composite(*a, **k), seen.append(dict(loss.components)))[0]  # type: ignore[method-assign]
    value = loss(guess, target)
    sums = [sum(WEIGHTS[name] * one for name, one in components.items()) for components in seen]
    assert len(sums) == 4
    assert value.item() == pytest.approx(sums[3] + 0.5 * sum(sums[:3]), rel=1e-5)
    assert all(set(one) == set(WEIGHTS) for one in seen)
    weighted = nn.functional.binary_cross_entropy_with_logits(guess.logits, target, pos_weight=torch.tensor(2.8))
    assert seen[3]["bce"] == pytest.approx(weighted.item())


def wave(shape: tuple[int, ...], rate: float) -> Tensor:
    numbers = torch.arange(math.prod(shape), dtype=torch.float64)
    return (numbers * rate).sin().mul(3).float().reshape(1, 1, *shape)


def test_losses_are_those_of_the_original_code() -> None:
    """What CompositeTopologyLoss of the original at 577d531 gives for the same four steps, the first with distances."""
    loss, full = loss_of(), (24, 32, 32)
    target = (wave(full, 0.01) > 2).float()
    found = []
    for step in range(4):
        coarser = tuple(wave(tuple(side // by for side in full), 0.3 * by + step) for by in (8, 4, 2))
        found.append(loss(Prediction(wave(full, 0.7 + step), coarser), target).item())
    assert found == pytest.approx([2.4391313, 2.3696625, 2.3793378, 2.4034359], rel=1e-6)


def test_distances_come_every_fourth_step_because_calls_are_counted() -> None:
    loss, measured = loss_of(), []
    for _ in range(9):
        loss(prediction(), box(2, 9, 9, within=16))
        measured.append(loss.counts.measured)
    assert measured == [1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert loss.counts.transforms == 6


@pytest.mark.parametrize(("names", "times"), [((), 2), (("deferred_loss_components",), 0)])
def test_garbage_is_collected_where_distances_are_measured_once_a_sample(names: tuple[str, ...], times: int) -> None:
    loss, collected = loss_of(*names), list[int]()

    def note(phase: str, found: dict[str, int]) -> None:
        if phase == "start" and found["generation"] == 2:
            collected.append(loss.counts.steps)

    gc.disable()
    gc.callbacks.append(note)
    for _ in range(8):
        loss(prediction(), box(2, 9, 9, within=16))
    gc.callbacks.remove(note)
    gc.enable()
    samples = len(prediction().logits)
    assert collected == [1] * samples * (times > 0) + [5] * samples * (times > 1)


def test_heavy_terms_at_full_scale_only_leave_distances_to_every_fourth_step() -> None:
    loss = loss_of("single_scale_heavy_losses")
    for _ in range(5):
        loss(prediction(), box(2, 9, 9, within=16))
    assert (loss.counts.heavy, loss.counts.scales, loss.counts.measured) == (5, 20, 2)


@pytest.mark.parametrize("names", [("deferred_loss_components",), ("loader_distance_transform",)])
def test_exact_ways_give_the_same_loss_and_gradient(names: tuple[str, ...]) -> None:
    values, gradients = [], []
    for stack in ((), names):
        loss, guess, target = loss_of(*stack), prediction(), box(2, 9, 9, within=16)
        if "loader_distance_transform" in stack:
            target = torch.cat((target, terms.distance(target)), 1)
        value = loss(guess, target)
        value.backward()
        values.append(value.detach())
        gradients.append(guess.logits.grad)
    assert torch.equal(*values)
    assert torch.equal(*gradients)


def test_components_are_waited_for_as_found_and_kept_as_tensors_without_a_graph_when_deferred() -> None:
    found, deferred = loss_of(), loss_of("deferred_loss_components")
    for loss in (found, deferred):
        loss(prediction(), box(2, 9, 9, within=16))
    assert all(isinstance(one, float) for one in found.components.values())
    assert all(isinstance(one, Tensor) and not one.requires_grad for one in deferred.components.values())


def test_a_loss_that_is_no_number_is_an_error_as_found() -> None:
    guess = prediction()
    broken = Prediction(guess.logits * math.nan, guess.aux_logits)
    with pytest.raises(FloatingPointError, match="not a number"):
        loss_of()(broken, box(2, 9, 9, within=16))
    assert loss_of("deferred_loss_components")(broken, box(2, 9, 9, within=16)).isnan()
