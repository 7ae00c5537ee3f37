"""torch.utils.benchmark: `blocked_autorange` of both variants, one after the other in one process.

python -m benchmarks.precision.in_torch RESULT.json      PRECISION_SETTINGS holds the seconds for each
"""

import json
import sys
from pathlib import Path

from torch.utils.benchmark import Timer

from benchmarks.precision.passes import step
from benchmarks.precision.told import settings


def main(result: Path) -> None:
    """Times both and keeps their times for a step."""
    seconds = settings()["seconds"]
    timers = [Timer("step()", globals={"step": step(variant)}, num_threads=1) for variant in (0, 1)]
    found = [timer.blocked_autorange(min_run_time=seconds).times for timer in timers]
    result.write_text(json.dumps({"reference": found[0], "treatment": found[1]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
