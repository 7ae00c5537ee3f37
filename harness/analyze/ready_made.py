"""Ready-made stacks: the fastest, a reproducible and a balanced one, each by a rule that was fixed beforehand.

Only a stack that was measured has a number. A rule also puts together the switches that pay one by one; where nobody
has measured that stack, it is named as a question to ask next.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.analyze.attribution import Gain, combined, gain
from harness.analyze.effect import learns_alike
from harness.analyze.matrix import Row
from harness.analyze.profile import Profile, host_memory
from harness.analyze.quality import Agreement
from harness.analyze.start_up import BreakEven
from harness.analyze.verdict import Verdict, verdict
from harness.core.cell import Cell, Comparison, Switch
from harness.core.compose import Conflict, compose
from harness.core.mistake import Mistake
from harness.core.optimization import Numerics, Optimization, Timing
from harness.core.workload import Workload

LEAST_GAIN = 1.03
MOST_MEMORY = 1.25  # times the reference's peak, of host and device each
LONGEST_PAYBACK_S = 600.0  # of training, until a slower start has paid for itself


class Style(StrEnum):
    """What a ready-made stack is for."""

    FASTEST = "fastest"
    REPRODUCIBLE = "reproducible"
    BALANCED = "balanced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A measured stack over the base: directly, or by way of one other stack, whose logs then add."""

    cell: Cell
    gain: Gain
    rows: tuple[Row, ...]  # the one against the base first
    break_even: BreakEven | None = None

    @property
    def profile(self) -> Profile | None:
        """What the stack showed."""
        return self.rows[-1].treatment

    @property
    def base_profile(self) -> Profile | None:
        """What the base showed beside it."""
        return self.rows[0].reference

    @property
    def subject(self) -> str:
        """What the matrix calls it."""
        return self.rows[-1].subject

    @property
    def learns_alike(self) -> bool:
        """Whether quality was judged alike all the way from the base."""
        return all(learns_alike(row) for row in self.rows)

    @property
    def pays(self) -> bool:
        """Whether it is surely faster, on a machine that was quiet enough to say so."""
        behind = [row.estimate for row in self.rows if row.estimate is not None]
        margin = max(one.terms.margin for one in behind)
        quiet = not any(one.disturbed for one in behind)
        return quiet and verdict(self.gain.low, self.gain.high, margin) is Verdict.FASTER


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyMade:
    """One ready-made stack."""

    style: Style
    best: Candidate | None  # by its lower bound, so that of many stacks not the luckiest wins
    among: int  # measured stacks that keep the rule
    untried: Comparison | None  # what the rule puts together from single switches, where nobody has measured it


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """What stacks are put together from: the base, its workload, and what is known of optimizations."""

    base: Cell
    timing: Timing
    workload: Workload | None  # None where this version does not know it
    known: Mapping[str, Optimization]

    def numerics(self, cell: Cell) -> set[Numerics | None]:
        """The classes of what a stack has beyond the base; None stands for an optimization that is not known."""
        added = (one for one in cell.switches if one not in self.base.switches)
        return {self.known[one.name].numerics if one.name in self.known else None for one in added}


Keeps = Callable[[Candidate, Kit], bool]


def candidates(rows: Iterable[Row], kit: Kit) -> tuple[Candidate, ...]:
    """Every stack that was timed against the base, or against another stack that was; one for each cell."""
    timed = [row for row in rows if row.estimate is not None and row.comparison.timing is kit.timing]
    found: dict[Cell, Candidate] = {}
    for row in (row for row in timed if row.comparison.reference == kit.base):
        if row.estimate and row.comparison.treatment != kit.base:
            cell = row.comparison.treatment
            found.setdefault(cell, Candidate(cell=cell, gain=gain(row.estimate), rows=(row,)))
    direct = dict(found)
    for row in timed:
        through, cell = direct.get(row.comparison.reference), row.comparison.treatment
        if through is not None and row.estimate and cell not in found and cell != kit.base:
            both = combined((1.0, through.gain), (1.0, gain(row.estimate)))
            found[cell] = Candidate(cell=cell, gain=both, rows=(*through.rows, row))
    return tuple(found.values())


