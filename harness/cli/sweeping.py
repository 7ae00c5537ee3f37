"""`sweep`: measures options of the input on emulated devices of many speeds, and shows where each stops paying.

`steps` makes entries of their tables from a run on a real device.
"""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

import numpy as np
from rich.console import Console

from harness.analyze.matrix import Matrix
from harness.analyze.sweep import known_times, sweep_of
from harness.api import measured
from harness.catalogue import read_catalogue
from harness.cli.measuring import Terminal, share_of
from harness.cli.reading import check_form, deliver, deliver_parts
from harness.core.catalogue import Catalogue
from harness.core.codec import encode
from harness.core.configuration import Configuration, compose
from harness.core.emulation import EMULATED, IN_TABLES, OF_THE_HOST, precision_of, seconds_named
from harness.core.mistake import Mistake
from harness.core.optimization import Optimization, Stage, Timing
from harness.core.plan import Request
from harness.core.workload import Workload
from harness.report.sweep import figures_of, sweep_parts, without_curve
from harness.results import matrix_of
from harness.run.preparation import Place, age_s, prepared, run_of, seconds_of
from harness.store import finished, is_finished, make_folder


def step_times(text: str) -> tuple[str, ...]:
    """The devices of `2ms..2s/6`, spaced by their logarithm, or of `5ms,18ms,90ms`; raises Mistake."""
    first, dots, rest = text.partition("..")
    if not dots:
        return tuple(dict.fromkeys(f"{EMULATED}:{one.strip()}" for one in text.split(",")))
    last, _, count = rest.partition("/")
    if not count.isdecimal() or int(count) < 2:
        raise Mistake(f"'{text}' are no step times; write FIRST..LAST/COUNT, as 2ms..2s/6, or times as 5ms,18ms,90ms.")
    found = np.geomspace(_seconds(first, text), _seconds(last, text), int(count))
    return tuple(dict.fromkeys(f"{EMULATED}:{float(f'{1000 * one:.3g}'):g}ms" for one in found))


def _seconds(text: str, whole: str) -> float:
    seconds = seconds_named(text.strip())
    if not seconds:
        raise Mistake(f"'{text}' in {whole} is no time; write one as 2ms or 1.5s.")
    return seconds


def sweep(asked: Request, times: str, place: Place, form: str, output: Path | None, figures: Path | None) -> int:
    """Measures each step time in turn, the same share of the budget each, then shows all; 1 where nothing came of it.

    A run for each step time is kept with the others, so that the same command goes on where it was stopped.
    """
    check_form(form)
    devices, until = step_times(times), monotonic() - age_s()
    budget_s = seconds_of(place.budget)
    # All that cannot be is refused before anything is measured; what was finished before is not measured again.
    known = {device: finished(place.results, run_of(prepared(replace(asked, device=device)))) for device in devices}
    folders = {device: folder for device, folder in known.items() if folder}
    if figures:
        make_folder(figures, "name a folder with --figures")
    open_ = [device for device in devices if device not in folders]
    for number, device in enumerate(open_):
        request = replace(asked, device=device)
        share = share_of(None if budget_s is None else until + budget_s - monotonic(), len(open_) - number)
        try:
            command = shlex.join(("speedmatrix", *request.words))
            watch = Terminal(Console(stderr=True))
            folders[device] = measured(request, replace(place, budget=share), watch, command=command)
        except Mistake as mistake:  # too little time for this step time: what others gave is shown all the same
            if not folders and number == len(open_) - 1:
                raise
            sys.stderr.write(f"{device}: {mistake}\n")
        except KeyboardInterrupt:
            sys.stderr.write("Stopped; what was measured is kept, and the same command continues.\n")
            return 130
    if unfinished := [device for device in devices if device in folders and not is_finished(folders[device])]:
        times_left = ", ".join(device.partition(":")[2] for device in unfinished)
        sys.stderr.write(f"Unfinished at {times_left} a step; the same command continues.\n")
    found = [(device, matrix_of(folders[device])) for device in devices if device in folders]
    return show(found, read_catalogue(asked.own).workloads, form, (output, figures))


