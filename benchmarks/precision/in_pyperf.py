"""pyperf: both variants, each in worker processes of its own, three values from every one.

python -m benchmarks.precision.in_pyperf --processes N --copy-env --output RESULT.json
"""

import pyperf


def reference() -> None:
    """A step of the reference, built in the warm-up."""
    from benchmarks.precision.passes import step  # here, so that the process that only counts need not import torch

    step(0)()


def treatment() -> None:
    """A step of the treatment, built in the warm-up."""
    from benchmarks.precision.passes import step

    step(1)()


if __name__ == "__main__":
    runner = pyperf.Runner(program_args=("-m", "benchmarks.precision.in_pyperf"))
    runner.bench_func("reference", reference)
    runner.bench_func("treatment", treatment)
