"""What surprises: facts that rules find in the collection, the strongest of each rule; no number is typed by hand."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from harness.analyze.attribution import beyond_product
from harness.analyze.claims import REFUTED, Finding, MeasuredValue, rule
from harness.analyze.collection import StoredRow, StoredRun, entries
from harness.analyze.estimate import Estimate
from harness.analyze.grouping import together
from harness.analyze.quality import Agreement
from harness.core.claims import Claim, Metric
from harness.core.optimization import Timing
from harness.report import claims
from harness.report.document import escaped
from harness.report.published import (
    Place,
    Publication,
    Setting,
    Topic,
)
from harness.report.published_parts import (
    bare,
    code,
    estimated,
    page_of,
    run_link,
)
from harness.report.words import ratio

MOST, MOST_OF_A_RULE, FIRST = 8, 2, 3
_LOADER_GAIN = 2.0  # the loader alone must gain as much before it surprises that training does not
_SHOWS = 0.25  # of the loader's log gain that training would have to show
_WIDER = 2  # times as wide as ours an interval may be that agrees
_Where = tuple[Place, Setting, Topic]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A sentence in Markdown, how far it is from what one expects (a log ratio), and what it is about."""

    weight: float
    about: tuple[str, ...]  # workload and subject; no two facts are told about the same, on whatever machines
    text: str
    again: bool = True  # whether another run came to the same


def surprises(publication: Publication, *, again: bool = True) -> tuple[str, ...]:
    """The strongest facts of all rules, in turns, so that no rule crowds out the others.

    What stands out in one run of many was lucky too: such a fact is told only if another run came to the same, unless
    `again` is false.
    """
    ranked = [
        sorted((one for one in rule(publication) if one.again or not again), key=lambda one: (-one.weight, one.text))
        for rule in _RULES
    ]
    told: list[Fact] = []
    seen: set[tuple[str, ...]] = set()
    for turn in range(MOST_OF_A_RULE):
        for facts in ranked:
            fresh = [one for one in facts if one.about not in seen and one not in told]
            if fresh and len(told) < MOST and sum(one in told for one in facts) == turn:
                told.append(fresh[0])
                seen.add(fresh[0].about)
    return tuple(one.text for one in told)


def unconfirmed(publication: Publication) -> int:
    """How many facts no second run confirms."""
    return sum(not one.again for rule in _RULES for one in rule(publication))


def _measured(publication: Publication) -> Iterator[tuple[_Where, StoredRow, Estimate]]:
    """Every ratio against today's baseline, each machine's workloads in the setting that tells most of them."""
    for place in publication.places:
        for setting, topic in place.answers:
            for one in topic.main.measured if topic.is_of_today and topic.main and not setting.is_former else ():
                if one.row.estimate:
                    yield (place, setting, topic), one, one.row.estimate


_Holds = Callable[[Estimate], bool]  # whether an estimate of another run says what a fact says


def _fact(where: _Where, label: str, weight: float, text: str, *told: tuple[StoredRow, _Holds]) -> Fact:
    """A fact that rests on these rows; where other runs say the same of each, it says which."""
    place, setting, topic = where
    contributed = " (contributed)" if setting.is_contributed else ""
    others = [_another(place, *one) for one in told]
    parts = {Timing.LOADER: "its loader ", Timing.STEP: "training "} if len(told) > 1 else {}
    repeats = " and ".join(
        f"{run_link(one.run, f'{place.name}/')}: {parts.get(one.row.comparison.timing, '')}{bare(one)}"
        for one in others
        if one
    )
    on = f", on {escaped(place.name)}{contributed}" + (f"; again on {repeats}." if all(others) else ".")
    return Fact(weight=weight, about=(topic.name, label), text=text + on, again=all(others))


