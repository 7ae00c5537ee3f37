"""Several ranks as a document: efficiency, communication that nothing hides, and bytes, in a table of its own."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Row
from harness.analyze.profile import Profile
from harness.core.configuration import Configuration
from harness.core.optimization import Timing
from harness.report.document import Column, Heading, Part, Text, listed, tabled
from harness.report.words import NOTHING, duration, one_line, rate, ratio, size

HOW = (
    "Strong scaling splits the reference's batch among the ranks; weak scaling gives each rank a batch of that size, "
    "against one process that adds up as many batches. Efficiency is the speedup divided by the number of ranks. "
    "Communication not hidden is the share of the ranks' step that goes when no gradient is reduced, waiting for the "
    "slowest rank included (gradients_not_reduced). A ring sends 2(N-1)/N times the reduced bytes from each rank; the "
    "share of the link is that of what the same ranks reduce in a second while they do nothing else."
)
ON_A_CPU = "All ranks share one CPU here: this rehearses the method, and says nothing of ranks with a GPU each."
MOST_LINEAR = 1.02  # times the number of ranks, beyond which a speedup needs an explanation before it is an efficiency
RANKS, SILENT = "ranks", "gradients_not_reduced"
SCALE, SPLIT = "batch_scale", "gradient_accumulation"  # larger batches, and what one process does with as many samples
_COLUMNS = (
    Column(name="workload, ranks", whole=True),
    Column(name="scaling", whole=True),
    Column(name="samples/s", right=True, whole=True),
    Column(name="speedup, 95 %", whole=True),
    Column(name="efficiency", whole=True),
    Column(name="communication not hidden", whole=True, optional=1),
    Column(name="reduced an update", right=True, whole=True, optional=2),
    Column(name="sent a second", right=True, whole=True, optional=3),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Several ranks against one process that takes the same samples for an update."""

    row: Row
    estimate: Estimate
    ranks: int
    silent: Estimate | None  # the same ranks that reduce no gradients, against these

    @property
    def is_weak(self) -> bool:
        """Whether each rank takes a whole usual batch."""
        return SCALE in levels(self.row.comparison.treatment)

    @property
    def is_unexplained(self) -> bool:
        """Whether it is surely faster than so many ranks can be, had each of them what one process has."""
        return self.estimate.low > MOST_LINEAR * self.ranks


def levels(config: Configuration) -> dict[str, object]:
    """Its options by name."""
    return {one.name: one.level for one in config.options}


def scalings(rows: Iterable[Row]) -> tuple[Scaling, ...]:
    """The rows that compare several ranks with one process and change nothing else, by workload and ranks."""
    timed = [(row, row.estimate) for row in rows if row.estimate and row.comparison.timing is Timing.STEP]
    silent = {
        row.comparison.reference: estimate
        for row, estimate in timed
        if levels(row.comparison.treatment).keys() - levels(row.comparison.reference).keys() == {SILENT}
    }
    found = []
    for row, estimate in timed:
        treatment, reference = levels(row.comparison.treatment), levels(row.comparison.reference)
        unlike = {name for name, _ in treatment.items() ^ reference.items()}
        ranks = treatment.get(RANKS)
        allowed = {RANKS, SCALE, SPLIT} if SCALE in treatment else {RANKS}
        if RANKS not in reference and isinstance(ranks, int) and unlike <= allowed:
            known = silent.get(row.comparison.treatment)
            found.append(Scaling(row=row, estimate=estimate, ranks=ranks, silent=known))
    return tuple(sorted(found, key=lambda one: (one.row.comparison.treatment.workload, one.ranks, one.is_weak)))


def scaling_parts(rows: Iterable[Row], *, on_a_cpu: bool, level: int = 2) -> Iterator[Part]:
    """The table of all ranks with what its columns mean; nothing where no ranks were compared with one process."""
    found = scalings(rows)
    if not found:
        return
    yield Heading("Several ranks against one process", level)
    yield from tabled(_COLUMNS, map(_cells, found))
    yield from listed(_refused(one) for one in found if one.is_unexplained)
    yield Text(HOW)
    if on_a_cpu:
        yield Text(ON_A_CPU)


