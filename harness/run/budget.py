"""The budget: how long a run may take, what of it is no measurement, and whether it can come to anything."""

import os
import re
from math import ceil
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime

from harness.core.mistake import Mistake
from harness.plan.cost import Forecast

REPORT_S = 5.0  # kept back from the budget for the report
BEGIN_S = 3.0  # between the check of a budget and the first arm
LONG_S = 300.0  # beyond which a time is told in minutes
STARTED = 19  # place of the start among the fields of /proc/self/stat that stand behind the name


def seconds_of(text: str) -> float | None:
    """Seconds from `90s`, `4m40s` or `2h`; None for `none`; raises Mistake for anything else."""
    if text == "none":
        return None
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or not match:
        raise Mistake(f"'{text}' is not a time; write 90s, 4m40s, 2h or none.")
    hours, minutes, seconds = (int(group or 0) for group in match.groups())
    return 3600.0 * hours + 60.0 * minutes + seconds


def age_s() -> float:
    """Seconds since this process began, imports included, which the budget pays for.

    By the clock that counts from the start of the machine: the time of day may be set meanwhile.
    """
    ticks = int(Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()[STARTED])
    return max(0.0, clock_gettime(CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def check_budget(text: str, spent_s: float, forecast: Forecast) -> None:
    """Raises Mistake, with a time that would do, for a budget that ends before there is a single ratio."""
    budget_s, firsts_s = seconds_of(text), [forecast.first_ratio_s(*one) for one in forecast.first_ratios()]
    if budget_s is None or forecast.has_ratio or not firsts_s:
        return
    beside_s = spent_s + BEGIN_S + REPORT_S
    if budget_s < min(firsts_s) + beside_s:
        each = f" ({_time(sum(firsts_s) + beside_s)} for one of each workload)" if len(firsts_s) > 1 else ""
        raise Mistake(
            f"--budget {text} is too short for a ratio here; give {_time(min(firsts_s) + beside_s)} or more{each}, or "
            "take a smaller --size."
        )


def _time(seconds: float) -> str:
    """As `--budget` takes it, rounded up to five seconds, and to whole minutes where it is long."""
    rounded = 5 * ceil(seconds / 5) if seconds < LONG_S else 60 * ceil(seconds / 60)
    minutes, rest = divmod(rounded, 60)
    return f"{minutes}m" * (minutes > 0) + f"{rest}s" * (rest > 0)
