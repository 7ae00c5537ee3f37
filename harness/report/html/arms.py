"""Arms: what both arms of a comparison showed, side by side in words."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from harness.analyze.evidence import Side
from harness.analyze.profile import Profile, host_memory
from harness.core.recipe import Value
from harness.report.html.exhibit import Line
from harness.report.sentences import facts
from harness.report.words import NOTHING, duration, energy, frequency, rate, share, size

Pair = tuple[str, str, str]  # what it is, in the treatment, in the reference
Known = TypeVar("Known", int, float)
_PHASES = ("input_wait", "copy", "compute")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One effective setting as it was seen in both arms."""

    setting: str
    treatment: str
    reference: str
    promised: bool  # a switch promised it, so its value was checked; else it was only seen


def speeds(line: Line) -> Iterator[Pair]:
    """Rates, phases and upper bounds of both arms."""
    ours, theirs = line.treatment, line.reference
    yield _pair("rate", (ours.rate, theirs.rate), rate)
    for name in _PHASES:
        yield _pair(name.replace("_", " "), (getattr(ours.phases, name), getattr(theirs.phases, name)), share)
    yield from _where_known("first to last kernel of its steps", (ours.device_span, theirs.device_span), share)
    yield from _where_known("host queueing them", (ours.host_queueing, theirs.host_queueing), share)
    yield from _where_known("device clock", (ours.clock_mhz, theirs.clock_mhz), frequency)
    yield from _where_known("its loader alone", (ours.loader_rate, theirs.loader_rate), rate)
    yield from _where_known("its step alone", (ours.compute_rate, theirs.compute_rate), rate)


def costs(line: Line) -> Iterator[Pair]:
    """Memory and start-up of both arms; of several starts the worst."""
    ours, theirs = line.treatment, line.reference
    kind, (host, other_host) = host_memory(ours, theirs)
    yield _pair(kind.value, (host, other_host), size)
    yield from _where_known("device peak", (ours.device_bytes, theirs.device_bytes), size)
    yield from _where_known("device memory of its process", (ours.process_bytes, theirs.process_bytes), size)
    yield from _where_known("energy a sample", (ours.joules, theirs.joules), energy)
    for name, field in (("building", "build_s"), ("first step", "first_step_s"), ("warm-up", "warm_up_s")):
        yield _pair(name, (_worst(line.evidence.treatment, field), _worst(line.evidence.reference, field)), duration)
    yield _pair("settled after warm-up", (ours.steady, theirs.steady), lambda steady: "yes" if steady else "no")


def _worst(side: Side, field: str) -> float:
    return max(float(getattr(ready, field)) for ready in side.readies)


def _where_known(
    name: str, arms: tuple[Known | None, Known | None], in_words: Callable[[Known], str]
) -> Iterator[Pair]:
    if arms != (None, None):
        yield _pair(name, arms, in_words)


def _pair(name: str, arms: tuple[Known | None, Known | None], in_words: Callable[[Known], str]) -> Pair:
    ours, theirs = (NOTHING if one is None else in_words(one) for one in arms)
    return name, ours, theirs


def shares(profile: Profile) -> tuple[tuple[str, float, float], ...]:
    """The phases as parts of a bar of length 100: class, where it begins, how long it is."""
    found, begin = [], 0.0
    for name in _PHASES:
        length = round(100 * min(max(getattr(profile.phases, name), 0.0), 1.0), 1)
        found.append((name, round(begin, 1), length))
        begin += length
    return tuple(found)


def proofs(line: Line) -> tuple[Proof, ...]:
    """The settings that a switch promised or in which the arms differ, the promised ones first."""
    ours, theirs = _seen(line.evidence.treatment), _seen(line.evidence.reference)
    promised = line.evidence.treatment.proved | line.evidence.reference.proved
    told = line.treatment.facts.keys() | line.reference.facts.keys()
    names = [name for name in sorted(promised | told) if name in promised or ours.get(name) != theirs.get(name)]
    return tuple(
        Proof(setting=name, treatment=_said(ours, name), reference=_said(theirs, name), promised=name in promised)
        for name in sorted(names, key=lambda name: name not in promised)
    )


def _seen(side: Side) -> Mapping[str, Value]:
    """Every effective setting of an arm; a later start has the last word."""
    return {name: value for ready in side.readies for name, value in ready.effective.items()}


def _said(seen: Mapping[str, Value], name: str) -> str:
    return str(seen[name]) if name in seen else "not reported"


def alike(line: Line) -> str:
    """What was seen alike in both arms and proves nothing, in one line."""
    shown = {one.setting for one in proofs(line)}
    return facts({name: value for name, value in line.reference.facts.items() if name not in shown})
