"""The first page of a folder of results: what to switch on, what surprises, what was promised, and where more is."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from urllib.parse import quote

from harness.analyze.attribution import beyond_product, learns_alike
from harness.analyze.claims import REFUTED, Finding, MeasuredValue, rule
from harness.analyze.collection import StoredRow, StoredRun, answered, entries
from harness.analyze.estimate import Estimate
from harness.analyze.grouping import together
from harness.analyze.quality import Agreement
from harness.core.claims import Claim, Metric
from harness.core.configuration import Option
from harness.core.emulation import widest_band
from harness.core.optimization import Timing
from harness.core.plan import TUNED
from harness.report import claims
from harness.report.document import escaped, grid
from harness.report.gallery import GALLERY
from harness.report.matrix import COMPOSED
from harness.report.published import (
    ALL,
    ORIGINAL,
    Place,
    Publication,
    Setting,
    Topic,
    at,
    file_name,
    is_single,
    is_stack,
    telling,
)
from harness.report.published_parts import (
    ITS_OWN,
    Page,
    Part,
    bounds,
    calibrated,
    chip,
    code,
    days,
    estimated,
    faster_otherwise,
    faster_over_original,
    heat_map_picture,
    named,
    on_training,
    over_original,
    page,
    refused,
    run_link,
    run_links,
    stack_unlike,
    sweep_picture,
    unbroken,
)
from harness.report.sweep import EMULATED, HOW, time
from harness.report.sweep import sentences as sentences_of
from harness.report.words import NOTHING, factor, ratio

# What surprises: facts that rules find in the collection, the strongest of each rule; no number is typed by hand.

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


def _measured(publication: Publication) -> Iterator[tuple[_Where, StoredRow, Estimate]]:
    """Every ratio against today's baseline, each machine's workloads in the setting that tells most of them."""
    for place in publication.places:
        for setting, topic in place.answers:
            for one in topic.main.measured if topic.is_of_today and topic.main else ():
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
        f"{run_link(one.run, f'{place.name}/')}: {parts.get(one.row.comparison.timing, '')}{_bare(one)}"
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
    one, estimate = next(_others(runs, entry), (None, None))
    if one is None:  # then two of those whose average it is must say the same, each by itself
        first, *others = entry.repeats or (entry,)
        one, estimate = next(((other, other.row.estimate) for other in others if other.row.estimate), (None, None))
        if first.row.estimate is None or not holds(first.row.estimate):
            return None
    return one if estimate and holds(estimate) else None


def _others(runs: Iterable[StoredRun], entry: StoredRow) -> Iterator[tuple[StoredRow, Estimate]]:
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


def _page_of(place: Place, topic: Topic) -> str:
    return quote(f"{place.name}/{file_name(topic.name)}.md")


def _link(where: _Where) -> str:
    place, _, topic = where
    return f"[{escaped(topic.name)}]({_page_of(place, topic)})"


def _bare(entry: StoredRow) -> str:
    """A ratio with its interval, without the verdict that the sentence states."""
    return estimated(entry).removesuffix(f" {entry.row.estimate.verdict}") if entry.row.estimate else ""


def _gains(other: Estimate) -> bool:
    return other.verdict.gains


def _loses(other: Estimate) -> bool:
    return other.verdict.loses


def _hardly(alone: Estimate, training: Estimate) -> bool:
    """Whether training surely shows little of what its loader gains alone."""
    return math.log(training.high) <= _SHOWS * math.log(alone.ratio)


def _alike(entry: StoredRow, other: Estimate) -> bool:
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
                f"{code(label)} makes {_link(here)} faster, {estimated(fast)}, and {_link(there)} slower, {_bare(slow)}"
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
                hardly = partial(_hardly, alone)
                told = (one, _gains), (whole, hardly)
                yield _fact(where, label, weight, f"{text}training {estimated(whole)}", *told)


def _slower(publication: Publication) -> Iterator[Fact]:
    """An optimization that is switched on for a gain and costs time."""
    for where, one, estimate in _measured(publication):
        label = one.row.comparison.label
        if estimate.verdict.loses and label.partition("=")[0] in publication.sought:
            text = f"{code(label)} slows {_link(where)} down: {_bare(one)}"
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
            again = f"; again on {run_link(other.run, f'{place.name}/')}: {_bare(other)}" if other else ""
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
            alike = partial(_alike, one)
            yield _fact(where, label, abs(beyond.log), f"{text}, which is {escaped(ratio(beyond))} of it", (one, alike))


_RULES = (_both_ways, _loader_alone, _refuted, _learns_otherwise, _more_than_parts, _slower)


# What to switch on: one row for each workload and machine.

_BEST_COLUMNS = (
    "workload",
    "machine",
    "fastest whose first losses agree",
    "speedup",
    "over the real system's settings that the machine can have",
    "best options, each alone",
    "bottleneck, before → after",
    "measured",
)
_ALONE = 2  # options that are named beside a stack


def _best(place: Place, setting: Setting, topic: Topic, already: Mapping[str, Option]) -> Iterator[str]:
    yield f"[{escaped(topic.name)}]({_page_of(place, topic)})"
    several = len({one.key for one, _ in place.answers}) > 1
    where = f"{escaped(place.name)} {named(setting)}" if several else escaped(place.name)
    yield where + (" (contributed)" if setting.is_contributed else "")
    best = topic.best
    if best is None:
        yield from ("nothing for sure", *(NOTHING,) * 5)
        return
    yield code(best.row.label)
    told = *_withheld(topic, best), *_again(setting, best), *_elsewhere(place, setting, best)
    yield "; ".join((estimated(best), *told))
    yield _over_original(place, setting, topic, best)
    yield "; ".join(_alone(topic, best, already)) or NOTHING
    yield bounds(best.row)
    yield run_links(best, f"{place.name}/")


def _withheld(topic: Topic, best: StoredRow) -> Iterator[str]:
    """What reads faster still where the machine was too disturbed for a verdict."""
    known = [(one, one.row.estimate) for one in topic.main.measured if one.row.estimate] if topic.main else []
    faster = [(estimate.low, one) for one, estimate in known if estimate.disturbed and learns_alike(one.row)]
    low, one = max(faster, key=lambda two: two[0], default=(0.0, best))
    if best.row.estimate and low > best.row.estimate.low:
        yield f"{code(one.row.label)} reads {unbroken(_bare(one))}, but the machine was disturbed"


def _again(setting: Setting, best: StoredRow) -> Iterator[str]:
    """What each run came to whose average this is, and whether they disagree; or what others of other versions did."""
    found = [one.row.estimate.ratio for one in best.repeats if one.row.estimate]
    if found and best.row.estimate:
        yield f"of {len(found)} runs, {_ends(found)}" + (", which **disagree**" if best.row.estimate.apart else "")
    elif others := [estimate for _, estimate in _others(setting.runs, best)]:
        agree = all(_alike(best, one) for one in others)
        yield f"again {_ends(one.ratio for one in others)}" + ("" if agree else ", which **disagrees**")


def _elsewhere(place: Place, setting: Setting, best: StoredRow) -> Iterator[str]:
    """What stacks of that name, and `all`, came to otherwise on the machine, of which no interval knows.

    That is in other environments, and of other options in this one.
    """
    names = {best.row.label} | (set() if ALL in {one.row.label for one in answered(setting.runs)} else {ALL})
    wanted = best.row.comparison
    others = together(
        (one.row.label, one.row.estimate.ratio)
        for other in place.settings
        if other.is_contributed == setting.is_contributed
        for one in answered(other.runs)
        if one.row.estimate
        and not (other is setting and one.row.comparison.treatment == wanted.treatment)
        and one.row.label in names
        and (one.row.comparison.reference, at(one.row.comparison)) == (wanted.reference, at(wanted))
    )
    for label, found in others.items():
        whose = "" if label == best.row.label else f"{code(label)} "
        yield f"{whose}elsewhere {_ends(found)}"


def _ends(ratios: Iterable[float]) -> str:
    """The least and the greatest of some ratios: `2.1x to 3.5x`, or `2.1x`."""
    found = sorted(ratios)
    return unbroken(" to ".join(dict.fromkeys(f"{factor(one)}x" for one in (found[0], found[-1]))))


def _over_original(place: Place, setting: Setting, topic: Topic, best: StoredRow) -> str:
    """What a stack gains over what the real system had switched on, in this environment or another one of ours."""
    if best.row.label == ORIGINAL:
        return ITS_OWN
    there, found = _against_original(place, setting, topic, best)
    if found is None:
        sheets = (one for one in topic.sheets if one.name == ORIGINAL and not one.data)
        rows = (one for sheet in sheets for one in sheet.measured if one.row.label == ALL)
        whole = next((one for one in rows if at(one.row.comparison) == at(best.row.comparison)), None)
        return f"{code(ALL)} {estimated(whole)}" if whole else refused(topic, best)
    if not _tells(found):
        return f"[no useful bounds]({_page_of(place, topic)})"
    unlike = stack_unlike(found, best)
    known = unbroken(estimated(found))
    told = f"{known} (there {code(best.row.label)} was {unlike})" if unlike else known
    elsewhere = "" if found.run in setting.runs else ", in another environment"
    return f"{told}{elsewhere}{faster_over_original(there, found)}"


def _against_original(place: Place, setting: Setting, topic: Topic, best: StoredRow) -> tuple[Topic, StoredRow | None]:
    """The best stack against the real system's settings, in this environment or another one of ours, and its topic."""
    others = (
        one
        for other in place.settings
        if other.is_contributed == setting.is_contributed
        for one in other.topics
        if one.name == topic.name
    )
    known = ((one, one.against(ORIGINAL, best)) for one in (topic, *others))
    return next(((one, found) for one, found in known if found is not None), (topic, None))


