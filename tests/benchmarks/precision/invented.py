"""Invented answers of tools."""

from dataclasses import replace
from typing import Any

from benchmarks.precision.records import Record

ANSWER = Record(
    condition="nothing else", given_s=30.0, truth=1.05, tool="asv", repetition=0, used_s=29.5,
    settings={"seconds": 6.5}, version="0.6.6", machine="cpu-2-invented", environment="0123456789ab",
    began="2026-11-22T01:00:00+00:00", ratio=1.05, low=1.04, high=1.06, changed=True, method="", failure=None,
)  # fmt: skip


def record(**changes: Any) -> Record:
    """An answer that is right, but for what is named."""
    return replace(ANSWER, **changes)
