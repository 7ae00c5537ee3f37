"""The faults that the suite injects are of every kind there is, and what differs from time to time is not told."""

from harness.core.records import Fault
from harness.run.fault import COURSES
from tests.faults.page import Told, names_on, to_markdown
from tests.faults.suite import FAULTS


def test_there_are_enough_faults_and_no_two_alike() -> None:
    assert len({one.name for one in FAULTS}) == len(FAULTS) >= 25
    assert {one.kind for one in FAULTS if one.kind} >= set(Fault) - {
        Fault.DEVICE_MEMORY, Fault.DEVICE_ERROR, Fault.DEVICE_LOST, Fault.DISK
    }  # fmt: skip


def test_every_kind_has_a_course_with_a_remedy() -> None:
    assert set(COURSES) == set(Fault)
    assert all(len(one.remedy) > 10 and len(one.why) > 10 for one in COURSES.values())


def test_what_differs_from_time_to_time_is_left_out() -> None:
    words = "Process 4711 is measuring on this machine (since 03:12:05 UTC on 22 November 2026: x); kill 4711"
    page = to_markdown([Told(injected=FAULTS[0], words=words)], "here")
    assert "4711" not in page
    assert "03:12" not in page
    assert names_on(page) == [FAULTS[0].name]
