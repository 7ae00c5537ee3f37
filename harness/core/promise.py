"""Promises: what a run's reader must know of each optimization, kept in the plan so that it outlives the catalogue."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.core.optimization import Numerics, Optimization


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """How an optimization may change losses, what proves it, and what makes it pointless."""

    numerics: Numerics
    proof: tuple[str, ...]  # names of effective settings
    pointless_where: dict[str, str]  # `setting value` as it is seen in an arm -> why nothing can then be gained


def promises(optimizations: Iterable[Optimization]) -> dict[str, Promise]:
    """The promises of optimizations by their names."""
    return {
        one.name: Promise(
            numerics=one.numerics, proof=tuple(sorted(one.proof)), pointless_where=dict(one.pointless_where)
        )
        for one in optimizations
    }
