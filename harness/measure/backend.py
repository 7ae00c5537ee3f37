"""Process-wide switches, all set explicitly: the process belongs to one arm, so nothing is ever undone."""

import torch

from harness.core.recipe import Recipe, Value


def settle_backend(recipe: Recipe) -> None:
    """Sets threads, precisions and cuDNN as the recipe says; PyTorch's own defaults are not trusted."""
    torch.set_num_threads(recipe.threads)
    torch.set_float32_matmul_precision(recipe.matmul_precision)
    torch.backends.cudnn.allow_tf32 = recipe.tf32_convolutions
    torch.backends.cudnn.benchmark = recipe.cudnn_benchmark
    torch.backends.cudnn.deterministic = recipe.cudnn_deterministic


def effective_backend() -> dict[str, Value]:
    """The same switches, read back."""
    return {
        "threads": torch.get_num_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "tf32_convolutions": torch.backends.cudnn.allow_tf32,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
    }