def _another(place: Place, entry: StoredRow, holds: _Holds) -> StoredRow | None:
    """The newest other run on the machine that asked the same, in whatever environment; None unless it says the same.

    A run whose ratio is part of the entry's average is no other. What was disturbed says nothing, nor what is so wide
    that it had to agree, or too uncertain for that average; an older run that agrees does not outweigh a newer one that
    contradicts.
    """
    runs = (run for setting in place.settings for run in setting.runs)
    one, estimate = next(other_answers(runs, entry), (None, None))
    if one is None:  # then two of those whose average it is must say the same, each by itself
        first, *others = entry.repeats or (entry,)
        one, estimate = next(((other, other.row.estimate) for other in others if other.row.estimate), (None, None))
        if first.row.estimate is None or not holds(first.row.estimate):
            return None
    return one if estimate and holds(estimate) else None


def other_answers(runs: Iterable[StoredRun], entry: StoredRow) -> Iterator[tuple[StoredRow, Estimate]]:
    """What other runs, of whatever environment, answer to the same question on a calm machine; the newest first.

    Beside an answer that an average may hold, only such count.
    """
    asked, ours = replace(entry.question, environment=""), entry.alone.row.estimate
    inside = {one.run.name for one in entry.repeats or (entry,)}
    for one in entries(run for run in runs if run.name not in inside):
        estimate = one.row.estimate
        if estimate is None or ours is None or estimate.disturbed or estimate.half_width > _WIDER * ours.half_width:
            continue
        if (estimate.is_sound or not ours.is_sound) and replace(one.question, environment="") == asked:
            yield one, estimate


def _link(where: _Where) -> str:
    place, _, topic = where
    return f"[{escaped(topic.name)}]({page_of(place, topic)})"


def _gains(other: Estimate) -> bool:
    return other.verdict.gains


def _loses(other: Estimate) -> bool:
    return other.verdict.loses


def _hardly(alone: Estimate, training: Estimate) -> bool:
    """Whether training surely shows little of what its loader gains alone."""
    return math.log(training.high) <= _SHOWS * math.log(alone.ratio)


def _still_hardly(alone: Estimate, whole: StoredRow, other: Estimate) -> bool:
    """Whether another run's training shows as little; what is compatible with neither is another answer."""
    return is_alike(whole, other) and _hardly(alone, other)


def is_alike(entry: StoredRow, other: Estimate) -> bool:
    """Whether another run's estimate is compatible with a row's."""
    ours = entry.row.estimate
    return ours is not None and abs(math.log(ours.ratio / other.ratio)) <= math.hypot(ours.half_width, other.half_width)


def _refutes(claim: Claim, other: Estimate) -> bool:
    """Whether another run's estimate refutes a claim about throughput."""
    seen = MeasuredValue(
        value=other.ratio,
        low=other.low,
        high=other.high,
        replicates=other.processes,
        margin=other.thresholds.margin,
    )
    return rule(claim, seen) in REFUTED


def _judged_by(place: Place, finding: Finding) -> StoredRow | None:
    """The row on which a finding about throughput rests; None of other findings."""
    basis = finding.basis
    if basis is None or finding.claim.metric is not Metric.THROUGHPUT:
        return None
    runs = (run for setting in place.settings for run in setting.runs if run.name == basis.run)
    asked = ((one, one.row.comparison) for one in entries(runs) if one.row.estimate)
    wanted = basis.config, basis.reference, basis.tried.timing
    return next((one for one, its in asked if (its.treatment, its.reference, its.timing) == wanted), None)


def _both_ways(publication: Publication) -> Iterator[Fact]:
    """An optimization that makes one workload faster and another slower in the same environment."""
    found = together(
        ((where[0].name, where[1].key, one.row.comparison.label), (estimate.ratio, where, one))
        for where, one, estimate in _measured(publication)
        if estimate.verdict.gains or estimate.verdict.loses
    )
    for (_, _, label), several in found.items():
        ordered = sorted(several, key=lambda one: one[0])
        (low, there, slow), (high, here, fast) = ordered[0], ordered[-1]
        if low < 1 < high:
            text = (
                f"{code(label)} makes {_link(here)} faster, {estimated(fast)}, and {_link(there)} slower, {bare(slow)}"
            )
            agree = ((slow, _loses), (fast, _gains))
            yield _fact(there, label, math.log(high / low), text, *agree)


