"""How often 95 % intervals hold where the comparisons of a block share one reference, and the luck of its process.

python -m tests.analyze.simulate_references [POOLS]     prints the table of docs/decisions/shared-references.md

A replicate's log ratio is the pace of the reference's process less that of the treatment's; every true ratio is 1.
"""

import math
import sys
from dataclasses import dataclass

import numpy as np

from harness.analyze.estimate import BY_WIDTH, estimates
from tests.analyze.synthetic import pairs_of

SHAPES = ((1, 4, 2), (1, 8, 2), (1, 8, 4), (3, 8, 2), (6, 5, 2))  # blocks, comparisons in each, replicates
SPREADS = ((4.0, 0.0), (4.0, 1.0), (3.0, 3.0), (1.0, 4.0))  # of the pace of references and of treatments, per cent


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What all pools of one shape came to."""

    coverage: float  # share of intervals that hold the truth
    half_width: float  # median, of the log ratio


def outcome(
    shape: tuple[int, int, int], spreads: tuple[float, float], pools: int, *, known: bool, seed: int = 11
) -> Outcome:
    """Pools of that shape, in which it is known who shares a reference or, as before 0.3.0, is not."""
    blocks, size, replicates = shape
    generator, held, half_widths = np.random.default_rng(seed), [], []
    names = [str(block) for block in range(blocks) for _ in range(size)]
    for _ in range(pools):
        references = generator.normal(0, spreads[0] / 100, (blocks, 1, replicates))
        logs = (references - generator.normal(0, spreads[1] / 100, (blocks, size, replicates))).reshape(-1, replicates)
        pool = [pairs_of(*((float(one),) for one in row)) for row in logs]
        for one in estimates(pool, BY_WIDTH, blocks=names if known else ()):
            held.append(one.low <= 1 <= one.high)
            half_widths.append(math.log(one.high / one.low) / 2)
    return Outcome(coverage=float(np.mean(held)), half_width=float(np.median(half_widths)))


def main() -> None:
    """Prints the table in Markdown."""
    pools = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    titles = (f"{reference:g} and {treatment:g} %" for reference, treatment in SPREADS)
    print("| blocks, comparisons in each, replicates | " + " | ".join(titles) + " |")
    print("|---|" + "---|" * len(SPREADS))
    for shape in SHAPES:
        found = [[outcome(shape, spreads, pools, known=known) for known in (False, True)] for spreads in SPREADS]
        parts = (" -> ".join(f"{100 * one.coverage:.0f} ±{100 * one.half_width:.1f}" for one in both) for both in found)
        print(f"| {', '.join(map(str, shape))} | " + " | ".join(parts) + " |")


if __name__ == "__main__":
    main()
