"""Pools: results for all comparisons of a run, each estimated beside those that are alike."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.analyze.absence import Absence, absence
from harness.analyze.estimate import Estimate, estimates, point_of
from harness.analyze.evidence import Evidence
from harness.analyze.pairing import Pairs, pair
from harness.analyze.terms import UNCALIBRATED, Terms
from harness.core.measurement import Burst
from harness.core.optimization import Timing
from harness.core.protocol import Protocol

# Workload, size, batch, timing, and whether arms were alive in turn: restarts of such cells vary alike.
_Pool = tuple[str, str, int, Timing, bool]


def results(gathered: Sequence[Evidence], protocol: Protocol, terms: Terms = UNCALIBRATED) -> list[Estimate | Absence]:
    """An estimate or an absence for each, in order; variances are shared within one pool only."""
    found: dict[int, Estimate | Absence] = {}
    paired: dict[int, Pairs] = {}
    for index, evidence in enumerate(gathered):
        pairs = pair(evidence.bursts, evidence.position)
        why = absence(evidence, pairs)
        if why is None:
            paired[index] = pairs
        else:
            found[index] = why
    found.update(_estimated(gathered, paired, protocol, terms))
    return [found[index] for index in range(len(gathered))]


def energies(gathered: Sequence[Evidence], protocol: Protocol, terms: Terms = UNCALIBRATED) -> list[Estimate | None]:
    """For each, in order: samples a joule over the reference's, estimated as rates are; above 1 is thriftier.

    None where there is no ratio of rates either, where the device counts no energy, and where its counter stood still
    in a burst: bursts that it has moved in alone would be too dear.
    """
    paired: dict[int, Pairs] = {}
    for index, evidence in enumerate(gathered):
        counted = [one for one in evidence.bursts if one.energy_j is not None]
        if counted and all(map(_joules, counted)):
            pairs = pair(counted, evidence.position, _joules)
            if absence(evidence, pairs) is None:
                paired[index] = pairs
    # How restarts differ in samples a joule, no calibration has seen.
    found = _estimated(gathered, paired, protocol, replace(terms, prior=None))
    return [found.get(index) for index in range(len(gathered))]


def _estimated(
    gathered: Sequence[Evidence], paired: Mapping[int, Pairs], protocol: Protocol, terms: Terms
) -> dict[int, Estimate]:
    pools: dict[_Pool, list[int]] = defaultdict(list)
    for index, pairs in paired.items():
        pools[_pool(gathered[index], pairs)].append(index)
    found: dict[int, Estimate] = {}
    for (*_, timing, in_turn), indices in pools.items():
        # A calibration times steps of arms that are alive together, and lends to no cell that varies otherwise.
        own = terms if timing is Timing.STEP and not in_turn else replace(terms, prior=None)
        estimated = estimates([paired[index] for index in indices], point_of(protocol), own)
        found.update(zip(indices, estimated, strict=True))
    return found


def _pool(evidence: Evidence, pairs: Pairs) -> _Pool:
    reference = evidence.comparison.reference
    return reference.workload, reference.size, reference.batch, evidence.comparison.timing, pairs.in_turn > 0


def _joules(burst: Burst) -> float:
    return burst.energy_j or 0.0
