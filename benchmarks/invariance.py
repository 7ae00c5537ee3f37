"""Do turns and windows change what is measured? Rates in turns beside rates without pauses, ratios by window length.

python -m benchmarks.invariance measure [WORKLOAD ...]   appends to benchmarks/invariance.jsonl; two cores to itself
python -m benchmarks.invariance page                      writes docs/invariance.md from it

The same processes take windows of every length in turn and, before and after that, long windows with nobody between
their steps. What a process is like for its whole life is thus in both sides of every comparison, and intervals come
from the scatter of windows. All windows of a length hold the same samples, those of the first steps of an epoch.
"""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.precision.in_harness import _run as run_facts
from harness.analyze.pairing import OTHERS
from harness.catalogue import read_catalogue
from harness.core.configuration import Comparison, Configuration, parse_option
from harness.core.optimization import Timing, promises
from harness.core.plan import Plan
from harness.core.protocol import BRIEF, SETTLING_STEPS
from harness.measure.surroundings import read_environment
from harness.plan.schedule import blocks
from harness.run.arm import ProcessArm
from harness.run.data import data_root, ensure_data
from harness.run.preparation import Prepared, job_of, served_in
from harness.run.sentinel import Sentinel

RECORDS, PAGE = Path(__file__).with_name("invariance.jsonl"), Path("docs/invariance.md")
SIZE = "quick"
LENGTHS = (1, 2, 4, 8, 16)  # steps of a window, of which each workload has some
LEAD_S = 0.1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is measured of a workload: treatments, steps that every length takes in all, lengths, fresh processes."""

    treatments: tuple[str, ...]
    steps: int
    lengths: tuple[int, ...]
    replicates: int


WANTED = {
    "leak": Wanted(("workers=2", "tuned_malloc"), 16, (1, 2, 4, 8, 16), 2),
    "speaker": Wanted(("workers=2", "tuned_malloc"), 16, (1, 2, 4, 8, 16), 2),
    "imagenet": Wanted(("workers=2",), 8, (1, 2, 4, 8), 1),
    "spoof": Wanted(("workers=2",), 4, (1, 2, 4), 1),
    "patches3d": Wanted(("tuned_malloc",), 4, (1, 2, 4), 1),
}


def measure(names: Sequence[str]) -> None:
    """Measures some workloads and appends a line for every window."""
    for name in names or WANTED:
        for replicate in range(WANTED[name].replicates):
            with RECORDS.open("a", encoding="utf-8") as file:
                for line in _replicate(name, replicate):
                    file.write(json.dumps(line) + "\n")
                    file.flush()


def _prepared(name: str) -> Prepared:
    catalogue = read_catalogue(ledger=False)
    batch = catalogue.workload(name).sizes[SIZE].batch
    plain = Configuration(workload=name, size=SIZE, batch=batch)
    configs = [
        Configuration(workload=name, size=SIZE, batch=batch, options=(parse_option(one),))
        for one in WANTED[name].treatments
    ]
    comparisons = [
        Comparison(label=str(config.options[0]), treatment=config, reference=plain, timing=Timing.STEP)
        for config in configs
    ]
    known = [catalogue.known[config.options[0].name] for config in configs]
    plan = Plan(
        design="invariance", seed=0, protocol=BRIEF.fixed(), blocks=blocks(comparisons, BRIEF.treatments),
        no_results=(), names={str(plain): "baseline"}, promises=promises(known),
    )  # fmt: skip
    return Prepared(catalogue=catalogue, environment=read_environment("cpu"), plan=plan)


def _replicate(name: str, replicate: int) -> Iterator[dict[str, Any]]:
    ready, wanted = _prepared(name), WANTED[name]
    (block,) = ready.plan.blocks
    folder = ensure_data(data_root(None), ready.catalogue.workload(name), SIZE, lambda _: None)
    data, sentinel = {(name, SIZE): folder}, Sentinel()
    facts = {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": run_facts(ready).environment.digest,
        "cpu": ready.environment.cpu,
        "workload": name,
        "replicate": replicate,
    }
    with ExitStack() as closing:
        closing.callback(sentinel.close)
        services = {one: closing.enter_context(served) for one, served in served_in(ready, data, sentinel)}
        arms: dict[str, ProcessArm] = {}
        for position, label in enumerate(("baseline", *wanted.treatments)):
            job = job_of(ready, data, block, replicate, position)
            object.__setattr__(job, "service", services.get(name))
            arms[label] = ProcessArm(job, sentinel)
            closing.callback(arms[label].close)
        leads = {}
        for arm in arms.values():
            arm.arrive()
        for label, arm in arms.items():
            step_s = arm.begin()["step_s"]
            leads[label] = max(1, math.ceil(LEAD_S / step_s), 2 if label.startswith("workers") else 1)
        for label, arm in arms.items():
            leads[label] = max(leads[label], arm.settle(SETTLING_STEPS, 0))
        for phase in ("before", "turns", "after"):
            for label, length, start in _order(wanted, arms, phase, Random(f"{name} {replicate}")):
                window = arms[label].window(leads[label], length, start)
                kept = {
                    one: window[one]
                    for one in ("steps", "samples", "wall_s", "wait_s", "lead_s", "others", "first_half_s")
                }
                yield facts | {"arm": label, "phase": phase, "lead_steps": leads[label], **kept}


def _order(
    wanted: Wanted, arms: Sequence[str] | dict[str, Any], phase: str, random: Random
) -> Iterator[tuple[str, int, int]]:
    """Arm, steps and first step of every window."""
    if phase != "turns":
        yield from ((label, 2 * wanted.steps, 0) for label in arms)
        return
    turns = [(length, start) for length in wanted.lengths for start in range(0, wanted.steps, length)]
    turns += [(length, 0) for length in wanted.lengths if length == wanted.steps]  # one window alone has no scatter
    random.shuffle(turns)
    for length, start in turns:
        for label in random.sample(list(arms), len(arms)):
            yield label, length, start


@dataclass(frozen=True, slots=True)
class Totals:
    """Seconds a sample over some windows, by replicate, and the standard error of its log."""

    log: float
    error: float
    freedom: int


def totals(windows: Sequence[dict[str, Any]]) -> Totals:
    """Of windows of one arm: the log of total seconds over total samples, the error from their scatter by replicate."""
    logs, variances, freedom = [], [], 0
    for replicate in sorted({one["replicate"] for one in windows}):
        mine = [one for one in windows if one["replicate"] == replicate]
        paces = np.array([one["wall_s"] / one["samples"] for one in mine])
        weights = np.array([one["samples"] for one in mine], dtype=float)
        mean = float((paces * weights).sum() / weights.sum())
        logs.append(math.log(mean))
        if len(mine) > 1:
            scatter = weights * (paces / mean - 1)
            variances.append(float(len(mine) / (len(mine) - 1) * (scatter**2).sum() / weights.sum() ** 2))
            freedom += len(mine) - 1
    error = math.sqrt(sum(variances)) / len(logs) if variances else math.nan
    return Totals(float(np.mean(logs)), error, freedom)


@dataclass(frozen=True, slots=True)
class Quotient:
    """A rate over another with its 95 % interval, in the log; without one where a side has no scatter."""

    log: float
    half: float | None

    @property
    def holds_one(self) -> bool:
        """Whether the interval holds a ratio of 1."""
        return self.half is not None and abs(self.log) <= self.half

    def __str__(self) -> str:
        ratio = f"{math.exp(self.log):.2f}x"
        if self.half is None:
            return ratio
        return f"{ratio} [{math.exp(self.log - self.half):.2f}, {math.exp(self.log + self.half):.2f}]"


def quotient(ours: Totals, theirs: Totals) -> Quotient:
    """Rate of ours over rate of theirs."""
    if not min(ours.freedom, theirs.freedom):
        return Quotient(theirs.log - ours.log, None)
    point = float(stats.t.ppf(0.975, ours.freedom + theirs.freedom))
    return Quotient(theirs.log - ours.log, point * math.hypot(ours.error, theirs.error))


def page(everything: Sequence[dict[str, Any]]) -> str:
    """The page in Markdown, of windows in which others left us the cores."""
    lines = [one for one in everything if one["others"] <= OTHERS]
    arms = list(dict.fromkeys((one["workload"], one["arm"]) for one in lines))

    def of(workload: str, arm: str, *phases: str, steps: int | None = None) -> list[dict[str, Any]]:
        return [
            one
            for one in lines
            if (one["workload"], one["arm"]) == (workload, arm)
            and one["phase"] in phases
            and steps in {None, one["steps"]}
        ]

    def by_steps(workload: str, arm: str) -> dict[int, Totals]:
        return {one: totals(of(workload, arm, "turns", steps=one)) for one in WANTED[workload].lengths}

    alone, ratios, told = list[list[str]](), list[list[str]](), list[Quotient]()
    for workload, arm in arms:
        free, ours = totals(of(workload, arm, "before", "after")), by_steps(workload, arm)
        found = {steps: quotient(one, free) for steps, one in ours.items()}
        told += found.values()
        lead = of(workload, arm, "turns")[0]["lead_steps"]
        alone.append([workload, arm, str(lead), *(str(found.get(one, "")) for one in LENGTHS)])
        if arm != "baseline":
            plain = by_steps(workload, "baseline")
            without = quotient(free, totals(of(workload, "baseline", "before", "after")))
            configs = (str(quotient(ours[one], plain[one])) if one in ours else "" for one in LENGTHS)
            ratios.append([workload, arm, *configs, str(without)])
    known = [one for one in told if one.half is not None]
    text = INTRODUCTION.format(
        cpus=", ".join(sorted({one["cpu"] for one in lines})), windows=len(lines),
        contended=len(everything) - len(lines), known=len(known),
        holding=sum(one.holds_one for one in known),
    )  # fmt: skip
    steps = ["1 step", *map(str, LENGTHS[1:])]
    text += "\n## Rate in turns over the rate without pauses\n\n"
    text += _table(["workload", "arm", "lead-in", *steps], alone)
    text += "\n## Ratio to plain, by the length of windows\n\n"
    return text + _table(["workload", "option", *steps, "without pauses"], ratios) + REMARKS


INTRODUCTION = """<!-- Written by `python -m benchmarks.invariance page`; edits are lost. -->

