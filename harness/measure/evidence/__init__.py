"""Evidence: the settings that really took effect, observed on the running arm and never echoed from the recipe."""

from harness.measure.evidence.compiling import compiler_quiet, of_compiler
from harness.measure.evidence.layers import Watch, memory_format, of_evaluation, of_step, watching
from harness.measure.evidence.loading import of_feed
from harness.measure.evidence.updating import of_optimizer, of_training

__all__ = [
    "Watch",
    "compiler_quiet",
    "memory_format",
    "of_compiler",
    "of_evaluation",
    "of_feed",
    "of_optimizer",
    "of_step",
    "of_training",
    "watching",
]
