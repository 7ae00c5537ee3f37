r"""How precise the same machine time makes five tools: speedmatrix beside what else times code in Python.

    python -m benchmarks.precision_per_second                   # 4 repetitions of 60 s: about three quarters of an hour
    python -m benchmarks.precision_per_second --seconds 30      # half of that, and wider intervals
    python -m benchmarks.precision_per_second --neighbour       # beside a process that works now and then
    python -m benchmarks.precision_per_second --only-table

Each tool compares two variants of a training step on the CPU, of 21 and of 20 identical passes, so that the truth is
1.05 by construction, and a variant of 20 passes with itself. It gets the same seconds for both variants together,
starts of all its processes included; what starting costs is seen first, in one uncounted turn of each, and how the rest
is divided follows from that and from the clock alone. Every answer is appended to --records; the same command continues
where it was stopped, and the table is written from all that is there.
"""

import argparse
import importlib.metadata
import importlib.util
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from benchmarks.precision.intervals import Finding
from benchmarks.precision.records import Record, append, read
from benchmarks.precision.running import Failed, Turn, beside, taken
from benchmarks.precision.spending import Cost
from benchmarks.precision.table import ALONE, page
from benchmarks.precision.tools import TOOLS, Tool
from harness import __version__
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.measure.surroundings import read_environment
from harness.run.preparation import measuring_alone

HERE = Path(__file__).parent
PAIRS: Mapping[float, tuple[int, int]] = {1.05: (21, 20), 1.0: (20, 20)}  # truth -> passes
Key = tuple[int, float, Tool]  # repetition, truth, tool


