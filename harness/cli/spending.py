"""Spending: a campaign's account on the disk, which knows its minutes even if the machine dies at any moment."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, RLock, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

from harness.cli.replacing import replace_file
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.plain import Malformed, decode, encode
from harness.intake.archive import ACCOUNT
from harness.plan.campaign import Kind, Leg

SCHEMA = 1
TICK_S = 5.0  # so much is charged ahead: who dies within it has paid for it
LONGEST_S = 1e7


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a campaign is about; all slices of one ask the same."""

    workloads: tuple[str, ...]
    size: str
    protocol: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """A machine of the same kind on which a campaign went on."""

    since: str  # UTC, ISO 8601
    environment: Environment  # its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What is known of a campaign besides its runs. Seconds of all its slices together."""

    began: str  # UTC, ISO 8601
    version: str  # of the harness
    environment: Environment
    asked: Asked
    minutes: float
    legs: tuple[Leg, ...]
    spent_s: float = 0.0
    data_s: float = 0.0  # for writing the workloads' files, which the minutes do not pay for
    over: tuple[str, ...] = ()  # legs in which nothing is left
    runs: tuple[str, ...] = ()  # folders that its legs have begun or gone on with
    closed: tuple[str, ...] = ()  # those of them that were ended with something left to measure
    done: bool = False
    # Size -> workload -> what an arm was last seen to take: legs and slices learn of each other.
    arm_s: Mapping[str, Mapping[str, float]] = field(default_factory=dict, metadata={"since": "0.2.0"})
    # Before the first leg of these kinds what was left has been shared out anew.
    shared_at: tuple[Kind, ...] = field(default=(), metadata={"since": "0.2.0"})
    # Machines after the first; `environment` and every run stay those of the first, since they are of one kind.
    further: tuple[Further, ...] = field(default=(), metadata={"since": "0.3.0"})

    @property
    def measuring_s(self) -> float:
        """How many of its seconds may be measured in; the rest is the pages'."""
        return self.legs[-1].until_s


def read_account(path: Path) -> Account | None:
    """The account that is kept there, or None; raises Mistake where it is damaged."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Mistake(f"{path} cannot be read ({error.strerror}); check its permissions.") from error
    return parsed_account(content, path)


def parsed_account(content: bytes, where: object) -> Account:
    """An account from its text, checked field by field; raises Mistake where it is none."""
    try:
        body: Any = json.loads(content)
        if not isinstance(body, dict) or body.pop("schema", None) != SCHEMA:
            raise Malformed("its schema is not known here")
        account = decode(Account, body, ACCOUNT)
        times = (account.spent_s, account.data_s, account.minutes, *(one.until_s for one in account.legs))
        times += tuple(seconds for size in account.arm_s.values() for seconds in size.values())
        if not account.legs or not all(0 <= one <= LONGEST_S for one in times):
            raise Malformed("its times cannot be")
    except (ValueError, RecursionError) as error:
        raise Mistake(
            f"{where} is damaged ({error}); remove it, and give --fresh to begin another campaign."
        ) from error
    return account


def account_text(account: Account) -> bytes:
    """What `campaign.json` holds."""
    return (json.dumps({"schema": SCHEMA, **encode(account)}, indent=1) + "\n").encode()


class Meter:
    """Counts a slice's seconds on the disk while they pass, always a little ahead of them."""

    def __init__(self, path: Path, account: Account, age_s: float, clock: Callable[[], float] = monotonic) -> None:
        """Takes up an account; `age_s` is for how long this slice has been running already."""
        self._path, self._clock, self._lock = path, clock, RLock()
        self._account = account
        self._began_s = clock() - age_s
        self._paused_s = 0.0
        self._paused_at_s: float | None = None
        self._stopped, self._thread = Event(), Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        """Begins to count."""
        self._write(TICK_S)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Writes what was spent to the second."""
        self._stopped.set()
        self._thread.join()
        self._write(0.0)

    @property
    def account(self) -> Account:
        """As it stands now."""
        with self._lock:
            data_s = self._account.data_s + self._paused_now_s
            return replace(self._account, spent_s=self.spent_s, data_s=data_s)

    @property
    def spent_s(self) -> float:
        """Seconds that all slices together have spent, this one up to now."""
        with self._lock:
            return self._account.spent_s + self._clock() - self._began_s - self._paused_now_s

    def note(self, **changes: Any) -> None:
        """Changes fields of the account, on the disk too."""
        with self._lock:
            self._account = replace(self._account, **changes)
            self._write(TICK_S)

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """While files are written the minutes stand still, and another sum grows."""
        with self._lock:
            self._paused_at_s = self._clock()
        try:
            yield
        finally:
            with self._lock:
                self._paused_s, self._paused_at_s = self._paused_now_s, None

    @property
    def _paused_now_s(self) -> float:
        return self._paused_s + (0.0 if self._paused_at_s is None else self._clock() - self._paused_at_s)

    def _tick(self) -> None:
        while not self._stopped.wait(TICK_S):
            try:
                self._write(TICK_S)
            except Mistake:
                return  # whoever measures meets the same full disk and says so; the last write raises too

    def _write(self, ahead_s: float) -> None:
        with self._lock:
            account = self.account
            account = replace(account, spent_s=account.spent_s + ahead_s)
            replace_file(self._path, account_text(account), "make room or choose another folder with --results")
