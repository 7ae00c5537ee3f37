"""Places: where things were measured, each one environment; what differs between them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from harness.analyze.collection import Entry, Kept, Question, surest
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.protocol import Protocol

NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One column of a comparison: a run, or the surest answers of one environment."""

    letter: str  # A, B and so on: short enough to stand in every row
    runs: tuple[Kept, ...]  # the newest first, all of one environment
    entries: tuple[Entry, ...]

    @property
    def environment(self) -> Environment:
        """The machine and its software."""
        return self.runs[0].environment

    @property
    def contributed(self) -> bool:
        """Whether any of it was measured by somebody else."""
        return any(run.contributed for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """A fact in which places differ, as text for each letter."""

    fact: str
    values: Mapping[str, str]


def of_runs(runs: Sequence[Kept]) -> tuple[Place, ...]:
    """A place for each run, in the order given; raises Mistake where there are fewer than two, or one twice."""
    if len(runs) < 2:
        raise Mistake("A comparison needs two runs; name a second, or compare --machines for all below --results.")
    for index, run in enumerate(runs):
        if any(run.name == other.name or run.matrix == other.matrix for other in runs[:index]):
            raise Mistake(f"{run.name} is named twice, or is a copy of a run that is; name two different runs.")
    return _lettered([(run,) for run in runs], lambda run: _entries(run[0]))


def of_machines(runs: Iterable[Kept]) -> tuple[Place, ...]:
    """A place for each environment, with its surest answers; the one with most ratios comes first.

    Raises Mistake where all was measured in one environment. Runs are named where they gave an answer that is shown.
    """
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in surest(runs):
        found[entry.kept.environment.digest].append(entry)
    if len(found) < 2:
        where = "in one environment alone" if found else "nowhere, or at sizes that prove nothing"
        raise Mistake(
            f"It was measured {where}; run the same workloads on another machine, or import somebody's run, to compare."
        )
    answers = {digest: tuple(group) for digest, group in sorted(found.items(), key=lambda one: _rank(one[1]))}
    runs_of = {digest: _runs(group) for digest, group in answers.items()}
    return _lettered(list(runs_of.values()), lambda run: answers[run[0].environment.digest])


def _lettered(
    groups: list[tuple[Kept, ...]], entries: Callable[[tuple[Kept, ...]], tuple[Entry, ...]]
) -> tuple[Place, ...]:
    return tuple(Place(letter=letter(index), runs=group, entries=entries(group)) for index, group in enumerate(groups))


def letter(index: int) -> str:
    """A to Z, then AA and so on, as spreadsheets count."""
    before, last = divmod(index, 26)
    return (letter(before - 1) if before else "") + chr(ord("A") + last)


def _entries(run: Kept) -> tuple[Entry, ...]:
    """All rows of a run, small sizes too: somebody has asked for this run by its name."""
    return tuple(Entry(kept=run, table=table, row=row) for table in run.matrix.tables for row in table.rows)


def _rank(group: Sequence[Entry]) -> tuple[int, str, str]:
    environment = group[0].kept.environment
    return -sum(entry.row.estimate is not None for entry in group), environment.machine, environment.digest


def _runs(group: Iterable[Entry]) -> tuple[Kept, ...]:
    by_identity = {id(entry.kept): entry.kept for entry in group}  # runs hold mappings, so they have no hash
    return tuple(sorted(by_identity.values(), key=lambda run: (run.began, run.name), reverse=True))


def unlike_environments(places: Sequence[Place]) -> tuple[Unlike, ...]:
    """Every fact of machine and software in which any two places differ; the digest follows from them."""
    return _unlike({place.letter: _facts(place.environment) for place in places})


def unlike_protocols(places: Sequence[Place]) -> tuple[Unlike, ...]:
    """Every number of the measurement in which places differ, and the harness's version; of several runs, all."""
    found: dict[str, dict[str, str]] = {}
    for place in places:
        values: dict[str, list[str]] = defaultdict(list)
        for run in place.runs:
            values["version of speedmatrix"].append(run.version)
            for name, value in _numbers(run.matrix.protocol):
                values[name].append(value)
        found[place.letter] = {name: " or ".join(dict.fromkeys(several)) for name, several in values.items()}
    return _unlike(found)


def _unlike(found: Mapping[str, Mapping[str, str]]) -> tuple[Unlike, ...]:
    names = dict.fromkeys(name for facts in found.values() for name in facts)
    table = {name: {one: facts.get(name, NONE) for one, facts in found.items()} for name in names}
    return tuple(Unlike(fact=name, values=values) for name, values in table.items() if len(set(values.values())) > 1)


def _facts(environment: Environment) -> dict[str, str]:
    return {name: NONE if value is None else str(value) for name, value in environment.facts.items()}


def _numbers(protocol: Protocol) -> Iterator[tuple[str, str]]:
    for field in fields(protocol):
        value = getattr(protocol, field.name)
        several = value if isinstance(value, tuple) else (value,)
        yield field.name, ", ".join("none" if one is None else f"{one:g}" for one in several) or "none"


def exactly(entry: Entry) -> Question:
    """What an entry answers, wherever it was measured: same cells, same timing, same data."""
    question = entry.question
    return Question(
        environment="",
        treatment=question.treatment,
        reference=question.reference,
        timing=question.timing,
        data=question.data,
        copy=question.copy,
    )
