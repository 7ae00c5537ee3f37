"""The command line: its verbs are the stages of the data flow, each importing its half of the house when it runs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.core.mistake import Mistake

app = typer.Typer(
    name="speedmatrix",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Measures which training optimizations pay on this machine, by how much, and why.",
    epilog="Begin with [bold]speedmatrix run[/bold]; then [bold]speedmatrix explain leak:batched_fetch[/bold].",
)


Workloads = Annotated[list[str] | None, typer.Argument(help="Workloads by name; all of them if none is named.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Own = Annotated[Path | None, typer.Option("--workload", help="A Python file of your own that defines WORKLOAD.")]
Size = Annotated[str | None, typer.Option(help="smoke, quick or standard; quick on a CPU, standard on a GPU.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Samples per optimizer step, in both arms alike.")]
Design = Annotated[str, typer.Option(help="Which comparisons are made: [bold]list[/bold] shows the designs.")]
Only = Annotated[list[str] | None, typer.Option(help="Only this optimization (NAME or NAME=LEVEL); may be repeated.")]
Stack = Annotated[str | None, typer.Option(help="One question: this stack (A+B=2+…) against the reference.")]
Reference = Annotated[str, typer.Option(help="What everything is compared with: plain, as_found, or a stack (A+B=2).")]
Probe = Annotated[str | None, typer.Option(help="Time only the loader, or only the compute, of each cell.")]
Protocol = Annotated[str, typer.Option(help="brief (a first look) or standard.")]
Restarts = Annotated[int | None, typer.Option(min=2, help="Fresh processes of both arms behind every interval.")]
Rounds = Annotated[int | None, typer.Option(min=1, help="Brackets of each treatment in one restart.")]
Seed = Annotated[int, typer.Option(help="Decides the order of bursts and the models' first weights.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Results = Annotated[Path, typer.Option(help="Folder that holds the runs.")]
Data = Annotated[Path | None, typer.Option(help="Folder for generated data; else $SPEEDMATRIX_DATA or the cache.")]
Real = Annotated[
    list[str] | None,
    typer.Option(
        "--data-root", help="Real data in their own layout, [WORKLOAD=]FOLDER, instead of the suite's; may be repeated."
    ),
]
Budget = Annotated[
    str, typer.Option(help="Time to measure and report (90s, 20m, 2h), or none; writing data comes on top, once.")
]


def _flag_epilog(*lines: str) -> str:
    return "Examples:\n\n" + "\n\n".join(f"  [bold]speedmatrix {line}[/bold]" for line in lines)


@app.command("list", epilog=_flag_epilog("list", "list --json", "list --workload mine.py"))
def list_(json: Json = False, workload: Own = None) -> None:
    """Shows the workloads, optimizations, claims and designs there are."""
    from harness.cli.listing import show_list

    show_list(workload, as_json=json)


@app.command(epilog=_flag_epilog("explain leak:batched_fetch+workers=2", "explain speaker:as_found", "explain workers"))
def explain(
    what: Annotated[str, typer.Argument(help="A cell, WORKLOAD[@SIZE][:NAME+NAME=LEVEL], or an optimization.")],
    reference: Reference = "plain",
    protocol: Protocol = "brief",
    device: Device = "auto",
    workload: Own = None,
    all_: Annotated[bool, typer.Option("--all", help="A row for each switch, and nothing shortened.")] = False,
) -> None:
    """Shows what a cell changes, the values bound in its step and the step's source; or an optimization's page."""
    from harness.cli.explaining import Question, show_explanation

    show_explanation(
        Question(what=what, reference=reference, protocol=protocol, device=device, own=workload, fully=all_)
    )


@app.command(epilog=_flag_epilog("doctor"))
def doctor(results: Results = Path("results"), data: Data = None) -> None:
    """Tells whether this machine is fit to measure, and what to put right."""
    from harness.cli.doctoring import show_health

    raise typer.Exit(show_health(results, data))


@app.command(epilog=_flag_epilog("plan", "plan leak --design levels", "plan leak speaker --only workers=2 --json"))
def plan(
    workloads: Workloads = None,
    size: Size = None,
    batch: Batch = None,
    design: Design = "alone",
    only: Only = None,
    stack: Stack = None,
    reference: Reference = "plain",
    probe: Probe = None,
    protocol: Protocol = "brief",
    restarts: Restarts = None,
    rounds: Rounds = None,
    seed: Seed = 0,
    device: Device = "auto",
    workload: Own = None,
    data_root: Real = None,
    json: Json = False,
) -> None:
    """Shows what a run would measure, in which order, and what it would leave out and why."""
    from harness.cli.planning import Wish, show_plan

    wish = Wish(
        workloads=tuple(workloads or ()), size=size, batch=batch, design=design, only=tuple(only or ()), stack=stack,
        reference=reference, probe=probe, protocol=protocol, restarts=restarts, rounds=rounds, seed=seed,
        device=device, own=workload, data_roots=tuple(data_root or ()),
    )  # fmt: skip
    show_plan(wish, as_json=json)


@app.command(
    epilog=_flag_epilog(
        "run",
        "run leak --only batched_fetch --only hdf5_chunk_cache --batch 5632 --probe loader --reference as_found",
        "run speaker --stack seek_read+workers=1 --protocol standard --budget none",
        "run leak --design against_itself",
    )
)
def run(
    workloads: Workloads = None,
    size: Size = None,
    batch: Batch = None,
    design: Design = "alone",
    only: Only = None,
    stack: Stack = None,
    reference: Reference = "plain",
    probe: Probe = None,
    protocol: Protocol = "brief",
    restarts: Restarts = None,
    rounds: Rounds = None,
    seed: Seed = 0,
    device: Device = "auto",
    workload: Own = None,
    data_root: Real = None,
    results: Results = Path("results"),
    data: Data = None,
    budget: Budget = "7m",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin a new run instead of continuing an unfinished one.")
    ] = False,
) -> None:
    """Measures the matrix of this machine; the same command continues a run that was stopped or ran out of time."""
    from harness.cli.measuring import Place, measure
    from harness.cli.planning import Wish

    wish = Wish(
        workloads=tuple(workloads or ()), size=size, batch=batch, design=design, only=tuple(only or ()), stack=stack,
        reference=reference, probe=probe, protocol=protocol, restarts=restarts, rounds=rounds, seed=seed,
        device=device, own=workload, data_roots=tuple(data_root or ()),
    )  # fmt: skip
    raise typer.Exit(measure(wish, Place(results=results, data=data, budget=budget, fresh=fresh)))


@app.command(epilog=_flag_epilog("rehearse", "rehearse leak --effect workers=1.8", "rehearse --design levels --seed 7"))
def rehearse(
    workloads: Workloads = None,
    design: Design = "alone",
    protocol: Protocol = "brief",
    seed: Seed = 0,
    workload: Own = None,
    effect: Annotated[list[str] | None, typer.Option(help="A known effect, NAME=TIMES; others are drawn.")] = None,
    results: Annotated[Path | None, typer.Option(help="Keep the rehearsed run here; else it is thrown away.")] = None,
) -> None:
    """Runs everything but the training, on invented times with known effects, and shows whether they are recovered."""
    from harness.cli.planning import Wish
    from harness.cli.rehearsing import show_rehearsal

    wish = Wish(
        workloads=tuple(workloads or ()), size="quick", batch=None, design=design, only=(), stack=None,
        reference="plain", probe=None, protocol=protocol, restarts=None, rounds=None, seed=seed,
        device="cpu", own=workload,
    )  # fmt: skip
    show_rehearsal(wish, tuple(effect or ()), results)


@app.command(epilog=_flag_epilog("learn leak", "learn speaker:seek_read+amp_bfloat16", "learn leak --steps 200"))
def learn(
    cell: Annotated[str, typer.Argument(help="WORKLOAD[@SIZE][:NAME+NAME=LEVEL]; the lesson is meant for quick.")],
    steps: Annotated[
        int | None, typer.Option(min=1, help="Optimizer steps; else those of the workload's lesson.")
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    workload: Own = None,
    data_root: Real = None,
    data: Data = None,
) -> None:
    """Trains a cell from its first weights: does it learn, and can its evaluation be believed?"""
    from harness.cli.learning import Course
    from harness.cli.learning import learn as given

    course = Course(
        cell=cell, steps=steps, seed=seed, device=device, own=workload, data=data, data_roots=tuple(data_root or ())
    )
    raise typer.Exit(given(course))


@app.command(epilog=_flag_epilog("verify leak", "verify --size smoke --steps 20", "verify speaker --only seek_read"))
def verify(
    workloads: Workloads = None,
    size: Annotated[str, typer.Option(help="smoke, quick or standard.")] = "smoke",
    steps: Annotated[int, typer.Option(min=2, help="First steps whose losses are compared.")] = 20,
    only: Only = None,
    stack: Stack = None,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Arms that train side by side.")] = 1,
    seed: Seed = 0,
    device: Device = "auto",
    workload: Own = None,
    results: Results = Path("results"),
    data: Data = None,
) -> None:
    """Checks every optimization: does it take effect, and do its losses keep what it promises? Times nothing."""
    from harness.cli.measuring import Place
    from harness.cli.planning import Wish
    from harness.cli.verifying import Examination
    from harness.cli.verifying import verify as verified

    wish = Wish(
        workloads=tuple(workloads or ()), size=size, batch=None, design="alone", only=tuple(only or ()), stack=stack,
        reference="plain", probe=None, protocol="standard", restarts=2, rounds=None, seed=seed,
        device=device, own=workload,
    )  # fmt: skip
    place = Place(results=results, data=data, budget="none", fresh=True)
    raise typer.Exit(verified(Examination(wish=wish, place=place, steps=steps, at_once=at_once)))


data_commands = typer.Typer(
    no_args_is_help=True, help="The workloads' files: are they whole, and are they like the real ones?"
)
app.add_typer(data_commands, name="data")


@data_commands.command("check", epilog=_flag_epilog("data check", "data check speaker --size smoke"))
def data_check(
    workloads: Workloads = None,
    size: Annotated[str, typer.Option(help="smoke, quick or standard.")] = "quick",
    data: Data = None,
) -> None:
    """Verifies checksums, then holds bytes and costs of the files against those of the real systems."""
    from harness.cli.weighing import check

    raise typer.Exit(check(tuple(workloads or ()), size, data))


@app.command(
    epilog=_flag_epilog("report", "report results/…/… --format markdown", "report --format json --output matrix.json")
)
def report(
    run: Annotated[Path | None, typer.Argument(help="A run's folder; the newest under --results if none.")] = None,
    format: Annotated[str, typer.Option(help="terminal, markdown or json.")] = "terminal",  # noqa: A002
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
    results: Results = Path("results"),
) -> None:
    """Shows the matrix of a run; needs no torch."""
    from harness.cli.reporting import show_report

    show_report(run, format, output, results)


@app.command(epilog=_flag_epilog("document", "document --check"))
def document(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; status 1 names the first stale page.")] = False,
    output: Annotated[Path, typer.Option(help="Folder of the pages.")] = Path("docs/optimizations"),
    results: Results = Path("results"),
) -> None:
    """Writes a page for each optimization: what it does, what is claimed of it, what was measured; needs no torch."""
    from harness.cli.documenting import document as written

    raise typer.Exit(written(results, output, check=check))


@app.command(epilog=_flag_epilog("claims", "claims --only leak", "claims --format markdown --output results/claims.md"))
def claims(
    runs: Annotated[list[Path] | None, typer.Argument(help="Folders of runs; all under --results if none.")] = None,
    format: Annotated[str, typer.Option(help="terminal, markdown or json.")] = "terminal",  # noqa: A002
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
    only: Annotated[str | None, typer.Option(help="Only claims that this workload can test.")] = None,
    results: Results = Path("results"),
) -> None:
    """Holds what others promised against what was measured, machine by machine; needs no torch."""
    from harness.cli.claiming import show_claims

    show_claims(tuple(runs or ()), format, (output, results), only)


def main() -> None:
    """Runs a command; a user's mistake ends in one sentence and status 2."""
    try:
        app()
    except Mistake as mistake:
        sys.stderr.write(f"{mistake}\n")
        sys.exit(2)
