"""Reopening: the account that a slice goes on with, unless it is of another campaign or of another environment."""

from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

from harness import __version__
from harness.cli.legs import Ground
from harness.cli.spending import Account, Asked, Further
from harness.core.environment import Environment, differing, is_one_kind
from harness.core.mistake import Mistake
from harness.plan.campaign import Leg
from harness.store import IN_PROGRESS


def new_account(minutes: float, legs: tuple[Leg, ...], ground: Ground) -> Account:
    """The account of a campaign that begins now."""
    return Account(
        began=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        environment=ground.environment,
        asked=ground.asked,
        minutes=minutes,
        legs=legs,
    )


def extended(account: Account, minutes: float, legs: tuple[Leg, ...], machine: Path) -> Account:
    """The same campaign in other minutes: runs that were ended with something left to measure are open again."""
    for name in account.closed:
        if (machine / name).is_dir():
            (machine / name / IN_PROGRESS).touch()
    return replace(account, minutes=minutes, legs=legs, closed=(), done=False)


def check_same(account: Account, ground: Ground, path: Path) -> None:
    """Raises Mistake with what differs where a campaign was asked otherwise, or was of another environment."""
    if account.asked != ground.asked:
        words = "; ".join(_asked_otherwise(account.asked, ground.asked))
        raise Mistake(f"{path} is of a campaign that was asked otherwise ({words}); ask the same, or give --fresh.")
    changed: list[str] = []
    if not is_one_kind(account.environment, ground.environment):
        for name, before, after in differing(account.environment, ground.environment):
            changed.append(f"{name} {_shown(before)}, now {_shown(after)}")
    if account.version != __version__:
        changed.append(f"speedmatrix {account.version}, now {__version__}")
    if changed:
        raise Mistake(
            f"{path} is of another environment ({'; '.join(changed)}), and a campaign has one; restore it, or give "
            "--fresh to begin another: no run is lost."
        )


def gone_on_with(account: Account, environment: Environment) -> Account:
    """The account with this machine noted where it is not the one that came before."""
    latest = account.further[-1].environment if account.further else account.environment
    if not any(differing(latest, environment)):
        return account
    now = Further(since=datetime.now(UTC).isoformat(timespec="seconds"), environment=environment)
    return replace(account, further=(*account.further, now))


def _asked_otherwise(was: Asked, now: Asked) -> Iterator[str]:
    for name in (one.name for one in fields(was)):
        before, after = getattr(was, name), getattr(now, name)
        if before != after:
            yield f"{name} {_shown(before)}, now {_shown(after)}"


def _shown(value: object) -> str:
    if value is None:
        return "missing"
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
