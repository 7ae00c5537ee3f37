"""The example workload with faults planted in it; which, where and when is chosen by the environment.

TROUBLE=CARRIER:PLACE:DEED,…    the option that carries it, where it strikes (parts, step, item), what it does
TROUBLE_WHEN=FILE               it strikes only while this file exists
TROUBLE_ONCE=FOLDER             each strikes once, and leaves a file there
"""

import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from docs.example_workload import PARTS as HONEST
from docs.example_workload import WORKLOAD as EXAMPLE
from docs.example_workload import Pictures
from harness.core.recipe import Recipe
from harness.core.workload import Size

CARRIERS: Mapping[str, Callable[[Recipe], bool]] = {
    "baseline": lambda recipe: recipe == Recipe(),
    "set_to_none": lambda recipe: recipe.set_to_none,
    "foreach_optimizer": lambda recipe: recipe.optimizer_kernel == "foreach",
    "finite_check": lambda recipe: recipe.finite_check,
    "collect_garbage": lambda recipe: recipe.garbage_collector == "every_step",
    "garbage_collector_off": lambda recipe: recipe.garbage_collector == "off",
    "preallocated_loss_history": lambda recipe: recipe.loss_history == "preallocated",
    "workers=1": lambda recipe: recipe.workers == 1,
    "workers=2": lambda recipe: recipe.workers == 2,
    "workers=4": lambda recipe: recipe.workers == 4,
    "compile": lambda recipe: recipe.compile is not None,
}
MARGIN = 256 << 20  # bytes that a confined process may still take


def take_address_space() -> float:
    """Asks for more than the process is allowed to have."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MARGIN
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    return float(torch.ones(4 * MARGIN // 4).sum())


def take_control_group() -> float:
    """Joins the control group that was made for it and takes more memory than that holds, so that the kernel acts."""
    (Path(os.environ["TROUBLE_GROUP"]) / "cgroup.procs").write_text(str(os.getpid()))
    hoard = [os.urandom(1 << 20) * 16 for _ in range(256)]
    return float(len(hoard))


def take_the_device() -> float:
    """Asks the device for more than any has."""
    return float(torch.ones(1 << 45, dtype=torch.uint8, device="cuda")[0])


def reach_beyond() -> float:
    """Lets a kernel of the device fail: it reads beyond a tensor."""
    one = torch.ones(1, device="cuda")
    return float(one[torch.tensor([9], device="cuda")])


def refuse() -> float:
    """Fails with words that a terminal could take for markup."""
    raise ValueError("[/red] no such shape [bold]")


def strike_itself(number: signal.Signals) -> float:
    """Ends as if somebody else had sent the signal."""
    os.kill(os.getpid(), number)
    return 1.0


def stall() -> float:
    """Waits for something that never comes."""
    time.sleep(3600)
    return 1.0


def read_nothing() -> float:
    """Reads where there is nothing to read."""
    return float(len(ctypes.string_at(0)))


def end_itself() -> float:
    """Ends without a word."""
    os._exit(3)


DEEDS: Mapping[str, Callable[[], float]] = {
    "nan": lambda: float("nan"),
    "raise": refuse,
    "exit": end_itself,
    "segfault": read_nothing,
    "kill": lambda: strike_itself(signal.SIGKILL),
    "address_space": take_address_space,
    "control_group": take_control_group,
    "device_memory": take_the_device,
    "device_assert": reach_beyond,
    "stall": stall,
}


def struck(recipe: Recipe, place: str) -> float:
    """Does what is planted at a place for that recipe; gives the factor by which the loss goes wrong."""
    when = os.environ.get("TROUBLE_WHEN")
    if when and not Path(when).exists():
        return 1.0
    for planted in filter(None, os.environ.get("TROUBLE", "").split(",")):
        carrier, where, deed = planted.split(":")
        if where == place and CARRIERS[carrier](recipe) and _is_due(carrier):
            return DEEDS[deed]()
    return 1.0


def _is_due(carrier: str) -> bool:
    folder = os.environ.get("TROUBLE_ONCE")
    if folder is None:
        return True
    try:
        (Path(folder) / carrier).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Troubled(nn.Module):
    """The example's model; something may happen in a forward pass that trains."""

    def __init__(self, inner: nn.Module, recipe: Recipe) -> None:
        super().__init__()
        self.inner, self.recipe = inner, recipe

    def forward(self, pictures: Tensor) -> Tensor:
        result: Tensor = self.inner(pictures)
        if self.training and not torch.compiler.is_compiling() and (factor := struck(self.recipe, "step")) != 1.0:
            return result * factor
        return result


class TroubledPictures(Pictures):
    """The example's pictures; something may happen while one is fetched."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        super().__init__(folder)
        self.recipe = recipe

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        struck(self.recipe, "item")
        return super().__getitem__(index)


def model(size: Size, recipe: Recipe) -> nn.Module:
    struck(recipe, "parts")
    return Troubled(HONEST.model(size, recipe), recipe)


PARTS = replace(HONEST, model=model, dataset=lambda folder, _size, recipe: TroubledPictures(folder, recipe))
WORKLOAD = replace(
    EXAMPLE,
    name="troubled",
    traits=EXAMPLE.traits - {"evaluation"},
    sizes={"quick": EXAMPLE.sizes["smoke"], "standard": EXAMPLE.sizes["smoke"]},
    parts=lambda: PARTS,
)
