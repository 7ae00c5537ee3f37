"""What torch.compile shows: graphs, breaks, and whether anything was compiled lately."""

from collections.abc import Callable

from harness.core.recipe import Value


def of_compiler() -> dict[str, Value]:
    """What torch.compile has captured in this process."""
    from torch._dynamo.utils import counters

    graphs = int(counters["stats"]["unique_graphs"])
    return {
        "compiled": graphs > 0,
        "compiled_graphs": graphs,
        "graph_breaks": int(sum(counters["graph_break"].values())),
    }


def compiler_quiet() -> Callable[[], bool]:
    """A question to be asked after each step: was nothing compiled since it was last asked?"""
    seen: dict[str, Value] = {}

    def quiet() -> bool:
        nonlocal seen
        was, seen = seen, of_compiler()
        return was == seen

    return quiet