# Do turns change what is measured?

On five workloads, {holding} of {known} rates in turns agree with the rate of the same processes without pauses
within their 95 % intervals, and no ratio depends on the length of windows beyond its intervals, but for one below.

Arms take turns, and an idle arm is paused. Measured on {cpus}, size `quick`:
{windows} windows, each led in by untimed steps ("lead-in", in steps, as the arm itself asked for); {crowded} more are
left out, because other processes took more than a fifth of the cores in them. Intervals come from the scatter of
windows of the same processes, and are missing where too few windows are left. Windows without pauses are few and lie
before and after all turns, so that a machine which drifts meanwhile shows in the first table as a distance from 1
that is alike in all columns; the second compares arms at the same time.
"""

REMARKS = """
These windows were taken while every arm ran under the thresholds of `tuned_malloc` and `glibc_malloc` was the arm
that did not, which is the baseline now. Under glibc's own thresholds the first step of speaker after a pause took 2.3
times as long as a usual one, and now and then a step takes a second instead of a third of one: so did 6 of all 32
windows of one step and none of 16 windows of two steps, all led in by three. Hence 0.84x there beside 0.64x to 0.69x
elsewhere: what comes every so many steps can fall in step with windows and what leads into them. Since then the lead-
in varies by a step from window to window. Nothing else asks for long windows; `brief` takes about 0.5 s of steps,
`standard` 1 s, and
two steps at least.
"""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2:])
    else:
        PAGE.write_text(page([json.loads(line) for line in RECORDS.read_text().splitlines()]), encoding="utf-8")
