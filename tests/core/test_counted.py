"""Of which tests lines are counted, where they are: see tests/conftest.py."""

import os

import pytest

from tests.conftest import counted_by


@pytest.mark.repeats
def test_lines_of_a_test_that_repeats_them_are_not_counted() -> None:
    assert counted_by() is None


def test_those_of_others_are_and_no_command_that_a_test_starts_counts_its_own() -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert (counted_by() is not None) == ("COVERAGE_RUN" in os.environ)
        assert "COVERAGE_PROCESS_CONFIG" not in os.environ
