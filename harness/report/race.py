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
LEFT_OUT = "start-up and compilation left out"


def race_parts(races: Iterable[Race]) -> Iterator[Part]:
    """A row for each question in each environment: its newest race."""
    yield Text(
        "Trained from the same first weights until an evaluation reached the score: how many times fewer steps that "
        "took, and how many times less time, start-up and compilation included unless the row says otherwise, "
        "evaluations left out. Above 1 is better. Reached means once: the score of few items jumps, and may fall "
        "again. Intervals are of seeds, and of all that lies between an evaluation that reached the score and the one "
        "before it; there is none where a training did not reach it or a seed is missing."
    )
    yield Table(COLUMNS, tuple(map(_row, newest(races))))


def _row(race: Race) -> tuple[str, ...]:
    sign = "at most" if race.goal.better == "less" else "at least"
    count, score = len(race.heats), race.score.partition(",")[0]
    return (
        one_line(f"{race.workload} {race.size}, {race.batch}" + (f"; {race.data}" if race.data else "")),
        *map(one_line, race.names),
        one_line(f"{score} {sign} {race.goal.score:g}".strip())
        + (f", schedule over {race.steps} steps" if race.scheduled else ""),
        _reached(race),
        ratio(sooner(race, in_steps=True)),
        ratio(found) + ("" if race.counts_start else f", {LEFT_OUT}") if (found := sooner(race)) else NOTHING,
        str(count) if race.is_complete else f"{count} of {race.seeds}",
        one_line(f"{race.began[:10]}, {race.environment.machine}, {race.environment.digest}"),
    )


def _reached(race: Race) -> str:
    """In how many heats each side reached the goal, and how many trainings failed."""
    ours, theirs = race.reached()
    count, failed = len(race.heats), sum(one.failed is not None for one in race.trainings)
    if ours == theirs == count and race.is_complete:
        return "all"
    return f"{ours} of {count}, against {theirs} of {count}" + (f"; {failed} failed" if failed else "")
