"""The command line with limits that a test can wait for; all else is as users have it.

python -m tests.faults.hurried COMMAND …
"""

import os
from dataclasses import replace

from harness.cli import main
from harness.core.protocol import BRIEF, PROTOCOLS

START_LIMIT_S, WINDOW_LIMIT_S = BRIEF.start_limit_s, 5.0


def hurry() -> None:
    """Shortens the brief protocol, which arms are told with their job."""
    start_s = float(os.environ.get("HURRIED_START_S", START_LIMIT_S))
    PROTOCOLS["brief"] = replace(
        BRIEF, window_s=0.1, floor_s=0.1, upper_bound_s=0.05, start_limit_s=start_s, window_limit_s=WINDOW_LIMIT_S
    )


if __name__ == "__main__":
    hurry()
    main()
