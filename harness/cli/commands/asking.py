"""Commands that ask: what there is, what a row changes, what would be measured."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import (
    Batch,
    Data,
    Design,
    Device,
    Json,
    Only,
    Own,
    Probe,
    Protocol,
    Real,
    Reference,
    Replicates,
    Results,
    Rounds,
    Seed,
    Size,
    Stack,
    Target,
    Workloads,
    examples,
    todays,
)

app = typer.Typer()


@app.command("list", epilog=examples("list", "list --json", "list --workload mine.py"))
def list_(json: Json = False, workload: Own = None) -> None:
    """Shows the workloads, optimizations, claims and designs there are."""
    from harness.cli.reading import show_list

    show_list(workload, as_json=json)


@app.command(epilog=examples("explain leak:batched_fetch+workers=2", "explain speaker:original", "explain workers"))
def explain(
    what: Annotated[
        str,
        typer.Argument(help="A configuration, WORKLOAD[@SIZE][:NAME+NAME=LEVEL], or an optimization.", callback=todays),
    ],
    reference: Reference = "baseline",
    protocol: Protocol = "brief",
    device: Device = "auto",
    workload: Own = None,
    all_: Annotated[bool, typer.Option("--all", help="A row for each option, and nothing shortened.")] = False,
) -> None:
    """Shows what a configuration changes, its step's bound values and source; or an optimization's page."""
    from harness.cli.explain import Question, show_explanation

    show_explanation(
        Question(what=what, reference=reference, protocol=protocol, device=device, own=workload, fully=all_)
    )


@app.command(epilog=examples("doctor"))
def doctor(results: Results = Path("results"), data: Data = None) -> None:
    """Tells whether this machine is fit to measure, and what to put right."""
    from harness.cli.doctor import show_health

    raise typer.Exit(show_health(results, data))


@app.command(epilog=examples("plan", "plan leak --design levels", "plan leak speaker --only workers=2 --json"))
def plan(
    workloads: Workloads = None,
    size: Size = None,
    batch: Batch = None,
    design: Design = "alone",
    only: Only = None,
    stack: Stack = None,
    reference: Reference = "baseline",
    probe: Probe = None,
    protocol: Protocol = "brief",
    replicates: Replicates = None,
    rounds: Rounds = None,
    target: Target = None,
    seed: Seed = 0,
    device: Device = "auto",
    workload: Own = None,
    data_root: Real = None,
    json: Json = False,
) -> None:
    """Shows what a run would measure, in which order, and what it would leave out and why."""
    from harness.cli.measuring import show_plan
    from harness.core.request import Request

    wish = Request(
        workloads=tuple(workloads or ()), size=size, batch=batch, design=design, only=tuple(only or ()), stack=stack,
        reference=reference, probe=probe, protocol=protocol, replicates=replicates, rounds=rounds, seed=seed,
        device=device, own=workload, data_roots=tuple(data_root or ()), target=target,
    )  # fmt: skip
    show_plan(wish, as_json=json)
