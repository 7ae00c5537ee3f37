"""Pools: results for all comparisons of a run, each estimated beside those that are alike."""

from collections import defaultdict
from collections.abc import Sequence

from harness.analyze.absence import Absence, absence
from harness.analyze.estimate import Estimate, estimates, point_of
from harness.analyze.evidence import Evidence
from harness.analyze.pairing import Pairs, pair
from harness.analyze.terms import UNCALIBRATED, Terms
from harness.core.optimization import Timing
from harness.core.protocol import Protocol

# Workload, size, batch, timing, and whether arms were alive in turn: restarts of such cells vary alike.
_Pool = tuple[str, str, int, Timing, bool]


def results(gathered: Sequence[Evidence], protocol: Protocol, terms: Terms = UNCALIBRATED) -> list[Estimate | Absence]:
    """An estimate or an absence for each, in order; variances are shared within one pool only."""
    found: dict[int, Estimate | Absence] = {}
    pools: dict[_Pool, list[tuple[int, Pairs]]] = defaultdict(list)
    for index, evidence in enumerate(gathered):
        pairs = pair(evidence.bursts, evidence.position)
        why = absence(evidence, pairs)
        if why is None:
            pools[_pool(evidence, pairs)].append((index, pairs))
        else:
            found[index] = why
    for members in pools.values():
        indices, paired = zip(*members, strict=True)
        found.update(zip(indices, estimates(paired, point_of(protocol), terms), strict=True))
    return [found[index] for index in range(len(gathered))]


def _pool(evidence: Evidence, pairs: Pairs) -> _Pool:
    reference = evidence.comparison.reference
    return reference.workload, reference.size, reference.batch, evidence.comparison.timing, pairs.in_turn > 0
