"""Pools: results for all comparisons of a run, each estimated beside those that are alike."""

from collections import defaultdict
from collections.abc import Sequence

from harness.analyze.absence import Absence, absence
from harness.analyze.estimate import Estimate, estimates
from harness.analyze.evidence import Evidence
from harness.analyze.pairing import Pairs, pair
from harness.core.optimization import Timing

_Pool = tuple[str, str, int, Timing]  # workload, size, batch, timing: restarts of such cells vary alike


def results(gathered: Sequence[Evidence]) -> list[Estimate | Absence]:
    """An estimate or an absence for each, in order; variances are shared within one pool only."""
    found: dict[int, Estimate | Absence] = {}
    pools: dict[_Pool, list[tuple[int, Pairs]]] = defaultdict(list)
    for index, evidence in enumerate(gathered):
        pairs = pair(evidence.bursts, evidence.position)
        why = absence(evidence, pairs)
        if why is None:
            pools[_pool(evidence)].append((index, pairs))
        else:
            found[index] = why
    for members in pools.values():
        indices, paired = zip(*members, strict=True)
        found.update(zip(indices, estimates(paired), strict=True))
    return [found[index] for index in range(len(gathered))]


def _pool(evidence: Evidence) -> _Pool:
    reference = evidence.comparison.reference
    return reference.workload, reference.size, reference.batch, evidence.comparison.timing
