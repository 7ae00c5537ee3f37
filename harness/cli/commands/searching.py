"""The command that searches the fastest stack."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import (
    Batch,
    Budget,
    Data,
    Device,
    Json,
    Only,
    Own,
    Protocol,
    Real,
    Results,
    Seed,
    Size,
    examples,
)

app = typer.Typer()


@app.command(
    epilog=examples(
        "best leak",
        "best leak --budget 30m --quality exact",
        "best imagenet --only workers --only channels_last --only amp_bfloat16 --json",
    )
)
def best(
    workload: Annotated[str | None, typer.Argument(help="A workload by name; your own if you give --workload.")] = None,
    size: Size = None,
    batch: Batch = None,
    only: Only = None,
    quality: Annotated[
        str, typer.Option(help="What the winner may do to losses: exact (same bits), close (as seeds), or any.")
    ] = "close",
    protocol: Protocol = "brief",
    seed: Seed = 0,
    device: Device = "auto",
    own: Own = None,
    data_root: Real = None,
    results: Results = Path("results"),
    data: Data = None,
    budget: Budget = "20m",
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin a new search instead of continuing the last.")] = False,
    as_json: Json = False,
) -> None:
    """Searches the fastest stack: measures a matrix, then what a model proposes, then the winner afresh."""
    from harness.cli.measuring import best as sought
    from harness.core.request import Request
    from harness.run.preparation import Place
    from harness.search import SearchRequest, quality_named

    request = Request(
        workloads=(workload,) if workload else (),
        size=size,
        batch=batch,
        design="matrix",
        only=tuple(only or ()),
        protocol=protocol,
        seed=seed,
        device=device,
        own=own,
        data_roots=tuple(data_root or ()),
    )
    place = Place(results=results, data=data, budget=budget, fresh=fresh)
    raise typer.Exit(sought(SearchRequest(request=request, quality=quality_named(quality)), place, as_json=as_json))
