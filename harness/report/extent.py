"""The extent as a document and as JSON: by machine and workload, what could be measured and is not."""

from collections.abc import Iterator, Sequence
from typing import Any

from harness.analyze.extent import NARROW, Extent
from harness.report.document import Column, Heading, Part, Text, listed, tabled, to_json
from harness.report.words import one_line

SCHEMA = 1


def extent_parts(found: Sequence[Extent]) -> Iterator[Part]:
    """A row for each machine and workload, and below them what is missing, by name."""
    yield Heading("What is measured, and what is not", 1)
    yield Text(
        "Single options against the baseline, each on what it acts on and at the size and batch that `run` takes "
        "there, in any finished run of the machine; named combinations count as one each."
    )
    names = ("machine", "workload", "possible", "measured", f"to ±{100 * NARROW:g} %")
    rows = [
        (one.machine, one.workload, str(len(one.possible)), str(len(one.measured)), str(one.narrow)) for one in found
    ]
    yield from tabled([Column(name=one, whole=True) for one in names], rows)
    for one in found:
        if one.missing:
            yield Heading(one_line(f"{one.workload} on {one.machine}: not measured"), 2)
            yield Text(one_line(", ".join(one.missing)))
        yield from listed(one_line(f"{', '.join(names)}: {reason}") for reason, names in one.reasons.items())


def extent_to_json(found: Sequence[Extent]) -> str:
    """The same as JSON."""
    coverage: list[dict[str, Any]] = [
        {
            "machine": one.machine,
            "workload": one.workload,
            "possible": len(one.possible),
            "measured": len(one.measured),
            "within_5_percent": one.narrow,
            "missing": list(one.missing),
            "cannot_be_measured": {reason: list(names) for reason, names in one.reasons.items()},
        }
        for one in found
    ]
    return to_json({"schema": SCHEMA, "coverage": coverage})