def keeps_the_task(candidate: Candidate, kit: Kit) -> bool:
    """Whether nothing in it is known to change what is learned."""
    return Numerics.DIFFERENT not in kit.numerics(candidate.cell)


def is_reproducible(candidate: Candidate, kit: Kit) -> bool:
    """Whether all of it promises the same bits, and the same bits were seen."""
    seen = all(row.quality and row.quality.status is Agreement.SAME_BITS for row in candidate.rows)
    return seen and kit.numerics(candidate.cell) <= {Numerics.EXACT}


def is_balanced(candidate: Candidate, kit: Kit) -> bool:
    """Whether it gains noticeably, learns alike, and costs little memory and start-up."""
    worth_it = candidate.gain.ratio >= LEAST_GAIN and candidate.learns_alike and keeps_the_task(candidate, kit)
    return worth_it and _is_small(candidate.profile, candidate.base_profile) and _starts_soon(candidate.break_even)


def _is_small(ours: Profile | None, theirs: Profile | None) -> bool:
    if ours is None or theirs is None:
        return False
    pairs = (host_memory(ours, theirs)[1], (ours.device_bytes or 0, theirs.device_bytes or 0))
    return all(one <= MOST_MEMORY * other for one, other in pairs)


def _starts_soon(found: BreakEven | None) -> bool:
    return found is not None and found.seconds is not None and found.seconds <= LONGEST_PAYBACK_S


RULES: Mapping[Style, Keeps] = {
    Style.FASTEST: keeps_the_task,
    Style.REPRODUCIBLE: is_reproducible,
    Style.BALANCED: is_balanced,
}


def ready_made(measured: Sequence[Candidate], singles: Mapping[Switch, Candidate], kit: Kit) -> tuple[ReadyMade, ...]:
    """The three stacks; `singles` are the switches that pay one by one, in the order in which they are put together."""
    return tuple(_made(style, measured, singles, kit) for style in Style)


def _made(style: Style, measured: Sequence[Candidate], singles: Mapping[Switch, Candidate], kit: Kit) -> ReadyMade:
    kept = [one for one in measured if one.pays and RULES[style](one, kit)]
    stack = together([switch for switch, one in singles.items() if RULES[style](one, kit)], kit)
    cell = Cell(workload=kit.base.workload, size=kit.base.size, batch=kit.base.batch, switches=stack)
    tried = cell == kit.base or any(one.cell == cell for one in measured)
    subject = "+".join(str(one) for one in stack if one not in kit.base.switches)
    asked = Comparison(subject=subject, treatment=cell, reference=kit.base, timing=kit.timing)
    return ReadyMade(
        style=style,
        best=max(kept, key=lambda one: one.gain.low, default=None),
        among=len(kept),
        untried=None if tried else asked,
    )


def together(switches: Sequence[Switch], kit: Kit) -> tuple[Switch, ...]:
    """The base and these switches in turn; what conflicts with those before it or lacks what it needs stays off."""
    stack = kit.base.switches
    for switch in (*switches, *switches):  # what needs another is tried again when that is there
        others = tuple(one for one in stack if one.name != switch.name)
        taken = len(others) < len(stack) and switch.name not in {one.name for one in kit.base.switches}
        further = tuple(sorted((*others, switch)))
        if not taken and _stands(further, switch, kit):
            stack = further
    return stack


def _stands(stack: tuple[Switch, ...], switch: Switch, kit: Kit) -> bool:
    """Whether a stack can be run, with a switch that neither makes another idle nor is made so."""
    names = {one.name for one in stack}
    if kit.workload is None or not names <= kit.known.keys():
        return False
    own = kit.known[switch.name]
    idles = names & {*own.supersedes} or any(switch.name in kit.known[name].supersedes for name in names)
    if idles or not {*own.requires} <= names:
        return False
    try:
        compose(kit.workload, stack, kit.known)
    except (Conflict, Mistake):
        return False
    return True
