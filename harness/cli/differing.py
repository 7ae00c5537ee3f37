"""Differences: what the switches of a cell change against its reference, a row each or folded by stage."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rich import box
from rich.table import Table

from harness.core.cell import Switch
from harness.core.compose import expected, settings
from harness.core.optimization import Level, Optimization, Stage
from harness.core.recipe import Recipe, Value, difference

FEW = 10  # switches that are shown in a row each; more would push the step off the screen
WIDTHS = 50, 35, 29  # of a row that is to fit into one line
Change = tuple[Value, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One switch and the choices that it changes: name -> (value in the reference, value in the cell)."""

    switch: Switch
    optimization: Optimization
    changes: Mapping[str, Change]
    hindrance: str | None  # why it cannot be tried on this machine

    @property
    def short(self) -> str:
        """The switch and its changes, none of them said twice: `workers 0 → 2`, `set_to_none`."""
        if set(self.changes) == {self.switch.name}:
            was, now = self.changes[self.switch.name]
            return self.switch.name if was is False and now is True else _stated(self.changes)
        return f"{self.switch} ({_stated(self.changes)})"

    @property
    def proof(self) -> str:
        """The effective settings that show that it engaged."""
        return proof_in_words(expected(self.optimization, self.switch.level))


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """All that a cell changes: through its own switches, and by lacking those of the reference."""

    switched: tuple[Changed, ...]
    lacking: Mapping[str, Change]  # what only the reference's switches change
    shared: tuple[Switch, ...]  # on in both

    def table(self, *, fully: bool) -> Table | None:
        """A row for each switch where they are few or all is asked for, else a row for each stage."""
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
        alike: dict[str, list[str]] = defaultdict(list)
        for one in self.switched:
            if one.hindrance:
                alike[one.hindrance].append(str(one.switch))
        return (f"{', '.join(names)}: {reason}" for reason, names in alike.items())


def between(recipes: tuple[Recipe, Recipe], switched: Iterable[tuple[Switch, Optimization, str | None]]) -> Difference:
    """The difference of a recipe and its reference's, given the cell's switches with their hindrances."""
    found, changed, shared = difference(*recipes), [], []
    lacking = dict(found)
    for switch, optimization, hindrance in switched:
        changes = {name: found[name] for name in settings(optimization, switch.level) if name in found}
        if changes:
            changed.append(Changed(switch=switch, optimization=optimization, changes=changes, hindrance=hindrance))
        else:
            shared.append(switch)
        lacking = {name: change for name, change in lacking.items() if name not in changes}
    changed.sort(key=lambda one: (list(Stage).index(one.optimization.stage), one.switch))
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
    """A table without edges; long cells are folded."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title=title, title_justify="left")
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _rows(switched: tuple[Changed, ...], *, fully: bool) -> Table:
    table = compact("What differs", "switch: reference → this cell", "what it is", "proved by, on the running arm")
    for one in switched:
        cells = (one.short, one.optimization.title, one.proof)
        table.add_row(*(cells if fully else map(_cut, cells, WIDTHS)))
    return table


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _folded(switched: tuple[Changed, ...]) -> Table:
    table = compact("What differs; --all gives each switch a row", "stage", "switch: reference → this cell")
    for stage in Stage:
        if inside := [one.short for one in switched if one.optimization.stage is stage]:
            table.add_row(stage, "; ".join(inside))
    return table
