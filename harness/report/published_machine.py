"""The page of one machine: its environments, the best stacks, the heat map, the stages and its runs."""

from collections.abc import Iterator
from urllib.parse import quote

from harness.analyze.collection import Kept
from harness.analyze.repeated import repeated
from harness.core.environment import differing
from harness.report.markdown import escaped, grid
from harness.report.published import Place, Setting, file_name
from harness.report.published_cells import (
    Page,
    Part,
    best_table,
    calibrated,
    chip,
    days,
    named,
    page,
    software,
)
from harness.report.published_figures import heat_map_picture, stages_picture
from harness.report.published_repeats import repeats
from harness.report.words import size

_ENVIRONMENTS = "environment", "measured on", "memory", "software", "runs", "days"
_RUNS = "run", "command", "design", "ratios", "environment", "version"


def machine_page(place: Place, verified: tuple[str, ...] = ()) -> Page:
    """All that a machine's folder says; `verified` names the files of what `verify` found there."""
    return page(_parts(place, verified))


def _parts(place: Place, verified: tuple[str, ...]) -> Iterator[Part]:
    yield f"# {escaped(place.name)}" + (" (contributed)" if place.is_contributed else "")
    yield from ("", "[All results](../README.md)", "")
    yield from grid(_ENVIRONMENTS, map(_environment, place.settings))
    yield from ("", "Workloads: " + ", ".join(_workload(name) for name in place.workloads) + ".")
    if len(place.settings) > 1:
        yield from ("", "Environments are never mixed: each has tables and figures of its own, the newest first.")
        for setting in place.settings[1:]:
            yield from ("", _unlike(setting, place.settings[0]))
    for setting in place.settings:
        yield from _setting(setting)
    if verified:
        files = ", ".join(f"[{escaped(name)}](verified/{quote(name)})" for name in verified)
        yield from ("", "## Verified", "", f"Whether each optimization keeps its promise about losses: {files}.")
    yield from ("", "## Runs", "")
    yield from grid(_RUNS, (_run(setting, kept) for setting in place.settings for kept in setting.runs))


def _environment(setting: Setting) -> tuple[str, ...]:
    one = setting.environment
    memory = size(one.memory_bytes if one.accelerator_memory_bytes is None else one.accelerator_memory_bytes)
    return named(setting), chip(setting), memory, software(setting), str(len(setting.runs)), days(setting.runs)


def _unlike(setting: Setting, first: Setting) -> str:
    """In what an environment differs from the first one, fact by fact."""
    unlike = differing(setting.environment, first.environment)
    words = "; ".join(f"{name} {_known(ours)}, not {_known(theirs)}" for name, ours, theirs in unlike)
    return f"{named(setting)} differs from the first in {escaped(words) or 'who measured'}."


def _known(fact: str | int | None) -> str:
    return "none" if fact is None else str(fact)


def _workload(name: str) -> str:
    return f"[{escaped(name)}]({quote(file_name(name))}.md)"


def _setting(setting: Setting) -> Iterator[Part]:
    yield from ("", f"## Environment {named(setting)}", "")
    if setting.is_contributed:
        yield from ("Measured by somebody else and taken in; it stands in for no row of ours.", "")
    if not any(topic.main for topic in setting.topics):
        yield "No training step has a ratio against plain yet."
        return
    yield from (calibrated(setting), "")
    yield from best_table([(setting, topic) for topic in setting.topics if topic.main])
    heat = heat_map_picture(setting)
    if heat is not None:
        yield from ("", "### Optimizations by workload", "", heat, "")
        yield (
            "Each row is timed on what the optimization acts on: training steps unless it says otherwise. Probes of "
            "the loader or the step alone, real data and other sizes are on the pages of the workloads. "
            "Optimizations that have no ratio on any workload are left out."
        )
    stages = stages_picture(setting, setting.topics, "all")
    if stages is not None:
        yield from ("", "### Stages", "", stages, "")
        yield (
            "The loader alone and the step alone are upper bounds: where they take turns a rate stays below both, "
            "where they overlap it reaches the lower one. A bar with a gap goes on beyond the picture."
        )
    yield from repeats(repeated(setting.runs))


def _run(setting: Setting, kept: Kept) -> tuple[str, ...]:
    total = len(kept.matrix.rows)
    return (
        f"[{escaped(kept.name)}]({quote(kept.name)})" + (" (contributed)" if kept.contributed else ""),
        escaped(kept.command),
        escaped(kept.matrix.design),
        f"{kept.matrix.looked_at} of {total}",
        named(setting),
        escaped(kept.version),
    )
