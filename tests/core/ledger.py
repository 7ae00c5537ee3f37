"""What is wrong with a ledger: claims that cannot be tested as they say, or that name what is not there."""

import re
from collections.abc import Iterable, Iterator, Mapping

from harness.core.claims import ANY, Bound, Claim, Metric, names_of, options
from harness.core.configuration import Conflict, compose, parse_option
from harness.core.mistake import Mistake
from harness.core.optimization import Optimization, Timing
from harness.core.workload import Workload

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FIGURES = {
    Bound.RANGE: {"low", "high"},
    Bound.POINT: {"low"},
    Bound.AT_LEAST: {"low"},
    Bound.UP_TO: {"high"},
    Bound.FREE: set[str](),
    Bound.GAIN: set[str](),
    Bound.LOSS: set[str](),
}
_OF_ONE_CONFIG = {Metric.DEVICE_SHARE, Metric.RATE}


def checked(
    claims: Iterable[Claim], workloads: Mapping[str, Workload], known: Mapping[str, Optimization]
) -> tuple[Claim, ...]:
    """The same claims; raises Mistake for the first that cannot be tested as it says or that names what is not there.

    An optimization that is not in the catalogue is no mistake: taking one away edits nothing else, and its claims then
    say that nothing can test them.
    """
    claims = tuple(claims)
    by_name: dict[str, Claim] = {}
    for claim in claims:
        if claim.name in by_name:
            raise Mistake(f"The ledger's claim {claim.name} stands in it twice.")
        by_name[claim.name] = claim
    for claim in claims:
        for complaint in _complaints(claim, by_name, workloads, known):
            raise Mistake(f"The ledger's claim {claim.name} {complaint}.")
    return claims


def _complaints(
    claim: Claim, names: Mapping[str, Claim], workloads: Mapping[str, Workload], known: Mapping[str, Optimization]
) -> Iterator[str]:
    if not _NAME.fullmatch(claim.name):
        yield "needs a name of lower-case words joined by hyphens"
    if not (claim.text.strip() and claim.source.strip()):
        yield "lacks its text or its source"
    if claim.workload not in {ANY, *workloads}:
        yield f"names a workload '{claim.workload}' that is not there"
    if missing := [name for name in claim.contradicts if name not in names or name == claim.name]:
        yield f"contradicts '{missing[0]}', which is no other claim"
    elif silent := [name for name in claim.contradicts if claim.name not in names[name].contradicts]:
        yield f"contradicts {silent[0]}, which does not say so in turn"
    named = {parse_option(name).name for stack in (claim.treatment, claim.reference) for name in names_of(stack)}
    if idle := sorted(set(claim.essential) - named):
        yield f"calls {idle[0]} essential and does not switch it on"
    yield from _figures(claim)
    yield from _stacks(claim, workloads, known)


def _figures(claim: Claim) -> Iterator[str]:
    given = {name for name in ("low", "high") if getattr(claim, name) is not None}
    if given != _FIGURES[claim.bound]:
        wanted = " and ".join(sorted(_FIGURES[claim.bound], reverse=True)) or "no figure"
        yield f"is of bound '{claim.bound}' and so must give {wanted}"
    low, high = claim.low, claim.high
    if (low is not None and low <= 0) or (high is not None and high <= 0):
        yield "has a figure that is not above 0"
    if low is not None and high is not None and low > high:
        yield f"promises from {low:g} to {high:g}, which is no range"
    if claim.metric in _OF_ONE_CONFIG and claim.bound not in {Bound.RANGE, Bound.AT_LEAST, Bound.UP_TO}:
        yield f"is about the {claim.metric} of one configuration; give a range"
    if claim.metric is Metric.QUALITY and claim.bound not in {Bound.FREE, Bound.GAIN, Bound.LOSS}:
        yield "is about quality, of which no figure can be tested"


def _stacks(claim: Claim, workloads: Mapping[str, Workload], known: Mapping[str, Optimization]) -> Iterator[str]:
    if claim.untestable and (claim.treatment or claim.stand_in):
        yield "is untestable and names a treatment; one of the two is wrong"
    if claim.stand_in_reference and not claim.stand_in:
        yield "names a stand-in's reference and no stand-in"
    if not claim.untestable and not claim.treatment:
        yield "names no treatment and does not say why it is untestable"
    if not claim.untestable and claim.treatment == claim.reference:
        yield "has the same treatment and reference"
    tested = (
        workloads.values() if claim.workload == ANY else [workloads[claim.workload]] * (claim.workload in workloads)
    )
    for workload in tested:
        for stack in (claim.treatment, claim.reference, claim.stand_in, claim.stand_in_reference):
            yield from _impossible(stack, claim, workload, known)


def _impossible(stack: str, claim: Claim, workload: Workload, known: Mapping[str, Optimization]) -> Iterator[str]:
    found = options(stack, workload)
    if any(one.name not in known for one in found):
        return
    foreign = [one for one in found if known[one.name].workload not in (None, workload.name)]
    if foreign:
        yield f"names {foreign[0]}, which belongs to {known[foreign[0].name].workload}"
        return
    if claim.timing is Timing.EVALUATION and "evaluation" not in workload.traits:
        yield f"is timed on evaluation, which {workload.name} has not"
    try:
        compose(workload, found, known)
    except (Conflict, Mistake) as impossible:
        yield f"names a stack that is impossible on {workload.name}: {str(impossible).rstrip('.')}"
