"""The options that commands share, so that each means the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.core.configuration import current_names
from harness.core.environment import DEVICES


def todays(text: str | None) -> str | None:
    """What was typed, with today's names of whole stacks; one line tells of each that has changed."""
    if text is None or (current := current_names(text)) == text:
        return text
    Console(stderr=True).print(f"'{text}' is called '{current}' since version 0.3; the old name goes with 0.4.")
    return current


Workloads = Annotated[list[str] | None, typer.Argument(help="Workloads by name; all of them if none is named.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Own = Annotated[Path | None, typer.Option("--workload", help="A Python file of your own that defines WORKLOAD.")]
Size = Annotated[str | None, typer.Option(help="smoke, quick or standard; quick on a CPU, standard on a GPU.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Samples per optimizer step, in both arms alike.")]
Design = Annotated[str, typer.Option(help="Which comparisons are made: [bold]list[/bold] shows the designs.")]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Only this optimization (NAME or NAME=LEVEL), as the design has it; may be repeated."),
]
Stack = Annotated[
    str | None, typer.Option(help="One question: this stack (A+B=2+…) against the reference.", callback=todays)
]
Reference = Annotated[
    str,
    typer.Option(help="What everything is compared with: baseline, original, or a stack (A+B=2).", callback=todays),
]
Probe = Annotated[str | None, typer.Option(help="Time only the loader, or only the compute, of each configuration.")]
Protocol = Annotated[str, typer.Option(help="brief (a first look) or standard.")]
Replicates = Annotated[
    int | None,
    typer.Option("--replicates", "--restarts", min=2, help="Fresh processes of both arms behind every interval."),
]
Rounds = Annotated[int | None, typer.Option(min=1, help="Timed windows of each treatment in one replicate.")]
Target = Annotated[
    str | None,
    typer.Option(
        help="How narrow intervals are to become by further replicates (2% is ±2 %), or none; else the protocol's, and "
        "none where --replicates or --rounds is given."
    ),
]
Seed = Annotated[int, typer.Option(help="Decides the order of windows and the models' first weights.")]
Device = Annotated[str, typer.Option(help=f"auto, {' or '.join(DEVICES)}.")]
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
