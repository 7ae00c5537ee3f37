"""Arms of one server inherit one heap; each makes it its own, or copies would share the luck of a process."""

import os
import socket

from harness.run.fork_server import HELD, _child


def held_by_an_arm() -> list[int]:
    """The sizes of the blocks that a forked arm holds."""
    reader, writer = os.pipe()
    ours, its = socket.socketpair()
    process = os.fork()
    if not process:
        log = os.open(os.devnull, os.O_WRONLY)
        child = _child(b"", its.detach(), log)
        os.write(writer, " ".join(str(len(block)) for block in HELD).encode())
        child.channel.close()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe, ours, its:
        sizes = [int(word) for word in pipe.read().split()]
    os.waitpid(process, 0)
    return sizes


def test_no_two_arms_hold_the_same_blocks() -> None:
    one, other = held_by_an_arm(), held_by_an_arm()
    assert one
    assert one != other
    assert max(sum(one), sum(other)) < 8 << 20  # nothing that a column of memory would show
