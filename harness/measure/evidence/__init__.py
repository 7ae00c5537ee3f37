"""Evidence: the settings that really took effect, observed on the running arm and never echoed from the recipe."""

from harness.measure.evidence.compiling import compiler_quiet, of_compiler, run_in_eager
from harness.measure.evidence.habits import of_backward, of_habits, of_interlude, of_marks, tally
from harness.measure.evidence.kernels import of_kernels
from harness.measure.evidence.launching import of_launch
from harness.measure.evidence.layers import Watch, memory_format, of_evaluation, of_step, watching
from harness.measure.evidence.loading import of_ahead, of_batch, of_epoch, of_feed, of_page_cache
from harness.measure.evidence.precision import of_precision
from harness.measure.evidence.updating import (
    backwards_into,
    of_capture,
    of_learning_rate,
    of_optimizer,
    of_training,
)

__all__ = [
    "Watch",
    "backwards_into",
    "compiler_quiet",
    "memory_format",
    "of_ahead",
    "of_backward",
    "of_batch",
    "of_capture",
    "of_compiler",
    "of_epoch",
    "of_evaluation",
    "of_feed",
    "of_habits",
    "of_interlude",
    "of_kernels",
    "of_launch",
    "of_learning_rate",
    "of_marks",
    "of_optimizer",
    "of_page_cache",
    "of_precision",
    "of_step",
    "of_training",
    "run_in_eager",
    "tally",
    "watching",
]