def main(words: Sequence[str]) -> int:
    """Measures what is missing and writes the table; 2 and one sentence for what cannot be."""
    given = _parsed(words)
    try:
        if not given.only_table:
            _refuse_missing(_chosen(given))
            with measuring_alone(), beside(given.neighbour):
                _measure(given)
        text = page(read(given.records), given.records.name)
        given.table.write_text(text, encoding="utf-8")
    except Mistake as mistake:
        sys.stderr.write(f"{mistake}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("Stopped; what was measured is kept, and the same command continues.\n")
        return 130
    sys.stdout.write(text)
    return 0


def _measure(given: argparse.Namespace) -> None:
    environment, known = read_environment("cpu"), read(given.records)
    done = {one.turn for one in known}
    keys = [
        key
        for key in schedule(given.repetitions, _chosen(given), f"{given.seed} {_condition(given)}")
        if _turn_of(key, given, environment) not in done
    ]
    if not keys:
        return
    costs = {tool.name: _cost(tool, given) for tool in dict.fromkeys(tool for *_, tool in keys)}
    minutes = len(keys) * given.seconds / 60
    sys.stderr.write(f"{len(keys)} turns of {given.seconds:g} s: about {minutes:.1f} minutes.\n")
    for number, key in enumerate(keys, start=1):
        record = _taken(key, costs[key[2].name], given, environment)
        append(given.records, record)
        sys.stderr.write(f"{number}/{len(keys)} {_told(record)}\n")


def schedule(repetitions: int, tools: Sequence[Tool], seed: str) -> Iterator[Key]:
    """Every tool and pair once in each repetition, in an order of its own that the seed decides."""
    for repetition in range(repetitions):
        keys = [(repetition, truth, tool) for truth in PAIRS for tool in tools]
        Random(f"{seed} {repetition}").shuffle(keys)
        yield from keys


def _taken(key: Key, cost: Cost, given: argparse.Namespace, environment: Environment) -> Record:
    repetition, truth, tool = key
    settings, began = tool.spend(given.seconds, cost), datetime.now(UTC)
    seed = given.seed + 1000 * repetition
    turn = Turn(tool=tool, passes=PAIRS[truth], settings=settings, seed=seed, given_s=given.seconds)
    used_s, found = _answer(turn)
    answer = found if isinstance(found, Finding) else None
    return Record(
        condition=_condition(given),
        given_s=given.seconds,
        truth=truth,
        tool=tool.name,
        repetition=repetition,
        used_s=used_s,
        settings=dict(settings),
        version=_version(tool),
        machine=environment.machine,
        environment=environment.digest,
        began=began.isoformat(timespec="seconds"),
        ratio=answer.ratio if answer else None,
        low=answer.low if answer else None,
        high=answer.high if answer else None,
        changed=answer.changed if answer else None,
        method=answer.method if answer else "",
        failure=found if isinstance(found, str) else None,
    )


def _answer(turn: Turn) -> tuple[float, Finding | str]:
    """Seconds used, and what the tool found or why it found nothing."""
    began = datetime.now(UTC)
    try:
        with taken(turn) as (used_s, folder):
            return used_s, turn.tool.read(folder)
    except (Failed, ValueError) as failure:  # a value error is of too few values for an interval
        return (datetime.now(UTC) - began).total_seconds(), str(failure)


def _cost(tool: Tool, given: argparse.Namespace) -> Cost:
    """What starting a tool takes, from one turn that is not counted."""
    turn = Turn(tool=tool, passes=PAIRS[1.05], settings=tool.least, seed=given.seed, given_s=given.seconds)
    try:
        with taken(turn) as (used_s, folder):
            cost = tool.cost(used_s, folder)
    except Failed as failure:
        why = str(failure).rstrip(".")
        raise Mistake(f"{tool.name} does not run here: {why}. Name the others with --tool to leave it out.") from None
    sys.stderr.write(f"{tool.name}: {used_s:.1f} s with the least it can do\n")
    return cost


def _refuse_missing(tools: Sequence[Tool]) -> None:
    missing = sorted({tool.package for tool in tools if importlib.util.find_spec(tool.package) is None})
    if missing:
        names = " ".join(missing).replace("_", "-")
        command = f"pip --python {sys.executable} install {names}"
        raise Mistake(f"Not installed: {names}; `{command}` brings it, or name others with --tool.")


def _chosen(given: argparse.Namespace) -> list[Tool]:
    return [tool for tool in TOOLS if not given.tool or tool.name in given.tool]


def _condition(given: argparse.Namespace) -> str:
    return f"neighbour on {given.neighbour} of the cores" if given.neighbour else ALONE


def _turn_of(key: Key, given: argparse.Namespace, environment: Environment) -> tuple[str, float, str, int, float, str]:
    repetition, truth, tool = key
    return _condition(given), given.seconds, environment.digest, repetition, truth, tool.name


def _version(tool: Tool) -> str:
    return __version__ if tool.name == "speedmatrix" else importlib.metadata.version(tool.package.replace("_", "-"))


def _told(record: Record) -> str:
    what = f"{record.tool}, {record.truth:.2f}, {record.used_s:.1f} s"
    return f"{what}: {record.failure or f'{record.ratio:.4f} [{record.low:.4f}, {record.high:.4f}]'}"


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.precision_per_second",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for a tool and a pair: both variants together")
    parser.add_argument("--repetitions", type=int, default=4, help="turns of every tool and pair")
    parser.add_argument(
        "--neighbour",
        type=int,
        nargs="?",
        const=1,
        default=0,
        help="beside a process that works 5 s and rests 10 s, on so many cores; on one if none is named",
    )
    parser.add_argument("--tool", action="append", choices=[tool.name for tool in TOOLS], help="only this one; repeat")
    parser.add_argument("--seed", type=int, default=0, help="decides the order of turns")
    parser.add_argument("--records", type=Path, default=HERE / "precision_per_second.jsonl", help="where answers go")
    parser.add_argument("--table", type=Path, default=HERE / "precision_per_second.md", help="where the table goes")
    parser.add_argument("--only-table", action="store_true", help="measure nothing, write the table again")
    given = parser.parse_args(words)
    if given.seconds <= 0 or given.repetitions < 1:
        parser.error("--seconds and --repetitions must be above zero")
    return given


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the tool at work is ended too
    sys.exit(main(sys.argv[1:]))
