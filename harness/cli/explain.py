"""`explain`: what a configuration changes, what its step is bound to and reads like; or an optimization's page."""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from harness.analyze.grouping import together
from harness.catalogue import read_catalogue
from harness.core.claims import Claim
from harness.core.configuration import (
    Configuration,
    ConfigurationRequest,
    Conflict,
    Option,
    compose,
    expected,
    parse_config,
    settings,
    unmet,
)
from harness.core.mistake import Mistake
from harness.core.optimization import Level, Optimization, Stage, Timing
from harness.core.recipe import Recipe, Value, difference
from harness.core.workload import Workload
from harness.measure.surroundings import read_environment
from harness.plan.planning import Context, protocol_named, reference_request
from harness.report.claims import promised
from harness.report.words import shortened

# Callables in words: what a bound value does, as its own docstring says, and the values that it closes over.

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


Link = tuple[str, str]  # one callable of a chain: how it is called, and what it does


def described(call: Callable[..., Any]) -> Iterator[Link]:
    """A callable and then those it closes over, the outermost first."""
    if isinstance(call, partial):
        yield f"{_name(call.func)}({_given(call)})", _words(call.func)
        return
    closed = inspect.getclosurevars(call).nonlocals if inspect.isfunction(call) else {}
    values = ", ".join(f"{name}={value}" for name, value in closed.items() if _is_plain(value))
    yield _name(call) + (f"({values})" if values else ""), _words(call)
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
    """An optimizer with those of its numbers and options that are on."""
    on = {name: value for name, value in optimizer.defaults.items() if value is not None and value is not False}
    return type(optimizer).__name__, ", ".join(f"{name} {value}" for name, value in on.items())


def feed_in_words(recipe: Recipe) -> str:
    """The way of a batch to the step; only what is unlike the baseline recipe is said of it."""
    workers = f"{recipe.workers} worker{'s' if recipe.workers != 1 else ''}" if recipe.workers else "no workers"
    unlike = [
        words.format(getattr(recipe, name))
        for name, words in FEED_WORDS.items()
        if getattr(recipe, name) != getattr(PLAIN, name)
    ]
    ahead = [f"{recipe.prefetched_batches} batches ahead"] if recipe.workers else []
    return ", ".join([f"Of a DataLoader with {workers}", *ahead, *unlike])


# Binding: what the names in a configuration's step stand for, seen on a model that was built for it.

if TYPE_CHECKING:
    from harness.measure.session import Trainee
    from harness.measure.step import Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A configuration with what it runs."""

    config: Configuration
    workload: Workload
    recipe: Recipe
    context: Context


def what_is_timed(config: Explained) -> Callable[..., Any]:
    """The shape of the step, or the evaluation where nothing but evaluation is switched."""
    from harness.measure.step import shape_of_step

    known = config.context.catalogue.known
    timings = {known[option.name].timed_on for option in config.config.options}
    evaluate = config.workload.parts().evaluate
    if timings == {Timing.EVALUATION} and inspect.isfunction(evaluate):
        return evaluate
    return shape_of_step(config.recipe.micro_batches, captured=config.recipe.cuda_graph)


def bound_values(config: Explained) -> Iterator[tuple[str, Iterable[Link]]]:
    """All names that a step may use, and the optimizer behind them: each with the callables that it stands for."""
    trainee = _trainee(config)
    yield "fetch", [("next batch", feed_in_words(config.recipe))]
    bound = _as_stepped(config, trainee)
    for field in fields(bound):
        value = getattr(bound, field.name)
        if field.name == "model":
            yield "model", _model(config.recipe, trainee)
        elif field.name != "fetch" and callable(value):
            yield field.name, described(value)
    yield "optimizer", [optimizer_in_words(trainee.optimizer)]


def _as_stepped(config: Explained, trainee: "Trainee") -> "Bound":
    """The values as the step gets them: batches sent ahead and parts marked, where the recipe says so."""
    from harness.measure.devices import device_named
    from harness.measure.phases import phases_for
    from harness.measure.transfer import Ahead, SideStream

    bound = trainee.bound
    if config.recipe.device_prefetch:
        device = device_named(config.context.environment.device)
        road = SideStream(trainee.move, device, phases_for(device))
        bound = Ahead(road, bound.fetch).bound(bound, trainee.device_stage)
    return trainee.mark(bound)


def _model(recipe: Recipe, trainee: "Trainee") -> Iterator[Link]:
    if recipe.compile:
        yield type(trainee.bound.model).__name__, f"Compiled: {recipe.compile}"
    (call, words), *_ = described(trainee.model)
    parameters = sum(one.numel() for one in trainee.model.parameters())
    yield call, "; ".join(filter(None, (words, f"{parameters:,} parameters")))


def _trainee(config: Explained) -> "Trainee":
    from harness.measure.devices import device_named
    from harness.measure.phases import phases_for
    from harness.measure.session import Task, open_trainee

    device = device_named(config.context.environment.device)
    parts = config.workload.parts()
    task = Task(
        parts=replace(parts, device_stage=partial(_stage_or_maker, parts.device_stage)),
        size=config.workload.at(config.config.size, config.config.batch),
        recipe=config.recipe,
        data=Path(),
        device=device,
        seed=0,
        endless=True,
    )
    return open_trainee(task, phases_for(device))


def _stage_or_maker(make: Callable[..., Any], *given: object) -> Any:
    """The device stage, or what would make it of the workload's data, which need not be there to be explained."""
    try:
        return make(*given)
    except (Mistake, OSError):
        return make


