"""A lesson in a process of its own, as every arm has one.

python -m harness.run.lesson      reads the job from its input, writes a line a step and the result to its output
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from harness.core.lesson import Learned
from harness.core.mistake import Mistake
from harness.core.plain import decode, encode
from harness.core.recipe import Recipe
from harness.core.service import ADDRESS
from harness.run.arm import ROOT, launch_environment
from harness.run.fault import reason_for
from harness.run.job import Job
from harness.run.sentinel import Sentinel
from harness.run.worker import task_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A job, and what is to be learned in it."""

    job: Job
    slow: Recipe  # how the real system evaluates
    steps: int


def give(assignment: Assignment, sentinel: Sentinel, show: Callable[[int, float], None]) -> Learned:
    """Has the lesson learned in a fresh process; raises Mistake with the reason when it fails."""
    environment = launch_environment(assignment.job.recipe, dict(os.environ))
    if assignment.job.service:
        environment[ADDRESS] = assignment.job.service
    with (
        tempfile.TemporaryFile(mode="w+", errors="replace") as log,
        subprocess.Popen(
            [sys.executable, "-m", "harness.run.lesson"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            cwd=ROOT,
            start_new_session=True,
        ) as process,
    ):
        sentinel.add(process.pid)
        learned = _follow(process, assignment, show)
        process.wait()
        sentinel.remove(process.pid)
        if learned is None:
            log.seek(0)
            last = (log.read().strip().splitlines() or [f"its process ended with status {process.returncode}"])[-1]
            raise Mistake(f"{assignment.job.cell} could not be trained: {last}.")
        return learned


def _follow(
    process: "subprocess.Popen[str]", assignment: Assignment, show: Callable[[int, float], None]
) -> Learned | None:
    assert process.stdin and process.stdout  # noqa: S101, PT018  both are pipes
    process.stdin.write(json.dumps(encode(assignment)))
    process.stdin.close()
    for line in process.stdout:
        said = json.loads(line)
        if "learned" in said:
            return decode(Learned, said["learned"], "lesson")
        if "lost" in said:
            raise Mistake(f"{assignment.job.cell} could not be trained: {said['lost']}.")
        show(said["step"], float(said["loss"]))
    return None


def _serve() -> None:
    from harness.measure.learning import learn

    assignment = decode(Assignment, json.loads(sys.stdin.read()), "assignment")
    job = assignment.job
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not come between the lines

    def say(**words: object) -> None:
        channel.write(json.dumps(encode(words)) + "\n")
        channel.flush()

    try:
        learned = learn(
            task_of(job), assignment.slow, job.proof, assignment.steps, lambda step, loss: say(step=step, loss=loss)
        )
    except Exception as error:  # noqa: BLE001  whatever goes wrong is the outcome, with words
        say(lost=reason_for(error))
        return
    say(learned=learned)


if __name__ == "__main__":
    _serve()
