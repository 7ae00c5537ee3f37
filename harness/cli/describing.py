"""Callables in words: what a bound value does, as its own docstring says, and the values that it closes over."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.core.recipe import Recipe

# What these are for is known from where they stand; their docstrings tell how they work.
FOREIGN = ("torch", "contextlib", "functools", "builtins")
PLAIN = Recipe()
FEED_WORDS = {
    "start_method": "started by {}",
    "persistent_workers": "kept across epochs",
    "worker_threads": "{} threads in each",
    "batched_fetch": "whole batches, not item by item",
    "in_memory_data": "from memory",
    "page_cache": "the files' page cache {}",
    "keep_last_batch": "the short last batch kept",
    "collate": "{} collate",
    "batch_transport": "sent by {}",
    "sharing_strategy": "shared by {}",
    "pin_memory": "in pinned memory",
    "device_prefetch": "the next one sent to the device while the step runs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One callable of a chain: how it is called, and what it does."""

    call: str
    words: str


def described(call: Callable[..., Any]) -> Iterator[Link]:
    """A callable and then those it closes over, the outermost first."""
    if isinstance(call, partial):
        yield Link(call=f"{_name(call.func)}({_given(call)})", words=_words(call.func))
        return
    closed = _closed_over(call)
    values = ", ".join(f"{name}={value}" for name, value in closed.items() if _is_plain(value))
    yield Link(call=_name(call) + (f"({values})" if values else ""), words=_words(call))
    for value in closed.values():
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if callable(one) and not isinstance(one, type):
                yield from described(one)


def _name(call: Callable[..., Any]) -> str:
    """Without the functions around it, but with its class."""
    name: str = getattr(call, "__qualname__", type(call).__name__)
    return name.rsplit("<locals>.", 1)[-1].removeprefix("TensorBase.")


def _given(call: "partial[Any]") -> str:
    named = (f"{name}={_short(value)}" for name, value in call.keywords.items())
    return ", ".join((*map(_short, call.args), *named))


def _short(value: Any) -> str:
    """A plain value as it is, several values as their number, anything else by its kind."""
    if isinstance(value, (list, tuple)):
        return f"{len(value)} {type(value[0]).__name__}s" if value else "nothing"
    return str(value).removeprefix("torch.") if _is_plain(value) else type(value).__name__


def _is_plain(value: Any) -> bool:
    """Whether a value says all in one word, as numbers, names, devices and dtypes do."""
    return isinstance(value, (bool, int, float, str)) or type(value).__name__ in {"device", "dtype"}


def _closed_over(call: Callable[..., Any]) -> Mapping[str, Any]:
    return inspect.getclosurevars(call).nonlocals if inspect.isfunction(call) else {}


def _words(call: Callable[..., Any]) -> str:
    """The first sentence of its docstring, or of the function that made it."""
    if call is nullcontext:
        return "Nothing"
    module = getattr(call, "__module__", None) or "builtins"
    if module.split(".")[0] in FOREIGN:
        return ""
    text = inspect.getdoc(call) or _doc_of_maker(call, module)
    return text.partition("\n\n")[0].replace("\n", " ").partition("; ")[0].partition(". ")[0].rstrip(".")


def _doc_of_maker(call: Callable[..., Any], module: str) -> str:
    """The docstring of the function or method in which a local function was defined."""
    found: Any = sys.modules.get(module)
    for name in getattr(call, "__qualname__", "").split(".<locals>")[0].split("."):
        found = getattr(found, name, None)
    return inspect.getdoc(found) or "" if found is not None else ""


def optimizer_in_words(optimizer: Any) -> Link:
    """An optimizer with those of its numbers and switches that are on."""
    on = {name: value for name, value in optimizer.defaults.items() if value is not None and value is not False}
    words = ", ".join(f"{name} {value}" for name, value in on.items())
    return Link(call=type(optimizer).__name__, words=words)


def feed_in_words(recipe: Recipe) -> str:
    """The way of a batch to the step; only what is unlike the plain recipe is said of it."""
    workers = f"{recipe.workers} worker{'s' if recipe.workers != 1 else ''}" if recipe.workers else "no workers"
    unlike = [
        words.format(getattr(recipe, name))
        for name, words in FEED_WORDS.items()
        if getattr(recipe, name) != getattr(PLAIN, name)
    ]
    ahead = [f"{recipe.prefetched_batches} batches ahead"] if recipe.workers else []
    return ", ".join([f"Of a DataLoader with {workers}", *ahead, *unlike])
