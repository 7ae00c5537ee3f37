"""The commands, each a signature that teaches and a call; each imports its half of the house when it runs."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from harness import __version__
from harness.core.configuration import current_names
from harness.core.environment import DEVICES
from harness.core.mistake import Mistake
from harness.core.own_file import look_anew
from harness.core.plan import Request
from harness.plan.planning import CALIBRATION_TARGET

if TYPE_CHECKING:
    from harness.run.preparation import Place

# Options that several commands share.


def todays(text: str | None) -> str | None:
    """What was typed, with today's names of whole stacks; one line tells of each that has changed."""
    if text is not None:
        if not text.strip():
            raise Mistake("A stack cannot be empty; name options (A+B=2), baseline or original.")
        _check_levels(text)
    if text is None or (current := current_names(text)) == text:
        return text
    Console(stderr=True).print(f"'{text}' is called '{current}' since version 0.3; the old name goes with 0.4.")
    return current


def _check_levels(text: str) -> None:
    """Raises Mistake for a stack that has an optimization at two levels, of which one would be dropped."""
    found: dict[str, str] = {}
    for option in filter(None, map(str.strip, text.rpartition(":")[2].split("+"))):
        first = found.setdefault(option.partition("=")[0], option)
        if first != option:
            name = option.partition("=")[0]
            raise Mistake(f"The stack of '{text}' is impossible: {first} and {option} both set {name}; leave one out.")


def one_stack(texts: list[str] | None) -> str | None:
    """The stack that was typed, by today's names; raises Mistake for a second, which would be a second question."""
    if texts and len(texts) > 1:
        raise Mistake("--stack asks one question; give it once, and run again for the other stack.")
    return todays(texts[0]) if texts else None


def once(names: list[str] | None) -> list[str] | None:
    """What was named, each only once."""
    return names and list(dict.fromkeys(names))


def absolute(path: Path | None) -> Path | None:
    """A place as it is found from anywhere: a file of the user's may go to another folder when it is run."""
    return path and path.absolute()


