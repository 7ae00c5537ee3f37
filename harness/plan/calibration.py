"""The design `calibration`: the reference against itself, and against itself with delays of known length."""

from collections.abc import Iterator
from dataclasses import replace

from harness.core.cell import Comparison
from harness.core.control import CONTROLS, SHARES
from harness.core.optimization import Timing
from harness.plan.entries import Entry, Scope, single

COPIES = 20  # of references in all: fewer could not tell a sound machine from one that is not


def calibration(scope: Scope) -> Iterator[Entry]:
    """The reference beside delays of 3 and 10 % and against copies of itself, twenty over all workloads.

    The delays come first: where time runs out, what they say cannot be had from anything else.
    """
    controlled = replace(scope, known={**scope.known, **CONTROLS})
    for share in SHARES:
        yield from (single(controlled, control, share) for control in CONTROLS.values())
    for copy in range(copies(scope)):
        yield Comparison(
            subject="itself",
            treatment=scope.reference,
            reference=scope.reference,
            timing=scope.probe or Timing.STEP,
            copy=copy,
        )


def copies(scope: Scope) -> int:
    """One workload's share of all copies, and at least as many as a block has places."""
    return max(-(-COPIES // scope.workloads), scope.protocol.treatments)