def _tells(found: StoredRow) -> bool:
    """Whether a ratio has useful bounds."""
    return found.row.estimate is not None and found.row.estimate.half_width < 1  # in the log: a factor of 2.7


def _slower_inside(topic: Topic) -> Iterator[str]:
    """Options of the best stack that were slower alone, if nobody has measured the stack without them."""
    best, main = topic.best_stack, topic.main
    if best is None or main is None:
        return
    inside = set(best.row.comparison.treatment.options)
    tried = [set(one.row.comparison.treatment.options) for sheet in topic.sheets for one in sheet.measured]
    for one in main.measured:
        alone, estimate = set(one.row.comparison.treatment.options), one.row.estimate
        if estimate and is_single(one) and estimate.verdict.loses and alone <= inside and inside - alone not in tried:
            yield f"{code(one.row.label)} {_bare(one)}"


_Held = Mapping[str, Mapping[str, Option]]  # options of the real systems by workload and name


def _held(publication: Publication) -> _Held:
    """What the real systems had switched on, wherever we measured that; some machines cannot have all of it.

    Former versions tuned malloc in every arm, whatever the real system does.
    """
    settings = (one for place in publication.places for one in place.settings if not one.is_contributed)
    topics = (topic for one in settings for topic in one.topics)
    found = ((one.name, sheet) for one in topics for sheet in one.sheets if sheet.name == ORIGINAL)
    return {
        name: {one.name: one for sheet in sheets for one in sheet.config.options if one.name != TUNED}
        for name, sheets in together(found).items()
    }


