"""A fault as data: what is done, what must be said, and what must become of the arm and of the command."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.core.records import Fault
from harness.run.fault import COURSES
from tests.faults.stage import Seen, Stage


def nothing() -> str | None:
    """Needs nothing that a machine may lack."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """One fault of the suite."""

    name: str
    how: str  # what is really done, as the page tells it
    act: Callable[[Stage], Seen]
    says: str  # a regular expression that the output or a record must have
    status: int  # of the command; one that a signal ends has that signal's negative number
    kind: Fault | None = None  # what is recorded of an arm, where one is lost
    then: str = ""  # what becomes of the rest, as the page tells it
    alone: bool = False  # its counter is the whole host's, so that nothing else of this suite may run beside it
    lacks: Callable[[], str | None] = nothing  # why it cannot be injected on this machine

    def judge(self, seen: Seen) -> str:
        """The sentence that was said; fails where it was another one, or where anything was lost."""
        assert seen.status == self.status, seen.said
        assert seen.after[: len(seen.before)] == seen.before, "a finished measurement was lost"
        told = [one.reason for one in seen.lost] + seen.said.splitlines()
        lines = [line for line in told if re.search(self.says, line)]
        assert lines, seen.said
        if self.kind is not None:
            lost = [one for one in seen.lost if one.kind is self.kind]
            assert lost, seen.lost
            assert lost[0].outcome == COURSES[self.kind].outcome
        return lines[0]
