"""What a compiled model shows: its layers in graphs, or run one by one by Python after all."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from harness.core.configuration import inactive
from harness.core.recipe import Recipe, Value
from harness.measure import observed_step as compiling
from harness.measure import observed_step as evidence
from harness.measure.devices import Device
from harness.measure.session import called
from harness.measure.step import Bound

pytestmark = [
    pytest.mark.thorough,  # the first kernel of a process takes its compiler half a minute
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),  # the compiler imports what it calls outdated
    pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning"),  # and looks at what is between two graphs
]
INPUTS = torch.rand(2, 4)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, inputs: Tensor) -> Tensor:
        one, two, three, four = self.layers
        return four(three(two(one(inputs))))


class Broken(Whole):
    """In four graphs, none of them more than a layer."""

    def forward(self, inputs: Tensor) -> Tensor:
        one, two, three, four = self.layers
        found = one(inputs)
        torch._dynamo.graph_break()
        found = two(found)
        torch._dynamo.graph_break()
        found = three(found)
        torch._dynamo.graph_break()
        return four(found)


class GivenUp(Whole):
    """Breaks within a loop, where Python takes over the whole function."""

    def forward(self, inputs: Tensor) -> Tensor:
        for layer in self.layers:
            inputs = layer(inputs)
            torch._dynamo.graph_break()
        return inputs


class Refusing(nn.Module):
    """One small graph around layers that are kept from it: captured, and yet in eager."""

    def __init__(self) -> None:
        super().__init__()
        self.kept, self.last = Kept(), nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.kept(inputs).relu())


class Kept(Whole):
    @torch.compiler.disable
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs)


class Counting(Whole):
    """Counts its passes in a number that is a constant to the compiler: each pass is compiled anew, until none is."""

    def __init__(self) -> None:
        super().__init__()
        self.passes = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.passes += 1
        return super().forward(inputs) * (1 + 0 * self.passes)


class Blocks(nn.Module):
    """Two blocks of one shape, each behind a layer that no block holds."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.middle = nn.Linear(4, 4), nn.Linear(4, 4)
        self.stages = nn.ModuleList([Whole(), Whole()])

    def forward(self, inputs: Tensor) -> Tensor:
        first, second = self.stages
        return second(self.middle(first(self.head(inputs))))


class Trained:
    """What of a trainee the compiler's evidence looks at."""

    def __init__(self, model: nn.Module, level: str) -> None:
        self.model = model
        self.bound = Bound(
            fetch=lambda: None, transfer=lambda batch: (batch, batch), model=called(model, Recipe(compile=level)),
            loss=nn.functional.mse_loss, autocast=nullcontext, backward=torch.autograd.backward, update=model.zero_grad,
            record=lambda _: None,
        )  # fmt: skip


def shown(model: nn.Module, level: str = "default") -> dict[str, Value]:
    return shown_of(Trained(model, level))


def shown_of(trained: Trained) -> dict[str, Value]:
    for _ in range(2):
        trained.bound.model(INPUTS).sum().backward()
    return evidence.of_compiler(trained, INPUTS, Device("cpu"))  # type: ignore[arg-type]


def one_graph(found: dict[str, Any]) -> bool:
    return found["compiled_graphs"] == 1 and found["eager_layers"] == 0 == found["graph_breaks"]


def in_pieces(found: dict[str, Any]) -> bool:
    return found["compiled_graphs"] == 4 and found["eager_layers"] == 0 and found["graph_breaks"] == 3


def a_shared_block(found: dict[str, Any]) -> bool:
    return found["compiled_graphs"] == 1 and found["eager_layers"] == 2


