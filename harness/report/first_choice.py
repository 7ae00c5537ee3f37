"""What to switch on: one row for each workload, then one for each workload and machine, and what speaks against."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from harness.analyze.attribution import learns_alike
from harness.analyze.collection import StoredRow, answered, is_alike, other_answers
from harness.analyze.estimate import Estimate
from harness.analyze.grouping import together
from harness.core.configuration import Configuration, Option
from harness.core.plan import TUNED
from harness.report.document import escaped, grid
from harness.report.matrix import COMPOSED
from harness.report.published import (
    ALL,
    ORIGINAL,
    Place,
    Publication,
    Setting,
    Topic,
    at,
    is_single,
    is_stack,
    telling,
)
from harness.report.published_parts import (
    ITS_OWN,
    Part,
    bare,
    code,
    faster_otherwise,
    faster_over_original,
    low,
    machine_link,
    on_training,
    over_original,
    page_of,
    refused,
    stack_unlike,
    step_times,
    unbroken,
)
from harness.report.words import NOTHING, factor, ratio

_THREADS = "trainer_threads"
_WIDEST = math.log(1.5)  # half-width, in the log, of a ratio that is told without its interval


def _withheld(topic: Topic, best: StoredRow) -> Iterator[str]:
    """What reads faster still where the machine was too disturbed for a verdict."""
    known = [(one, one.row.estimate) for one in topic.main.measured if one.row.estimate] if topic.main else []
    faster = [(estimate.low, one) for one, estimate in known if estimate.disturbed and learns_alike(one.row)]
    low, one = max(faster, key=lambda two: two[0], default=(0.0, best))
    if best.row.estimate and low > best.row.estimate.low:
        yield f"{code(one.row.label)} reads {unbroken(bare(one))}, but the machine was disturbed"


def _again(setting: Setting, best: StoredRow) -> Iterator[str]:
    """What each run came to whose average this is, and whether they disagree; or what others of other versions did."""
    found = [one.row.estimate for one in best.repeats if one.row.estimate]
    if found and best.row.estimate:
        yield f"of {len(found)} runs, {_ends(found)}" + (", which **disagree**" if best.row.estimate.apart else "")
    elif others := [estimate for _, estimate in other_answers(setting.runs, best)]:
        agree = all(is_alike(best, one) for one in others)
        yield f"again {_ends(others)}" + ("" if agree else ", which **disagrees**")


def _comparable(place: Place, setting: Setting) -> Iterator[Setting]:
    """One and what stands beside it on its machine: by the same hands, and of today's tables where it is of them."""
    for one in place.settings:
        if one.is_contributed == setting.is_contributed and (setting.is_former or not one.is_former):
            yield one


def _elsewhere(place: Place, setting: Setting, best: StoredRow) -> Iterator[str]:
    """What stacks of that name, and `all`, came to otherwise on the machine, of which no interval knows.

    That is in other environments, and of other options in this one.
    """
    names = {best.row.label} | (set() if ALL in {one.row.label for one in answered(setting.runs)} else {ALL})
    wanted = best.row.comparison
    others = together(
        (one.row.label, one.row.estimate)
        for other in _comparable(place, setting)
        for one in answered(other.runs)
        if one.row.estimate
        and not one.row.estimate.disturbed
        and one.row.estimate.half_width < _WIDEST
        and not (other is setting and one.row.comparison.treatment == wanted.treatment)
        and one.row.label in names
        and (one.row.comparison.reference, at(one.row.comparison)) == (wanted.reference, at(wanted))
    )
    for label, found in others.items():
        whose = "" if label == best.row.label else f"{code(label)} "
        yield f"{whose}elsewhere {_ends(found)}"


def _ends(estimates: Sequence[Estimate]) -> str:
    """One with its interval; of several the least and the greatest: `2.1x to 3.5x`."""
    if len(estimates) == 1:
        return unbroken(escaped(ratio(estimates[0])))
    found = sorted(one.ratio for one in estimates)
    return unbroken(" to ".join(dict.fromkeys(f"{factor(one)}x" for one in (found[0], found[-1]))))


def _against_original(place: Place, setting: Setting, topic: Topic, best: StoredRow) -> tuple[Topic, StoredRow | None]:
    """The best stack against the real system's settings, in this environment or another one of ours, and its topic."""
    others = (one for other in _comparable(place, setting) for one in other.topics if one.name == topic.name)
    known = ((one, one.against(ORIGINAL, best)) for one in (topic, *others))
    return next(((one, found) for one, found in known if found is not None), (topic, None))


def _tells(found: StoredRow) -> bool:
    """Whether a ratio has useful bounds."""
    return found.row.estimate is not None and found.row.estimate.half_width < 1  # in the log: a factor of 2.7


