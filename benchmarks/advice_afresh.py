"""Does what `tune` advises hold when it is measured afresh? Asked of the five trainings of docs/examples.

python -m benchmarks.advice_afresh measure BUDGET EXAMPLE …   tunes each so long (7m), checks it, appends a line of each
python -m benchmarks.advice_afresh table                      prints the table for docs/own-training.md

An advised configuration is measured again in fresh processes from another seed, by `advise --check`. It holds where the
second verdict is faster, losses agree again, and the ratio is no further from the first than both intervals allow.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from harness.analyze.attribution import Gain, gain
from harness.catalogue import read_catalogue
from harness.cli.reading import advised_by
from harness.measure.surroundings import read_environment
from harness.report.words import duration, interval
from harness.results import matrix_of, newest, read_kept

ROOT = Path(__file__).resolve().parents[1]
RECORDS = Path(__file__).with_name("advice_afresh.jsonl")
COMMAND = (sys.executable, "-m", "harness")


def measured(name: str, budget: str) -> dict[str, Any]:
    """What one example was advised, and what came of it."""
    file = ROOT / "docs/examples" / f"{name}.py"
    with TemporaryDirectory() as scratch:
        results = Path(scratch)
        began = perf_counter()
        subprocess.run([*COMMAND, "tune", file, "--results", results, "--budget", budget], check=False)
        tuned_s, folder = perf_counter() - began, newest(results)
        rows = [row for row in read_kept(folder).matrix.rows if row.estimate]
        found = {
            "example": name,
            "cpu": read_environment("cpu").cpu,
            "seconds": round(tuned_s, 1),
            "ratios": len(rows),
        }
        advice, _ = advised_by(folder, read_catalogue(file))
        foremost = next((one.foremost for one in advice.workloads if one.foremost), None)
        if foremost is None:
            return found
        check = [*COMMAND, "advise", folder, "--check", "--workload", file, "--results", results, "--budget", "5m"]
        status = subprocess.run(check, check=False).returncode
        again = matrix_of(newest(results)).rows[0].estimate
        return found | {
            "advised": str(foremost.label),
            "in_place_of": foremost.reference.stack or "baseline",
            "gain": _interval(foremost.gain),
            "afresh": _interval(gain(again)) if again else None,
            "holds": status == 0,
        }


def _interval(found: Gain) -> list[float]:
    return [round(one, 4) for one in (found.ratio, found.low, found.high)]


def table(lines: Sequence[dict[str, Any]]) -> str:
    """A line for each example, the last that was measured of it."""
    head = ("training", "ratios", "in", "advised", "speedup, 95 %", "afresh, 95 %", "holds")
    text = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, line in sorted({one["example"]: one for one in lines}.items()):
        told = [name, str(line["ratios"]), duration(line["seconds"])]
        if "advised" in line:
            told += [f"`{line['advised']}`", *map(_words, (line["gain"], line["afresh"]))]
            told.append("yes" if line["holds"] else "no")
        else:
            told += ["nothing", "-", "-", "-"]
        text.append("| " + " | ".join(told) + " |")
    return "\n".join(text) + "\n"


def _words(found: Sequence[float] | None) -> str:
    return interval(*found) if found else "no ratio"


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        for example in sys.argv[3:]:
            told = measured(example, sys.argv[2])
            with RECORDS.open("a", encoding="utf-8") as kept:
                kept.write(json.dumps(told) + "\n")
    else:
        print(table([json.loads(one) for one in RECORDS.read_text(encoding="utf-8").splitlines()]), end="")
