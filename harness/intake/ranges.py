"""Ranges: what a number from a stranger may be, so that every ratio, logarithm and interval of it exists.

The widest interval is that of two restarts whose log ratios lie 83 apart, as the rates allowed here can: its half-width
is 12.7 times 41, and the exponential of that is still a number (docs/decisions/strangers-results.md).
"""

from harness.intake.refusal import Unfit

MOST = 2**63 - 1  # bytes, and every other count
SHORTEST_S, LONGEST_S = 1e-6, 1e7  # no clock tells less, and nobody measures for four months
SLOWEST, FASTEST = 1e-6, 1e12  # samples a second


def within(value: float | None, low: float, high: float, where: str) -> None:
    """Raises Unfit for a number outside; None is no number and is left alone."""
    if value is not None and not low <= value <= high:  # nan is outside everything
        allowed = f"be at least {low:g}" if high >= MOST else f"lie between {low:g} and {high:g}"
        raise Unfit(f"{where} is {value:g}, and must {allowed}")