Workloads = Annotated[
    list[str] | None, typer.Argument(help="Workloads by name; all of them if none is named.", callback=once)
]
Short = Annotated[
    list[str] | None, typer.Argument(help="Workloads by name; those with short steps if none is named.", callback=once)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Own = Annotated[
    Path | None,
    typer.Option(
        "--workload", help="A Python file of your own that defines WORKLOAD, or FILE:NAME of a job.", callback=absolute
    ),
]
Size = Annotated[str | None, typer.Option(help="smoke, quick or standard (the real sizes); quick if none is named.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Samples per optimizer step, in both arms alike.")]
Design = Annotated[str, typer.Option(help="Which comparisons are made: [bold]list[/bold] shows the designs.")]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Only this optimization (NAME or NAME=LEVEL), or batch=N or batch=PxN; may be repeated."),
]
Stack = Annotated[
    list[str] | None, typer.Option(help="One question: this stack (A+B=2+…) against the reference; given once.")
]
Reference = Annotated[
    str,
    typer.Option(help="What everything is compared with: baseline, original, or a stack (A+B=2).", callback=todays),
]
Probe = Annotated[str | None, typer.Option(help="Time only the loader, or only the compute, of each configuration.")]
Protocol = Annotated[str, typer.Option(help="brief (a first look) or standard.")]
Replicates = Annotated[
    int | None,
    typer.Option("--replicates", "--restarts", help="Fresh processes of both arms behind every interval."),
]
Rounds = Annotated[int | None, typer.Option(help="Timed windows of each treatment in one replicate.")]
Target = Annotated[
    str | None,
    typer.Option(
        help="How narrow intervals are to become by further replicates (2% is ±2 %), or none; else the protocol's, and "
        "none where --replicates or --rounds is given."
    ),
]
Seed = Annotated[
    int, typer.Option(help="Decides the models' first weights and, run by run anew, the order of windows.")
]
Device = Annotated[
    str, typer.Option(help=f"auto, {', '.join(DEVICES)}:NAME (t4, a10g, a100, h100, h200, b200) or emulated:18ms.")
]
Isolation = Annotated[
    str,
    typer.Option(help="process: each arm has its own; shared: one for those of a workload that can share one."),
]
Copies = Annotated[
    int | None,
    typer.Option(help="Of the reference, timed among the others: each ratio should be 1. One in a first look."),
]
Shard = Annotated[
    str | None, typer.Option(help="Only this part of the plan, as 3/12: for several machines of one kind.")
]
Format = Annotated[str, typer.Option(help="terminal, markdown or json.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="All of it: settings, notes and causes, and each missing result by name.")
]
Output = Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")]
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


def examples(*lines: str) -> str:
    """The end of a command's help: lines that can be typed as they stand."""
    return "Examples:\n\n" + "\n\n".join(f"  [bold]speedmatrix {line}[/bold]" for line in lines)


app = typer.Typer(
    name="speedmatrix",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Measures which training optimizations pay on this machine, by how much, and why.",
    epilog="Begin with [bold]./speedmatrix run[/bold]; then [bold]./speedmatrix explain leak:batched_fetch[/bold]. "
    "[bold]./speedmatrix test[/bold] checks the suite itself; [bold]./speedmatrix --here COMMAND[/bold] installs "
    "nothing and takes the interpreter at hand.",
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"speedmatrix {__version__}")
        raise typer.Exit


@app.callback()
def everything(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Measures which training optimizations pay on this machine, by how much, and why."""


# Commands that ask: what there is, what a row changes, what would be measured.


@app.command("list", epilog=examples("list", "list --json", "list --workload mine.py"))
def list_(json: Json = False, workload: Own = None) -> None:
    """Shows the workloads, optimizations, claims and designs there are."""
    from harness.cli.reading import show_list

    show_list(workload, as_json=json)


@app.command(epilog=examples("explain leak:batched_fetch+workers=2", "explain speaker:original", "explain workers"))
def explain(
    what: Annotated[
        str,
        typer.Argument(
            help="A configuration, WORKLOAD\\[@SIZE][:NAME+NAME=LEVEL], or an optimization.", callback=todays
        ),
    ],
    reference: Reference = "baseline",
    protocol: Protocol = "brief",
    device: Device = "auto",
    workload: Own = None,
    all_: Annotated[bool, typer.Option("--all", help="A row for each option, and nothing shortened.")] = False,
) -> None:
    """Shows what a configuration changes, its step's bound values and source; or an optimization's page."""
    from harness.cli.explain import show_explanation

    show_explanation(what, reference, protocol, device, workload, fully=all_)


@app.command(epilog=examples("doctor"))
def doctor(results: Results = Path("results"), data: Data = None) -> None:
    """Tells whether this machine is fit to measure, and what to put right."""
    from harness.cli.checks import show_health

    raise typer.Exit(show_health(results, data))


def request_of(given: Mapping[str, Any], **fixed: Any) -> Request:
    """The request in the values of a command's options, by their names, and what the command itself says of it."""
    several = {"workloads": given.get("workloads"), "only": given.get("only"), "data_roots": given.get("data_root")}
    found: dict[str, Any] = {name: tuple(values or ()) for name, values in several.items()}
    found |= {"stack": one_stack(given.get("stack")), "own": given.get("workload")}
    named = {one.name for one in fields(Request)} & set(given) - {"stack", *several}
    return Request(**(found | {name: given[name] for name in named} | fixed))


def place_of(given: Mapping[str, Any]) -> "Place":
    """The place in the values of a command's options; with `--fresh` jobs of the user's own are looked at anew.

    Its folders are absolute where a file of the user's is run, and as they were typed where none is.
    """
    from harness.run.preparation import Place

    if given["fresh"]:
        look_anew()
    place = Place(**{one.name: given[one.name] for one in fields(Place)})
    if "job" in given or any(isinstance(given.get(one), Path) for one in ("own", "workload")):
        return replace(place, results=place.results.absolute(), data=absolute(place.data))
    return place


@app.command(
    epilog=examples(
        "plan",
        "plan leak --design levels",
        "plan leak speaker --only workers=2 --json",
        "plan --design alone --shards 12",
        "plan --fleet docs/fleet/fleet.toml",
    )
)
def plan(
    workloads: Workloads = None,
    size: Size = None,
    batch: Batch = None,
    design: Design = "stages",
    only: Only = None,
    stack: Stack = None,
    reference: Reference = "baseline",
    probe: Probe = None,
    protocol: Protocol = "brief",
    replicates: Replicates = None,
    rounds: Rounds = None,
    target: Target = None,
    seed: Seed = 0,
    isolation: Isolation = "process",
    copies: Copies = None,
    device: Device = "auto",
    workload: Own = None,
    data_root: Real = None,
    shard: Shard = None,
    shards: Annotated[
        int | None, typer.Option(min=1, help="Instead: so many parts, how long each takes, and which are measured.")
    ] = None,
    fleet: Annotated[
        Path | None, typer.Option(help="Instead: a file of kinds of machines, and what is left to measure on each.")
    ] = None,
    results: Results = Path("results"),
    json: Json = False,
) -> None:
    """Shows what a run would measure, in which order, and what it would leave out and why."""
    from harness.cli.measuring import show_plan, show_shards

    if fleet:
        from harness.cli.fleet import show_fleet

        raise typer.Exit(show_fleet(fleet, results))
    request = request_of(locals())
    if shards:
        raise typer.Exit(show_shards(request, shards, results))
    show_plan(request, as_json=json)


# Commands that measure, train or check.


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
        "run --copies 1",
        "run --design alone --shard 3/12 --budget none",
    )
)
def run(
    workloads: Workloads = None,
    size: Size = None,
    batch: Batch = None,
    design: Design = "stages",
    only: Only = None,
    stack: Stack = None,
    reference: Reference = "baseline",
    probe: Probe = None,
    protocol: Protocol = "brief",
    replicates: Replicates = None,
    rounds: Rounds = None,
    target: Target = None,
    seed: Seed = 0,
    isolation: Isolation = "process",
    copies: Copies = None,
    device: Device = "auto",
    workload: Own = None,
    data_root: Real = None,
    shard: Shard = None,
    results: Results = Path("results"),
    data: Data = None,
    budget: Budget = "440s",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin a new run instead of continuing an unfinished one.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Measures the matrix of this machine; the same command continues a run that was stopped or ran out of time."""
    from harness.cli.measuring import measure, show_matrix

    request = request_of(locals())
    raise typer.Exit(measure(request, place_of(locals()), partial(show_matrix, workload, verbose=verbose)))


@app.command(
    epilog=examples(
        "tune train.py",
        "tune train.py:job --budget 10m --only workers=2 --only channels_last",
        "tune train.py:job,other",
        "tune train.py --stack workers=2+channels_last --reference original",
        "tune train.py --against HEAD~3",
    )
)
def tune(
    job: Annotated[
        str, typer.Argument(help="A Python file with a job (speedmatrix.job), FILE or FILE:NAME; with NAME,OTHER two.")
    ],
    against: Annotated[
        str | None, typer.Option(help="A commit: the code as it is now is compared with the code as it was there.")
    ] = None,
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
    results: Results = Path("results"),
    data: Data = None,
    budget: Budget = "7m",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin a new run instead of continuing an unfinished one.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Measures which options pay on your own training; the same command continues what is unfinished."""
    from harness.cli.measuring import tune as measured

    request = request_of(locals(), own=Path(job).absolute())
    raise typer.Exit(measured(request, place_of(locals()), against, verbose=verbose))


@app.command(
    epilog=examples(
        "sweep imagenet --only ram_cache --only workers=1",
        "sweep speaker --times 2ms..2s/6 --figures figures",
    )
)
def sweep(
    workloads: Workloads = None,
    times: Annotated[
        str, typer.Option(help="Step times of the device: FIRST..LAST/COUNT, or some as 5ms,18ms,90ms.")
    ] = "2ms..2s/6",
    size: Size = None,
    only: Only = None,
    stack: Stack = None,
    reference: Reference = "baseline",
    protocol: Protocol = "brief",
    replicates: Replicates = None,
    rounds: Rounds = None,
    target: Target = None,
    seed: Seed = 0,
    workload: Own = None,
    results: Results = Path("results"),
    data: Data = None,
    budget: Budget = "20m",
    format_: Annotated[str, typer.Option("--format", help="terminal, markdown or json.")] = "terminal",
    output: Output = None,
    figures: Annotated[Path | None, typer.Option(help="Write a figure for each workload into this folder.")] = None,
) -> None:
    """Measures options of the input on emulated devices of many speeds: up to which step time does each pay?"""
    from harness.cli.sweeping import sweep
    from harness.run.preparation import Place

    request = request_of(locals(), design="alone")
    raise typer.Exit(sweep(request, times, Place(results=results, data=data, budget=budget), format_, output, figures))


@app.command(epilog=examples("steps results/h200/20261120T211233-fe7ddc9a"))
def steps(run: Annotated[Path, typer.Argument(help="The folder of a run on a GPU.")]) -> None:
    """Prints the step times of a run on a GPU, as an emulated device's table in harness/devices takes them."""
    from harness.cli.sweeping import show_steps

    show_steps(run)


@app.command(epilog=examples("calibrate", "calibrate leak --protocol standard --budget 2h", "calibrate --size smoke"))
def calibrate(
    workloads: Short = None,
    size: Size = None,
    protocol: Protocol = "brief",
    replicates: Replicates = None,
    rounds: Rounds = None,
    target: Target = None,
    seed: Seed = 0,
    device: Device = "auto",
    workload: Own = None,
    only: Only = None,
    isolation: Annotated[
        bool,
        typer.Option("--isolation", help="Instead: do arms that share a process give the ratios of isolated ones?"),
    ] = False,
    results: Results = Path("results"),
    data: Data = None,
    budget: Budget = "15m",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin a new calibration instead of continuing an unfinished one.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            help="With --isolation: measure nothing, and write what all runs in --results say of it; as "
            "docs/isolation.md of a clone, with the list of what planning keeps apart."
        ),
    ] = None,
) -> None:
    """Shows what this machine can tell: is the same found to be the same, and is a known delay found?"""
    from harness.cli.measuring import measure_and_show, measure_both_ways, write_isolation

    if (output or only) and not isolation:
        raise Mistake("--output and --only are meant for --isolation; add it, or leave them out.")
    if output:
        write_isolation(results, output)
        raise typer.Exit(0)
    if isolation:
        asked = request_of(locals(), isolation="process")
        raise typer.Exit(measure_both_ways(asked, place_of(locals())))

    target = target or (None if replicates or rounds else CALIBRATION_TARGET)
    request = request_of(locals(), isolation="process", design="calibration")
    raise typer.Exit(measure_and_show(request, place_of(locals())))


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
    design: Design = "stages",
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
    try:
        from benchmarks.invented.coverage_command import Asked, show_coverage
        from benchmarks.invented.rehearsal import REPLICATE_NOISE
        from benchmarks.invented.rehearsal_command import refuse_mixture, show_rehearsal
    except ModuleNotFoundError as error:
        raise Mistake(
            "rehearse needs the folder benchmarks/ of the repository, which a wheel does not hold; give the command in "
            "a clone, with ./speedmatrix."
        ) from error

    refuse_mixture(
        coverage=coverage,
        of_a_plan={"WORKLOADS": workloads, "--design": design != "stages", "--workload": workload, "--effect": effect,
                   "--results": results},
        of_coverage={"--cells": configs, "--luck": luck is not None, "--json": json, "--output": output},
    )  # fmt: skip
    if coverage:
        differ = REPLICATE_NOISE if luck is None else luck / 100
        asked = Asked(configs=configs or 2000, protocol=protocol or "standard", seed=seed, luck=differ)
        raise typer.Exit(show_coverage(asked, output, as_json=json))
    request = request_of(locals(), size="quick", device="cpu", protocol=protocol or "brief")
    show_rehearsal(request, tuple(effect or ()), results)


