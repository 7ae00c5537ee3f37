"""How many ratios does an hour bring, each known to ±5 %, by this version and by 0.2.0?

python -m benchmarks.ratios_per_hour add LABEL SECONDS RUN   appends what a run of so many seconds brought
python -m benchmarks.ratios_per_hour table                    prints the table for docs/decisions

A session of some minutes seldom brings an interval down to ±5 %. What it would take is told from the width that it
reached: intervals narrow with the root of the time that is spent on them. So a ratio known to ±10 % stands for a
quarter of one known to ±5 %. The median ratio of a session counts, and a ratio is what a reader sees of the effect on
training steps: timed there, or composed from the part that was timed.
"""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from harness.analyze.matrix import Row
from harness.core.records import Window
from harness.results import read_kept
from harness.store import read_records

RECORDS = Path(__file__).with_name("ratios_per_hour.jsonl")
WANTED = math.log(1.05)  # half-width of an interval
HOUR_S = 3600.0
BEFORE, AFTER = "0.2.0", "0.3.0"


def line_of(label: str, seconds: float, folder: Path) -> dict[str, Any]:
    """What a run brought: the half-widths of its ratios, and how long its windows were."""
    matrix = read_kept(folder).matrix
    windows_s = sum(one.wall_s for one in read_records(folder) if isinstance(one, Window))
    return {
        "label": label,
        "workload": matrix.workloads[0],
        "seconds": seconds,
        "windows_s": round(windows_s, 1),
        "half_widths": [round(one, 4) for one in _half_widths(matrix.answers)],
    }


def _half_widths(rows: Sequence[Row]) -> Iterator[float]:
    for row in rows:
        if row.shown is not None and math.isfinite(row.shown.half_width):
            yield row.shown.half_width


def an_hour(line: dict[str, Any]) -> float:
    """Ratios to ±5 % in an hour, if all were as wide as the session's median one; 0 where it brought none."""
    widths = line["half_widths"]
    if not widths:
        return 0.0
    return HOUR_S / (line["seconds"] / len(widths)) * (WANTED / median(widths)) ** 2


def table(lines: Sequence[dict[str, Any]]) -> str:
    """A line for each workload and version, and their geometric mean."""
    head = ("workload", "version", "ratios", "in", "half-width, median", "to ±5 % an hour", "time in windows")
    text = ["| " + " | ".join(head) + " |\n|" + "---|" * len(head)]
    found = {(line["workload"], line["label"]): line for line in lines}
    for (workload, label), line in sorted(found.items()):
        widths = line["half_widths"]
        wide = f"±{100 * math.expm1(median(widths)):.1f} %" if widths else "-"
        share = f"{100 * line['windows_s'] / line['seconds']:.0f} %"
        told = (f"{len(widths)}", f"{line['seconds']:.0f} s", wide, f"{an_hour(line):.1f}", share)
        text.append(f"| {workload} | {label} | " + " | ".join(told) + " |")
    both = [(found.get((name, BEFORE)), found.get((name, AFTER))) for name in sorted({name for name, _ in found})]
    times = [an_hour(after) / an_hour(before) for before, after in both if before and after and before["half_widths"]]
    if times:
        mean = math.exp(fmean(map(math.log, times)))
        text.append(f"\n{AFTER} over {BEFORE}, geometric mean of {len(times)} workloads: {mean:.1f} times as many.")
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["add"]:
        with RECORDS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line_of(sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))) + "\n")
    else:
        print(table([json.loads(one) for one in RECORDS.read_text(encoding="utf-8").splitlines()]), end="")
