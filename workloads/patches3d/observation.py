"""What the parts of this workload really do, seen from their counters and from what they hand over."""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor

from harness.core.recipe import Value
from harness.core.workload import Built
from workloads.patches3d.cache import VolumeCache
from workloads.patches3d.data import Patches, apart
from workloads.patches3d.loss import SurfaceLoss
from workloads.patches3d.preparation import Scaled, Shape, Work

REPLAYED = 400  # items, whose volumes are drawn as an epoch's are


def effective(built: Built) -> Mapping[str, Value]:
    """How items are made, what the cache keeps, and what the loss works out."""
    patches, loss = cast("Patches", built.dataset), cast("SurfaceLoss", built.loss)
    batch: tuple[Tensor, ...] = built.batch
    return (
        _of_an_item(patches, batch, staged=built.device_stage is not None)
        | _of_the_cache(patches)
        | _of_the_loss(loss, batch)
    )


def _of_an_item(patches: Patches, batch: tuple[Tensor, ...], *, staged: bool) -> dict[str, Value]:
    cut: list[Shape] = []
    watched = apart(patches, cut)
    image, *_ = watched[0]
    work, (volume,) = watched.volumes.work, watched.volumes.kept.values()
    same = {tuple(image.shape[1:]), tuple(batch[0].shape[2:])} == {patches.patch}
    return {
        "preparation": preparation_seen(work, volume.label.size),
        "prepared_volumes_per_item": work.volumes - work.mapped,
        "filtered_voxels_per_item": work.filtered_voxels,
        "resampling": {0: "on_device" if staged else None, 1: "once", 4: "four"}[watched.resamplings.count],
        "patch_size": _percent(cut[0] if cut else tuple(image.shape[1:]), patches.usual),
        "patch_shape": "fixed" if same else "varying",
        "first_patch": "x".join(map(str, batch[0].shape[2:])),
    }


def _percent(cut: tuple[int, ...], usual: Shape) -> int:
    """The longest side of what was cut out before augmentation, in percent of the usual one."""
    return round(100 * max(cut) / max(usual))


def preparation_seen(work: Work, voxels: int) -> str:
    """Which preparation filtered so much, of that type, for a volume of so many voxels."""
    if work.mapped == work.volumes:
        return "precomputed"
    if work.filtered_voxels < voxels:
        return "halo"
    return "uint8" if work.filtered_types == {"uint8"} else "whole_volume"


def _of_the_cache(patches: Patches) -> dict[str, Value]:
    """Replays an epoch's draws of volumes on a cache of the same capacity whose volumes weigh nothing."""
    nothing = Scaled(*(None,) * 4)  # type: ignore[arg-type]
    replayed = VolumeCache(lambda _identifier, _work: nothing, patches.volumes.capacity)
    drawn = torch.randint(len(patches.identifiers), (REPLAYED,), generator=torch.Generator().manual_seed(0)).tolist()
    for number in drawn:
        replayed[patches.identifiers[number]]
    share = len(replayed.kept) / len(patches.identifiers)
    return {
        "volume_cache": "all" if share == 1 else "half" if share >= 0.5 else "50 of 806",
        "cached_volumes": len(replayed.kept),
        "cache_hits_percent": round(100 * replayed.hits / len(drawn)),
    }


def _of_the_loss(loss: SurfaceLoss, batch: tuple[Tensor, ...]) -> dict[str, Value]:
    counts = loss.counts
    read_back = all(isinstance(one, float) for one in loss.components.values())
    transforms = counts.transforms / max(1, counts.measured * len(batch[0]))
    return {
        "heavy_scales": "full" if counts.heavy == counts.steps < counts.scales else "all",
        "loss_terms": ", ".join(sorted(loss.components)),
        "loss_readback": "each_component" if read_back else "deferred",
        "target_distance": "loader" if transforms == 1 else "loss",
        "distance_every_steps": counts.steps / counts.measured if counts.measured else None,
    }
