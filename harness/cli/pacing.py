"""Pacing: how many restarts a wish asks for, and how narrow its intervals are to become."""

import re
from dataclasses import replace

from harness.core.mistake import Mistake
from harness.core.protocol import Protocol

NO_TARGET = "none"
WIDEST = 0.5  # half-width of a log ratio; a wider target would be met by everything


def paced(protocol: Protocol, restarts: int | None, rounds: int | None, target: str | None) -> Protocol:
    """The protocol with what was asked for; raises Mistake for a target that cannot be.

    Whoever says how many restarts or rounds there are has said how much is measured. Then there are no further
    restarts, unless a target is asked for too.
    """
    counted = replace(protocol, restarts=restarts or protocol.restarts)
    if rounds:
        counted = replace(counted, rounds=rounds, timed_s=None)
    if target is None:
        return counted if restarts is None and rounds is None else counted.fixed()
    width = target_of(target)
    if width is None:
        return counted.fixed()
    aimed = replace(counted, target=width)
    if aimed.restarts >= aimed.most_restarts:
        raise Mistake(
            f"After {aimed.restarts} restarts there is no look left at which --target could add more; "
            f"leave out --target, or give fewer --restarts."
        )
    return aimed


def target_of(text: str) -> float | None:
    """A half-width from `2%` or `0.5%`; None for `none`; raises Mistake for anything else."""
    if text == NO_TARGET:
        return None
    match = re.fullmatch(r"([0-9]{1,4}(?:\.[0-9]{1,4})?) ?%", text)
    width = float(match[1]) / 100 if match else 0.0
    if not 0 < width <= WIDEST:
        raise Mistake(f"'{text}' is no target; write 2% (at most {100 * WIDEST:.0f}%), or none for fixed restarts.")
    return width


def target_text(protocol: Protocol) -> str:
    """A protocol's target as the command line takes it."""
    return NO_TARGET if protocol.target is None else f"{100 * protocol.target:.10g}%"
