"""Commands that measure, train or check."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import (
    Batch,
    Budget,
    Data,
    Design,
    Device,
    Json,
    Only,
    Output,
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
    Verbose,
    Workloads,
    examples,
    todays,
)
from harness.plan.planning import CALIBRATION_TARGET

app = typer.Typer()

RehearsedProtocol = Annotated[
    str | None, typer.Option(help="brief (else, for a plan) or standard (else, for --coverage).")
]
Effects = Annotated[list[str] | None, typer.Option(help="A known effect, NAME=TIMES; others are drawn.")]
Kept = Annotated[Path | None, typer.Option(help="Keep the rehearsed run here; else it is thrown away.")]
Coverage = Annotated[
    bool, typer.Option("--coverage", help="Instead of a plan: how often do intervals hold hidden ratios?")
]
HowMany = Annotated[
    int | None,
    typer.Option("--cells", min=10, help="With --coverage: ratios in each of eight invented environments; else 2000."),
]
Luck = Annotated[
    float | None,
    typer.Option(min=0, max=20, help="With --coverage: by how many per cent processes differ; else 0.7."),
]


@app.command(
    epilog=examples(
        "run",
        "run leak --only batched_fetch --only hdf5_chunk_cache --batch 5632 --probe loader --reference original",
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
    results: Results = Path("results"),
    data: Data = None,
    budget: Budget = "10m",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin a new run instead of continuing an unfinished one.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Measures the matrix of this machine; the same command continues a run that was stopped or ran out of time."""
    from harness.cli.measuring import measure, show_matrix
    from harness.core.request import Request
    from harness.run.preparation import Place

    wish = Request(
        workloads=tuple(workloads or ()), size=size, batch=batch, design=design, only=tuple(only or ()), stack=stack,
        reference=reference, probe=probe, protocol=protocol, replicates=replicates, rounds=rounds, seed=seed,
        device=device, own=workload, data_roots=tuple(data_root or ()), target=target,
    )  # fmt: skip
    place = Place(results=results, data=data, budget=budget, fresh=fresh)
    raise typer.Exit(measure(wish, place, partial(show_matrix, workload, verbose=verbose)))


@app.command(epilog=examples("calibrate", "calibrate leak --protocol standard --budget 2h", "calibrate --size smoke"))
def calibrate(
    workloads: Annotated[
        list[str] | None, typer.Argument(help="Workloads by name; those with short steps if none is named.")
    ] = None,
    size: Size = None,
    protocol: Protocol = "brief",
    replicates: Replicates = None,
    rounds: Rounds = None,
    target: Target = None,
    seed: Seed = 0,
    device: Device = "auto",
    workload: Own = None,
    results: Results = Path("results"),
    data: Data = None,
    budget: Budget = "15m",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin a new calibration instead of continuing an unfinished one.")
    ] = False,
) -> None:
    """Shows what this machine can tell: is the same found to be the same, and is a known delay found?"""
    from harness.cli.measuring import measure_and_show
    from harness.core.request import Request
    from harness.run.preparation import Place

    wish = Request(
        workloads=tuple(workloads or ()),
        size=size,
        design="calibration",
        protocol=protocol,
        replicates=replicates,
        rounds=rounds,
        seed=seed,
        device=device,
        own=workload,
        target=target or (None if replicates or rounds else CALIBRATION_TARGET),
    )
    raise typer.Exit(measure_and_show(wish, Place(results=results, data=data, budget=budget, fresh=fresh)))


