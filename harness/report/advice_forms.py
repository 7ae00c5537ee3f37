"""Advice on the terminal and as Markdown."""

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from harness.analyze.advice import Advice, Candidate, Item, ReadyMade, WorkloadAdvice, remedy
from harness.analyze.attribution import BreakEven, Gain, JointEffect
from harness.analyze.profile import host_memory
from harness.analyze.verdict import Verdict
from harness.core.configuration import Comparison
from harness.report.advice import Chapter, Point, Section, without_advice
from harness.report.matrix import escaped, grid, no_results, plain
from harness.report.words import one_line, verbatim

# Advice as JSON: the same in numbers, under a schema number that rises when a name changes its meaning.

SCHEMA = 2


def advice_to_json(advice: Advice, commands: Mapping[Comparison, str]) -> str:
    """The advice as JSON; units are in the names, an endless bound is null."""
    environment = advice.run.environment
    document = {
        "schema": SCHEMA,
        "run": advice.run.name,
        "machine": environment.machine,
        "environment": environment.digest,
        "workloads": [_counsel(one, advice, commands) for one in advice.workloads],
    }
    return json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _counsel(counsel: WorkloadAdvice, advice: Advice, commands: Mapping[Comparison, str]) -> dict[str, Any]:
    base = counsel.base
    return {
        "workload": counsel.workload,
        "reference": str(base.config) if base else None,
        "reference_name": base.name if base else None,
        "bottleneck": base.profile.bottleneck if base and base.profile else None,
        "no_advice": without_advice(counsel),
        "items": [_item(one, commands, counsel.device) for one in counsel.items],
        "interplays": [_joint_effect(one) for one in counsel.joint_effects],
        "stacks": [_stack(one, commands) for one in counsel.ready_made],
        "measured_stacks": counsel.looked_at,
        "skipped": [
            {"subjects": labels, "why": why} for labels, why in no_results(advice.run.matrix, counsel.workload)
        ],
    }


def _item(item: Item, commands: Mapping[Comparison, str], device: str) -> dict[str, Any]:
    effect, optimization = item.effect, item.optimization
    ours, theirs = effect.with_it, effect.without_it
    kind, host = host_memory(ours, theirs) if ours and theirs else (None, None)
    return {
        "switch": str(item.option),
        "advice": item.recommendation,
        "own_code": item.is_own_code,
        "on_top_of": str(effect.below),
        "timing": effect.timing,
        "gain": _gain(effect.gain),
        "last": _gain(item.last),
        "verdict": effect.verdict,
        "pairs": effect.estimate.pairs,
        "restarts": effect.estimate.processes,
        "numerics": optimization.numerics if optimization else None,
        "quality": effect.row.quality,
        "host_memory": kind,
        "host_bytes": host,
        "device_bytes": [ours.device_bytes, theirs.device_bytes] if ours and theirs else None,
        "start_up": _start(item.break_even),
        "requires": optimization.requires if optimization else (),
        "excludes": tuple(optimization.excludes) if optimization else (),
        "snippet": remedy(optimization, device) if optimization else None,
        "restarts_to_decide": item.replicates,
        "command": commands.get(effect.row.comparison),
    }


def _gain(gain: Gain | None) -> dict[str, float] | None:
    return {"ratio": gain.ratio, "low": gain.low, "high": gain.high} if gain else None


def _start(found: BreakEven | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"extra_s": found.extra_s, "break_even_steps": found.steps, "break_even_s": found.seconds}


def _joint_effect(one: JointEffect) -> dict[str, Any]:
    gains = {"alone": _gain(one.alone), "beside_others": _gain(one.beside), "gap": _gain(one.gap)}
    return {"subject": one.label, "among": one.among, "kind": one.kind, "held_by": one.held_by, **gains}


def _stack(made: ReadyMade, commands: Mapping[Comparison, str]) -> dict[str, Any]:
    untried = made.untried
    return {
        "style": made.style,
        "best_measured": _candidate(made.best),
        "among": made.among,
        "not_measured": {"stack": untried.label, "command": commands.get(untried)} if untried else None,
    }


def _candidate(one: Candidate | None) -> dict[str, Any] | None:
    if one is None:
        return None
    config = {"subject": one.label, "cell": str(one.config), "gain": _gain(one.gain), "learns_alike": one.learns_alike}
    return {**config, "start_up": _start(one.break_even)}


NO_COMMAND = "No command of this version asks for this alone."
RULE = "Ordered by gain; each figure is a ratio with its 95 % interval for its own configuration alone."
_COLOUR = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.NO_EFFECT: "dim", Verdict.UNDECIDED: "yellow"}
Commands = Mapping[Comparison, str]


