"""The page of threats to validity: python -m tests.oracles.page measures all oracles and writes it.

python -m tests.oracles.page --part asleep    measures only those that sleep; then --part alone, --part sabotage
python -m tests.oracles.page --again NAME …   measures these experiments anew, none beside another
python -m tests.oracles.page --render         writes it from what was measured last
"""

import json
import math
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from tests.oracles.catalogue import ALLOWANCES, all_trials
from tests.oracles.judged import Judged, most_misses
from tests.oracles.old_ways import FAILS, OldWay
from tests.oracles.runner import Measured
from tests.oracles.threats import THREATS

ROOT = Path(__file__).resolve().parents[2]
LIMITS = """\
No protocol of finite length excludes two things: a transient after a resumption that outlasts the settling turn, which
the report then tells from the two halves of the windows, and a stall that comes once in exactly as many steps as a
window and its lead-in have together. Where arms share a process (`--isolation shared`), no setting shows the heap that
one of them leaves to the others: what that does is told by comparisons [measured both ways](isolation.md), so far on
one machine. And where all processes of an arm sleep most of the time, as beside a slow network, a virtual machine may
take now little, now a millisecond to wake them: then half a second says little of the next minute."""
MEASURED, PAGE = Path(__file__).with_name("measured.json"), ROOT / "docs/validity.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What was measured last."""

    machines: Mapping[str, str]  # by part
    seconds: Mapping[str, float]  # by part
    judged: Sequence[Judged]
    old_ways: Sequence[OldWay]
    remark: str = ""  # what a reader must know of how they were measured


def read() -> Results:
    """The results that are kept beside this file."""
    if not MEASURED.exists():
        return Results(machines={}, seconds={}, judged=[], old_ways=[])
    data: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return Results(
        machines=data["machines"],
        seconds=data["seconds"],
        judged=[Judged(**one) for one in data["judged"]],
        old_ways=[OldWay(**one) for one in data["old_ways"]],
        remark=data.get("remark", ""),
    )


def write(results: Results) -> None:
    """Keeps the results."""
    MEASURED.write_text(json.dumps(asdict(results), indent=1) + "\n", encoding="utf-8")