@app.command(
    epilog=examples(
        "learn leak",
        "learn speaker:seek_read+amp_bfloat16",
        "learn leak --steps 200",
        "learn leak:all --until 0.8",
        "learn leak --range 1e-5:1 --output rates.svg",
    )
)
def learn(
    config: Annotated[
        str, typer.Argument(help="WORKLOAD\\[@SIZE][:NAME+NAME=LEVEL]; the lesson is meant for quick.", callback=todays)
    ],
    steps: Annotated[
        int | None, typer.Option(min=1, help="Optimizer steps; else those of the workload's lesson.")
    ] = None,
    until: Annotated[
        float | None, typer.Option(help="Instead: how long it takes to this score, against another configuration.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="With --until: baseline (if not said), original or a stack (A+B=2).")
    ] = None,
    rates: Annotated[
        str | None, typer.Option("--range", help="Instead: LOW:HIGH, between which learning rates it learns.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="With --range: draw the losses too, in this .svg file.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="With --until or --range: trainings of each, by seed; else 5."),
    ] = None,
    schedule: Annotated[
        bool,
        typer.Option("--schedule", help="The real system's learning-rate schedule over these steps; else constant."),
    ] = False,
    seed: Seed = 0,
    device: Device = "auto",
    workload: Own = None,
    data_root: Real = None,
    results: Results = Path("results"),
    data: Data = None,
) -> None:
    """Trains a configuration from its first weights: does it learn, how soon, and can its evaluation be believed?"""
    from harness.cli.learning import Exercise, trained_as_asked

    asked = Exercise(
        what=config, steps=steps, seed=seed, device=device, own=workload, data=data, data_roots=tuple(data_root or ()),
        scheduled=schedule,
    )  # fmt: skip
    raise typer.Exit(
        trained_as_asked(asked, until=until, against=against, rates=rates, seeds=seeds, output=output, results=results)
    )


@app.command(epilog=examples("trace leak", "trace speaker:seek_read+workers=1 --steps 8 --output speaker.json.gz"))
def trace(
    config: Annotated[str, typer.Argument(help="WORKLOAD\\[@SIZE][:NAME+NAME=LEVEL].", callback=todays)],
    steps: Annotated[int | None, typer.Option(min=1, help="Profiled steps, after a warm-up; else 5.")] = None,
    output: Annotated[Path, typer.Option(help="The trace's file, .json or .json.gz.")] = Path("trace.json.gz"),
    seed: Seed = 0,
    device: Device = "auto",
    workload: Own = None,
    data_root: Real = None,
    data: Data = None,
) -> None:
    """Writes what torch.profiler sees of a few steps, for Perfetto or TensorBoard, and prints what costs most."""
    from harness.cli.learning import Exercise
    from harness.cli.learning import trace as traced

    asked = Exercise(
        what=config, steps=steps, seed=seed, device=device, own=workload, data=data, data_roots=tuple(data_root or ())
    )
    raise typer.Exit(traced(asked, output))


@app.command(
    epilog=examples(
        "timeline speaker", "timeline imagenet:workers=8 --device emulated:a10g --over 20s --output busy.svg"
    )
)
def timeline(
    config: Annotated[str, typer.Argument(help="WORKLOAD\\[@SIZE][:NAME+NAME=LEVEL].", callback=todays)],
    over: Annotated[str, typer.Option(help="How long it is watched, after a warm-up.")] = "10s",
    output: Annotated[Path | None, typer.Option(help="Draw it too, in this .svg file.")] = None,
    seed: Seed = 0,
    device: Device = "auto",
    workload: Own = None,
    data_root: Real = None,
    data: Data = None,
) -> None:
    """Shows over time how busy the device is, as nvidia-smi would, and how long the training waits for batches."""
    from harness.cli.learning import Exercise
    from harness.cli.learning import timeline as watched

    asked = Exercise(
        what=config, steps=None, seed=seed, device=device, own=workload, data=data, data_roots=tuple(data_root or ())
    )
    raise typer.Exit(watched(asked, over, output))


@app.command(epilog=examples("verify leak", "verify --size smoke --steps 20", "verify speaker --only seek_read"))
def verify(
    workloads: Workloads = None,
    size: Annotated[str, typer.Option(help="smoke, quick or standard.")] = "smoke",
    steps: Annotated[int, typer.Option(min=2, help="First steps whose losses are compared.")] = 20,
    only: Only = None,
    stack: Stack = None,
    seed: Seed = 0,
    device: Device = "auto",
    workload: Own = None,
    results: Results = Path("results"),
    data: Data = None,
) -> None:
    """Checks every optimization: does it take effect, and do its losses keep what it promises? Times nothing."""
    from harness.cli.checks import verify as verified
    from harness.run.preparation import Place

    request = request_of(locals(), protocol="standard", replicates=2)
    place = Place(results=results, data=data, budget="none", fresh=True)
    raise typer.Exit(verified(request, place, steps))


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
        str, typer.Option(help="smoke (40 MB for all five), quick (0.8 GB) or standard (20 GB).")
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


# The command that searches the fastest stack.


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
    from harness.search import quality_named

    request = request_of({**locals(), "workloads": (workload,) if workload else ()}, design="matrix")
    raise typer.Exit(sought(request, quality_named(quality), place_of(locals()), as_json=as_json))


# The command that measures a machine's whole matrix.


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
    isolation: Isolation = "process",
    results: Results = Path("results"),
    data: Data = None,
    fresh: Fresh = False,
) -> None:
    """Measures and publishes the whole matrix of a machine in so many minutes; the same command continues.

    In turn: what `run` measures, of all workloads; a calibration, if there is time for all of it; then for each a
    matrix, what the ledger claims beyond it, and the search for its fastest stack; last the pages under --results.
    Each phase has a quota of the minutes and passes on what it leaves. Writing the workloads' files comes on top, once.

    The status is 0 when all is done, 3 when the same command is to continue, 1 when nothing could be measured, 130 when
    it was stopped. A machine that dies at any moment has lost what it was measuring and nothing else.
    """
    from harness.cli.campaign import campaign as measured
    from harness.cli.campaign import finish_here, show_campaign
    from harness.run.preparation import Place

    if publish:
        if archive is None:
            raise Mistake("--publish ends the campaign of an archive; name it with --archive.")
        raise typer.Exit(finish_here(archive, results))
    request = request_of(locals())
    place = Place(results=results, data=data, budget=slice, fresh=fresh)
    raise typer.Exit(show_campaign(request, minutes, place) if plan else measured(request, minutes, place, archive))