def advice_to_terminal(chapters: Sequence[Chapter], commands: Commands, *, width: int, colour: bool) -> str:
    """The advice as text of so many columns, with terminal colours if wanted."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=colour, no_color=not colour, highlight=False)
    for chapter in chapters:
        for part in _rendered(chapter, commands):
            console.print(part, soft_wrap=isinstance(part, Text) and part.no_wrap is True)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _rendered(chapter: Chapter, commands: Commands) -> Iterator[RenderableType]:
    yield Padding(Text(one_line(chapter.title), style="bold underline"), (1, 0, 0, 0))
    yield from (Text(one_line(f"Warning: {one}"), style="yellow") for one in chapter.warnings)
    yield from (Text(one_line(one)) for one in chapter.leads)
    for section in chapter.sections:
        if not section.is_appendix:
            yield from _section(section, commands)
    if any(section.is_appendix for section in chapter.sections):
        yield Padding(Text("The code of what these stacks switch on: --format markdown shows it.", style="dim"), (1, 0))
    if chapter.skipped:
        yield Text("Not measured", style="bold")
    yield from (Padding(Text(f"{labels}: {words}"), (0, 0, 0, 2)) for labels, words in chapter.skipped)


def _section(section: Section, commands: Commands) -> Iterator[RenderableType]:
    yield Padding(Text(section.title, style="bold"), (1, 0, 0, 0))
    if section.lead:
        yield Text(one_line(section.lead), style="dim")
    for one in section.points:
        yield from _point(one, commands)


def _point(point: Point, commands: Commands) -> Iterator[RenderableType]:
    head = Text(one_line(point.name), style="bold")
    if point.figure:
        head.append(f"  {point.figure} ", style="default")
        head.append(point.verdict, style=_COLOUR[Verdict(point.verdict)] if point.verdict else "")
    if point.title:
        head.append(f"  {one_line(point.title)}", style="not bold")
    yield Padding(head, (0, 0, 0, 2))
    for warning in point.warnings:
        yield Padding(Text(one_line(f"Warning: {warning}"), style="yellow"), (0, 0, 0, 4))
    yield from (Padding(Text(one_line(one)), (0, 0, 0, 4)) for one in (*point.main, *point.sentences))
    yield from (_pasted(line, "cyan") for line in (verbatim(point.code) if point.code else ()))
    if point.ask is not None:
        command = commands.get(point.ask)
        if told := point.lead if command else NO_COMMAND:
            yield Padding(Text(one_line(told), style="dim"), (0, 0, 0, 4))
        if command:
            yield _pasted(one_line(command), "dim")


def _pasted(line: str, style: str) -> Text:
    """A line that is copied from the terminal, which nothing may break."""
    return Text(f"        {line}", style=style, no_wrap=True)


def advice_to_markdown(chapters: Sequence[Chapter], commands: Commands, heading: Sequence[tuple[str, str]]) -> str:
    """The advice as Markdown; `heading` are the facts that every number depends on."""
    lines = ["# What to do", "", RULE, "", *grid(("fact", "value"), (tuple(map(escaped, one)) for one in heading))]
    for chapter in chapters:
        lines += _markdown(chapter, commands)
    return "\n".join(lines) + "\n"


def _markdown(chapter: Chapter, commands: Commands) -> Iterator[str]:
    yield from ("", f"## {escaped(chapter.title)}")
    for warning in chapter.warnings:
        yield from ("", f"**Warning:** {escaped(warning)}")
    for lead in chapter.leads:
        yield from ("", escaped(lead))
    for section in chapter.sections:
        yield from ("", f"### {escaped(section.title)}", "")
        if section.lead:
            yield from (escaped(section.lead), "")
        for point in section.points:
            yield from _item_lines(point, commands)
    if chapter.skipped:
        yield from ("", "### Not measured", "")
        yield from grid(("subject", "why"), (tuple(map(escaped, one)) for one in chapter.skipped))


def _item_lines(point: Point, commands: Commands) -> Iterator[str]:
    figure = f" {escaped(point.figure)} {escaped(point.verdict)}".rstrip() if point.figure else ""
    title = f" {escaped(point.title)}" if point.title else ""
    yield f"- **{escaped(point.name)}**{figure}{f':{title}' if title else ''}"
    yield from (f"  - **Warning:** {escaped(one)}" for one in point.warnings)
    yield from (f"  - {escaped(one)}" for one in (*point.main, *point.sentences))
    if point.code:
        yield from _fenced(verbatim(point.code), "python")
    if point.ask is not None:
        command = commands.get(point.ask)
        told = point.lead if command else NO_COMMAND
        yield from (f"  - {escaped(told)}",) if told else ()
        yield from _fenced((one_line(command),), "sh") if command else ()


def _fenced(lines: Sequence[str], language: str) -> Iterator[str]:
    """A fence in a list, longer than any run of backticks inside, so that nothing can end it early."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, 1 + longest)
    yield from ("", *(f"  {line}".rstrip() for line in (f"{fence}{language}", *lines, fence)), "")
