"""Evidence: how the built parts really read, place, mask and learn, told by handles, arrays, layers and batches."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from harness.core.recipe import Value
from harness.core.workload import Built
from workloads.leak.augmentation import HIDDEN, Masking
from workloads.leak.datasets import Numbered, NumberedBatches, SegmentNumbers
from workloads.leak.device import Gather, Masks
from workloads.leak.layouts import MEL, layout_of
from workloads.leak.loss import LeakLoss, focal
from workloads.leak.model import LeakCNNMulti, MiddleColumn
from workloads.leak.readers import MEBIBYTE, ArrayReader, BlockReader, opened_as_found

NO_HANDLE: Mapping[str, Value] = {  # HDF5 is out of the way
    "layout": None,
    "chunk_cache_mib": None,
    "chunk_cache_slots": None,
    "chunk_cache_w0": None,
    "swmr": None,
    "file_index_cache": None,
    "block_cache_hit_rate": None,
}


def effective(built: Built) -> Mapping[str, Value]:
    """What the parts of one arm show of the workload's own choices."""
    return {
        **_of_reading(built.dataset),
        **_of_places(built),
        "batched_fetch": bool(getattr(built.dataset, "__getitems__", None)),
        "spec_augment": _masked_by(built),
        **_of_network(built.model, built.loss),
    }


def _of_reading(data: Any) -> Mapping[str, Value]:
    if isinstance(data, SegmentNumbers):
        return {**NO_HANDLE, "segment_read": "none", "in_memory_data": True}
    reader = (data.segments if isinstance(data, Numbered | NumberedBatches) else data).reader
    reader = reader.reader if isinstance(reader, Masking) else reader
    return _of_handle(reader) if isinstance(reader, BlockReader) else _of_arrays(reader)


def _of_handle(reader: BlockReader) -> Mapping[str, Value]:
    opened = reader.opened()
    _, slots, chunk_cache_bytes, w0 = opened.handle.id.get_access_plist().get_cache()
    return {
        "layout": layout_of(opened.mel),
        "chunk_cache_mib": chunk_cache_bytes // MEBIBYTE,
        "chunk_cache_slots": slots,
        "chunk_cache_w0": w0,
        "swmr": bool(opened.handle.swmr_mode),
        "file_index_cache": opened.file_indices is not None and len(opened.file_indices) == len(opened.labels),
        "block_cache_hit_rate": reader.hit_rate,
        "segment_read": "hdf5",
        "in_memory_data": False,
    }


def _of_arrays(reader: ArrayReader) -> Mapping[str, Value]:
    mapped = isinstance(reader.mel, np.memmap)
    with opened_as_found(reader.path) as file:
        stored = layout_of(file[MEL])
    return {
        **NO_HANDLE,
        "layout": stored,
        "segment_read": "memory_map" if mapped else "memory",
        "in_memory_data": not mapped,
    }


def _of_places(built: Built) -> Mapping[str, Value]:
    """Whether the loader brings numbers alone, for segments in float16 that lie where the model lies."""
    stage = built.device_stage
    gather = stage.gather if isinstance(stage, Masks) else stage
    numbers_alone = len(built.batch) == 1 and built.batch[0].dtype == torch.int64
    if not (isinstance(gather, Gather) and numbers_alone):
        return {"data_on_device": False}
    return {"data_on_device": gather.mel.device == _device(built.model) and gather.mel.dtype == torch.float16}


def _masked_by(built: Built) -> Value:
    """Who hides parts of most segments of the first batch: the data set item by item, the device, or nobody."""
    if len(built.batch) > 1 and _mostly_masked(built.batch[0]):
        return "per_item"
    if built.device_stage is None:
        return None
    inputs, _ = built.device_stage(tuple(part.to(_device(built.model)) for part in built.batch))
    return "on_device" if _mostly_masked(inputs) else None


def _mostly_masked(mel: Tensor) -> bool:
    """A logarithm is hardly ever exactly 0, and seven of eight masks hide at least one band."""
    return bool((mel == HIDDEN).flatten(1).any(1).float().mean() > 0.5)


def _of_network(model: nn.Module, loss: nn.Module) -> Mapping[str, Value]:
    convolutions = [one for one in model.modules() if isinstance(one, nn.Conv2d)]
    middle = all(isinstance(one, MiddleColumn) for one in convolutions)
    focused = isinstance(loss, LeakLoss) and loss.class_loss is focal
    return {
        "convolution": "middle_column" if middle else "square",
        "class_loss": "focal" if focused else "cross_entropy",
        "class_outputs": model.class_head.out_features if isinstance(model, LeakCNNMulti) else None,
    }


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
