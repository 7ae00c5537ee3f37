"""Side by side: the sentences and tables of a comparison, before any format is chosen; foreign text stands as it is."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.analyze.comparison import (
    Against,
    Column,
    Found,
    Group,
    MachineComparison,
    Scale,
    Shared,
    Speed,
    Throughput,
    Unlike,
)
from harness.analyze.estimate import ALIKE, OF_TABLE, Difference
from harness.analyze.grouping import together
from harness.analyze.matrix import Row
from harness.analyze.profile import Bottleneck
from harness.report.document import Heading, Part, Table, listed, plain, to_json
from harness.report.matrix import TIMED
from harness.report.words import NOTHING, called, factor, one_line, rate, ratio, stage

# Reasons: sentences on what lies beside a difference, and on what cannot be compared or told.

NO_ENERGY = "Energy for a sample is not compared; report shows it of each run whose device counts it."


def by_value(values: Mapping[str, str]) -> str:
    """What places say, those that say the same together: `A, C 2.11.0; B 2.9.1`."""
    letters = together((value, letter) for letter, value in values.items())
    return "; ".join(f"{', '.join(places)} {value}" for value, places in letters.items())


def wordless(configs: Sequence[Shared]) -> Iterator[str]:
    """The words where configurations have no ratio or no verdict in one place, those with the same words together."""
    found = ((one.letter, _wordless(one.entry.row), config.label) for config in configs for one in config.found)
    told = together(((letter, words), label) for letter, words, label in found if words)
    for (letter, words), labels in told.items():
        yield f"{', '.join(labels)} on {letter}: {words}"


def _wordless(row: Row) -> str:
    if row.absence:
        return row.absence.words
    if row.estimate and row.estimate.disturbed:
        return "the machine was too restless for a verdict"
    return OF_TABLE if row.estimate and row.estimate.looked_up else ""


def why(configs: Sequence[Shared], reference: str, facts: Sequence[Unlike]) -> Iterator[str]:
    """What else differs where configurations differ; nothing shows that it is the cause. Each is said once."""
    told: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for config in configs:
        for one in config.found:
            if one.against and (config.disagrees or one.against.contrast.differs):
                for cause in _causes(one.letter, one.against, reference, facts):
                    told[cause][config.label].append(one.letter)
    for cause, labels in told.items():
        named = (f"{name} ({', '.join(letters)})" for name, letters in labels.items())
        yield f"{cause}: {', '.join(named)}"


def _causes(letter: str, against: Against, reference: str, facts: Sequence[Unlike]) -> Iterator[str]:
    there, here = against.bottlenecks
    if there and here and against.moved:
        holds = f"The {stage(there.stage)} holds {called(reference)} back on {against.letter}"
        yield f"{holds}, the {stage(here.stage)} here"
    for name, (was, now) in against.settings.items():
        yield f"Seen {name} {_shown(was)} on {against.letter}, {_shown(now)} here"
    if not against.moved and not against.settings:
        unlike = [one.fact for one in facts if one.values[letter] != one.values[against.letter]]
        rest = ", ".join((*unlike, "when it was measured"))
        if there and here:
            yield f"The same stage and settings as on {against.letter}, so that there remains {rest}"
        else:
            yield f"Its stage is not known, and its settings are those on {against.letter}; there also differ {rest}"


def _shown(value: object) -> str:
    return "not seen" if value is None else str(value)


def missing(comparison: MachineComparison) -> Iterator[str]:
    """Why shares, costs and energy are not told where they are not."""
    words: dict[str, dict[str, None]] = defaultdict(dict)
    unpriced: dict[str, None] = {}
    for one in (one for group in comparison.groups for one in group.throughputs):
        if isinstance(one.reference.share, str):
            words[one.reference.share][one.letter] = None
        if one.reference.cost is None:
            unpriced[one.letter] = None
    for reason, letters in words.items():
        yield f"Share of the device's limit on {', '.join(letters)}: {reason}."
    if unpriced:
        add = "add one to prices.toml in the folder of results, or name a file with --prices"
        yield f"Cost on {', '.join(unpriced)}: no price is known; {add}."
    yield NO_ENERGY


def apart(comparison: MachineComparison) -> Iterator[str]:
    """What is not compared: configurations without a ratio, other sizes and stacks, and what one place alone has."""
    yield from _nowhere(comparison)
    for workload, scales in comparison.scales.items():
        told = "; ".join(
            _scale(letter, group) for letter, group in together((one.letter, one) for one in scales).items()
        )
        yield (
            f"{workload} was not measured alike everywhere ({told}): other sizes, batches or data are other "
            "configurations, without a ratio between them"
        )
    for workload, several in comparison.lonely.items():
        where = {letter for letter, names in comparison.measured.items() if workload in names}
        if len(where) == 1:
            yield f"{workload} was measured on {min(where)} alone"
            continue
        for letter, group in together((one.letter, one) for one in several).items():
            labels = (f"{one.label} ({'; '.join(one.words)})" if one.words else one.label for one in group)
            yield f"{workload}, on {letter} alone: {', '.join(dict.fromkeys(labels))}"


def _scale(letter: str, scales: Sequence[Scale]) -> str:
    sizes = together((f"size {one.size}{on_data(one.data)}", str(one.batch)) for one in scales)
    return f"{letter} " + ", ".join(f"{size} with batch {' and '.join(batches)}" for size, batches in sizes.items())


def _nowhere(comparison: MachineComparison) -> Iterator[str]:
    """Configurations that all have and none has a ratio of, those with the same words together."""
    alike: list[tuple[tuple[str, str], str]] = []
    for group in comparison.groups:
        for config in group.configs:
            words = {one.letter: one.entry.row.absence.words for one in config.found if one.entry.row.absence}
            if len(words) == len(config.found):
                alike.append(((group.config.workload, by_value(words)), config.label))
    for (workload, said), labels in together(alike).items():
        yield f"{workload}, without a ratio anywhere: {', '.join(labels)} ({said})"


def on_data(data: str) -> str:
    """On which real data, if on any."""
    return f" on {data}" if data else ""


UNPAIRED = (
    "Samples a second are unpaired, because machines cannot take turns: their range is over replicates, and a "
    "quotient of them has no verdict."
)


def comparison_parts(comparison: MachineComparison) -> Iterator[Part]:
    """The whole comparison, the most important first."""
    yield Heading("Comparison", 1)
    facts = (*_unlike("", comparison.environments), *_unlike("measured with ", comparison.protocols))
    same = () if comparison.environments else ("Machine and software are alike in every fact that is recorded.",)
    yield Heading(f"{len(comparison.columns)} places side by side")
    yield _places(comparison.columns)
    yield from listed((*same, *facts))
    yield Heading("What the configurations say together")
    yield from listed((summary(comparison), *_reading(comparison)))
    for group in comparison.groups:
        if any(one.entry.row.estimate for config in group.configs for one in config.found):
            yield from _group(group, comparison)
    if parted := tuple(apart(comparison)):
        yield Heading("Not compared")
        yield from listed(parted)
    yield Heading("Not told")
    yield from listed(missing(comparison))


def summary(comparison: MachineComparison) -> str:
    """How many configurations are shared, and what became of them."""
    words = [config.difference for config in comparison.configs]
    counted = {
        "pay differently": sum(config.differs for config in comparison.configs),
        "alike": words.count(Difference.ALIKE),
        "undecided": words.count(Difference.UNDECIDED),
        "without a second ratio": words.count(None),
    }
    told = ", ".join(f"{number} {what}" for what, number in counted.items() if number)
    opposed = sum(config.disagrees for config in comparison.configs)
    return f"Shared configurations: {len(words)}, of them {told}. Verdicts disagree in {opposed or 'none'}."


def _reading(comparison: MachineComparison) -> Iterator[str]:
    made = sum(len(config.contrasts) for config in comparison.configs)
    yield (
        "A difference is one speedup over another, with a 95 % interval for its own configuration alone: of "
        f"{made} intervals about one in twenty misses the truth by chance. Alike means within "
        f"{100 * (ALIKE - 1):.1f} %. They speak of these runs; other machines of the same kind may differ."
    )
    yield UNPAIRED


def _places(places: Sequence[Column]) -> Table:
    rows = tuple(
        (
            place.letter,
            place.environment.machine,
            place.environment.digest,
            place.runs[0].name + (f" and {len(place.runs) - 1} older" if len(place.runs) > 1 else ""),
            "contributed" if place.contributed else "own",
        )
        for place in places
    )
    return Table(("", "machine", "environment", "newest run", "measured by"), rows)


def _unlike(before: str, facts: Iterable[Unlike]) -> Iterator[str]:
    return (f"{before}{fact.fact}: {by_value(fact.values)}" for fact in facts)


def _group(group: Group, comparison: MachineComparison) -> Iterator[Part]:
    config = group.config
    sample = f"{config.workload}, size {config.size}, batch {config.batch}{on_data(group.data)}"
    yield Heading(f"{sample}: {TIMED[group.timing]} against {called(group.name)}")
    configs = [one for one in group.configs if any(found.entry.row.estimate for found in one.found)]
    yield _cells(configs)
    because = why(configs, group.name, (*comparison.environments, *comparison.protocols))
    yield from listed((*because, *wordless(configs)))
    if group.throughputs:
        yield _speeds(group.throughputs, comparison.currency)
        yield from listed(_held_back(group))


def _cells(configs: Sequence[Shared]) -> Table:
    rows = []
    for config in configs:
        for number, one in enumerate(config.found):
            estimate, against = one.entry.row.estimate, one.against
            rows.append(
                (
                    "" if number else config.label,
                    one.letter,
                    ratio(estimate),
                    one.word,
                    f"{ratio(against.contrast)} of {against.letter}" if against else NOTHING,
                    str(against.contrast.difference) if against else NOTHING,
                )
            )
    columns = ("configuration", "", "speedup, 95 %", "verdict", "ratio of the two, 95 %", "difference")
    return Table(columns, tuple(rows))


def _speeds(throughputs: Sequence[Throughput], currency: str) -> Table:
    several = [speed for one in throughputs for speed in (one.reference, one.best) if speed]
    shares = any(not isinstance(speed.share, str) for speed in several)
    costs = any(speed.cost is not None for speed in several)
    rows = []
    for one in throughputs:
        for number, speed in enumerate(speed for speed in (one.reference, one.best) if speed):
            row = ["" if number else one.letter, speed.name, _range(speed), _quotient(speed)]
            row += [NOTHING if isinstance(speed.share, str) else f"{100 * speed.share:.2g} %"] if shares else []
            row += [NOTHING if speed.cost is None else factor(speed.cost)] if costs else []
            rows.append(tuple(row))
    columns = ["", "stack", "samples/s, of single replicates", "unpaired, of single replicates"]
    columns += ["of the limit"] if shares else []
    columns += [f"{currency} a million"] if costs else []
    return Table(tuple(columns), tuple(rows))


def _range(speed: Speed) -> str:
    value, low, high = (rate(one).removesuffix(" samples/s") for one in (speed.rate, speed.low, speed.high))
    return f"{value} [{low}, {high}]"


def _quotient(speed: Speed) -> str:
    against = speed.against
    return f"{ratio(against)} of {against.letter}'s {one_line(against.name)}" if against else NOTHING


def _held_back(group: Group) -> Iterator[str]:
    """The stage and both upper bounds of the reference in each place that has them."""
    seen: dict[str, Bottleneck] = {}
    for config in group.configs:
        for one in config.found:
            profile = one.entry.table.profile
            if profile and profile.bottleneck:
                seen.setdefault(one.letter, profile.bottleneck)
    for letter, found in sorted(seen.items(), key=lambda one: (len(one[0]), one[0])):
        bounds = f"loader alone {rate(found.loader_rate)}, step alone {rate(found.compute_rate)}"
        what = " and the ".join(map(stage, found.stages))
        yield f"{letter}: the {what} {'hold' if len(found.stages) > 1 else 'holds'} {called(group.name)} back; {bounds}"


# The comparison as JSON.

SCHEMA = 1


def comparison_to_json(comparison: MachineComparison) -> str:
    """Everything a script needs; rates in samples a second, an endless bound is null."""
    document = {
        "schema": SCHEMA,
        "places": [
            {
                "letter": one.letter,
                "machine": one.environment.machine,
                "environment": {**plain(one.environment), "digest": one.environment.digest},
                "contributed": one.contributed,
                "runs": [run.name for run in one.runs],
            }
            for one in comparison.columns
        ],
        "environments_differ": comparison.environments,
        "protocols_differ": comparison.protocols,
        "currency": comparison.currency or None,
        "groups": [_group_data(one) for one in comparison.groups],
        "measured_unlike": comparison.scales,
        "in_one_place": comparison.lonely,
    }
    return to_json(document)


def _group_data(group: Group) -> dict[str, Any]:
    return {
        "reference": str(group.config),
        "reference_name": group.name,
        "timing": group.timing,
        "real_data": group.data,
        "throughputs": group.throughputs,
        "cells": [_shared(one) for one in group.configs],
    }


def _shared(config: Shared) -> dict[str, Any]:
    return {
        "subject": config.label,
        "treatment": str(config.question.treatment),
        "difference": config.difference,
        "verdicts_disagree": config.disagrees,
        "places": [_found(one) for one in config.found],
    }


def _found(one: Found) -> dict[str, Any]:
    row, against = one.entry.row, one.against
    return {
        "letter": one.letter,
        "run": one.entry.run.name,
        "runs": [each.run.name for each in one.entry.repeats or (one.entry,)],
        "estimate": row.estimate,
        "absence": row.absence,
        "against": against.letter if against else None,
        "contrast": against.contrast if against else None,
        "bottlenecks": against.bottlenecks if against else None,
        "settings": against.settings if against else None,
    }
