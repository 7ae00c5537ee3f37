"""How often 95 % intervals hold where the comparisons of a block share one reference, and the luck of its process.

python -m tests.analyze.simulate_references [POOLS]     prints the tables of docs/decisions/shared-references.md, where
the number of replicates is fixed, and of docs/decisions/width-stopping.md, where widths end the measurement

A replicate's log ratio is the pace of the reference's process less that of the treatment's; every true ratio is 1.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analyze.estimate import BY_WIDTH, FIXED, Estimate, estimates
from harness.analyze.pairing import Array, Pairs, Replicate
from harness.core.protocol import BRIEF, PROTOCOLS, Protocol
from harness.core.records import Precision
from harness.plan.schedule import replicates_wanted

SHAPES = ((1, 4, 2), (1, 8, 2), (1, 8, 4), (3, 8, 2), (6, 5, 2))  # blocks, comparisons in each, replicates
SPREADS = ((4.0, 0.0), (4.0, 1.0), (3.0, 3.0), (1.0, 4.0))  # of the pace of references and of treatments, per cent
LOOKED = ((1, 4), (1, 8), (3, 4), (6, 5))  # blocks, comparisons in each
LOOKED_SPREADS = ((4.0, 1.0), (3.0, 3.0), (1.5, 0.75), (1.0, 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What all pools of one shape came to."""

    coverage: float  # share of intervals that hold the truth
    half_width: float  # median, of the log ratio
    replicates: float  # mean of all comparisons


def outcome(
    shape: tuple[int, int, int], spreads: tuple[float, float], pools: int, *, known: bool, seed: int = 11
) -> Outcome:
    """Pools of that shape, in which it is known who shares a reference or, as before 0.3.0, is not."""
    blocks, size, replicates = shape
    names = _names(blocks, size) if known else ()
    made = (_made((blocks, size), replicates, spreads, np.random.default_rng([seed, one])) for one in range(pools))
    return _summed([estimates(_pairs(logs, [replicates] * len(logs)), FIXED, blocks=names) for logs in made])


def looked(
    shape: tuple[int, int], spreads: tuple[float, float], pools: int, protocol: Protocol = BRIEF, seed: int = 11
) -> Outcome:
    """Pools of so many blocks of that size, measured until no look of the protocol asks for more."""
    names = _names(*shape)
    made = (_made(shape, protocol.most_replicates, spreads, np.random.default_rng([seed, one])) for one in range(pools))
    return _summed([_measured(logs, protocol, names) for logs in made])


def _measured(logs: Array, protocol: Protocol, names: Sequence[str]) -> Sequence[Estimate]:
    done = [protocol.replicates] * len(logs)
    while True:
        found = estimates(_pairs(logs, done), BY_WIDTH, blocks=names)
        known = [Precision(half_width=one.half_width, outlying=one.outlying) for one in found]
        wanted = [replicates_wanted(n, one, protocol, complete=True) for n, one in zip(done, known, strict=True)]
        if wanted == done:
            return found
        done = wanted


def _names(blocks: int, size: int) -> list[str]:
    return [str(block) for block in range(blocks) for _ in range(size)]


def _made(
    shape: tuple[int, int], replicates: int, spreads: tuple[float, float], generator: np.random.Generator
) -> Array:
    references = generator.normal(0, spreads[0] / 100, (shape[0], 1, replicates))
    return (references - generator.normal(0, spreads[1] / 100, (*shape, replicates))).reshape(-1, replicates)


def _pairs(logs: Array, counts: Sequence[int]) -> list[Pairs]:
    """The first so many replicates of each configuration."""
    return [
        Pairs(
            replicates=tuple(
                Replicate(log_ratio=float(one), window_pairs=(float(one),), number=number)
                for number, one in enumerate(row[:count])
            ),
            drift=0.0,
        )
        for row, count in zip(logs, counts, strict=True)
    ]


def _summed(pools: Sequence[Sequence[Estimate]]) -> Outcome:
    found = [one for pool in pools for one in pool]
    held = np.array([one.low <= 1 <= one.high for one in found])
    return Outcome(
        coverage=float(held.mean()),
        half_width=float(np.median([math.log(one.high / one.low) / 2 for one in found])),
        replicates=float(np.mean([one.processes for one in found])),
    )


def _table(
    head: str, shapes: Sequence[tuple[int, ...]], spreads: Sequence[tuple[float, float]], cell: Callable[..., str]
) -> None:
    titles = (f"{reference:g} and {treatment:g} %" for reference, treatment in spreads)
    print(f"| {head} | " + " | ".join(titles) + " |")
    print("|---|" + "---|" * len(spreads))
    for shape in shapes:
        cells = (cell(shape, one) for one in spreads)
        print(f"| {', '.join(map(str, shape))} | " + " | ".join(cells) + " |", flush=True)
    print()


def main() -> None:
    """Prints the tables in Markdown."""
    pools = int(sys.argv[1]) if len(sys.argv) > 1 else 400

    def fixed(shape: tuple[int, int, int], spreads: tuple[float, float]) -> str:
        both = (outcome(shape, spreads, pools, known=known) for known in (False, True))
        return " -> ".join(f"{100 * one.coverage:.0f} ±{100 * one.half_width:.1f}" for one in both)

    _table("blocks, comparisons in each, replicates", SHAPES, SPREADS, fixed)
    for name, protocol in PROTOCOLS.items():

        def by_width(shape: tuple[int, int], spreads: tuple[float, float], protocol: Protocol = protocol) -> str:
            found = looked(shape, spreads, pools, protocol)
            return f"{100 * found.coverage:.1f} % ({found.replicates:.1f})"

        _table(f"`{name}`: blocks, comparisons in each", LOOKED, LOOKED_SPREADS, by_width)


if __name__ == "__main__":
    main()
