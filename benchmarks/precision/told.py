"""What the processes of all tools are told, through their environment, because not every tool passes arguments on."""

import json
import os
from collections.abc import Mapping

PASSES = "PRECISION_PASSES"  # passes of the reference and of the treatment, `21,20`
SETTINGS = "PRECISION_SETTINGS"  # numbers by name, as JSON


def counts() -> tuple[int, int]:
    """Passes of the reference and of the treatment."""
    reference, treatment = os.environ[PASSES].split(",")
    return int(reference), int(treatment)


def settings() -> Mapping[str, float]:
    """The settings of the tool that this process belongs to."""
    found: dict[str, float] = json.loads(os.environ[SETTINGS])
    return found


def telling(passes: tuple[int, int], chosen: Mapping[str, float]) -> dict[str, str]:
    """The variables that say so, and one thread for every library, so that all tools time the same work."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {PASSES: ",".join(map(str, passes)), SETTINGS: json.dumps(dict(chosen)), **threads}
