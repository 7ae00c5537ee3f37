"""speedmatrix from Python: `job`, `watch`, `run`, `plan`, `load`, `compare`; see docs/own-training.md, docs/using.md.

A module and no package, because the script that bears this name lies beside it. What needs torch is imported when it
is asked for, so that results can be read where there is none.
"""

from typing import TYPE_CHECKING, Any

from harness import __version__
from harness.api import Matrix, Mistake, Request, Row, load, plan, run

if TYPE_CHECKING:
    from harness.own.adapters import from_huggingface, from_lightning, from_loop
    from harness.own.job import Job, job, option
    from harness.own.suggestion import suggest_workers
    from harness.own.watch import watch

OWN = {
    **dict.fromkeys(("Job", "job", "option"), "harness.own.job"),
    **dict.fromkeys(("from_huggingface", "from_lightning", "from_loop"), "harness.own.adapters"),
    "suggest_workers": "harness.own.suggestion",
    "watch": "harness.own.watch",
}

__all__ = [
    "Job", "Matrix", "Mistake", "Request", "Row", "__version__", "compare", "from_huggingface", "from_lightning",
    "from_loop", "job", "load", "option", "plan", "run", "suggest_workers", "watch",
]  # fmt: skip


def compare(*runs: Any, **wanted: Any) -> Any:
    """Runs side by side, as harness.api.compare; or two jobs, the second measured against the first: a Matrix.

    Jobs take `budget` and the fields of a Request. Raises Mistake.
    """
    from harness import api

    if not any(hasattr(type(one), "as_workload") for one in runs):
        return api.compare(*runs, **wanted)
    from harness.own.job import compare_jobs

    return compare_jobs(*runs, **wanted)


def __getattr__(name: str) -> Any:
    """What needs torch, imported now."""
    if name not in OWN:
        raise AttributeError(f"module 'speedmatrix' has no attribute '{name}'")
    import importlib

    try:
        return getattr(importlib.import_module(OWN[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise Mistake(
            f"speedmatrix.{name} needs torch; install torch; in a clone, pip install '.[measure]' does."
        ) from error
