"""pytest-benchmark: both variants in its calibrated mode, the reference first.

pytest benchmarks/precision/in_pytest.py --benchmark-json=RESULT.json --benchmark-max-time=SECONDS
"""

from typing import Any

from benchmarks.precision.passes import step


def test_reference(benchmark: Any) -> None:
    """Seconds for each step of the reference."""
    benchmark(step(0))


def test_treatment(benchmark: Any) -> None:
    """Seconds for each step of the treatment."""
    benchmark(step(1))
