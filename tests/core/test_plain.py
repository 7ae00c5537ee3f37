import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.codec import Malformed, decode, encode
from harness.core.configuration import Comparison, Configuration, Option
from harness.core.optimization import Numerics, Promise, Timing
from harness.core.plan import Block, NoResult, Plan
from harness.core.protocol import BRIEF, Protocol
from harness.core.recipe import Recipe
from harness.core.records import Arm, Lost, Ready, Record, Window
from tests.analyze.synthetic import ENVIRONMENT, arm, ready, window

# A choice whose text is nan or inf would come back as a number: encoded numbers are told by these words.
WORDS = st.text(max_size=9).filter(lambda text: text not in {"nan", "inf", "-inf"})
NUMBERS = st.floats()  # nan and both infinities among them
VALUES = st.none() | st.booleans() | st.integers() | NUMBERS | WORDS
ARMS = st.builds(Arm, block=WORDS, replicate=st.integers(), attempt=st.integers(), position=st.integers())
KINDS = {
    Ready: st.builds(
        Ready,
        arm=ARMS,
        effective=st.dictionaries(WORDS, VALUES, max_size=3),
        inactive=st.lists(WORDS, max_size=2).map(tuple),
        losses=st.lists(NUMBERS, max_size=3).map(tuple),
    ),
    Window: st.builds(Window, arm=ARMS),
    Lost: st.builds(Lost, arm=ARMS, reason=WORDS, trace=WORDS),
}


def through_json(value: object) -> Any:
    return json.loads(json.dumps(encode(value), allow_nan=False))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_record_survives_the_way_through_json(kind: type[Record]) -> None:
    @settings(max_examples=60, deadline=None)
    @given(KINDS[kind])
    def survives(record: Record) -> None:
        assert repr(decode(kind, through_json(record))) == repr(record)  # repr, because nan is not equal to itself

    survives()


@pytest.mark.parametrize(
    "value",
    [
        BRIEF,
        ENVIRONMENT,
        Recipe(workers=2, compile="default", own=(("cache", None), ("reader", "fast"))),
        Plan(
            design="alone",
            seed=3,
            protocol=Protocol(replicates=3),
            blocks=(
                Block(
                    identity="b00",
                    reference=Configuration(workload="leak", size="quick", batch=4),
                    timing=Timing.EPOCH,
                    comparisons=(
                        Comparison(
                            label="workers=2",
                            treatment=Configuration(
                                workload="leak", size="quick", batch=4, options=(Option(name="workers", level=2),)
                            ),
                            reference=Configuration(workload="leak", size="quick", batch=4),
                            timing=Timing.EPOCH,
                        ),
                    ),
                ),
            ),
            no_results=(NoResult(workload="leak", label="tf32", reason="needs a CUDA device"),),
            names={"leak@quick#512": "baseline"},
            promises={"workers": Promise(numerics=Numerics.EXACT, proof=("workers",), pointless_where={"a b": "c"})},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_plans_and_their_parts_survive_too(value: object) -> None:
    assert decode(type(value), through_json(value)) == value


GOOD = {"ready": through_json(ready(arm())), "window": through_json(window(arm(), 0, 100.0))}


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (Window, {"steps": "ten"}, "record.steps must be int"),
        (Window, {"steps": 1.5}, "record.steps must be int"),
        (Window, {"steps": True}, "record.steps must be int"),
        (Window, {"wall_s": True}, "record.wall_s must be float"),
        (Window, {"wall_s": "1.0"}, "record.wall_s must be float"),
        (Window, {"wall_s": 10**400}, "record.wall_s must be float"),
        (Window, {"wall_s": None}, "record.wall_s must be float"),
        (Window, {"timing": "lunch"}, "record.timing must be one of step, epoch, evaluation, loader, compute"),
        (Window, {"timing": []}, "record.timing must be one of"),
        (Window, {"device_bytes": "many"}, "record.device_bytes is of none of the kinds it may have"),
        (Window, {"arm": 3}, "record.arm must be an object"),
        (Window, {"arm": {"block": "b", "restart": 0, "life": 0}}, "record.arm.position is missing"),
        (Window, {"colour": 1}, "record.colour is unknown"),
        (Ready, {"losses": 1.0}, "record.losses must be a list"),
        (Ready, {"losses": [1.0, "x"]}, r"record.losses\[1\] must be float"),
        (Ready, {"effective": []}, "record.effective must be an object"),
        (Ready, {"effective": {"a": {"b": 1}}}, "record.effective.a is of none of the kinds"),
        (Ready, {"unengaged": [1]}, r"record.unengaged\[0\] must be str"),
    ],
)
def test_what_is_malformed_is_refused_with_its_place(kind: type[Record], change: dict[str, Any], words: str) -> None:
    good = GOOD[kind.__name__.lower()]
    assert isinstance(decode(kind, good), kind)
    with pytest.raises(Malformed, match=words):
        decode(kind, {**good, **change})


@pytest.mark.parametrize("data", [None, [], "text", 3, {}])
def test_what_is_no_record_at_all_is_refused(data: object) -> None:
    with pytest.raises(Malformed):
        decode(Window, data)


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8
    )
)
def test_nothing_but_malformed_comes_of_strange_data(data: object) -> None:
    for kind in (Ready, Window, Lost, Plan, Recipe):
        with pytest.raises(Malformed):
            decode(kind, data)


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Has the kinds of fields that records use seldom."""

    pair: tuple[str, int]
    side: Literal["left", "right"]


def test_tuples_of_a_fixed_length_and_literals() -> None:
    value = Pairing(pair=("a", 1), side="left")
    assert decode(Pairing, through_json(value)) == value
    with pytest.raises(Malformed, match=r"record.pair must have 2 entries"):
        decode(Pairing, {"pair": ["a"], "side": "left"})
    with pytest.raises(Malformed, match=r"record.side must be one of left, right"):
        decode(Pairing, {"pair": ["a", 1], "side": "middle"})
