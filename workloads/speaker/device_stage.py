"""What is done to a batch that has reached the device: int16 becomes float32, and raw ingredients are mixed there."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.speaker.augmentation import POWER_FLOOR
from workloads.speaker.data import LARGEST
from workloads.speaker.reading import FULL_SCALE

Batch = tuple[Tensor, ...]
Pair = tuple[Tensor, Tensor]  # waveforms (rows, samples) float32, the speakers' numbers (batch,)


def device_stage(_folder: Path, _size: Size, recipe: Recipe, _device: torch.device) -> Callable[[Batch], Pair] | None:
    """The stage that the recipe's batches need, or None for single float32 waveforms, which are complete."""
    if recipe.choice("augmentation") == "device":
        return augmented
    if recipe.choice("transfer_type") == "int16":
        return widened
    return None if recipe.choice("objective") == "aam_softmax" else unpaired


def unpaired(batch: Batch) -> Pair:
    """Pairs (batch, 2, samples) become rows (2 batch, samples); single waveforms stay as they are."""
    waveforms, labels = batch
    return waveforms.flatten(0, -2), labels


def widened(batch: Batch) -> Pair:
    """Waveforms in int16 with their peaks (batch, 1) become float32."""
    stored, peaks, labels = batch
    return unpaired((stored.float() * (peaks / LARGEST), labels))


def augmented(batch: Batch) -> Pair:
    """The batch of `RawCrops`, its noises added at their ratios and its rooms applied, all rows at once, in float32.

    On CUDA the order in which several talkers are added to a row is not fixed, so that the last bit may differ.
    """
    crops, labels, noises, noised_rows, ratios_db, responses, room_rows = batch
    speech, added = crops.float() / FULL_SCALE, noises.float() / FULL_SCALE
    gains = 10 ** ((_power_db(speech)[noised_rows] - _power_db(added) - ratios_db) / 20)
    waveforms = speech.index_add(0, noised_rows, gains[:, None] * added) if len(added) else speech
    if len(responses):
        waveforms[room_rows] = reverberated(speech[room_rows], responses.float())
    return waveforms, labels


def reverberated(speech: Tensor, responses: Tensor) -> Tensor:
    """Rows of speech (rows, samples) in rooms (rows, longest) brought to energy one, cut to the speech's length."""
    rooms = responses / responses.square().sum(dim=1, keepdim=True).sqrt()
    samples = speech.shape[1]
    whole = 1 << (samples + rooms.shape[1] - 2).bit_length()  # a power of two that holds all of the convolution
    convolved: Tensor = torch.fft.irfft(torch.fft.rfft(speech, whole) * torch.fft.rfft(rooms, whole), whole)
    return convolved[:, :samples]


def _power_db(sounds: Tensor) -> Tensor:
    power_db: Tensor = 10 * torch.log10(sounds.square().mean(dim=1) + POWER_FLOOR)
    return power_db
