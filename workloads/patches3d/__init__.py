"""Surface detection in CT volumes: a residual 3-D U-Net on patches, whose data cost far more than its steps."""

from harness.core.recipe import Recipe
from harness.core.workload import CLIPPING_DEFAULTS, PYTORCH_DEFAULTS, Lesson, Parts, Size, Workload
from workloads.patches3d.adoption import adopt

PREPARED_SHARE = 4  # bytes on disk for a voxel: image, labels, and both once more as prepared

STEP_S_PER_VOXEL = 3.7e-5  # of the narrowed network on one core, where a small size is likely to run


def _size(
    *, volumes: int, side: int, patch: tuple[int, int, int], steps: int, evaluation_items: int, narrowing: int = 1
) -> Size:
    depth, height, width = patch
    return Size(
        batch=1,
        epoch_steps=steps,
        evaluation_items=evaluation_items,
        data_bytes=volumes * side * (PREPARED_SHARE * side**2 + 512),
        shape={
            "volumes": volumes,
            "side": side,
            "patch_depth": depth,
            "patch_height": height,
            "patch_width": width,
            "stacked_patches": 4,
            "narrowing": narrowing,
        },
        original_epoch_steps=4000,
        step_s=depth * height * width * STEP_S_PER_VOXEL if side < 320 else 13.0,  # 12 of them in one median filter
        whole_samples=side == 320,  # of a smaller volume a patch is loaded in a hundredth of the time
        compute_s=0.75 * depth * height * width * STEP_S_PER_VOXEL if side < 320 else 0.1,
    )


def parts() -> Parts:
    """The parts that need torch."""
    import torch
    from torch.optim.lr_scheduler import OneCycleLR

    from workloads.patches3d import corpus, data, device, evaluation, observation
    from workloads.patches3d.loss import DISTANCE_EVERY, SCALES, SurfaceLoss
    from workloads.patches3d.model import ResidualUNet3D
    from workloads.patches3d.yardsticks import yardsticks

    return Parts(
        prepare=corpus.prepare,
        model=lambda size, recipe: ResidualUNet3D(
            checkpointing=recipe.checkpointing, narrowing=size.shape["narrowing"]
        ),
        loss=lambda _size, recipe: SurfaceLoss(
            heavy_everywhere=recipe.choice("heavy_scales") == "all",
            read_back=recipe.choice("loss_readback") == "each_component",
        ),
        optimizer=lambda parameters, kernel: torch.optim.AdamW(parameters, lr=3e-4, **kernel),
        schedule=lambda optimizer, steps: OneCycleLR(
            optimizer, [2 * group["lr"] for group in optimizer.param_groups], total_steps=steps + 1
        ),
        dataset=data.dataset,
        evaluate=evaluation.evaluate,
        effective=observation.effective,
        device_stage=device.device_stage,
        clip_norm=0.8,
        average_decay=0.998,
        yardsticks=yardsticks,
        uneven_steps=DISTANCE_EVERY // SCALES,
    )


def unstackable(recipe: Recipe, batch: int) -> str | None:
    """Patches are cut in a shape of their own each, unless the recipe fixes it."""
    differ = batch > 1 and recipe.choice("patch_shape") == "varying"
    return "patches of several shapes make no batch: add fixed_patch_shape" if differ else None


def one_shape(recipe: Recipe) -> bool:
    """Whether all patches have the nominal shape."""
    return recipe.choice("patch_shape") == "fixed"


WORKLOAD = Workload(
    name="patches3d",
    title="Surface detection in CT volumes: residual 3-D U-Net on patches",
    origin="TomBombadyl/vesuvius_challenge at 577d531",
    parameters=33_671_604,
    traits=frozenset(
        {
            *("convolutions_3d", "clipping", "weight_average", "checkpointing"),
            *("evaluation", "evaluation_options", "batched_evaluation"),
            "few_shapes",  # an epoch of ours repeats its patches, and so their shapes; the real one always has new ones
        }
    ),
    sizes={
        "smoke": _size(volumes=6, side=48, patch=(48, 16, 16), steps=6, evaluation_items=6, narrowing=10),
        # A fifth of the real side; a patch is the same share of its volume, but longest in depth, see augmentation. At
        # full width a step takes 2 s of a core for its weights alone, however small the patch, and loading nearly none.
        "quick": _size(volumes=26, side=67, patch=(48, 16, 16), steps=20, evaluation_items=12, narrowing=10),
        "standard": _size(volumes=44, side=320, patch=(72, 136, 136), steps=200, evaluation_items=64),
    },
    parts=parts,
    own={
        "preparation": "whole_volume",
        "volume_cache": "50 of 806",
        "resampling": "four",
        "patch_shape": "varying",
        "patch_size": 100,
        "heavy_scales": "all",
        "loss_readback": "each_component",
        "target_distance": "loss",
    },
    original={
        **PYTORCH_DEFAULTS,
        **CLIPPING_DEFAULTS,
        "workers=1": "the configuration of 577d531",
        "prefetch_factor=1": "the configuration of 577d531",
        "start_method=spawn": "its training script sets it",
        "gradient_scaling": 'precision "amp" was a GradScaler without any autocast',
        "activation_checkpointing": "the configuration of 577d531",
        "cudnn_deterministic": "seed_everything at 577d531",
    },
    batches=("2", "4", "2x1", "2x2"),
    first_look=("precomputed_preparation", "workers", "fixed_patch_shape"),
    original_epochs=32,
    score="Dice of the surface, mean over patches of held-out volumes, more is better",
    reader="tifffile",
    lesson=Lesson(steps=200, chance=0.21, clear=0.4, better="more"),
    adopt=adopt,
    unstackable=unstackable,
    one_shape=one_shape,
)
