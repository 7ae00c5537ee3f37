"""How many replicates a wish asks for, and how narrow its intervals are to become."""

import pytest

from harness.core.mistake import Mistake
from harness.core.protocol import BRIEF, PROTOCOLS, STANDARD, Protocol
from harness.plan.planning import paced, target_of, target_text


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_without_a_word_it_is_the_protocol_itself(protocol: Protocol) -> None:
    assert paced(protocol, None, None, None) == protocol


def test_whoever_counts_restarts_or_rounds_gets_no_more() -> None:
    assert paced(BRIEF, 3, None, None).most_replicates == 3
    assert paced(BRIEF, None, 2, None).most_replicates == 2
    assert paced(BRIEF, None, 2, None).target is None
    assert paced(BRIEF, None, None, "none") == BRIEF.fixed()


def test_a_target_that_is_asked_for_holds_beside_counts() -> None:
    found = paced(STANDARD, 3, 5, "1.5%")
    assert (found.replicates, found.rounds, found.target, found.looks) == (3, 5, 0.015, STANDARD.looks)
    assert found.most_replicates == 12
    assert paced(BRIEF, None, None, "2 %").target == 0.02


def test_a_target_that_no_look_could_serve_is_a_mistake() -> None:
    with pytest.raises(Mistake, match="After 8 replicates there is no look left"):
        paced(BRIEF, 8, None, "2%")


@pytest.mark.parametrize("text", ["2", "0%", "-1%", "51%", "nan%", "two", "", "1e1%", "%"])
def test_what_is_no_target_is_a_mistake(text: str) -> None:
    with pytest.raises(Mistake, match="is no target; write 2%"):
        target_of(text)


@pytest.mark.parametrize("text", ["2%", "0.5%", "12.25%", "none"])
def test_a_target_reads_back_as_it_is_written(text: str) -> None:
    assert target_text(paced(BRIEF, None, None, text)) == text