def _alone(topic: Topic, best: StoredRow, already: Mapping[str, Option], *, lacking: bool = False) -> Iterator[str]:
    """What surely gains most alone on training steps, as timed or as its part comes to; a stack may lack it.

    Beside the best; or, of all, what is `lacking` in the real system's settings.
    """
    inside, wanted = set(best.row.comparison.treatment.options), best.row.comparison.treatment
    known = set(map(str, already.values()))
    gains = (
        (label, one)
        for label, one in topic.gains.items()
        if (label not in known if lacking else one.row.comparison.treatment != wanted)
    )
    for label, one in islice(gains, _ALONE):
        held = is_single(best) or inside.issuperset(one.row.comparison.treatment.options)
        beside = "" if held else f", not part of {code(best.row.label)}"
        name = label.partition("=")[0]
        has = f" (the real system has {code(str(already[name]))})" if name in already else ""
        if name == "trainer_threads":
            has = " (PyTorch's default; all other arms compute with one thread)"
        yield f"{code(label)} {on_training(one)}{has}{beside}"


_Answer = tuple[Place, Setting, Topic]


def _switch_on(publication: Publication) -> Iterator[Part]:
    places = [place for place in publication.places if not place.sweeps]
    answers = [(place, setting, topic) for place in places for setting, topic in place.answers]
    now = sorted((one for one in answers if one[2].is_of_today), key=lambda one: (one[2].name, one[0].name))
    former = sorted({place.name for place, _, topic in answers} - {place.name for place, _, _ in now})
    if now:
        yield from ("", "## What to switch on", "")
        held = _held(publication)
        swept = len(places) < len(publication.places)
        yield from (*_at_a_glance(now, held, swept=swept), *_in_detail(now, held))
    others = {place.name for place in places} - {place.name for place, _, _ in answers}
    if others:
        links = ", ".join(_machine_link(name) for name in sorted(others))
        yield from ("", f"No ratio of training steps against the baseline yet: {links}.")
    if former:
        links = ", ".join(_machine_link(name) for name in former)
        yield from ("", f"Measured against the baseline of 0.2.0 alone, and not in this table: {links}.")


