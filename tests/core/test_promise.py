from harness.core.codec import decode, encode
from harness.core.optimization import Numerics, Promise, promises
from tests.core.invented import KNOWN, optimization


def test_promises_keep_what_a_reader_must_know() -> None:
    cache = optimization("cache", {"b": 1, "a": 2}, pointless_where={"layout contiguous": "it has no chunks"})
    found = promises([cache, KNOWN["tf32"]])
    assert found == {
        "cache": Promise(
            numerics=Numerics.EXACT, proof=("a", "b"), pointless_where={"layout contiguous": "it has no chunks"}
        ),
        "tf32": Promise(numerics=Numerics.CLOSE, proof=("tf32_convolutions",), pointless_where={}),
    }
    assert decode(dict[str, Promise], encode(found)) == found


def test_nothing_promises_nothing() -> None:
    assert promises([]) == {}