@app.command(
    epilog=examples(
        "rehearse",
        "rehearse leak --effect workers=1.8",
        "rehearse --design levels --seed 7",
        "rehearse --coverage --cells 200",
        "rehearse --coverage --cells 2000 --output docs/coverage.md",
    )
)
def rehearse(
    workloads: Workloads = None,
    design: Design = "alone",
    protocol: RehearsedProtocol = None,
    seed: Seed = 0,
    workload: Own = None,
    effect: Effects = None,
    results: Kept = None,
    coverage: Coverage = False,
    configs: HowMany = None,
    luck: Luck = None,
    json: Json = False,
    output: Output = None,
) -> None:
    """Runs everything but the training, on invented times with known effects, and shows whether they are recovered."""
    from harness.cli.checks import refuse_mixture, show_rehearsal
    from harness.core.mistake import Mistake
    from harness.core.request import Request

    refuse_mixture(
        coverage=coverage,
        of_a_plan={"WORKLOADS": workloads, "--design": design != "alone", "--workload": workload, "--effect": effect,
                   "--results": results},
        of_coverage={"--cells": configs, "--luck": luck is not None, "--json": json, "--output": output},
    )  # fmt: skip
    if coverage:
        from harness.run.rehearsal import REPLICATE_NOISE

        try:
            from benchmarks.invented.coverage_command import Asked, show_coverage
        except ModuleNotFoundError as error:
            raise Mistake(
                "--coverage needs the folder benchmarks/ of the repository, which a wheel does not hold; give the "
                "command in a clone, with ./speedmatrix."
            ) from error

        differ = REPLICATE_NOISE if luck is None else luck / 100
        asked = Asked(configs=configs or 2000, protocol=protocol or "standard", seed=seed, luck=differ)
        raise typer.Exit(show_coverage(asked, output, as_json=json))
    wish = Request(
        workloads=tuple(workloads or ()),
        size="quick",
        design=design,
        protocol=protocol or "brief",
        seed=seed,
        device="cpu",
        own=workload,
    )
    show_rehearsal(wish, tuple(effect or ()), results)


@app.command(epilog=examples("learn leak", "learn speaker:seek_read+amp_bfloat16", "learn leak --steps 200"))
def learn(
    config: Annotated[
        str, typer.Argument(help="WORKLOAD[@SIZE][:NAME+NAME=LEVEL]; the lesson is meant for quick.", callback=todays)
    ],
    steps: Annotated[
        int | None, typer.Option(min=1, help="Optimizer steps; else those of the workload's lesson.")
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    workload: Own = None,
    data_root: Real = None,
    data: Data = None,
) -> None:
    """Trains a configuration from its first weights: does it learn, and can its evaluation be believed?"""
    from harness.cli.checks import Course
    from harness.cli.checks import learn as given

    course = Course(
        config=config, steps=steps, seed=seed, device=device, own=workload, data=data, data_roots=tuple(data_root or ())
    )
    raise typer.Exit(given(course))


@app.command(epilog=examples("verify leak", "verify --size smoke --steps 20", "verify speaker --only seek_read"))
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
    from harness.cli.checks import Examination
    from harness.cli.checks import verify as verified
    from harness.core.request import Request
    from harness.run.preparation import Place

    wish = Request(
        workloads=tuple(workloads or ()),
        size=size,
        only=tuple(only or ()),
        stack=stack,
        protocol="standard",
        replicates=2,
        seed=seed,
        device=device,
        own=workload,
    )
    place = Place(results=results, data=data, budget="none", fresh=True)
    raise typer.Exit(verified(Examination(wish=wish, place=place, steps=steps, at_once=at_once)))


data_commands = typer.Typer(
    no_args_is_help=True,
    help="The workloads' files: writes them before anything is measured, and shows whether they are whole and real.",
)
app.add_typer(data_commands, name="data")


@data_commands.command(
    "write", epilog=examples("data write", "data write --size standard", "data write leak speaker --data /scratch/data")
)
def data_write(
    workloads: Workloads = None,
    size: Annotated[
        str, typer.Option(help="smoke (40 MB for all five), quick (0.8 GB) or standard (21 GB).")
    ] = "quick",
    data: Data = None,
) -> None:
    """Writes files that are missing, several workloads side by side, and tells how much and how long it was.

    `run` and `campaign` write what they need by themselves; on a rented machine, write first what is to be measured.
    Files are kept: each workload is written once a size. What is written with `--data` is found with the same `--data`.
    """
    from harness.cli.checks import write

    raise typer.Exit(write(tuple(workloads or ()), size, data))


@data_commands.command("check", epilog=examples("data check", "data check speaker --size smoke"))
def data_check(
    workloads: Workloads = None,
    size: Annotated[str, typer.Option(help="smoke, quick or standard.")] = "quick",
    data: Data = None,
) -> None:
    """Verifies checksums, then holds bytes and costs of the files against those of the real systems."""
    from harness.cli.checks import check

    raise typer.Exit(check(tuple(workloads or ()), size, data))
