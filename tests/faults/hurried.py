"""The command line with limits that a test can wait for; all else is as users have it.

python -m tests.faults.hurried COMMAND …
"""

import os
from dataclasses import replace

from harness.cli import main
from harness.core.catalogue import Catalogue
from harness.core.configuration import Comparison
from harness.core.protocol import BRIEF, PROTOCOLS
from harness.plan import planning

START_LIMIT_S, WINDOW_LIMIT_S = BRIEF.start_limit_s, 5.0
SHARING = "HURRIED_SHARING"  # set: the arms of a user's file may share a process, as those of the suite's workloads do


def hurry() -> None:
    """Shortens the brief protocol, which arms are told with their job."""
    start_s = float(os.environ.get("HURRIED_START_S", START_LIMIT_S))
    PROTOCOLS["brief"] = replace(
        BRIEF, window_s=0.1, floor_s=0.1, upper_bound_s=0.05, start_limit_s=start_s, window_limit_s=WINDOW_LIMIT_S
    )


def share() -> None:
    """Lets planning take a user's file for one of the suite's."""
    apart = planning._by_its_recipes

    def of_the_suite(comparison: Comparison, catalogue: Catalogue) -> str | None:
        workloads = {name: replace(one, path=None) for name, one in catalogue.workloads.items()}
        return apart(comparison, replace(catalogue, workloads=workloads))

    planning._by_its_recipes = of_the_suite


if __name__ == "__main__":
    hurry()
    if SHARING in os.environ:
        share()
    main()