def _loader_alone(publication: Publication) -> Iterator[Fact]:
    """A loader that is many times faster by itself, and a training that hardly notices."""
    for where, whole, estimate in _measured(publication):
        label, topic = whole.row.comparison.label, where[2]
        loaders = (one for one in topic.sheets if topic.main and one.config == topic.main.config)
        for one in (one for sheet in loaders if sheet.timing is Timing.LOADER for one in sheet.measured):
            alone = one.row.estimate
            gains = alone is not None and alone.verdict.gains and alone.low > _LOADER_GAIN
            if alone is None or one.row.comparison.label != label or not gains:
                continue
            if _hardly(alone, estimate):
                text = f"{code(label)} makes the loader of {_link(where)} {estimated(one)} as fast by itself, and its "
                weight = math.log(alone.ratio / estimate.ratio)
                told = (one, _gains), (whole, partial(_still_hardly, alone, whole))
                yield _fact(where, label, weight, f"{text}training {estimated(whole)}", *told)


def _slower(publication: Publication) -> Iterator[Fact]:
    """An optimization that is switched on for a gain and costs time."""
    for where, one, estimate in _measured(publication):
        label = one.row.comparison.label
        if estimate.verdict.loses and label.partition("=")[0] in publication.sought:
            text = f"{code(label)} slows {_link(where)} down: {bare(one)}"
            yield _fact(where, label, -math.log(estimate.ratio), text, (one, _loses))


def _learns_otherwise(publication: Publication) -> Iterator[Fact]:
    """What is faster and was promised to learn the same, and does not."""
    for where, one, estimate in _measured(publication):
        found, label = one.row.quality, one.row.comparison.label
        if found and found.status is Agreement.DIFFERS and estimate.verdict.gains:
            text = f"{code(label)} makes {_link(where)} faster, {estimated(one)}, and its quality differs: "
            yield _fact(where, label, math.log(estimate.ratio), text + escaped(found.sentence), (one, _gains))


def _refuted(publication: Publication) -> Iterator[Fact]:
    """A promise with a figure that a measurement refutes."""
    for place in publication.places:
        for finding in (one for account in place.accounts for one in account.findings):
            claim, value = finding.claim, finding.measured_value
            figure = claim.low or claim.high
            if finding.claim_verdict not in REFUTED or value is None or not figure or value.value <= 0:
                continue
            row = _judged_by(place, finding)
            other = _another(place, row, partial(_refutes, claim)) if row else None
            again = f"; again on {run_link(other.run, f'{place.name}/')}: {bare(other)}" if other else ""
            name = f"[{escaped(claim.name)}](claims.md)" if publication.has_claims else escaped(claim.name)
            promised = claims.promised(claim) + (f" ({claim.conditions})" if claim.conditions else "")
            yield Fact(
                weight=abs(math.log(value.value / figure)),
                about=(finding.workload, claim.name),
                text=f"Promised ({name}): {escaped(promised)}. Measured on {escaped(finding.workload)}: "
                f"{escaped(claims.measured(finding))}, on {escaped(place.name)}; {escaped(claims.verdict(finding))}"
                f"{again}.",
                again=other is not None,
            )


def _more_than_parts(publication: Publication) -> Iterator[Fact]:
    """A stack that clearly is more, or less, than the product of its parts, all of which were measured."""
    for where, one, _ in _measured(publication):
        main, label = where[2].main, one.row.comparison.label
        beyond = beyond_product(one, main.measured) if main else None
        if beyond is not None and beyond.is_clear:
            kind = "more" if beyond.log > 0 else "less"
            text = f"{code(label)} on {_link(where)} is {kind} than the product of its parts alone: {estimated(one)}"
            alike = partial(is_alike, one)
            yield _fact(where, label, abs(beyond.log), f"{text}, which is {escaped(ratio(beyond))} of it", (one, alike))


_RULES = (_both_ways, _loader_alone, _refuted, _learns_otherwise, _more_than_parts, _slower)
