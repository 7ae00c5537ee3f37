"""What races showed, as a document."""

from collections.abc import Iterable, Iterator

from harness.analyze.race import Race, newest, sooner
from harness.report.document import Part, Table, Text
from harness.report.words import NOTHING, one_line, ratio

COLUMNS = (
    "workload",
    "configuration",
    "against",
    "until",
    "reached",
    "fewer steps, 95 %",
    "sooner, 95 %",
    "seeds",
    "measured",
)


def race_parts(races: Iterable[Race]) -> Iterator[Part]:
    """A row for each question in each environment: its newest race."""
    yield Text(
        "Trained from the same first weights until an evaluation reached the score: how many times fewer steps that "
        "took, and how many times less training time, evaluations left out. Above 1 is better. Reached means once: the "
        "score of few items jumps, and may fall again. Intervals are of seeds, "
        "and of all that lies between an evaluation that reached the score and the one before it."
    )
    yield Table(COLUMNS, tuple(map(_row, newest(races))))


def _row(race: Race) -> tuple[str, ...]:
    ours, theirs = race.reached()
    sign = "at most" if race.goal.better == "less" else "at least"
    count, score = len(race.heats), race.score.partition(",")[0]
    return (
        one_line(f"{race.workload} {race.size}, {race.batch}"),
        *map(one_line, race.names),
        one_line(f"{score} {sign} {race.goal.score:g}".strip())
        + (f", schedule over {race.steps} steps" if race.scheduled else ""),
        "all" if ours == theirs == count else f"{ours} of {count}, against {theirs} of {count}",
        ratio(sooner(race, in_steps=True)) if sooner(race, in_steps=True) else NOTHING,
        ratio(sooner(race)) if sooner(race) else NOTHING,
        str(count),
        one_line(f"{race.began[:10]}, {race.environment.machine}, {race.environment.digest}"),
    )