def _slower_inside(setting: Setting, topic: Topic) -> Iterator[str]:
    """Options of the best stack that several runs found slower alone, if nobody has measured the stack without them."""
    best, main = topic.best_stack, topic.main
    if best is None or main is None:
        return
    inside = set(best.row.comparison.treatment.options)
    tried = [set(one.row.comparison.treatment.options) for sheet in topic.sheets for one in sheet.measured]
    for one in main.measured:
        alone, estimate = set(one.row.comparison.treatment.options), one.row.estimate
        if not (estimate and estimate.verdict.loses and is_single(one) and alone <= inside):
            continue
        again = one.repeats or any(other.verdict.loses for _, other in other_answers(setting.runs, one))
        if again and inside - alone not in tried:
            yield f"{code(one.row.label)} {bare(one)}"


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


_Answer = tuple[Place, Setting, Topic]


def _best_alone(answer: _Answer, best: StoredRow, already: Mapping[str, Option]) -> str:
    """The option that surely gains most alone and that the real system lacks at any level, as timed or as composed.

    And what gained more in another environment of the machine. Nothing where no option gains.
    """
    place, setting, topic = answer
    alone = _surest(topic, already)
    told = []
    if alone:
        label, one = alone
        inside = set(best.row.comparison.treatment.options).issuperset(one.row.comparison.treatment.options)
        beside = "" if is_single(best) or inside else f", not part of {code(best.row.label)}"
        told.append(f"{code(label)} {on_training(one)}{beside}")
    topics = [one for other in _comparable(place, setting) if other is not setting for one in other.topics]
    alike = (one for one in topics if (one.name, _size_of(one)) == (topic.name, _size_of(topic)))
    other = max(filter(None, (_surest(one, already) for one in alike)), key=lambda two: low(two[1]), default=None)
    if other and (alone is None or low(other[1]) > low(alone[1])):
        told.append(f"elsewhere {code(other[0])} {on_training(other[1])}")
    return ", ".join(told)


def _size_of(topic: Topic) -> Configuration | None:
    """The size and batch of its ratios of training."""
    return topic.main.config if topic.main else None


def _surest(topic: Topic, already: Mapping[str, Option]) -> tuple[str, StoredRow] | None:
    """The first of the gains that the real system lacks; not the trainer's threads, of which PyTorch takes all."""
    own = {*already, _THREADS}
    return next((two for two in topic.gains.items() if two[0].partition("=")[0] not in own), None)


def first_choices(publication: Publication) -> Iterator[Part]:
    """One row for each workload; folded, one for each workload and machine; and what was not measured."""
    places = [place for place in publication.places if not place.sweeps]
    answers = [(place, setting, topic) for place in places for setting, topic in place.answers]
    now = sorted((one for one in answers if one[2].is_of_today), key=lambda one: (one[2].name, one[0].name))
    former = sorted({place.name for place, _, topic in answers} - {place.name for place, _, _ in now})
    if now:
        yield from ("", "## What to switch on", "")
        held = _held(publication)
        swept = len(places) < len(publication.places)
        yield from _one_for_each(now, held)
        yield from ("", "<details>", "<summary>Every machine</summary>", "")
        yield from (*_at_a_glance(now, held, swept=swept), "", "</details>", *_on_stacks(now))
    others = {place.name for place in places} - {place.name for place, _, _ in answers}
    if others:
        links = ", ".join(machine_link(name) for name in sorted(others))
        yield from ("", f"No ratio of training steps against the baseline yet: {links}.")
    if former:
        links = ", ".join(machine_link(name) for name in former)
        yield from ("", f"Measured against the baseline of 0.2.0 alone, and not in this table: {links}.")


def _one_for_each(answers: Sequence[_Answer], held: _Held) -> Iterator[Part]:
    """One row for each workload: on the machine of each kind that tells of most workloads, then has most ratios."""
    by_kind = together((_kind(setting), (place, setting, topic)) for place, setting, topic in answers)
    chosen = {kind: _fullest(by_kind[kind]) for kind in _KINDS if kind in by_kind}
    shown = [one for several in chosen.values() for one in several.values()]
    real = "" if "cuda" in chosen else " No GPU was measured."
    yield (
        "Speedup of a training step over the same training with every option off, with 95 % intervals: of the one "
        f"option that surely gains most and that the real system lacks, and of {code(ALL)}, everything that applies "
        f"together.{real}" + (f" {_error_of_tables(chosen['emulated'].values())}" if "emulated" in chosen else "")
    )
    columns = ("system", *(f"{_ON[kind]} {machine_link(_name_of(several))}" for kind, several in chosen.items()))
    rows = (
        (
            f"**{escaped(name)}**",
            *(_choice(several.get(name), held.get(name, {})) for several in chosen.values()),
            _of_each(chosen, name, partial(_gain_over_original, answers)),
            _of_each(chosen, name, _sureness),
        )
        for name in sorted({topic.name for several in chosen.values() for _, _, topic in several.values()})
    )
    yield from ("", *grid((*columns, "over the real system's own settings", "how sure"), rows), "")
    yield (
        "The last two columns are about the stack. Gains timed on whole steps are preferred to composed ones. "
        f"{_sizes_in_words(shown)} {COMPOSED}: composed from the ratio of the part that the option changes. The best "
        "of many measured options looks a little better than it is. On your machine: `./speedmatrix run`, then "
        "`./speedmatrix advise`."
    )