def scaling_data(one: Scaling) -> dict[str, Any]:
    """The same as data, in shares of 1, seconds and bytes; null what was not measured, and a refused efficiency."""
    profile = one.row.treatment
    reduced, sent, share = _bytes(one.ranks, profile)
    return {
        "treatment": str(one.row.comparison.treatment),
        "reference": str(one.row.comparison.reference),
        "ranks": one.ranks,
        "scaling": "weak" if one.is_weak else "strong",
        "speedup": _interval(one.estimate),
        "efficiency": None if one.is_unexplained else _interval(one.estimate, one.ranks),
        "not_hidden": _not_hidden(one),
        "step_s": profile.config.batch / profile.rate if profile else None,
        "reduced_bytes": reduced,
        "sent_bytes_per_s": sent,
        "share_of_link": share,
    }


def _interval(estimate: Estimate, ranks: int = 1) -> list[float]:
    return [value / ranks for value in (estimate.ratio, estimate.low, estimate.high)]


def _not_hidden(one: Scaling) -> list[float] | None:
    """The share of a step that goes where no gradient is reduced, with its interval."""
    return [1 - 1 / value for value in _interval(one.silent)] if one.silent else None


def _bytes(ranks: int, profile: Profile | None) -> tuple[int | None, float | None, float | None]:
    """Bytes of gradients that an update reduces, what a ring sends from each rank in a second, its share of the link.

    The share is not known of runs that did not time the link.
    """
    count = profile.facts.get("reduced_bytes") if profile else None
    if profile is None or not isinstance(count, int):
        return None, None, None
    a_second = count * profile.rate / profile.config.batch
    link = profile.facts.get("link_bytes_per_s")
    return count, 2 * (ranks - 1) / ranks * a_second, a_second / link if isinstance(link, int) else None


def _cells(one: Scaling) -> tuple[str, ...]:
    profile, estimate = one.row.treatment, one.estimate
    return (
        one_line(f"{one.row.comparison.treatment.workload}, {one.ranks}"),
        "weak" if one.is_weak else "strong",
        rate(profile.rate).removesuffix(" samples/s") if profile else NOTHING,
        ratio(estimate),
        "refused, see below" if one.is_unexplained else _percent(_interval(estimate, one.ranks)),
        _exposed(one),
        *_traffic(one.ranks, profile),
    )


def _percent(values: Sequence[float]) -> str:
    """A share with its interval: `61 % [55, 67]`."""
    middle, low, high = (f"{100 * value:.0f}" for value in values)
    return f"{middle} % [{low}, {high}]"


def _exposed(one: Scaling) -> str:
    """The share of a step that reductions add to it, and how long that is; no less than nothing."""
    share = _not_hidden(one)
    if share is None:
        return NOTHING
    profile = one.row.treatment
    step_s = profile.config.batch / profile.rate if profile else 0.0
    return f"{_percent(share)}, {duration(max(0.0, share[0]) * step_s)} of {duration(step_s)}"


def _traffic(ranks: int, profile: Profile | None) -> tuple[str, str]:
    count, sent, share = _bytes(ranks, profile)
    if count is None or sent is None:
        return NOTHING, NOTHING
    of_link = f", {100 * share:.1f} % of the link" if share is not None else ""
    return size(count), f"{size(round(sent))}/s{of_link}"


def _refused(one: Scaling) -> str:
    return (
        f"{one_line(one.row.label)} on {one.row.comparison.treatment.workload} reads {ratio(one.estimate)}, more than "
        f"{one.ranks} ranks can gain by sharing the work alone: the one process does without something that ranks "
        "have, such as cores or a cache. Find it before this is called an efficiency."
    )
