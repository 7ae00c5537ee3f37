"""Designs: which comparisons answer a question; each is a pure function from a scope to comparisons and holes."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from harness.core.cell import Comparison
from harness.core.claim import Tried, Untried
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import Hole
from harness.plan.calibration import calibration
from harness.plan.claimed import Ground, concerns, resolve
from harness.plan.crossed import factorial, matrix, pairs, removed
from harness.plan.entries import Entry, Scope, based_on, compare, everything, hindrance, ordered, single


def alone(scope: Scope) -> Iterator[Entry]:
    """All optimizations of the training step together, then each alone, then what the real system had switched on."""
    everything_on, *found = combined(scope)
    yield everything_on
    for optimization in ordered(scope):
        yield single(scope, optimization, optimization.usual_level(scope.environment))
    yield from found


def combined(scope: Scope) -> Iterator[Entry]:
    """All optimizations of the training step together, and what the real system had switched on."""
    yield compare(scope, "everything", everything(scope))
    if scope.as_found and scope.as_found != scope.reference.switches:
        yield compare(scope, "as_found", scope.as_found)


def levels(scope: Scope) -> Iterator[Entry]:
    """Each optimization at each of its levels."""
    for optimization in ordered(scope):
        for level in sorted(optimization.levels, key=str) or (None,):
            yield single(scope, optimization, level)


def against_itself(scope: Scope) -> Iterator[Entry]:
    """The reference against ten copies of itself: every ratio is 1, so what differs is the machine's noise."""
    for copy in range(10):
        timing = scope.probe or Timing.STEP
        cell = scope.reference
        yield Comparison(subject="itself", treatment=cell, reference=cell, timing=timing, copy=copy)


def claims(scope: Scope) -> Iterator[Entry]:
    """What tests the ledger's claims: each pair of stacks once, every claim on a reference of its own."""
    if scope.reference.switches or scope.probe:
        raise Mistake("A claim names its own reference and what it is timed on; leave out --reference and --probe.")
    entries = list(_of_claims(scope))
    # Every block pays for its reference: what shares one with most others is decided at the least cost, so it is first.
    sharing = Counter((one.reference, one.timing) for one in entries if isinstance(one, Comparison))
    yield from sorted(
        entries, key=lambda one: -sharing[one.reference, one.timing] if isinstance(one, Comparison) else 0
    )


def _of_claims(scope: Scope) -> Iterator[Entry]:
    ground = Ground(workload=scope.workload, environment=scope.environment, known=scope.known)
    seen: list[Tried] = []
    for claim in scope.claims:
        found = resolve(claim, ground) if concerns(claim, scope.workload) else None
        if isinstance(found, Untried):
            yield Hole(workload=scope.workload.name, subject=claim.name, reason=found.reason)
        elif found and (same := replace(found, shortfalls=())) not in seen:
            seen.append(same)
            yield _tested(scope, found)


def _tested(scope: Scope, tried: Tried) -> Entry:
    allowance_s = scope.protocol.start_allowance_s
    slow = next((one for one in tried.treatment if scope.known[one.name].start_s > allowance_s), None)
    if slow and (reason := hindrance(scope, scope.known[slow.name])):
        return Hole(workload=scope.workload.name, subject=tried.subject, reason=reason)
    return compare(based_on(scope, tried.reference), tried.subject, tried.treatment, tried.timing)


DESIGNS: Mapping[str, Callable[[Scope], Iterator[Entry]]] = {
    "alone": alone,
    "combined": combined,
    "levels": levels,
    "against_itself": against_itself,
    "calibration": calibration,
    "claims": claims,
    "matrix": matrix,
    "removed": removed,
    "pairs": pairs,
    "factorial": factorial,
}
# Those that --only narrows to the switches that are named, instead of taking the design's place.
CROSSED = frozenset({"matrix", "removed", "pairs", "factorial"})
