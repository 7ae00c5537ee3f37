"""The worker: the process that is one arm. It imports, builds, warms up, and times windows when it is asked to.

python -m harness.run.worker CHANNEL      CHANNEL is the number of an inherited socket
"""

import faulthandler
import json
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.mistake import Mistake
from harness.run.fault import fault_raised, raised, reason_for, with_remedy
from harness.run.job import SHOW_STACK, Job, read_job, send

if TYPE_CHECKING:
    from harness.measure.session import Task


def serve(channel: socket.socket) -> None:
    """Answers the launcher until it hangs up; a failure is an answer too, and the last one."""
    try:
        _serve(channel)
    except Exception as error:  # noqa: BLE001  whatever goes wrong in an arm is its outcome, with words and trace
        with suppress(BrokenPipeError, ConnectionResetError):  # the launcher is gone
            send(channel, {"say": "lost", **_words_for(error), "trace": traceback.format_exc()[-4000:]})


def _serve(channel: socket.socket) -> None:
    messages = _messages(channel)
    job = read_job(next(messages))
    task = task_of(job)  # arms import side by side; the launcher waits for all before the first is built
    send(channel, {"say": "arrived", "fields": {}})
    next(messages)
    from harness.measure.trial import begin

    trial, ready = begin(task, job.timing, job.protocol, job.proof, is_reference=job.is_reference)
    send(channel, {"say": "ready", "fields": ready})
    for message in messages:
        if settling := message.get("settle"):
            send(channel, {"say": "settled", "fields": {"lead": trial.settle(**settling)}})
        else:
            send(channel, {"say": "burst", "fields": trial.burst(**message["burst"])})


def task_of(job: Job) -> "Task":
    """All that decides how the arm's session is built; imports torch."""
    import torch
    import torch._dynamo  # the first optimizer imports it anyway, and it takes as long as torch itself

    from harness.catalogue import read_catalogue
    from harness.measure.session import Task

    catalogue = read_catalogue(Path(job.workload_path) if job.workload_path else None, ledger=False)
    workload = catalogue.workload(job.cell.workload)
    return Task(
        parts=workload.parts(),
        size=job.size,
        recipe=job.recipe,
        data=Path(job.data),
        device=torch.device(job.device),
        seed=job.seed,
        endless=job.timing is not job.timing.EPOCH,
    )


def _words_for(error: Exception) -> dict[str, str]:
    """The kind and the reason of a failure; a mistake has its remedy in its own sentence."""
    fault, reason = fault_raised(raised(error)), reason_for(error)
    return {"kind": fault, "reason": reason if isinstance(error, Mistake) else with_remedy(fault, reason)}


def _messages(channel: socket.socket) -> Iterator[dict[str, Any]]:
    with channel.makefile("r", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


if __name__ == "__main__":
    faulthandler.enable(all_threads=False)  # a crash leaves its stack in the log
    faulthandler.register(SHOW_STACK, all_threads=False)  # works where Python itself hangs
    serve(socket.socket(fileno=int(sys.argv[1])))
