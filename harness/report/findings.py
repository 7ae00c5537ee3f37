"""What surprises: facts that rules find in the collection, the strongest of each rule; no number is typed by hand."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from harness.analyze.attribution import beyond_product
from harness.analyze.claims import REFUTED
from harness.analyze.collection import StoredRow
from harness.analyze.quality import Agreement
from harness.analyze.verdict import Verdict
from harness.core.claims import Claim
from harness.core.optimization import Timing
from harness.report import claims
from harness.report.document import escaped
from harness.report.published import Place, Publication, Setting, Topic, file_name, ratio_of
from harness.report.published_parts import code, estimated
from harness.report.words import ratio

MOST, MOST_OF_A_RULE = 8, 2
_LOADER_GAIN = 2.0  # the loader alone must gain as much before it surprises that training does not
_SHOWS = 0.25  # of the loader's log gain that training would have to show


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A sentence in Markdown, how far it is from what one expects (a log ratio), and what it is about."""

    weight: float
    about: tuple[str, ...]  # machine, workload, subject; no two facts are told about the same
    text: str


def surprises(publication: Publication) -> tuple[str, ...]:
    """The strongest facts of all rules, in turns, so that no rule crowds out the others."""
    ranked = [sorted(rule(publication), key=lambda one: (-one.weight, one.text)) for rule in _RULES]
    told: list[Fact] = []
    seen: set[tuple[str, ...]] = set()
    for turn in range(MOST_OF_A_RULE):
        for facts in ranked:
            fresh = [one for one in facts if one.about not in seen and one not in told]
            if fresh and len(told) < MOST and sum(one in told for one in facts) == turn:
                told.append(fresh[0])
                seen.add(fresh[0].about)
    return tuple(one.text for one in told)


Where = tuple[Place, Setting, Topic]


def _topics(publication: Publication) -> Iterator[Where]:
    """Every workload of each machine in the newest setting that tells of it."""
    for place in publication.places:
        yield from ((place, setting, topic) for setting, topic in place.answers)


def _link(place: Place, topic: Topic) -> str:
    return f"[{escaped(topic.name)}]({quote(f'{place.name}/{file_name(topic.name)}.md')})"


def _on(place: Place, setting: Setting) -> str:
    return f"on {escaped(place.name)}" + (" (contributed)" if setting.is_contributed else "")


def _both_ways(publication: Publication) -> Iterator[Fact]:
    """An optimization that makes one workload faster and another slower in the same environment."""
    found: dict[tuple[str, str, str], list[tuple[Where, StoredRow]]] = defaultdict(list)
    for where in _topics(publication):
        for entry in where[2].main.measured if where[2].main else ():
            if entry.row.estimate and entry.row.estimate.verdict in {Verdict.FASTER, Verdict.SLOWER}:
                found[where[0].name, where[1].key, entry.row.comparison.label].append((where, entry))
    for (machine, _, label), pairs in found.items():
        ordered = sorted(pairs, key=lambda pair: ratio_of(pair[1]))
        (low, slow), (high, fast) = ordered[0], ordered[-1]
        if ratio_of(slow) < 1 < ratio_of(fast):
            yield Fact(
                weight=math.log(ratio_of(fast) / ratio_of(slow)),
                about=(machine, low[2].name, label),
                text=f"{code(label)} makes {_link(high[0], high[2])} faster, {estimated(fast)}, and "
                f"{_link(low[0], low[2])} slower, {_bare(slow)}, {_on(high[0], high[1])}.",
            )


def _bare(entry: StoredRow) -> str:
    """A ratio with its interval, without the verdict that the sentence states."""
    return estimated(entry).removesuffix(f" {entry.row.estimate.verdict}") if entry.row.estimate else ""