_GLANCE_COLUMNS = (
    "workload",
    "machine",
    "best option alone that the real system's settings lack",
    "fastest stack",
    "over the real system's settings",
    "runs",
)
_ONE = "one"  # run


def _at_a_glance(answers: Sequence[_Answer], held: _Held, *, swept: bool) -> Iterator[Part]:
    """One row for each workload and machine: the best option by itself, and the fastest stack.

    `swept` says whether other step times of emulated devices follow below.
    """
    by_kind = together((setting.environment.emulated, (place, setting, topic)) for place, setting, topic in answers)
    real = any(setting.environment.kind == "cuda" for _, setting, _ in answers)
    yield (
        "How many times as fast a training step is as in the baseline, the same training with every option off: first "
        "with the one option, of those that the real system had not switched on, that surely gains most (the highest "
        "lower end of an interval), then with the fastest of the stacks measured against the baseline. Last, that "
        "stack, or an option that no stack surely beats, against what the real system had switched on, with the "
        "options by which it differed there, and what was faster there. "
        f"{_sizes_in_words(answers)} 'Of 3 runs, 2x to 3x': the lowest and the highest of the runs that were averaged. "
        f"'Elsewhere': other software on this machine, or an older {code(ALL)} with other options. "
        f"{COMPOSED}: composed from the ratio of the part that the option changes; where an option was timed on whole "
        "steps, that comes first. Every arm computes with one thread, that of the real system's settings too, except "
        f"with {code('trainer_threads=2')}. 'Unsound': what a run recorded contradicts itself or is known to be false; "
        "the workload's page says how. 'Disturbed': the machine was too restless for a verdict, often since other "
        "programs took its cores." + ("" if real else " No real GPU was measured.")
    )
    for emulated, several in sorted(by_kind.items()):
        alike = _alike_over(several) if emulated else ""
        if emulated:
            stacks = f"Over the real system's settings, stacks are {alike}. " if alike else ""
            tables = _error_of_tables(several, swept=swept)
            yield from ("", f"Beside emulated devices. Loaders are real. {stacks}{tables}")
        rows = (tuple(_glance(*one, held.get(one[2].name, {}), alike)) for one in several)
        yield from ("", *grid(_GLANCE_COLUMNS, rows))
    yield ""
    yield (
        "Where the real system had some of these options on already, less is left to gain. The best of many measured "
        "options looks a little better than it is. Measure it on your machine: "
        f"{code('./speedmatrix run WORKLOAD --stack all')}."
    )


def _error_of_tables(answers: Sequence[_Answer], *, swept: bool) -> str:
    """How far the step times of emulated devices may be off."""
    bands = [band for _, setting, _ in answers if (band := widest_band(setting.environment.device))]
    if not bands:
        return "Step times come from a table:"
    full = "; the sweeps below tell the factors for full-size models" if swept else ""
    off = f"right within a factor of {max(bands):g} at worst, of which the intervals know nothing{full}"
    return f"Step times come from a table that is {off}:"


def _alike_over(answers: Sequence[_Answer]) -> str:
    """In what stacks differ over the real systems' settings, where several differ and all in the same."""
    shown = (((place, setting, topic), topic.best) for place, setting, topic in answers)
    stacks = ((_against_original(*where, one)[1], one) for where, one in shown if one)
    unlike = [stack_unlike(over, one) for over, one in stacks if over and _tells(over)]
    return unlike[0] if len(unlike) > 1 and len(set(unlike)) == 1 else ""


def _sizes_in_words(answers: Sequence[_Answer]) -> str:
    """Which of the answers are about models of the real size."""
    full = [f"{topic.name} on {place.name}" for place, _, topic in answers if topic.main and telling(topic.main) == 0]
    small = "All numbers come from small copies of the models and data"
    return f"{small}, except {escaped(', '.join(full))}, at full size." if full else f"{small}."