def test_a_model_that_falls_back_to_eager_once_it_was_looked_at_is_found_out() -> None:
    counting, whole = Trained(Counting(), "default"), Trained(Whole(), "default")
    for trained, stays in ((counting, False), (whole, True)):
        assert shown_of(trained)["compiled"], "so it is while there are few graphs"
        for _ in range(torch._dynamo.config.recompile_limit + 2):
            trained.bound.model(INPUTS)
        step = partial(trained.bound.model, INPUTS)
        assert compiling.still_compiled(trained, step) is stays  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "level", "looks"),
    [
        (Whole, "default", one_graph),
        (Whole, "fullgraph", one_graph),
        (Broken, "default", in_pieces),
        (Blocks, "regional", a_shared_block),
    ],
)
def test_graphs_and_the_layers_left_to_python_are_counted(
    model: type[nn.Module], level: str, looks: Callable[[dict[str, Any]], bool]
) -> None:
    torch.manual_seed(0)
    built = model()
    expected = built(INPUTS)
    found = shown(built, level)
    assert inactive({"compiled": True}, found) == ()
    assert looks(found), found
    torch.testing.assert_close(called(built, Recipe(compile=level))(INPUTS), expected)


@pytest.mark.parametrize(
    ("model", "level", "graphs", "eager"),
    [
        (Kept, "default", 0, 4),
        (GivenUp, "default", 0, 4),
        (Refusing, "default", 1, 4),  # of five: a graph was captured, and most of the model runs without one
        (Whole, "regional", 0, 4),  # nothing in it is a repeated block
    ],
)
def test_a_model_that_falls_back_to_python_is_not_compiled(
    model: type[nn.Module], level: str, graphs: int, eager: int
) -> None:
    found = shown(model(), level)
    assert inactive({"compiled": True}, found) == ("compiled is False, not True",)
    assert (found["compiled_graphs"], found["eager_layers"]) == (graphs, eager)


class Widening(nn.Sequential):
    """Pairs of blocks of more shapes than one piece of code may be compiled for, if nobody says otherwise."""

    def __init__(self) -> None:
        widths = range(4, 5 + torch.compiler.config.recompile_limit)
        super().__init__(*(nn.Sequential(nn.Linear(one - 1, one), Wide(one), Wide(one)) for one in widths))


class Wide(nn.Sequential):
    """A block with code of its own."""

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, width), nn.Linear(width, width))

    def forward(self, inputs: Tensor) -> Tensor:
        found: Tensor = super().forward(inputs)
        return found


@torch._dynamo.config.patch(recompile_limit=3)
def test_blocks_of_many_shapes_are_all_compiled() -> None:
    model = Widening()
    called(model, Recipe(compile="regional"))
    model(torch.rand(2, 3)).sum().backward()
    with compiling.eager_calls(model) as eager:
        model(torch.rand(2, 3)).sum().backward()
    assert len(model) == len(eager) == 4  # the layers before the blocks
    assert compiling.captured()["compiled_graphs"] == 4


def test_what_cannot_be_one_graph_is_an_error_where_one_is_demanded() -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported, match="graph_break"):
        shown(Broken(), "fullgraph")


def watched_calls(model: nn.Module) -> int:
    """How many linear layers a hook sees in one forward pass."""
    calls: list[None] = []
    layers = [one for one in model.modules() if isinstance(one, nn.Linear)]
    hooks = [one.register_forward_hook(lambda *_: calls.append(None)) for one in layers]
    model(INPUTS)
    for hook in hooks:
        hook.remove()
    return len(calls)


def test_layers_of_compiled_blocks_can_still_be_watched() -> None:
    model = Blocks()
    shown(model, "regional")
    assert watched_calls(model) == 2
    with evidence.run_in_eager(model):
        assert watched_calls(model) == 10
    assert isinstance(evidence.run_in_eager(Blocks()), nullcontext)


def test_a_compiler_is_quiet_once_nothing_new_is_compiled() -> None:
    model, quiet = torch.compile(nn.Linear(4, 4)), evidence.compiler_quiet()
    assert not quiet()
    for expected in (False, True):
        model(INPUTS)
        assert quiet() is expected
