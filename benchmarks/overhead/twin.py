"""The twin: the harness's step and the same loop written by hand take turns in one process.

python -m benchmarks.overhead.twin --workload leak --size smoke --rounds 30 --seed 0      prints one JSON object

`hand_s` and `harness_s` hold seconds a step, `relative` the harness's time over the hand's, one of each for a round. A
round is four windows, one side's between or around the other's two, so that a drift of the machine cancels; in it both
sides train on the same batches. Which side is built first and which one begins is drawn from the seed: where a model
comes to lie in memory moves its speed a little for the attempt of a process, so several processes belong to a result.

Time in which the process was ready and had no core is left out where Linux counts it. It is others' doing, and on a
busy machine it is several times the step; sleeping and waiting for files or a device count.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from math import ceil
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from harness.catalogue import read_catalogue
from harness.core.catalogue import Catalogue
from harness.core.configuration import Configuration, compose
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.protocol import BRIEF
from harness.core.workload import ADDRESS, Workload
from harness.run.arm import Job
from harness.run.data import data_root, ensure_data, serving
from harness.run.sentinel import Sentinel
from harness.run.worker import task_of

if TYPE_CHECKING:
    from harness.measure.session import Task

WAITED_FOR_A_CORE = Path("/proc/thread-self/schedstat")  # nanoseconds, the second of three numbers
WINDOW_S = 0.03  # long against the clock and against a change of caches, short against a machine's drift
WARM_UP_STEPS = 8
HARNESS, HAND = "harness", "hand"
Steps = dict[str, Callable[[], object]]


def main(words: list[str]) -> int:
    """Measures what the command line names; 2 and one sentence for what cannot be."""
    given = _parsed(words)
    try:
        catalogue = read_catalogue(ledger=False)
        workload = catalogue.workload(given.workload)
        if given.size not in workload.sizes:
            raise Mistake(f"{workload.name} has no size '{given.size}'; choose one of {', '.join(workload.sizes)}.")
        with ExitStack() as closing:
            found = compared(_task(_job(given, workload, catalogue), closing), given.rounds, Random(given.seed))
    except Mistake as mistake:
        sys.stderr.write(f"{mistake}\n")
        return 2
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def compared(task: "Task", rounds: int, random: Random) -> dict[str, list[float]]:
    """Builds both sides and times them in turns; seconds a step and their ratios, one for each round."""
    from harness.measure.devices import settle_backend, timed

    def undisturbed(side: str) -> float:
        before_s = without_a_core_s()
        seconds = timed(steps[side], count, task.device)
        return seconds - (without_a_core_s() - before_s)

    settle_backend(task.recipe)
    steps = _built(task, random)
    step_s = [timed(step, WARM_UP_STEPS, task.device) / WARM_UP_STEPS for step in steps.values()]
    count = max(1, ceil(WINDOW_S / min(step_s)))
    found: dict[str, list[float]] = {HAND: [], HARNESS: []}
    for _ in range(rounds):
        outer, inner = random.sample([HAND, HARNESS], 2)
        spent = {HAND: 0.0, HARNESS: 0.0}
        for side in (outer, inner, inner, outer):
            spent[side] += undisturbed(side)
        for side, seconds in spent.items():
            found[side].append(seconds / (2 * count))
    relative = [ours / theirs for ours, theirs in zip(found[HARNESS], found[HAND], strict=True)]
    return {"hand_s": found[HAND], "harness_s": found[HARNESS], "relative": relative}


def without_a_core_s() -> float:
    """Seconds for which this thread could have run and had no core, so far; always 0 where the system counts none."""
    return int(WAITED_FOR_A_CORE.read_text().split()[1]) / 1e9 if WAITED_FOR_A_CORE.is_file() else 0.0


def _built(task: "Task", random: Random) -> Steps:
    from benchmarks.overhead.by_hand import step_by_hand
    from harness.measure.session import open_session

    build: dict[str, Callable[[], Callable[[], object]]] = {
        HAND: lambda: step_by_hand(task),
        HARNESS: lambda: open_session(task).step(),
    }
    return {side: build[side]() for side in random.sample([HAND, HARNESS], 2)}


def _job(given: argparse.Namespace, workload: Workload, catalogue: Catalogue) -> Job:
    size = workload.sizes[given.size]
    return Job(
        config=Configuration(workload=workload.name, size=given.size, batch=size.batch),
        size=size,
        recipe=compose(workload, (), catalogue.optimizations),
        proof={},
        timing=Timing.STEP,
        protocol=BRIEF,
        data=str(ensure_data(data_root(None), workload, given.size, lambda _share: None)),
        device=given.device,
        seed=given.seed,
        other_seeds=True,
        workload_path=None,
        service=None,
    )


def _task(job: Job, closing: ExitStack) -> "Task":
    """The job's task, with the server running that it talks to."""
    service = read_catalogue(ledger=False).workload(job.config.workload).service
    if service and service.wanted(job.recipe):
        sentinel = Sentinel()
        closing.callback(sentinel.close)
        os.environ[ADDRESS] = closing.enter_context(serving(service, Path(job.data), sentinel))
    return task_of(job)


def _parsed(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead.twin", description="The harness's own cost of a step."
    )
    parser.add_argument("--workload", default="leak")
    parser.add_argument("--size", default="smoke")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