def rendered(results: Results) -> str:
    """The page."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Results) -> Iterator[str]:
    yield "<!-- Written by `python -m tests.oracles.page`; edits are lost. -->"
    yield ""
    yield "# Threats to validity"
    yield ""
    yield from _conclusion(results)
    yield ""
    yield from _threats()
    yield ""
    yield LIMITS
    yield ""
    yield from _oracles(results)
    yield ""
    yield from _lengths(results.judged)
    yield ""
    yield from _old_ways(results.old_ways)


ATTEMPTS = {1: "", 2: ", at the second attempt", 3: ", in a later measurement"}


def _conclusion(results: Results) -> Iterator[str]:
    """Three lines, as on every page."""
    judged = results.judged
    held = sum(one.holds for one in judged)
    with_ratio = [one for one in judged if one.true is not None]
    missed = sum(not one.within for one in with_ratio)
    bare = [one for one in results.old_ways if one.half_width is None]
    false = [one for one in bare if one.fails]
    second, later = sum(one.attempts == 2 for one in judged), sum(one.attempts > 2 for one in judged)
    points = sum(abs(math.log(one.ratio / one.true)) > FAILS for one in with_ratio if one.ratio and one.true)
    yield (
        f"{held} of {len(judged)} options whose true ratio is known came out as they must, {second} of them at the "
        f"second attempt and {later} later, in a measurement made anew: the interval, widened by the 0.5 or 1 % by "
        "which the truth itself may be off, contains it. "
        "Each was built so that a careless measurement gets it wrong. The ratio itself is off by more than "
        f"{100 * FAILS:.0f} % in {points} of "
        f"{len(with_ratio)}."
    )
    yield (
        f"Before any allowance, {missed} of {len(with_ratio)} intervals at 95 % missed the truth at first; chance "
        f"explains up to {most_misses(len(with_ratio))}. The median half-width is {100 * _median_width(judged):.1f} %."
    )
    yield (
        f"Older ways of measuring that state no interval are off by more than {100 * FAILS:.0f} % in {len(false)} of "
        f"{len(bare)} cases, by up to {100 * max((abs(one.said / one.true - 1) for one in false), default=0.0):.0f} %."
    )


def _median_width(judged: Iterable[Judged]) -> float:
    return median(one.half_width for one in judged if one.half_width is not None)


def _threats() -> Iterator[str]:
    yield "## What could make a ratio false"
    yield ""
    yield from _table(
        ("threat", "what protects from it", "the oracle that would see it"),
        ((one.threat, one.protection, one.oracle) for one in THREATS),
    )


def _oracles(results: Results) -> Iterator[str]:
    yield "## The oracles"
    yield ""
    yield (
        "Real processes, data sets, `DataLoader` workers and training steps, of which only the durations are told. The "
        "truth is *added up* from these durations, also over epochs that are *shuffled* anew, or timed in a *loop* of "
        "some seconds or whole epochs without the harness, just before the measurement and, where cores are shared, "
        f"after it too. A truth that is added up may be off by {100 * ALLOWANCES['sum']:.1f} %, one from shuffled "
        f"epochs or a loop by {100 * ALLOWANCES['loop']:.0f} %: an oracle holds when its 95 % interval, widened by "
        "that, holds the truth. "
        "One that does not is measured once more with other turns, and must hold then: a correct 95 % interval fails "
        "twice in 1 of 400 cases, a wrong one fails again. How many bare intervals miss at first is held against the "
        "99.9 % point of the binomial law, so that intervals that are a little too narrow everywhere show as well."
    )
    yield ""
    whole = {"alone", "asleep"} <= set(results.seconds)
    took = f" in {sum(results.seconds.values()) / 60:.0f} minutes" if whole else ""
    told = "; ".join(f"{what} on {results.machines[part]}" for part, what in _WHAT.items() if part in results.machines)
    yield f"Measured{took}: {told}. Durations of examples are scaled down."
    if results.remark:
        yield ""
        yield results.remark
    yield ""
    yield from _table(
        ("workload", "option", "truth", "true", "measured", "95 % interval", "holds"), map(_row, results.judged)
    )


def _row(one: Judged) -> tuple[str, ...]:
    how = {"sum": "added up", "shuffled": "shuffled", "loop": "loop", "refused": "no ratio"}[one.how]
    true = "—" if one.true is None else f"{one.true:.3f}"
    holds = ("yes" if one.holds else "**no**") + ATTEMPTS[min(one.attempts, 3)]
    if one.ratio is None:
        return one.experiment, f"`{one.option}`", how, true, "—", one.words, holds
    high = "∞" if one.high is None else f"{one.high:.3f}"
    return (
        one.experiment, f"`{one.option}`", how, true, f"{one.ratio:.3f}", f"\\[{one.low:.3f}, {high}\\]", holds,
    )  # fmt: skip


def _lengths(judged: Iterable[Judged]) -> Iterator[str]:
    yield "## Windows of other lengths"
    yield ""
    yield "A loader-bound arm in windows over a factor of eight: no interval, as wide as they are, misses the truth."
    yield ""
    chosen = [one for one in judged if one.experiment.startswith("windows of")]
    yield from _table(
        ("window", "option", "true", "measured", "95 % interval"),
        ((row[0].removeprefix("windows of "), row[1], row[3], row[4], row[5]) for row in map(_row, chosen)),
    )


def _old_ways(found: Iterable[OldWay]) -> Iterator[str]:
    yield "## What other ways of measuring say"
    yield ""
    yield (
        "The same windows summed up in another way, or the same oracles measured with one protection taken away. A way "
        "without an interval fails where it is off by more than 2 %. A truth that a loop tells is that of its run."
    )
    yield ""
    rows = (
        (
            one.way,
            one.experiment,
            f"`{one.option}`",
            f"{one.true:.3f}",
            f"{one.said:.3f}" + ("" if one.half_width is None else f" ± {100 * one.half_width:.1f} %"),
            "fails" if one.fails else "holds",
        )
        for one in found
    )
    yield from _table(("way", "workload", "option", "true", "says", "this time it"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(config.replace("|", "\\|") for config in row) + " |"


def machine() -> str:
    """What was measured on, in words."""
    import os
    import platform
    from importlib.metadata import version

    lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    return f"{len(os.sched_getaffinity(0))} cores of {model}, with torch {version('torch').partition('+')[0]}"


PARTS = ("alone", "asleep", "sabotage")
_WHAT = {"alone": "oracles that compute", "asleep": "oracles that sleep", "sabotage": "those without a protection"}


def measured(part: str, before: Results) -> Results:
    """What was measured before with one part of it measured anew."""
    from tests.oracles.judged import timed
    from tests.oracles.old_ways import SABOTAGED, from_records, without_protections
    from tests.oracles.zygote import Zygote

    zygote, trials = Zygote(), all_trials()
    judged, old_ways, seconds = list(before.judged), list(before.old_ways), dict(before.seconds)
    try:
        if part == "sabotage":
            taken = {way for way, _, _ in SABOTAGED}
            new = without_protections(trials, judged)
            old_ways = [one for one in old_ways if one.way not in taken] + new
        else:
            chosen, kept = [one for one in trials if one.alone == (part == "alone")], dict[str, Measured]()
            found, seconds[part] = timed(chosen, zygote, kept)
            names = {one.experiment.name for one in trials} - {one.experiment.name for one in chosen}
            judged = [one for one in judged if one.experiment in names] + found
            if part == "asleep":
                taken = {way for way, _, _ in SABOTAGED}
                new = from_records(chosen, kept, judged)
                old_ways = new + [one for one in old_ways if one.way in taken]
    finally:
        zygote.close()
    machines = {**before.machines, part: machine()}
    return replace(before, machines=machines, seconds=seconds, judged=ordered(judged), old_ways=old_ways)


def ordered(judged: Iterable[Judged]) -> list[Judged]:
    """The last result of each oracle that there is, in the order of the catalogue."""
    by_name = {(one.experiment, one.option): one for one in judged}
    keys = ((one.experiment.name, oracle.option) for one in all_trials() for oracle in one.oracles)
    return [by_name[key] for key in keys if key in by_name]


def measured_again(names: Sequence[str], before: Results) -> Results:
    """What was measured before with these experiments measured anew, none beside another."""
    from tests.oracles.judged import timed
    from tests.oracles.zygote import Zygote

    zygote = Zygote()
    try:
        found, seconds = timed([one for one in all_trials() if one.experiment.name in names], zygote, at_once=1)
    finally:
        zygote.close()
    taken = {**before.seconds, "again": before.seconds.get("again", 0.0) + seconds}
    return replace(before, judged=ordered([*before.judged, *found]), seconds=taken)


def main() -> None:
    """Measures what is asked for and writes the page."""
    parser = ArgumentParser(description="Measures all oracles, for an hour, and writes docs/validity.md.")
    parser.add_argument("--part", choices=PARTS, help="only one part of them")
    parser.add_argument("--again", nargs="+", metavar="NAME", help="only these experiments, none beside another")
    parser.add_argument("--render", action="store_true", help="only the page, of what was measured before")
    asked = parser.parse_args()
    for name in asked.again or ():
        write(measured_again([name], read()))
    for part in [] if asked.render or asked.again else [asked.part] if asked.part else PARTS:
        write(measured(part, read()))
    PAGE.write_text(rendered(read()), encoding="utf-8")


if __name__ == "__main__":
    main()
