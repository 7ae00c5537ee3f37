"""The design `claims`: what the ledger's claims come to on this machine, and the comparisons that test them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from harness.core.cell import Switch
from harness.core.claim import ANY, Claim, Metric, Resolution, Tried, Untried
from harness.core.compose import Conflict, compose, unmet
from harness.core.environment import Environment
from harness.core.ledger import switches
from harness.core.mistake import Mistake
from harness.core.optimization import Optimization, Timing
from harness.core.plan import Block
from harness.core.workload import Workload

NO_DEVICE_TIMES = "the device's own time is seen on CUDA devices only"
NO_DEVICE_MEMORY = "a device's memory is seen on CUDA devices only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """One workload on one machine: what claims are resolved on."""

    workload: Workload
    environment: Environment
    known: Mapping[str, Optimization]


def resolve(claim: Claim, ground: Ground) -> Resolution:
    """The pair of stacks that tests a claim here, with words for what had to be left out; or why nothing can.

    Switches that this machine cannot run are left out if something remains of what the treatment adds, and none of
    them is essential; else the claim's stand-in is tried in the treatment's place.
    """
    if hindrance := _hindrance(claim, ground):
        return Untried(reason=hindrance)
    found = _tried(claim, ground)
    if isinstance(found, Tried) or not claim.stand_in:
        return found
    other = _tried(replace(claim, treatment=claim.stand_in), ground)
    if isinstance(other, Untried):
        return found
    words = f"tested with {claim.stand_in} in place of {claim.treatment}: {found.reason}"
    return replace(other, shortfalls=(words, *other.shortfalls))


def concerns(claim: Claim, workload: Workload) -> bool:
    """Whether a claim is tested on a workload."""
    return claim.workload in {ANY, workload.name}


Question = tuple[tuple[Switch, ...], tuple[Switch, ...], Timing]  # treatment, reference, and what they are timed on


def questions(claims: Iterable[Claim], ground: Ground) -> frozenset[Question]:
    """The comparisons that test a claim here."""
    resolved = (resolve(claim, ground) for claim in claims if concerns(claim, ground.workload))
    return frozenset((one.treatment, one.reference, one.timing) for one in resolved if isinstance(one, Tried))


def marked(block: Block, asked: Collection[Question]) -> Block:
    """The block with the positions of what was asked."""
    found = ((one.treatment.switches, one.reference.switches, one.timing) for one in block.comparisons)
    return replace(block, claimed=tuple(position for position, one in enumerate(found, 1) if one in asked))


def _hindrance(claim: Claim, ground: Ground) -> str | None:
    if claim.untestable:
        return claim.untestable
    on_cuda = ground.environment.device == "cuda"
    if claim.metric is Metric.DEVICE_SHARE and not on_cuda:
        return NO_DEVICE_TIMES
    if claim.metric is Metric.DEVICE_MEMORY and not on_cuda:
        return NO_DEVICE_MEMORY
    named = (one for stack in (claim.treatment, claim.reference) for one in _meant(stack, ground))
    absent = next((one.name for one in named if one.name not in ground.known), None)
    return f"there is no optimization '{absent}'" if absent else None


def _meant(stack: str, ground: Ground) -> tuple[Switch, ...]:
    return switches(stack, ground.workload, ground.environment.device)


def _tried(claim: Claim, ground: Ground) -> Resolution:
    meant = tuple(_meant(stack, ground) for stack in (claim.treatment, claim.reference))
    (ours, our_reasons), (theirs, their_reasons) = (_runnable(stack, ground) for stack in meant)
    reasons = {**their_reasons, **our_reasons}
    lost = set(meant[0]) - set(meant[1]) and not set(ours) - set(theirs)  # nothing of what it would have added
    if lost or ours == theirs or any(switch.name in claim.essential for switch in reasons):
        words = "; ".join(f"{', '.join(names)} {why}" for why, names in _by_reason(reasons).items())
        return Untried(reason=words or f"nothing differs on {ground.workload.name}")
    for stack in (ours, theirs):
        try:
            compose(ground.workload, stack, ground.known)
        except (Conflict, Mistake) as impossible:
            return Untried(reason=str(impossible).rstrip("."))
    known = (claim.deviation,) if claim.deviation else ()
    left_out = tuple(f"tested without {', '.join(names)}: {why}" for why, names in _by_reason(reasons).items())
    return Tried(treatment=ours, reference=theirs, timing=claim.timing, shortfalls=(*known, *left_out))


def _by_reason(reasons: Mapping[Switch, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for switch, why in sorted(reasons.items()):
        found.setdefault(why, []).append(str(switch))
    return found


def _runnable(stack: tuple[Switch, ...], ground: Ground) -> tuple[tuple[Switch, ...], dict[Switch, str]]:
    """What of a stack this machine can run, and why not the rest."""
    reasons = {one: unmet(ground.known[one.name], ground.environment, ground.workload, one.level) for one in stack}
    return tuple(one for one, why in reasons.items() if why is None), {one: why for one, why in reasons.items() if why}
