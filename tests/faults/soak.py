"""The soak: a campaign whose command or one of whose arms is killed again and again still ends as it was planned.

python -m tests.faults.soak --minutes 40 --every 45 --seed 0 --write docs/soak.md     prints one JSON object
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from harness.core.plan import Plan
from harness.core.records import Fault, Lost, Record, Window, window_pairs
from harness.measure.surroundings import read_environment
from harness.store import is_finished, read_run
from tests.faults.own_doing import only
from tests.faults.stage import Stage

OPTIONS = ("set_to_none", "foreach_optimizer", "workers=1", "collect_garbage", "finite_check", "garbage_collector_off")
ROUNDS = 5
ATTEMPT_S = 45.0  # of all arms with a kill now and then; 35 and 20 s were seen on faster machines, which end sooner
PATIENCE = 3.0  # times the minutes, after which it has failed

Configuration = tuple[str, int, int]  # block, replicate, position


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How long, how often, and from which seed; so many options are measured."""

    minutes: float
    every_s: float
    seed: int
    options: int = len(OPTIONS)
    attempt_s: float = ATTEMPT_S  # decides how many replicates fill the time

    @property
    def words(self) -> str:
        """The command that is given again after every kill of it."""
        replicates = max(2, round(60 * self.minutes / self.attempt_s))
        return f"{only(*OPTIONS[: self.options])} --replicates {replicates} --rounds {ROUNDS} --budget none"


@dataclass(slots=True, kw_only=True)
class Soaked:
    """What became of it."""

    minutes: float = 0.0
    status: int | None = None  # of the last command
    commands: int = 0
    killed: dict[str, int] = field(default_factory=lambda: {"command": 0, "arm": 0})
    configs: int = 0  # planned: treatments in their replicates
    missing: list[Configuration] = field(default_factory=list)
    given_up: int = 0  # configurations without all their pairs because an arm was killed in its last attempt
    double: list[Configuration] = field(default_factory=list)
    windows: int = 0
    windows_twice: int = 0  # under one name
    lost: dict[str, int] = field(default_factory=dict)  # records of arms, by kind
    orphans: int = 0
    changed: int = 0  # records that were not what they had been before a kill

    @property
    def is_sound(self) -> bool:
        """Whether it ended as it was planned."""
        return self.status == 0 and not (
            self.missing or self.double or self.windows_twice or self.orphans or self.changed
        )


def soak(asked: Asked, folder: Path) -> Soaked:
    """Runs and kills until the command has ended by itself, then compares with the plan."""
    stage = Stage(folder=folder, data=folder / "data")
    soaked, random, began = Soaked(), Random(asked.seed), time.monotonic()
    running = _given(stage, asked, soaked)
    while True:
        try:
            soaked.status = running.wait(timeout=asked.every_s * random.uniform(0.5, 1.5))
            break
        except subprocess.TimeoutExpired:
            if time.monotonic() - began > 60 * asked.minutes * PATIENCE:
                running.kill()
                break
        if random.random() < 0.5:
            _kill_arm(stage, soaked, random)
        elif not _has_finished(stage, running):  # it would begin another run
            running = _kill_command(stage, running, soaked, asked)
    soaked.minutes = round((time.monotonic() - began) / 60, 2)
    _compare(stage, soaked)
    return soaked


def _given(stage: Stage, asked: Asked, soaked: Soaked) -> "subprocess.Popen[bytes]":
    soaked.commands += 1
    return stage.start(asked.words)


def _kill_arm(stage: Stage, soaked: Soaked, random: Random) -> None:
    arms = sorted(stage.leaders(), key=lambda one: one.pid)
    if arms:
        random.choice(arms).kill()
        soaked.killed["arm"] += 1


def _has_finished(stage: Stage, running: "subprocess.Popen[bytes]") -> bool:
    """Whether nothing is left to measure; if something is, the command stands still now."""
    running.send_signal(signal.SIGSTOP)
    runs = [path.parent for path in stage.results.glob("*/*/run.json")]
    finished = bool(runs) and all(map(is_finished, runs))
    if finished:
        running.send_signal(signal.SIGCONT)
    return finished


def _kill_command(
    stage: Stage, running: "subprocess.Popen[bytes]", soaked: Soaked, asked: Asked
) -> "subprocess.Popen[bytes]":
    before = stage.records
    running.send_signal(signal.SIGKILL)
    running.wait()
    soaked.killed["command"] += 1
    soaked.orphans += _left(stage)
    soaked.changed += sum(one != other for one, other in zip(before, stage.records, strict=False))
    soaked.changed += max(0, len(before) - len(stage.records))
    return _given(stage, asked, soaked)


