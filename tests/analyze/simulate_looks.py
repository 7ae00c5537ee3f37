"""Coverage of intervals whose number of replicates was chosen by their width.

python -m tests.analyze.simulate_looks [POOLS]     prints the tables of docs/decisions/width-stopping.md

Configurations are true ratios of 1 with replicates drawn from a law; everything that decides is the harness's own: the
moderated variances, the looks, and who goes on. The least spread is left out, because it would only widen intervals.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from harness.analyze.estimate import BY_WIDTH, FIXED
from harness.analyze.pairing import Array, moderate
from harness.core.protocol import STANDARD, Protocol
from harness.core.records import Precision
from harness.plan.schedule import replicates_wanted

Law = Callable[[tuple[int, int], np.random.Generator], Array]  # configurations x replicates, of standard deviation 1
CONFIGS, SPREADS = (4, 10, 30), (0.010, 0.015, 0.030)


def normal(shape: tuple[int, int], generator: np.random.Generator) -> Array:
    """Replicates as they are mostly taken to be."""
    return generator.standard_normal(shape)


def heavy(shape: tuple[int, int], generator: np.random.Generator) -> Array:
    """Student's t with 5 degrees of freedom: now and then a replicate stands far out."""
    return generator.standard_t(5, shape) / np.sqrt(5 / 3)


def unlike(shape: tuple[int, int], generator: np.random.Generator) -> Array:
    """Normal, with variances that differ from ratio to ratio by an inverse chi-square law with 8 degrees of freedom."""
    return generator.standard_normal(shape) * np.sqrt(8 / generator.chisquare(8, (shape[0], 1)))


LAWS: dict[str, Law] = {"normal": normal, "t with 5 degrees of freedom": heavy, "normal, unlike variances": unlike}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Pools of configurations, and how replicates of a configuration differ."""

    law: Law
    configs: int
    spread: float  # standard deviation of a replicate's log ratio
    protocol: Protocol = STANDARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What all pools of a world came to."""

    coverage: float  # share of intervals that hold the truth
    replicates: float  # mean of all configurations
    reached: float  # share of configurations whose interval came down to the target


def simulated(world: World, point: float, pools: int) -> Outcome:
    """Measures so many pools to the end; the seed is always the same."""
    generator = np.random.default_rng(20_261)
    held: list[bool] = []
    counts: list[int] = []
    reached: list[bool] = []
    for _ in range(pools):
        logs = world.spread * world.law((world.configs, world.protocol.most_replicates), generator)
        done = measured(logs, world.protocol, point)
        half_widths, _ = _widths(logs, done, point)
        means = np.array([row[:count].mean() for row, count in zip(logs, done, strict=True)])
        held += list(np.abs(means) <= np.array(half_widths))
        reached += [width <= (world.protocol.target or 0.0) for width in half_widths]
        counts += done
    return Outcome(coverage=float(np.mean(held)), replicates=float(np.mean(counts)), reached=float(np.mean(reached)))


def measured(logs: Array, protocol: Protocol, point: float) -> list[int]:
    """Replicates of each configuration of a pool when no look asks for more; all of one look are made before the next.

    As in a campaign, every look sees what the whole pool has by then.
    """
    done = [protocol.replicates] * len(logs)
    while True:
        widths, outlying = _widths(logs, done, point)
        known = [Precision(half_width=width, outlying=apart) for width, apart in zip(widths, outlying, strict=True)]
        wanted = [replicates_wanted(n, one, protocol, complete=True) for n, one in zip(done, known, strict=True)]
        if wanted == done:
            return done
        done = wanted


def _widths(logs: Array, done: Sequence[int], point: float) -> tuple[list[float], list[bool]]:
    variances = np.array([row[:count].var(ddof=1) for row, count in zip(logs, done, strict=True)])
    freedom = np.array(done) - 1.0
    spread = moderate(variances, freedom)
    assert spread is not None
    half_widths = stats.t.ppf(point, spread.freedom) * np.sqrt(spread.variances / np.array(done))
    return [float(one) for one in half_widths], [bool(one) for one in spread.outlying]


def main(pools: int) -> None:
    """Prints a Markdown table for each law."""
    for name, law in LAWS.items():
        heads = [f"spread {100 * spread:.1f} %" for spread in SPREADS]
        rows = [f"| {name}: configurations of a pool | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
        for configs in CONFIGS:
            found = []
            for spread in SPREADS:
                world = World(law=law, configs=configs, spread=spread)
                ours, other = (simulated(world, point, pools * 10 // configs) for point in (BY_WIDTH, FIXED))
                text = f"{100 * ours.coverage:.1f} % ({ours.replicates:.1f}; {100 * ours.reached:.0f} %)"
                found.append(f"{text}, else {100 * other.coverage:.1f} % ({other.replicates:.1f})")
            rows.append(f"| {configs} | {' | '.join(found)} |")
        sys.stdout.write("\n".join(rows) + "\n\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
