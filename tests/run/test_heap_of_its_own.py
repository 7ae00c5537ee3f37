"""Arms of one server inherit one heap; each makes it its own, or copies would share the luck of a process."""

from harness.run.fork_server import _heap_of_its_own


def test_no_two_arms_hold_the_same_blocks() -> None:
    held = [tuple(len(block) for block in _heap_of_its_own()) for _ in range(4)]
    assert len(set(held)) == 4
    assert all(sum(sizes) < 8 << 20 for sizes in held)  # nothing that a column of memory would show
