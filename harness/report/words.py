"""Words: every number, unit and interval as text, so that all reports say the same."""

import math
from typing import Protocol

from harness.core.protocol import Protocol as Timetable

NOTHING = "-"


def stage(name: str) -> str:
    """What holds a training back, by its name in records: `input`, `training step`."""
    return {"input": "input", "compute": "training step"}.get(name, f"stage {name}" if name else "not known")


def counted(count: int, what: str) -> str:
    """A number with its noun: `1 run`, `3 runs`."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


class Interval(Protocol):
    """A ratio with its bounds."""

    @property
    def ratio(self) -> float:
        """Times as fast."""

    @property
    def low(self) -> float:
        """At least."""

    @property
    def high(self) -> float:
        """At most; may be infinite."""


def looks(protocol: Timetable) -> str:
    """What follows the replicates that all get: `; more where an interval is wider than ±2 %, …`, or nothing."""
    if protocol.target is None:
        return ""
    counts = [str(one) for one in (protocol.replicates, *protocol.looks) if one >= protocol.replicates]
    *seen, last = dict.fromkeys(counts)
    after = f"{', '.join(seen)} and {last}" if seen else last
    return f"; more where an interval is wider than ±{100 * protocol.target:.3g} %, looked at after {after} replicates"


def one_line(text: str) -> str:
    """Foreign text without line breaks, terminal escapes or other characters that do not print."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def shortened(text: str, letters: int) -> str:
    """As much of a text as there is room for."""
    return text if len(text) <= letters else text[: letters - 1] + "…"


def called(name: str) -> str:
    """A reference's name within a sentence: `the baseline`, `the original`, or a stack as it is."""
    return f"the {name}" if name in {"baseline", "original"} else name


def verbatim(code: str) -> tuple[str, ...]:
    """The lines of foreign code, indented as they were, without characters that do not print."""
    lines = ("".join(one if one.isprintable() else " " for one in line.expandtabs(4)) for line in code.split("\n"))
    return tuple(line.rstrip() for line in lines)


def factor(value: float, places: int = 2) -> str:
    """A ratio such as `1.83`; small ones keep two significant digits."""
    if math.isinf(value):
        return "∞"
    if 0 < value < 10**-places * 10:
        return f"{value:.2g}"
    return f"{value:,.{places}f}"


def roughly(times: float) -> str:
    """A factor without an interval: `about 1.83x`, `about 87x`."""
    return f"about {factor(times, 0 if times >= 10 else 2)}x"


def ratio(estimate: Interval | None) -> str:
    """A ratio with its interval: `1.83x [1.79, 1.88]`, with as many places as the interval is worth."""
    return NOTHING if estimate is None else interval(estimate.ratio, estimate.low, estimate.high)


def interval(value: float, low: float, high: float) -> str:
    """The same of a ratio that is no estimate."""
    near = any(0.9 < end < 1.1 for end in (low, high))  # where a reader looks for the verdict
    places = 3 if high - low < 0.02 else 2 if high - low < 2 or near else 1
    return f"{factor(value, places)}x [{factor(low, places)}, {factor(high, places)}]"


def size(count: int | None) -> str:
    """Bytes such as `412 MiB`, three digits at most."""
    if count is None:
        return NOTHING
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 999.5:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.95 else f"{amount:.1f} {unit}"


def frequency(mhz: float) -> str:
    """Megahertz such as `1,980 MHz`."""
    return f"{mhz:,.0f} MHz"


def energy(joules: float) -> str:
    """Joules such as `1.24 J` or `350 mJ`, three digits; thousands are told whole."""
    if joules < 0.9995:
        return f"{1000 * joules:.3g} mJ"
    return f"{joules:.3g} J" if joules < 999.5 else f"{joules:,.0f} J"


DAY_S = 24 * 60 * 60.0


def duration(seconds: float) -> str:
    """Seconds such as `1.24 s`, `350 ms`, `2 min 5 s`, `3 h 20 min` or `26.7 days`."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    if seconds >= 4 * DAY_S:
        return f"{seconds / DAY_S:.3g} days"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def rate(samples_a_second: float) -> str:
    """A rate to three significant digits, such as `1,230 samples/s`."""
    digits = f"{samples_a_second:.3g}"
    return f"{digits if samples_a_second < 999.5 else f'{float(digits):,.0f}'} samples/s"


def change(ours: float | None, theirs: float | None) -> str:
    """From theirs to ours, in whole percent: `+20 %`, `±0 %`."""
    if ours is None or not theirs:
        return NOTHING
    percent = round(100 * (ours / theirs - 1))
    return f"{percent:+d} %" if percent else "±0 %"


def share(part: float) -> str:
    """A share of time as whole percent."""
    return f"{100 * part:.0f} %"