_KINDS = ("cuda", "cpu", "emulated")
_ON = {"cuda": "on", "cpu": "on", "emulated": "beside"}


def _kind(setting: Setting) -> str:
    return "emulated" if setting.environment.emulated else setting.environment.kind


def _fullest(answers: Iterable[_Answer]) -> dict[str, _Answer]:
    """The answers of one machine by workload: of ours before contributed ones, of today's tables before former ones."""
    places = together((place.name, (place, setting, topic)) for place, setting, topic in answers)
    told = {
        name: (
            not several[0][0].is_contributed,
            not any(setting.is_former for _, setting, _ in several),
            len(several),
            sum(setting.ratios for _, setting, _ in several),
        )
        for name, several in places.items()
    }
    return {
        topic.name: (place, setting, topic) for place, setting, topic in places[max(told, key=lambda one: told[one])]
    }


def _name_of(several: Mapping[str, _Answer]) -> str:
    return next(place.name for place, _, _ in several.values())


def _choice(answer: _Answer | None, already: Mapping[str, Option]) -> str:
    """The best option alone and the fastest stack on one machine, with a link to everything that is known there."""
    if answer is None:
        return NOTHING
    place, _, topic = answer
    more = f"[every option]({page_of(place, topic)})"
    best = topic.best
    if best is None:
        return f"nothing for sure ({more})"
    alone = _best_alone(answer, best, already) or "no single option that it lacks is surely faster on whole steps"
    stack = topic.best_stack
    return f"{alone}; {_named(stack)} ({more})" if stack else f"{alone} ({more})"


def _of_each(chosen: Mapping[str, Mapping[str, _Answer]], name: str, tell: Callable[[_Answer], str]) -> str:
    """What is told of a workload on each machine, with its kind where there are several."""
    known = [(kind, tell(several[name])) for kind, several in chosen.items() if name in several]
    return "; ".join(f"{kind if kind == 'emulated' else kind.upper()}: {words}" for kind, words in known)


def _gain_over_original(answers: Iterable[_Answer], answer: _Answer) -> str:
    """What the fastest stack gains over the real system, on this machine or another one with the same device."""
    place, setting, topic = answer
    best = topic.best_stack or topic.best
    if best is None:
        return NOTHING
    if best.row.label == ORIGINAL:
        return ITS_OWN
    alike = (
        (other, theirs, its)
        for other, theirs, its in answers
        if its.name == topic.name
        and theirs.environment.device == setting.environment.device
        and (setting.is_former or not theirs.is_former)
    )
    for other, _, its in (answer, *(one for one in alike if one[0] is not place)):
        _, found = _against_original(other, setting, its, best)
        if found is not None and _tells(found):
            return over_original(found, best) + ("" if other is place else f" on {machine_link(other.name)}")
    return refused(topic, best)


def _sureness(answer: _Answer) -> str:
    """How many runs say so, and whether they agree."""
    place, setting, topic = answer
    best = topic.best_stack or topic.best
    if best is None:
        return NOTHING
    return "; ".join((*_again(setting, best), *_elsewhere(place, setting, best))) or "one run"


_GLANCE_COLUMNS = (
    "workload",
    "machine",
    "best option alone that the real system's settings lack",
    "fastest stack",
    "over the real system's settings",
    "runs",
)