def show(
    found: Sequence[tuple[str, Matrix]],
    workloads: Mapping[str, Workload],
    form: str,
    places: tuple[Path | None, Path | None],
) -> int:
    """Shows what runs say together; `places` are a file, and a folder for a figure of each workload, or None."""
    output, figures = places
    sweeps = sweep_of(
        (_seconds(device.partition(":")[2], device), matrix.environment, matrix.tables) for device, matrix in found
    )
    marks = {
        one.reference.workload: known_times(workloads[one.reference.workload], one.reference, one.host_s)
        for one in sweeps
    }
    if form == "json":
        deliver(json.dumps({"emulated": True, "marks": marks, "sweeps": encode(sweeps)}, indent=1) + "\n", output)
    else:
        parts = *sweep_parts(sweeps, marks), *without_curve([matrix for _, matrix in found], sweeps)
        deliver_parts(parts, form, output)
    for name, svg in figures_of(sweeps, marks).items() if figures else ():
        assert figures  # noqa: S101  else there are none
        make_folder(figures, "name a folder with --figures")
        deliver(svg, figures / name)
    return 0 if any(one.curves for one in sweeps) else 1


# `steps`: a run on a real device as entries for the table of an emulated one.

MEASURED_BAND = 1.05


def show_steps(folder: Path) -> None:
    """Prints the step times of a run's references, as a file of `harness/devices` holds them; raises Mistake."""
    matrix, catalogue = matrix_of(folder), read_catalogue()
    if matrix.environment.kind != "cuda":
        raise Mistake(f"{folder} was measured on no GPU of its own; name a run of one, whose steps can be emulated.")
    source = f"{matrix.environment.machine}/{folder.resolve().name}: batches on the device, {matrix.environment.chip}"
    found = list(entries(matrix, catalogue, source))
    if not found:
        raise Mistake(
            f"{folder} tells of nothing what its step takes alone; run one by its steps, or with --probe compute."
        )
    deliver("\n".join(found), None)


def entries(matrix: Matrix, catalogue: Catalogue, source: str) -> Iterator[str]:
    """An entry for each configuration whose choices a table can name, by its rate on batches that lie on the device.

    That is probed of references whose steps are timed; where the step alone is timed, treatments tell it too, and of
    several that are one to a table the first does. A sentence says which ones are left out because nobody else knows
    what they are.
    """
    known, told = catalogue.known, set[tuple[str, ...]]()
    for config, rate in _on_the_device(matrix):
        if own := _own(config, catalogue):
            sys.stderr.write(f"{config} is left out: {own} is none of the suite's, and a table names those alone.\n")
            continue
        changed = {name for one in config.options for name in _of_the_device(known[one.name])}
        if changed <= set(IN_TABLES):
            precision, layout = precision_of(compose(catalogue.workload(config.workload), config.options, known))
            if (key := (config.workload, config.size, str(config.batch), precision, layout)) in told:
                continue
            told.add(key)
            yield ENTRY.format(
                config=config, precision=precision, layout=layout, ms=1000 * config.batch / rate, band=MEASURED_BAND,
                source=source,
            )  # fmt: skip


def _on_the_device(matrix: Matrix) -> Iterator[tuple[Configuration, float]]:
    """Configurations and their rates on batches that lie on the device."""
    for table in matrix.tables:
        if table.timing is Timing.STEP and table.profile and table.profile.compute_rate:
            yield table.config, table.profile.compute_rate
        elif table.timing is Timing.COMPUTE and table.profile:
            yield table.config, table.profile.rate
            yield from ((one.treatment.config, one.treatment.rate) for one in table.rows if one.treatment)


def _own(config: Configuration, catalogue: Catalogue) -> str:
    """The workload or the first option that came from a user's file, in words; empty where there is none."""
    if config.workload not in catalogue.workloads:
        return f"the workload {config.workload}"
    return next((f"the option {one}" for one in config.options if one.name not in catalogue.known), "")


def _of_the_device(one: Optimization) -> set[str]:
    names = set(one.sets)
    return names if one.stage is Stage.DEVICE and not names <= OF_THE_HOST else set()


ENTRY = """[[step]]
workload = "{config.workload}"
size = "{config.size}"
batch = {config.batch}
precision = "{precision}"
layout = "{layout}"
ms = {ms:.4g}
band = {band}
kind = "measured"
source = "{source}"
"""
