"""What an arm really does with a clip, seen from what it decodes, computes and reads, and from its first batch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from harness.core.recipe import Value
from harness.core.workload import Built
from workloads.spoof.data import FeatureItems, Items, SoundItems, clip_at
from workloads.spoof.mel import Real, frames_of, log_mel
from workloads.spoof.model import SEResNet
from workloads.spoof.sources import Audio, Cached, Computed, Log

WATCHED = 4  # items
DRIFT_DB = 0.1  # of features, against the original's on the same frames


def effective(built: Built) -> Mapping[str, Value]:
    """The settings that show which of this workload's choices took effect."""
    items = built.dataset
    if not isinstance(items, FeatureItems | SoundItems):
        raise TypeError(f"{type(items).__name__} holds no clips")
    log = Log()
    shown = [_seen(_watched(items, log), built, index) for index in range(WATCHED)]
    whole = [_whole_frames(items, index) for index in range(WATCHED)]
    computed = _frames_computed(items, log)
    drift_db, off_db = (_distance_db(items, shown, early=early) for early in (items.view.early, False))
    passes: list[None] = []
    items.scoring(lambda: passes.append(None))
    return {
        "features": _kind(log, built),
        "cut": "features" if computed in ([], whole) else "sound",
        "tiling": shown[0].shape[-1] > min(whole),
        "input_frames": shown[0].shape[-1],
        "mel_drift_db": round(drift_db, 4),
        "mel_drift_below_0.1_db": drift_db < DRIFT_DB,
        "off_from_as_found_db": round(off_db, 4),
        "decoded_clips_per_item": len(log.decoded) / WATCHED,
        "cache_hits_per_item": len(log.cached) / WATCHED,
        "frames_computed_per_frame_seen": round(sum(computed) / (WATCHED * shown[0].shape[-1]), 2),
        "travelling": f"{built.batch[0].dtype}".removeprefix("torch."),
        "corpus": "fake_or_real" if clip_at(items, 0).path.endswith(".wav") else "asvspoof",
        "augmentation": _augments(items),
        "scoring_passes": len(passes),
        "model": _model(built),
    }


def _watched(items: Items, log: Log) -> Items:
    """The same items with a log in them."""
    source = items.source
    noted = Computed(audio=replace(source.audio, log=log), mel=source.mel) if isinstance(source, Computed) else None
    return replace(items, source=noted or replace(source, log=log))  # type: ignore[arg-type]


def _seen(items: Items, built: Built, index: int) -> Real:
    """The features of an item as the model gets them, through the device stage if there is one."""
    if isinstance(items, FeatureItems):
        return items[index][0].numpy()
    if built.device_stage is None:
        raise TypeError("sound reaches the device, but nothing there makes features of it")
    device = next(built.model.parameters()).device
    with torch.no_grad():
        features, _labels = built.device_stage([part.to(device) for part in items.__getitems__([index])])
    return np.asarray(features[0].cpu())


def _whole_frames(items: Items, index: int) -> int:
    return frames_of(len(_audio(items, early=False)(clip_at(items, index), index)))


def _frames_computed(items: Items, log: Log) -> list[int]:
    """Frames of each log-mel; for sound that reaches the device, those that its length makes there."""
    if isinstance(items, SoundItems):
        return [frames_of(items[index][1]) for index in range(WATCHED)]
    return [frames for _kind, frames in log.spectra]


def _distance_db(items: Items, shown: Sequence[Real], *, early: bool) -> float:
    """The largest difference to the original's log-mel of the same items, their sound cut before it or not."""
    view, audio = replace(items.view, early=early), _audio(items, early=early)
    mels = (log_mel(audio(clip_at(items, index), index)) for index in range(len(shown)))
    expected = (view.features(mel, index) for index, mel in enumerate(mels))
    return max(float(np.abs(one - other).max()) for one, other in zip(shown, expected, strict=True))


def _audio(items: Items, *, early: bool) -> Audio:
    """The items' clips in float64, as the original decodes them, whole or cut."""
    source = items.source
    view = replace(items.view, early=early)
    if isinstance(source, Cached):
        return Audio(folder=source.folder, precision="float64", view=view)
    audio = source.audio if isinstance(source, Computed) else source
    augment = audio.augment
    return Audio(folder=audio.folder, precision="float64", view=view, augment=augment)


def _kind(log: Log, built: Built) -> str:
    """Where the features were made, and in which precision."""
    if log.cached and not log.decoded:
        return "cached"
    first = built.batch[0]
    if isinstance(first, Tensor) and first.dim() == 2 and not log.spectra:
        return "device"
    names = {"numpy float64": "float64", "numpy float32": "float32", "torch torch.float32": "torch"}
    found = {names.get(kind, kind) for kind, _frames in log.spectra}
    return ", ".join(sorted(found))


def _augments(items: Items) -> bool:
    """Whether the sound of the first items differs from what is in the file."""
    if isinstance(items.source, Cached):
        return False
    audio = _audio(items, early=False)
    plain = replace(audio, augment=None)
    clips = [clip_at(items, index) for index in range(2)]
    return any(not np.array_equal(audio(clip, index), plain(clip, index)) for index, clip in enumerate(clips))


def _model(built: Built) -> str:
    model = getattr(built.model, "_orig_mod", built.model)
    blocks = len(model.stages) if isinstance(model, SEResNet) else 0
    return {8: "se_resnet18", 16: "se_resnet34"}.get(blocks, f"{blocks} blocks")