def _loader_alone(publication: Publication) -> Iterator[Fact]:
    """A loader that is many times faster by itself, and a training that hardly notices."""
    for place, setting, topic in _topics(publication):
        trained = {one.row.comparison.label: one for one in (topic.main.measured if topic.main else ())}
        for sheet in topic.sheets:
            alike = topic.main is not None and sheet.config == topic.main.config
            for one in sheet.measured if alike and sheet.timing is Timing.LOADER else ():
                whole = trained.get(one.row.comparison.label)
                gained = one.row.estimate is not None and one.row.estimate.low > _LOADER_GAIN
                if whole is None or not gained or math.log(ratio_of(whole)) > _SHOWS * math.log(ratio_of(one)):
                    continue
                yield Fact(
                    weight=math.log(ratio_of(one) / ratio_of(whole)),
                    about=(place.name, topic.name, one.row.comparison.label),
                    text=f"{code(one.row.comparison.label)} makes the loader of {_link(place, topic)} "
                    f"faster by itself, {estimated(one)}, and its training {estimated(whole)}, {_on(place, setting)}.",
                )


def _slower(publication: Publication) -> Iterator[Fact]:
    """An optimization that is switched on for a gain and costs time."""
    for place, setting, topic in _topics(publication):
        for one in topic.main.measured if topic.main else ():
            label, estimate = one.row.comparison.label, one.row.estimate
            name = label.partition("=")[0]
            if estimate and estimate.verdict is Verdict.SLOWER and name in publication.sought:
                yield Fact(
                    weight=-math.log(estimate.ratio),
                    about=(place.name, topic.name, label),
                    text=f"{code(label)} slows {_link(place, topic)} down: {_bare(one)}, {_on(place, setting)}.",
                )


def _learns_otherwise(publication: Publication) -> Iterator[Fact]:
    """What is faster and was promised to learn the same, and does not."""
    for place, setting, topic in _topics(publication):
        for one in topic.main.measured if topic.main else ():
            quality, estimate, label = one.row.quality, one.row.estimate, one.row.comparison.label
            if quality and estimate and quality.status is Agreement.DIFFERS and estimate.verdict is Verdict.FASTER:
                yield Fact(
                    weight=math.log(estimate.ratio),
                    about=(place.name, topic.name, label),
                    text=f"{code(label)} makes {_link(place, topic)} faster, {estimated(one)}, "
                    f"and its quality differs: {escaped(quality.sentence)}; {_on(place, setting)}.",
                )


def _refuted(publication: Publication) -> Iterator[Fact]:
    """A promise with a figure that a measurement refutes."""
    for place in publication.places:
        for finding in (one for account in place.accounts for one in account.findings):
            claim, measured_value = finding.claim, finding.measured_value
            figure = claim.low or claim.high
            if (
                finding.claim_verdict not in REFUTED
                or measured_value is None
                or not figure
                or measured_value.value <= 0
            ):
                continue
            page = "claims.md" if publication.has_claims else ""
            name = f"[{escaped(claim.name)}]({page})" if page else escaped(claim.name)
            yield Fact(
                weight=abs(math.log(measured_value.value / figure)),
                about=(place.name, finding.workload, claim.name),
                text=f"Promised ({name}): {escaped(_with_conditions(claim))}. Measured on {escaped(finding.workload)}: "
                f"{escaped(claims.measured(finding))}, on {escaped(place.name)}; {escaped(claims.verdict(finding))}.",
            )


def _with_conditions(claim: Claim) -> str:
    return claims.promised(claim) + (f" ({claim.conditions})" if claim.conditions else "")


def _more_than_parts(publication: Publication) -> Iterator[Fact]:
    """A stack that clearly is more, or less, than the product of its parts, all of which were measured."""
    for place, setting, topic in _topics(publication):
        entries = topic.main.measured if topic.main else ()
        for one in entries:
            beyond, label = beyond_product(one, entries), one.row.comparison.label
            if beyond is None or not beyond.is_clear:
                continue
            kind = "more" if beyond.log > 0 else "less"
            yield Fact(
                weight=abs(beyond.log),
                about=(place.name, topic.name, label),
                text=f"{code(label)} on {_link(place, topic)} is {kind} than the product of its parts alone: "
                f"{estimated(one)}, which is {escaped(ratio(beyond))} of it, {_on(place, setting)}.",
            )


_RULES: Sequence[Callable[[Publication], Iterator[Fact]]] = (
    _both_ways,
    _loader_alone,
    _refuted,
    _learns_otherwise,
    _more_than_parts,
    _slower,
)
