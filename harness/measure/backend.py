"""Process-wide switches, all set explicitly: the process belongs to one arm, so nothing is ever undone."""

import gc

import torch
from torch import multiprocessing

from harness.core.recipe import Recipe, Value


def settle_backend(recipe: Recipe) -> None:
    """Sets threads, precisions and cuDNN as the recipe says; PyTorch's own defaults are not trusted."""
    torch.set_num_threads(recipe.threads)
    torch.set_float32_matmul_precision(recipe.matmul_precision)
    torch.backends.cudnn.allow_tf32 = recipe.tf32_convolutions
    torch.backends.cudnn.benchmark = recipe.cudnn_benchmark
    torch.backends.cudnn.deterministic = recipe.cudnn_deterministic
    torch.autograd.set_detect_anomaly(recipe.anomaly_detection)
    _settle_garbage_collector(recipe)
    _settle_sharing(recipe)


def effective_backend() -> dict[str, Value]:
    """The same switches, read back."""
    return {
        "threads": torch.get_num_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "tf32_convolutions": torch.backends.cudnn.allow_tf32,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "anomaly_detection": _remembers_origins(),
        "automatic_collection": gc.isenabled(),
        "frozen_objects": gc.get_freeze_count() > 0,
    }


def _settle_sharing(recipe: Recipe) -> None:
    if len(multiprocessing.get_all_sharing_strategies()) > 1:  # macOS has but one, and refuses the other's name
        multiprocessing.set_sharing_strategy(recipe.sharing_strategy)


def _settle_garbage_collector(recipe: Recipe) -> None:
    if recipe.garbage_collector != "off":
        gc.unfreeze()
        gc.enable()
        return
    gc.collect()
    gc.freeze()  # what the imports have made is not looked at again, even by a collection that somebody asks for
    gc.disable()


def _remembers_origins() -> bool:
    """Whether operators note where they were called, so that a NaN in the backward pass can be told its origin."""
    with torch.enable_grad():
        origin = (torch.ones((), requires_grad=True) * 1).grad_fn
    kept: dict[str, object] = getattr(origin, "metadata", {})  # typed as a method where it is a mapping
    return torch.is_anomaly_check_nan_enabled() and "traceback_" in kept
