"""What an arm of this workload really does, seen from its dataset's reads, its first batch, its model and its loss."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import torch
from scipy.signal import choose_conv_method
from torch import nn
from torchaudio.transforms import MelSpectrogram

from harness.core.recipe import Value
from harness.core.workload import Built
from workloads.speaker.augmentation import AUGMENTATIONS
from workloads.speaker.data import Crops, RawCrops, logging
from workloads.speaker.front_end import FrontEnd, LoopedFrontEnd
from workloads.speaker.layout import NOISE_PIECES, NOISES, SAMPLE_BYTES, SAMPLE_RATE, crop_frames
from workloads.speaker.reading import Kept, Read

DECK = len(AUGMENTATIONS)
CACHE_READS = 200  # at most, over which the hits of a cache are counted
ARCHITECTURES = {  # by parameters: at full width and at that of `quick`
    1_437_078: "resnetse34l",
    8_028_492: "resnetse34v2",
    76_595_232: "resnetse152",
    389_950: "resnetse34l",
    2_666_406: "resnetse34v2",
    19_464_464: "resnetse152",
}
OBJECTIVES = {
    "AngularMarginLoss": "aam_softmax",
    "AngularPrototypicalLoss": "angular_prototypical",
    "SoftmaxPrototypicalLoss": "softmax_prototypical",
}


def effective(built: Built) -> Mapping[str, Value]:
    """The effective settings."""
    crops = built.dataset
    if not isinstance(crops, (Crops, RawCrops)):
        raise TypeError(type(crops))
    batch = built.batch
    on_device = built.device_stage is not None and len(batch) > 3
    speakers = batch[1] if on_device else batch[-1]
    return {
        "architecture": ARCHITECTURES.get(sum(one.numel() for one in built.model.parameters()), "unknown"),
        "objective": OBJECTIVES.get(type(built.loss).__name__, "unknown"),
        "augmentation": "device" if on_device else "host",
        "crop_length": crop_frames(batch[0].shape[-1]),
        "front_end": _front_end(built.model),
        "transfer_type": str(batch[0].dtype).removeprefix("torch."),
        "transfer_bytes_per_sample": round(sum(one.nbytes for one in batch) / len(speakers)),
        **of_reads(crops),
        **_of_convolution(crops),
        **_of_cache(crops),
    }


def _front_end(model: nn.Module) -> str:
    """Whether two waveforms become spectrograms together or one after the other."""
    front_ends = [one for one in model.modules() if isinstance(one, FrontEnd | LoopedFrontEnd)]
    if not front_ends:
        return "unknown"
    transforms = [one for one in model.modules() if isinstance(one, MelSpectrogram)]
    calls: list[None] = []
    hooks = [one.register_forward_hook(lambda *_: calls.append(None)) for one in transforms]
    front_ends[0](torch.zeros(2, SAMPLE_RATE, device=next(model.parameters()).device))
    for hook in hooks:
        hook.remove()
    return {1: "batched", 2: "looped"}[len(calls)]


def of_reads(crops: Crops | RawCrops) -> Mapping[str, Value]:
    """How the items of one deck are really read, once whatever is read only once has been read."""
    log: list[Read] = []
    watched = replace(crops, sources=logging(crops.sources, log))
    for _ in range(2):
        log.clear()
        for item in range(DECK):
            watched[item]
    windows = [read for read in log if crops.draws.rooms[0].parents[2] not in read.path.parents]
    opened = [read for read in windows if read.opened]
    return {
        "audio_read": "seek" if all(read.decoded == read.wanted for read in opened) else "whole_file",
        "network_mount": _network_mount(log, crops.draws.root),
        "noise_files": _noise_files(log),
        "sample_type": ", ".join(sorted({read.sample_type for read in log})),
        "read_bytes_per_sample": round(sum(read.decoded for read in log) * SAMPLE_BYTES / DECK),
        "opened_files_per_sample": sum(read.opened for read in log) / DECK,
        "network_requests_per_sample": sum(read.requests for read in log) / DECK,
    }


def _network_mount(log: Sequence[Read], utterances: Path) -> str:
    """Whether files ask a server, and for more than to be opened where they are no utterances."""
    if not any(read.requests for read in log):
        return "none"
    others = [read for read in log if not read.path.is_relative_to(utterances)]
    return "uncached" if any(read.requests > read.opened for read in others) else "noise_cached"


def _noise_files(log: Sequence[Read]) -> str:
    noises = [read for read in log if {NOISES, NOISE_PIECES} & set(read.path.parts)]
    if not any(read.opened for read in noises):
        return "mapped"
    return "split" if all(NOISE_PIECES in read.path.parts for read in noises) else "unsplit"


def _of_convolution(crops: Crops | RawCrops) -> Mapping[str, Value]:
    """The function that reverberates, and the method that scipy would choose for these lengths by itself."""
    if isinstance(crops, RawCrops):
        return {"convolution": "on the device"}
    response = crops.sources.rooms.whole(crops.draws.rooms[0])
    speech = crops.sources.crop(crops.draws.of(0)[0])
    return {
        "convolution": crops.convolve.__name__,
        "chosen_convolution": str(choose_conv_method(speech, response)),
    }


def _of_cache(crops: Crops | RawCrops) -> Mapping[str, Value]:
    """Whether utterances are kept, and how many of the reads of one pass find what they want there."""
    log: list[Read] = []
    found = logging(crops.sources, log)
    if not isinstance(found.speech, Kept):
        return {"utterance_cache": "none"}
    for ingredients in chain.from_iterable(crops.draws.of(item) for item in range(min(len(crops), CACHE_READS))):
        found.crop(ingredients)
    hits = sum(not read.opened for read in log)
    return {
        "utterance_cache": "lru" if found.speech.sounds else "none",
        "utterance_cache_hit_percent": round(100 * hits / len(log)),
    }
