"""Series: the windows behind every line as compact numbers, and JSON that a page may hold.

A block's reference is written once, however many comparisons share it. Each list is one life: its restart, its life,
then when each window began (seconds since the life began), how long it took (seconds) and how many samples it held: one
number where all held as many.
"""

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

from harness.analyze.evidence import Side
from harness.core.measurement import Burst
from harness.report.html.exhibit import Line

_DIGITS = 4  # more than any window is worth

Number = int | float


def series(lines: Iterable[Line]) -> dict[str, Any]:
    """The windows of all lines: `references` by block, and for each line the number of its block and its own."""
    blocks: dict[int, int] = {}
    references: list[Any] = []
    found: dict[str, Any] = {}
    for line in lines:
        side = line.evidence.reference
        if id(side) not in blocks:  # comparisons of a block share their reference's side
            blocks[id(side)] = len(references)
            references.append(list(_lives(side)))
        found[line.key] = [blocks[id(side)], list(_lives(line.evidence.treatment))]
    return {"references": references, "lines": found}


def _lives(side: Side) -> Iterator[list[Any]]:
    by_life: dict[tuple[int, int], list[Burst]] = {}
    for burst in sorted(side.bursts, key=lambda one: (one.arm.restart, one.arm.life, one.order)):
        by_life.setdefault((burst.arm.restart, burst.arm.life), []).append(burst)
    for (restart, life), bursts in by_life.items():
        samples = [one.samples for one in bursts]
        yield [
            restart,
            life,
            [rounded(one.began_s) for one in bursts],
            [rounded(one.wall_s) for one in bursts],
            samples[0] if len(set(samples)) == 1 else samples,
        ]


def rounded(value: float) -> Number | None:
    """A number to four significant digits, whole where it is; None where it is no number."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() else short


def embedded(data: object) -> str:
    """JSON that cannot end the element it stands in nor open a comment: ASCII without angle brackets or ampersands."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")
