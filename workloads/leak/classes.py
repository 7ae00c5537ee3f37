"""The classes of a recording and how often each occurs, as plain numbers that need no package."""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate

CLASSES = ("BACKGROUND", "CRACK", "LEAK", "NORMAL", "UNCLASSIFIED")
LEAK_NAME = "LEAK"
LEAK = CLASSES.index(LEAK_NAME)
SHARES = (0.12, 0.13, 0.39, 0.26, 0.10)


def counts(files: int) -> tuple[int, ...]:
    """Files of each class, as near to SHARES as whole files allow."""
    limits = list(accumulate(SHARES))
    found = [bisect_left(limits, (file + 0.5) / files) for file in range(files)]
    return tuple(found.count(number) for number in range(len(SHARES)))


def named(files_of: tuple[int, ...]) -> dict[str, int]:
    """The counts as entries of a size's shape."""
    return {f"files_of_class_{number}": files for number, files in enumerate(files_of)}


def shares(shape: Mapping[str, int]) -> list[float]:
    """The share of each class among the training files of a size."""
    files_of = [shape[f"files_of_class_{number}"] for number in range(shape["classes"])]
    return [files / sum(files_of) for files in files_of]