def _glance(place: Place, setting: Setting, topic: Topic, already: Mapping[str, Option], said: str) -> Iterator[str]:
    """The best option alone, the fastest stack, what the faster gains over the real system, and how many runs say so.

    `said` is in what stacks differ over the real systems' settings, where that stands above the table.
    """
    yield f"[{code(topic.name)}]({_page_of(place, topic)})"
    yield _machine_link(place.name) + (" (contributed)" if setting.is_contributed else "")
    best = topic.best
    if best is None:
        yield from ("nothing for sure", *(NOTHING,) * 3)
        return
    has = " (the real system has it)" if best.row.label in set(map(str, already.values())) else ""
    yield next(_alone(topic, best, already, lacking=True), NOTHING if is_stack(best) else _named(best) + has)
    yield _fastest_stack(topic, best)
    there, over = _against_original(place, setting, topic, best)
    if best.row.label == ORIGINAL:
        yield ITS_OWN
    elif over is None:
        yield refused(topic, best)
    elif not _tells(over):
        yield "no useful bounds"
    else:
        elsewhere = "" if over.run in setting.runs else ", in another environment"
        yield f"{over_original(over, best, said)}{elsewhere}{faster_over_original(there, over)}"
    yield "; ".join((*_again(setting, best), *_elsewhere(place, setting, best))) or _ONE


def _named(entry: StoredRow) -> str:
    return f"{code(entry.row.label)} {unbroken(_bare(entry))}"


def _fastest_stack(topic: Topic, best: StoredRow) -> str:
    """The fastest stack, in brackets where an option alone is the best; or why there is none."""
    known, stack = topic.main.measured if topic.main else (), topic.best_stack
    if stack is None:
        return "none is surely faster and learns the same" if any(map(is_stack, known)) else "no stack has a ratio"
    lone = stack.row.label == ORIGINAL and not any(one.row.label == ALL for one in known)
    alone = f"none is surely faster than {code(best.row.label)} alone ({_named(stack)})"
    return (_named(stack) if is_stack(best) else alone) + (f"; {code(ALL)} has no ratio here" if lone else "")


def _in_detail(answers: Sequence[_Answer], held: _Held) -> Iterator[Part]:
    """What each answer rests on, what its stack holds, and what speaks against it."""
    yield from ("", "<details>", "<summary>In detail</summary>", "")
    yield (
        f"Speedups of training steps against the baseline. {code('all')} switches on everything that applies "
        "together, listed below. The real system's settings are without those that the machine cannot have: a CPU has "
        "no float16, TF32, cuDNN or pinned memory, and no table knows what an emulated device takes in float16 or with "
        f"recomputed activations. Every arm has one trainer thread, except with {code('trainer_threads=2')}. First "
        "losses are those of three steps."
    )
    yield from (
        "",
        *grid(_BEST_COLUMNS, (tuple(_best(*one, held.get(one[2].name, {}))) for one in answers)),
        "",
        "</details>",
    )
    yield from _options_of(answers)
    slower = [(where, text) for where in answers if (text := ", ".join(_slower_inside(where[2])))]
    if slower:
        yield from ("", "Leave these off, or measure without them: part of the fastest stack, and yet slower alone.")
        told = (f"- {escaped(topic.name)} on {escaped(place.name)}: {text}" for (place, _, topic), text in slower)
        yield from ("", *told)
    for place, _, topic in answers:
        if topic.faster_otherwise is not None:
            words = faster_otherwise(topic, topic.faster_otherwise).removesuffix(".")
            yield from ("", f"{words}, on {escaped(place.name)}.")


def _options_of(answers: Iterable[_Answer]) -> Iterator[Part]:
    """What the fastest stacks switch on, each list once."""
    stacks = (
        ((topic.name, stack.row.label, stack.row.comparison.treatment.options), escaped(place.name))
        for place, _, topic in answers
        if (stack := topic.best_stack) and len(stack.row.comparison.treatment.options) > 1
    )
    lists = [
        f"- {code(label)} on {escaped(name)} ({', '.join(places)}): {escaped(', '.join(map(str, options)))}"
        for (name, label, options), places in together(stacks).items()
    ]
    if lists:
        yield from ("", "<details>", "<summary>The options of these stacks</summary>", "", *lists, "", "</details>")


def _machine_link(name: str) -> str:
    return f"[{escaped(name)}]({quote(name)}/README.md)"


# The first page of all.

_INDEX_COLUMNS = "machine", "measured on", "environments", "runs", "days", "workloads", "ratios"


def index_page(publication: Publication, format_link: str | None) -> Page:
    """The first page; `format_link` leads to the description of the files, where there is one."""
    return page(_index_parts(publication, format_link))