def _at_a_glance(answers: Sequence[_Answer], held: _Held, *, swept: bool) -> Iterator[Part]:
    """One row for each workload and machine: the best option by itself, and the fastest stack.

    `swept` says whether other step times of emulated devices follow below.
    """
    by_kind = together((setting.environment.emulated, (place, setting, topic)) for place, setting, topic in answers)
    yield (
        "First the one option that surely gains most (the highest lower end of an interval) of those that the real "
        "system had not switched on; then the fastest of the stacks measured against the baseline. Last, that stack, "
        "or an option that no stack surely beats, against what the real system had switched on, with the options by "
        "which it differed there, and what was faster there. 'Of 3 runs, 2x to 3x': the lowest and the highest of the "
        "runs that were averaged. 'Elsewhere': another processor model or other software under this machine's name, or "
        f"an older {code(ALL)} with other options. Where an option was timed on whole steps, that comes before what is "
        "composed from a part. Every arm computes with one thread, that of the real system's settings too, except with "
        f"{code('trainer_threads=2')}. 'Unsound': what a run recorded contradicts itself or is known to be false; the "
        "workload's page says how. 'Disturbed': the machine was too restless for a verdict, often since other programs "
        "took its cores. The real system's settings are without those that the machine cannot have: a CPU has no "
        "float16, TF32, cuDNN or pinned memory, and no table knows what an emulated device takes in float16 or with "
        "recomputed activations. First losses, which must agree, are those of three steps."
    )
    for emulated, several in sorted(by_kind.items()):
        alike = _alike_over(several) if emulated else ""
        if emulated:
            stacks = f" Held against the real system's settings, stacks are {alike}." if alike else ""
            swept_below = " The sweeps below are about full-size models." if swept else ""
            yield from ("", f"Beside emulated devices, as above.{swept_below}{stacks}")
        told = (one for one in several if one[2].best or not one[1].is_former)  # a former table that tells nothing
        rows = (tuple(_glance(*one, held.get(one[2].name, {}), alike)) for one in told)
        yield from ("", *grid(_GLANCE_COLUMNS, rows))


def _error_of_tables(answers: Iterable[_Answer]) -> str:
    """What is real beside emulated devices, and how far their step times may be off."""
    off = step_times([(setting, topic) for _, setting, topic in answers])
    return f"Beside an emulated device loaders are real, and step times come from a table. {off}".rstrip()


def _alike_over(answers: Sequence[_Answer]) -> str:
    """In what stacks differ over the real systems' settings, where several differ and all in the same."""
    shown = (((place, setting, topic), topic.best) for place, setting, topic in answers)
    stacks = ((_against_original(*where, one)[1], one) for where, one in shown if one)
    unlike = [stack_unlike(over, one) for over, one in stacks if over and _tells(over)]
    return unlike[0] if len(unlike) > 1 and len(set(unlike)) == 1 else ""


def _sizes_in_words(answers: Sequence[_Answer]) -> str:
    """Which of the answers are about models of the real size."""
    full = [f"{topic.name} on {place.name}" for place, _, topic in answers if topic.main and telling(topic.main) == 0]
    small = "All numbers come from small copies of the systems"
    return f"{small}, except {escaped(', '.join(full))}, at full size." if full else f"{small}."


def _glance(place: Place, setting: Setting, topic: Topic, already: Mapping[str, Option], said: str) -> Iterator[str]:
    """The best option alone, the fastest stack, what the faster gains over the real system, and how many runs say so.

    `said` is in what stacks differ over the real systems' settings, where that stands above the table.
    """
    yield f"[{code(topic.name)}]({page_of(place, topic)})"
    former = " (former table)" if setting.is_former else ""
    yield machine_link(place.name) + (" (contributed)" if setting.is_contributed else former)
    best = topic.best
    if best is None:
        yield from ("nothing for sure", *(NOTHING,) * 3)
        return
    has = " (the real system has it)" if best.row.label in set(map(str, already.values())) else ""
    yield _best_alone((place, setting, topic), best, already) or (NOTHING if is_stack(best) else _named(best) + has)
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
    yield "; ".join((*_withheld(topic, best), *_again(setting, best), *_elsewhere(place, setting, best))) or "one"


def _named(entry: StoredRow) -> str:
    return f"{code(entry.row.label)} {unbroken(bare(entry))}"


def _fastest_stack(topic: Topic, best: StoredRow) -> str:
    """The fastest stack, in brackets where an option alone is the best; or why there is none."""
    known, stack = topic.main.measured if topic.main else (), topic.best_stack
    if stack is None:
        tried = {one.row.label for one in known if is_stack(one)}
        alone = f"{code(ALL)} has no ratio here" if tried == {ORIGINAL} else "none is surely faster and learns the same"
        return alone if tried else "no stack has a ratio"
    lone = stack.row.label == ORIGINAL and not any(one.row.label == ALL for one in known)
    alone = f"none is surely faster than {code(best.row.label)} alone ({_named(stack)})"
    return (_named(stack) if is_stack(best) else alone) + (f"; {code(ALL)} has no ratio here" if lone else "")


def _on_stacks(answers: Sequence[_Answer]) -> Iterator[Part]:
    """What the stacks hold, and what speaks against them."""
    yield from _options_of(answers)
    slower = [(where, text) for where in answers if (text := ", ".join(_slower_inside(*where[1:])))]
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
