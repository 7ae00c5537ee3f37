"""The command that measures a machine's whole matrix."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Data, Device, Protocol, Results, Seed, Size, Workloads, examples

app = typer.Typer()

Minutes = Annotated[
    float, typer.Option(min=0.1, max=100_000, help="Of the machine, in all calls together; the plan fits them.")
]
Slice = Annotated[str, typer.Option(help="The longest that one call may take (9m, 540s), or none: all in one go.")]
Archive = Annotated[
    Path | None,
    typer.Option(help="A file (.tar.gz) that carries the runs from machine to machine: taken in, then packed."),
]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Show what would be measured for how long, and stop.")]
PagesOnly = Annotated[
    bool, typer.Option("--publish", help="Measure nothing: take the archive in, end what is open, write the pages.")
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Begin to count the minutes anew; what was measured is not repeated.")
]


@app.command(
    epilog=examples(
        "campaign --plan",
        "campaign --minutes 60",
        "campaign --minutes 30 --slice 9m --archive campaign.tar.gz",
        "campaign leak spoof --minutes 12 --size quick",
        "campaign --archive campaign.tar.gz --publish",
    )
)
def campaign(
    workloads: Workloads = None,
    minutes: Minutes = 30.0,
    slice: Slice = "none",  # noqa: A002  the option's name
    archive: Archive = None,
    plan: PlanOnly = False,
    publish: PagesOnly = False,
    size: Size = None,
    device: Device = "auto",
    protocol: Protocol = "brief",
    seed: Seed = 0,
    results: Results = Path("results"),
    data: Data = None,
    fresh: Fresh = False,
) -> None:
    """Measures and publishes the whole matrix of a machine in so many minutes; the same command continues.

    In turn: a calibration; all options together and the original, of all workloads; then for each a
    matrix, what the ledger claims beyond it, and the search for its fastest stack; last the pages under --results.
    Each phase has a quota of the minutes and passes on what it leaves. Writing the workloads' files comes on top, once.

    The status is 0 when all is done, 3 when the same command is to continue, 1 when nothing could be measured, 130 when
    it was stopped. A machine that dies at any moment has lost what it was measuring and nothing else.
    """
    from harness.cli.campaign import campaign as measured
    from harness.cli.campaign import finish_here, show_campaign
    from harness.core.mistake import Mistake
    from harness.core.request import Request
    from harness.run.preparation import Place

    if publish and archive is None:
        raise Mistake("--publish ends the campaign of an archive; name it with --archive.")
    if publish and archive is not None:
        raise typer.Exit(finish_here(archive, results))
    request = Request(workloads=tuple(workloads or ()), size=size, protocol=protocol, seed=seed, device=device)
    place = Place(results=results, data=data, budget=slice, fresh=fresh)
    raise typer.Exit(show_campaign(request, minutes, place) if plan else measured(request, minutes, place, archive))
