"""Throttling: why a device's clock was held down, by the names that records have for it."""

from collections.abc import Mapping

POWER_CAP = "sw_power_cap"  # the limit of its power, which a large GPU under full load is meant to reach
# Heat or a fault: what is timed meanwhile is the machine's cooling, and no optimization.
SLOWDOWNS = frozenset({"hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"})
# Bits of nvmlClocksEventReasons in nvml.h. Idling is no throttling, nor is a clock that somebody has set.
BITS: Mapping[int, str] = {
    0x04: POWER_CAP,
    0x08: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}


def reasons(mask: int) -> tuple[str, ...]:
    """The names of the bits that are set, in their order; bits that mean no throttling have none."""
    return tuple(name for bit, name in BITS.items() if mask & bit)
