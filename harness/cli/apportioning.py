"""Apportioning: what every leg of a campaign wants, what it gets, and the table that says so before anything runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from harness.cli.legs import Ground, prepared_for, slowness, wants_of
from harness.cli.reporting import console
from harness.cli.spending import Account
from harness.cli.stocking import missing_bytes
from harness.plan.campaign import MOST, PAGES_S, Kind, Leg, Want, legs, shared_anew
from harness.report.campaign import DATA_HEADINGS, HEADINGS, Row, data_rows, left_out, plan_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A leg's wish and its share; None where it is left out."""

    want: Want
    leg: Leg | None


def apportioned(minutes: float, ground: Ground, slower: float = 1.0) -> tuple[Shared, ...]:
    """The legs of so many minutes on this machine, whose arms take so many times as long as they are guessed to.

    Raises Mistake where the minutes are too few.
    """
    wants = wants_of(ground, MOST[Kind.CALIBRATION] * 60 * minutes, slower)
    found = {(one.kind, one.workloads): one for one in legs(minutes, wants)}
    return tuple(Shared(want=one, leg=None if one.problem else found[one.kind, one.workloads]) for one in wants)


def legs_of(shared: Iterable[Shared]) -> tuple[Leg, ...]:
    """Those that are measured."""
    return tuple(one.leg for one in shared if one.leg is not None)


def apportioned_anew(account: Account, first: Leg, spent_s: float, ground: Ground) -> tuple[Leg, ...]:
    """All legs of a campaign, from one of them on with other marks: what is left, by what arms take here.

    A leg that nobody would plan here keeps no share: an account may come from a stranger's archive.
    """
    begun = account.legs.index(first)
    later = account.legs[begun:]
    before = (replace(one, until_s=min(one.until_s, spent_s)) for one in account.legs[:begun])  # had their turn
    wants = {(one.kind, one.workloads): one for one in wants_of(ground, 0.0, slowness(account.arm_s, ground))}
    open_here = [one for one in later if one.name not in account.over and (one.kind, one.workloads) in wants]
    if not open_here:
        return account.legs
    without = [replace(one, share_s=0.0, until_s=spent_s) for one in later if one not in open_here]
    still = [wants[one.kind, one.workloads] for one in open_here]
    return *before, *without, *shared_anew(still, spent_s, account.measuring_s)


def print_plan(minutes: float, shared: Sequence[Shared], ground: Ground, data: Path | None) -> None:
    """The legs with their shares, what is left out and why, and the files that have to be written first."""
    rows, where = [_row(one) for one in shared], console()
    _print(where, f"A campaign of {minutes:g} minutes", HEADINGS, plan_rows(rows, PAGES_S, minutes))
    for sentence in left_out(rows):
        where.print(sentence, markup=False, highlight=False)
    if missing := _missing(legs_of(shared), ground, data):
        title = "To be written first, once: the minutes do not count it, a slice does"
        _print(where, title, DATA_HEADINGS, data_rows(missing, ground.environment.cores))


def _row(one: Shared) -> Row:
    want, leg = one.want, one.leg
    return Row(
        name=str(want.kind),
        workloads=want.workloads,
        comparisons=want.comparisons,
        wanted_s=want.seconds,
        share_s=leg.share_s if leg else None,
        until_s=leg.until_s if leg else None,
        problem=want.problem,
    )


def _print(where: Console, title: str, headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    first, *others = headings
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading)
    for row in rows:
        table.add_row(*row)
    where.print(title, highlight=False)
    where.print(table)


def _missing(measured: Iterable[Leg], ground: Ground, data: Path | None) -> dict[str, int]:
    """The calibration and the first look need the files of all the others."""
    found: dict[str, int] = {}
    for leg in measured:
        ready = prepared_for(leg.kind, leg.workloads, ground) if leg.kind in MOST else None
        found |= missing_bytes(ready, data) if ready else {}
    return found