def _left(stage: Stage) -> int:
    """Processes that are still there half a minute later."""
    until = time.monotonic() + 30
    while (left := stage.processes()) and time.monotonic() < until:
        time.sleep(0.1)
    return len(left)


def _compare(stage: Stage, soaked: Soaked) -> None:
    """Counts pairs by configuration, and what stands twice under one name."""
    records, plan = stage.records, read_run(stage.run_folder).plan
    windows = [one for one in records if isinstance(one, Window)]
    found = dict(_counted(plan, windows))
    soaked.configs = len(found)
    short = [config for config, count in found.items() if count < plan.protocol.rounds]
    soaked.missing = unexplained(short, records)
    soaked.given_up = len(short) - len(soaked.missing)
    soaked.double = [config for config, count in found.items() if count > plan.protocol.rounds]
    soaked.windows = len(windows)
    soaked.windows_twice = len(windows) - len({(one.arm, one.order) for one in windows})
    soaked.lost = _kinds(records)
    soaked.orphans += _left(stage)


def _counted(plan: Plan, windows: list[Window]) -> Iterator[tuple[Configuration, int]]:
    for block in plan.blocks:
        for replicate in range(plan.protocol.replicates):
            mine = [one for one in windows if (one.arm.block, one.arm.replicate) == (block.identity, replicate)]
            attempts = {one.arm.attempt for one in mine}
            for position in range(1, len(block.comparisons) + 1):
                each = (
                    window_pairs((one for one in mine if one.arm.attempt == attempt), position) for attempt in attempts
                )
                yield (block.identity, replicate, position), sum(map(len, each))


def unexplained(short: Iterable[Configuration], records: Iterable[Record]) -> list[Configuration]:
    """Those of which no record says that their arm, or their reference, was killed in its last attempt."""
    losses = [one for one in records if isinstance(one, Lost)]
    killed = (one for one in losses if one.kind is Fault.KILLED and one.outcome == "failed")
    given_up = {(one.arm.block, one.arm.position) for one in killed}  # later replicates do without them
    return [
        (block, replicate, position)
        for block, replicate, position in short
        if given_up.isdisjoint({(block, position), (block, 0)})
    ]


def _kinds(records: tuple[Record, ...]) -> dict[str, int]:
    return dict(Counter(f"{one.kind}, {one.outcome}" for one in records if isinstance(one, Lost)))


def to_markdown(asked: Asked, soaked: Soaked) -> str:
    """The page: what was done and what was left of it."""
    environment = read_environment("cpu")
    facts: Mapping[str, object] = {
        "minutes until it ended by itself": soaked.minutes,
        "times the command was killed": soaked.killed["command"],
        "times an arm was killed": soaked.killed["arm"],
        "configurations planned (a treatment in a replicate)": soaked.configs,
        "configurations missing": len(soaked.missing),
        "configurations given up because an arm was killed in its last attempt": soaked.given_up,
        "configurations with more pairs than planned": len(soaked.double),
        "windows recorded": soaked.windows,
        "windows recorded twice": soaked.windows_twice,
        "records changed by a kill": soaked.changed,
        "processes left behind": soaked.orphans,
        "exit status in the end": soaked.status,
    }
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return (
        f"# Soak\n\nOn {environment.cores} cores of {environment.cpu}: a campaign of {asked.options} options of the "
        f"example workload, about every {asked.every_s:.0f} s a `kill -9` of the command or of one arm, by chance, and "
        "the same command again until it ended by itself. Written by `python -m tests.faults.soak "
        f"--minutes {asked.minutes:g} --every {asked.every_s:g} --seed {asked.seed} --life {asked.attempt_s:g} "
        "--write docs/soak.md`.\n\n"
        f"| | |\n|---|---|\n{rows}\n"
    )


def main(words: list[str]) -> int:
    """Runs the soak that the command line asks for; 0 when it ended as it was planned."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description="A campaign that is killed often.")
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--every", type=float, default=45.0, help="seconds between two kills, about")
    parser.add_argument(
        "--life", type=float, default=ATTEMPT_S, help="seconds a replicate of all arms takes here, about"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, default=None, help="write the page to this file")
    given = parser.parse_args(words)
    asked = Asked(minutes=given.minutes, every_s=given.every, seed=given.seed, attempt_s=given.attempt)
    with tempfile.TemporaryDirectory(prefix="speedmatrix-soak-") as folder:
        soaked = soak(asked, Path(folder))
    sys.stdout.write(json.dumps(asdict(asked) | asdict(soaked)) + "\n")
    if given.write is not None:
        given.write.write_text(to_markdown(asked, soaked), encoding="utf-8")
    return 0 if soaked.is_sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
