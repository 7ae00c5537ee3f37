"""`list`: the workloads, optimizations, claims and designs there are."""

import json
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from harness.catalogue import Catalogue, read_catalogue
from harness.core.optimization import Level, Optimization, Stage
from harness.core.plain import encode
from harness.core.recipe import Value
from harness.core.workload import Workload
from harness.plan.designs import DESIGNS
from harness.report.claims import promised

# What fits a terminal; --json has it all.
SHOWN = {
    "workloads": ("name", "parameters", "sizes", "title"),
    "optimizations": ("name", "workload", "title", "levels"),
    "claims": ("name", "workload", "promise", "treatment"),
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
    optimizations = sorted(catalogue.optimizations.values(), key=by_stage)
    return {
        "workloads": [_workload(one) for one in workloads],
        "optimizations": [_optimization(one) for one in optimizations],
        "claims": [{**encode(one), "promise": promised(one)} for one in catalogue.claims],
        "designs": [{"name": name, "what": (design.__doc__ or "").strip()} for name, design in DESIGNS.items()],
    }


def _workload(workload: Workload) -> dict[str, Any]:
    return {
        "name": workload.name,
        "title": workload.title,
        "parameters": workload.parameters,
        "variants": dict(workload.variants),
        "sizes": list(workload.sizes),
        "as_found": dict(workload.as_found),
        "score": workload.score,
        "lesson": encode(workload.lesson),
    }


def by_stage(optimization: Optimization) -> tuple[int, str]:
    """Sorts optimizations in the order in which a run goes through the stages, then by name."""
    return list(Stage).index(optimization.stage), optimization.name


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
        "excludes": dict(optimization.excludes),
        "supersedes": list(optimization.supersedes),
        "sought": optimization.sought,
        "sets": _settings(optimization.sets),
        "proof": _settings(optimization.proof),
        "page": optimization.page,
    }


def _settings(settings: Mapping[str, Value | Level]) -> dict[str, Value]:
    """Names and values; LEVEL stands for the level that is chosen."""
    return {name: repr(value) if isinstance(value, Level) else value for name, value in settings.items()}


def _table(title: str, entries: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for name in SHOWN[title]:
        narrow = 18 if name == "levels" else None
        table.add_column(name, no_wrap=name == "name", overflow="fold", max_width=narrow)
    for stage, alike in groupby(entries, key=lambda entry: entry.get("stage")):
        if stage is not None:
            table.add_row(f"[bold]{stage}[/bold]")
        for entry in alike:
            table.add_row(*(_shown(entry[name]) for name in SHOWN[title]))
        table.add_section()
    return table


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