# Differences: what the options of a configuration change against its reference, a row each or folded by stage.

FEW = 10  # options that are shown in a row each; more would push the step off the screen
WIDTHS = 50, 35, 29  # of a row that is to fit into one line
Change = tuple[Value, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One option and the choices that it changes: name -> (value in the reference, value in the configuration)."""

    option: Option
    optimization: Optimization
    changes: Mapping[str, Change]
    hindrance: str | None  # why it cannot be tried on this machine

    @property
    def short(self) -> str:
        """The option and its changes, none of them said twice: `workers 0 → 2`, `set_to_none`."""
        if set(self.changes) == {self.option.name}:
            was, now = self.changes[self.option.name]
            return self.option.name if was is False and now is True else _stated(self.changes)
        return f"{self.option} ({_stated(self.changes)})"

    @property
    def proof(self) -> str:
        """The effective settings that show that it active."""
        return proof_in_words(expected(self.optimization, self.option.level))


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """All that a configuration changes: through its own options, and by lacking those of the reference."""

    switched: tuple[Changed, ...]
    lacking: Mapping[str, Change]  # what only the reference's options change
    shared: tuple[Option, ...]  # on in both

    def table(self, *, fully: bool) -> Table | None:
        """A row for each option where they are few or all is asked for, else a row for each stage."""
        if not self.switched:
            return None
        each = fully or len(self.switched) <= FEW
        return _rows(self.switched, fully=fully) if each else _folded(self.switched)

    @property
    def only_in_reference(self) -> str:
        """The choices that the reference alone has changed."""
        return _stated(self.lacking)

    @property
    def hindrances(self) -> Iterator[str]:
        """What cannot be tried here, those with one reason together."""
        alike = together((one.hindrance, str(one.option)) for one in self.switched if one.hindrance)
        return (f"{', '.join(names)}: {reason}" for reason, names in alike.items())


def between(recipes: tuple[Recipe, Recipe], switched: Iterable[tuple[Option, Optimization, str | None]]) -> Difference:
    """The difference of a recipe and its reference's, given the configuration's options with their hindrances."""
    found, changed, shared = difference(*recipes), [], []
    lacking = dict(found)
    for option, optimization, hindrance in switched:
        changes = {name: found[name] for name in settings(optimization, option.level) if name in found}
        if changes:
            changed.append(Changed(option=option, optimization=optimization, changes=changes, hindrance=hindrance))
        else:
            shared.append(option)
        lacking = {name: change for name, change in lacking.items() if name not in changes}
    changed.sort(key=lambda one: (list(Stage).index(one.optimization.stage), one.option))
    return Difference(switched=tuple(changed), lacking=lacking, shared=tuple(shared))


def proof_in_words(proof: Mapping[str, Value | Level]) -> str:
    """Effective settings: `workers = 2, pinned_batches = on`."""
    return ", ".join(f"{name} = {_shown(value)}" for name, value in proof.items())


def _shown(value: Value | Level) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)


def _stated(changes: Mapping[str, Change]) -> str:
    return ", ".join(f"{name} {_shown(theirs)} → {_shown(ours)}" for name, (theirs, ours) in changes.items())


def compact(title: str, *columns: str) -> Table:
    """A table without edges; long configurations are folded."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title=title, title_justify="left")
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _rows(switched: tuple[Changed, ...], *, fully: bool) -> Table:
    table = compact(
        "What differs", "option: reference → this configuration", "what it is", "proved by, on the running arm"
    )
    for one in switched:
        configs = (one.short, one.optimization.title, one.proof)
        table.add_row(*(configs if fully else map(shortened, configs, WIDTHS)))
    return table


def _folded(switched: tuple[Changed, ...]) -> Table:
    table = compact("What differs; --all gives each option a row", "stage", "option: reference → this configuration")
    for stage in Stage:
        if inside := [one.short for one in switched if one.optimization.stage is stage]:
            table.add_row(stage, "; ".join(inside))
    return table


def show_explanation(what: str, reference: str, protocol: str, device: str, own: Path | None, *, fully: bool) -> None:
    """Prints the page of an optimization, or what a configuration is; `fully` with a row for each option.

    The protocol decides what `all` is: a first look leaves out what starts slowly.
    """
    catalogue, console = read_catalogue(own), Console(highlight=False)
    if what in catalogue.known:
        _show_page(catalogue.known[what], console)
        _show_claims(what, catalogue.claims, console)
        return
    environment = read_environment(device)
    context = Context(catalogue=catalogue, environment=environment, protocol=protocol_named(protocol))
    request = parse_config(what)
    below = reference_request(reference, request.workload, request.size, request.batch)
    config, asked = _explained(request, context), _explained(below, context)
    compared = _at_equal_samples(asked, config)
    added = tuple(str(one) for one in compared.config.options if one not in asked.config.options)
    console.print(
        f"[bold]{_called(config, request.names)}[/bold]  against  {_called(compared, (*below.names, *added))}"
    )
    _show_difference(config, compared, fully=fully, console=console)
    if "original" in request.names:
        _show_sources(config, console)
    _show_step(config, console)


def _show_page(optimization: Optimization, console: Console) -> None:
    console.print(f"[bold]{optimization.name}[/bold] — {optimization.title}\n")
    console.print(escape(optimization.page))
    console.print(f"\nstage {optimization.stage}, numerics {optimization.numerics}, timed on {optimization.timed_on}s")
    if optimization.levels:
        console.print(f"levels: {', '.join(map(str, optimization.levels))}")
    if optimization.requires:
        console.print(f"requires: {', '.join(optimization.requires)}")
    for need in optimization.needs:
        console.print(f"condition: {need.missing} otherwise")
    console.print(f"proof of engagement: {proof_in_words(optimization.proof)}")


def _show_claims(name: str, claims: Iterable[Claim], console: Console) -> None:
    """The ledger's claims about an optimization, or about what is lost where it is on."""
    about = [claim for claim in claims if name in claim.differing]
    for claim in about:
        where = f", {claim.conditions}" if claim.conditions else ""
        console.print(f"claim {claim.name}: {promised(claim)}{where} ({claim.source})", markup=False)
    if about:
        console.print("what was measured of them: ./speedmatrix claims")


def _show_sources(config: Explained, console: Console) -> None:
    """Where it is known from that the real system had a setting."""
    table = compact("As the real system ran", "setting", "known from")
    for name in config.workload.found_on(config.context.environment.device):
        table.add_row(name, escape(config.workload.original[name]))
    console.print(table)


def _explained(request: ConfigurationRequest, context: Context) -> Explained:
    config, catalogue = context.config(request), context.catalogue
    workload = catalogue.workload(config.workload)
    try:
        recipe = compose(workload, config.options, catalogue.known)
    except Conflict as conflict:
        raise Mistake(f"The configuration {config} is impossible: {conflict}.") from conflict
    return Explained(config=config, workload=workload, recipe=recipe, context=context)


def _at_equal_samples(reference: Explained, config: Explained) -> Explained:
    """The reference as it would be measured: with as many samples for each update as the configuration."""
    context = config.context
    try:
        found = context.at_equal_samples(config.config, reference.config)
        recipe = compose(config.workload, found.options, context.catalogue.known)
        return replace(reference, config=found, recipe=recipe)
    except Conflict as conflict:
        raise Mistake(f"{config.config} cannot be compared with {reference.config}: {conflict}.") from conflict


def _called(explained: Explained, names: tuple[str, ...]) -> str:
    """A configuration by the names it was asked for, which are shorter than its options."""
    config = explained.config
    return escape(f"{config.workload}@{config.size}#{config.batch}" + (f":{'+'.join(names)}" if names else ""))


def _show_difference(config: Explained, reference: Explained, *, fully: bool, console: Console) -> None:
    catalogue, environment = config.context.catalogue, config.context.environment
    workload = config.workload.under(config.recipe, config.config.batch)
    optimizations = ((one, catalogue.optimization(one.name)) for one in config.config.options)
    found = between(
        (config.recipe, reference.recipe),
        ((option, one, unmet(one, environment, workload, option.level)) for option, one in optimizations),
    )
    console.print(found.table(fully=fully) or "No option of it differs from the reference.")
    if found.only_in_reference:
        console.print(f"Changed in the reference alone: {found.only_in_reference}.")
    if found.shared:
        console.print(f"On in both: {', '.join(map(str, found.shared))}.")
    for words in found.hindrances:
        console.print(f"Cannot run on this machine: {words}.")


def _show_step(config: Explained, console: Console) -> None:
    known, environment = config.context.catalogue.known, config.context.environment
    options, workload = config.config.options, config.workload.under(config.recipe, config.config.batch)
    if not any(unmet(known[one.name], environment, workload, one.level) for one in options):
        console.print(_table(config))
    else:
        console.print("Its step would read as follows; what is bound in it can be seen where it can run.")
    source = inspect.getsource(what_is_timed(config))
    console.print(Syntax(source.rstrip(), "python", background_color="default"))


def _table(config: Explained) -> Table:
    table = compact("Values bound in the step", "name", "bound to", "what it does")
    table.columns[1].max_width = 44
    for name, links in bound_values(config):
        for place, (call, words) in enumerate(links):
            table.add_row(name if place == 0 else "", escape(call), escape(words))
    return table
