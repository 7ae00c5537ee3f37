"""`list`: the workloads, optimizations, claims and designs there are."""

import json
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from harness.catalogue import Catalogue, read_catalogue
from harness.core.optimization import Optimization
from harness.core.plain import encode
from harness.core.workload import Workload
from harness.plan.designs import DESIGNS

# What fits a terminal; --json has it all.
SHOWN = {
    "workloads": ("name", "parameters", "sizes", "title"),
    "optimizations": ("name", "stage", "levels", "title"),
    "claims": ("name", "optimization", "gain", "where"),
    "designs": ("name", "what"),
}


def show_list(own: Path | None, *, as_json: bool) -> None:
    """Prints everything that can be named on the command line."""
    everything = listed(read_catalogue(own))
    console = Console()
    if as_json:
        console.print_json(json.dumps(everything))
        return
    for title, entries in everything.items():
        console.print(_table(title, entries))


def listed(catalogue: Catalogue) -> dict[str, list[dict[str, Any]]]:
    """Workloads, optimizations, claims and designs, each as plain objects with a `name`."""
    workloads = [catalogue.workloads[name] for name in sorted(catalogue.workloads)]
    optimizations = [catalogue.optimizations[name] for name in sorted(catalogue.optimizations)]
    return {
        "workloads": [_workload(one) for one in workloads],
        "optimizations": [_optimization(one) for one in optimizations],
        "claims": [claim for one in optimizations for claim in _claims(one)],
        "designs": [{"name": name, "what": (design.__doc__ or "").strip()} for name, design in DESIGNS.items()],
    }


def _workload(workload: Workload) -> dict[str, Any]:
    return {
        "name": workload.name,
        "title": workload.title,
        "parameters": workload.parameters,
        "variants": dict(workload.variants),
        "sizes": list(workload.sizes),
        "as_found": list(workload.as_found),
        "score": workload.score,
        "lesson": encode(workload.lesson),
    }


def _optimization(optimization: Optimization) -> dict[str, Any]:
    return {
        "name": optimization.name,
        "title": optimization.title,
        "stage": optimization.stage,
        "numerics": optimization.numerics,
        "levels": list(optimization.levels),
        "workload": optimization.workload or "any",
        "timed_on": optimization.timed_on,
        "needs": [need.missing for need in optimization.needs],
        "requires": list(optimization.requires),
    }


def _claims(optimization: Optimization) -> list[dict[str, Any]]:
    return [
        {
            "name": claim.name,
            "optimization": optimization.name,
            "gain": f"{claim.gain[0]:g} to {claim.gain[1]:g} times",
            "metric": claim.metric,
            "where": claim.where,
            "source": claim.source,
        }
        for claim in optimization.claims
    ]


def _table(title: str, entries: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for name in SHOWN[title]:
        table.add_column(name, no_wrap=name == "name", overflow="fold")
    for entry in entries:
        table.add_row(*(_shown(entry[name]) for name in SHOWN[title]))
    return table


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