def _index_parts(publication: Publication, format_link: str | None) -> Iterator[Part]:
    yield "# Results"
    if not publication.places:
        yield from ("", "Nothing was measured yet: `./speedmatrix run` measures this machine.")
        return
    yield ""
    yield (
        f"[{GALLERY}]({GALLERY}) holds all ratios in one page that needs no network: filter it, hold two machines side "
        "by side, take the table along as CSV."
    )
    yield from _switch_on(publication)
    facts = surprises(publication)
    once = sum(not one.again for rule in _RULES for one in rule(publication))
    if facts or once:
        words = "Picked by fixed rules: of each, the strongest finding that a second run came to as well."
        yield from (
            "",
            "## What surprises",
            "",
            words + (f" {once} that no second run confirms are left out." if once else ""),
            "",
        )
        yield from (f"- {fact}" for fact in facts[:FIRST])
        if facts[FIRST:]:
            yield from ("", "<details>", f"<summary>{len(facts) - FIRST} more</summary>", "")
            yield from (*(f"- {fact}" for fact in facts[FIRST:]), "", "</details>")
    accounts = [account for place in publication.places for account in place.accounts]
    if accounts:
        link = " [All of them](claims.md)." if publication.has_claims else ""
        told = f"{claims.summary(accounts)} {claims.decided(accounts)}"
        yield from ("", "## What was promised", "", f"{escaped(told)}{link}")
    for place in publication.places:
        yield from _swept(place)
    yield from _heat_maps(publication)
    yield from ("", "## Machines", "")
    described = f" [The format of the files]({quote(format_link)})." if format_link else ""
    yield (
        "Each run is a folder of plain data that nobody edits; every table and figure here is made of them by "
        f"`./speedmatrix publish`, which also checks them (`--check`).{described} A machine's page has every "
        "environment, every ratio and every run but those of isolation. `./speedmatrix compare --machines` holds "
        "machines side by side, and `./speedmatrix report RUN` shows one run whole."
    )
    yield from ("", *grid(_INDEX_COLUMNS, map(_machine, publication.places)))


def _machine(place: Place) -> tuple[str, ...]:
    runs = [kept for setting in place.settings for kept in setting.runs]
    return (
        _machine_link(place.name) + (" (contributed)" if place.is_contributed else ""),
        _chips(place),
        str(len(place.settings)),
        str(len(runs)),
        days(runs),
        escaped(", ".join(place.workloads)),
        f"{sum(setting.ratios for setting in place.settings):,}",
    )


def _chips(place: Place) -> str:
    """What was measured on; of many emulated step times the first and the last."""
    if place.sweeps:
        times = sorted({point.step_s for one in place.sweeps for curve in one.curves for point in curve.points})
        return escaped(f"emulated steps of {time(times[0])} to {time(times[-1])} on {place.sweeps[0].host}")
    return "; ".join(dict.fromkeys(chip(setting) for setting in place.settings))


def _swept(place: Place) -> Iterator[Part]:
    """The figure of each workload beside devices of other speeds, and what it says of the option that gains most."""
    for number, one in enumerate(place.sweeps):
        if not number:
            yield from ("", "## Beside faster and slower devices", "", f"{EMULATED} {HOW}")
        picture = sweep_picture(place, one)
        yield from ("", f"![{escaped(picture.words)}]({quote(f'{place.name}/{picture.path}')})", "")
        several = replace(one, curves=tuple(curve for curve in one.curves if len(curve.points) > 1))
        said = sentences_of(several, place.marks.get(one.reference.workload, {}))
        yield from (f"- {escaped(words)}" for words in said)
    if place.sweeps:
        yield from ("", f"[Every step time with its tables, and every run]({quote(place.name)}/README.md).")


def _heat_maps(publication: Publication) -> Iterator[Part]:
    """One matrix for each kind of device: of the environment that tells of most workloads, then has most ratios."""
    found: dict[str, tuple[tuple[int, int], Place, Setting]] = {}
    for place in (one for one in publication.places if not one.sweeps):
        setting, one = place.richest, place.richest.environment
        kind = f"Emulated {one.device.partition(':')[0]}" if one.emulated else one.device.upper()
        told = sum(topic.is_of_today for topic in setting.topics), setting.ratios
        if kind not in found or told > found[kind][0]:
            found[kind] = told, place, setting
    for _, place, setting in found.values():
        heat = heat_map_picture(setting)
        if heat is not None:
            yield from ("", f"## Every optimization: {escaped(place.name)}", "")
            yield f"![{escaped(heat.words)}]({quote(f'{place.name}/{heat.path}')})"
            yield from (
                "",
                f"Drawn for environment {named(setting)}, which has ratios of most workloads. {calibrated(setting)}",
            )
