"""`import`: takes in somebody else's run, or says in one sentence why not."""

import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from harness.analyze.matrix import Matrix, build_matrix
from harness.core.mistake import Mistake
from harness.intake.contribution import Contribution, read
from harness.intake.parcel import Parcel, unpacked
from harness.intake.placing import Origin, Placed, place
from harness.intake.privacy import Cleaner, clean_record, clean_run
from harness.intake.refusal import Unfit, sentence
from harness.report.machine_readable import to_json
from harness.report.markdown import to_markdown
from harness.report.terminal import to_terminal
from harness.report.words import one_line

ANOTHER = "ask for a bundle that ./speedmatrix bundle has made"


def take_in(source: Path, results: Path) -> int:
    """Checks a bundle or a run's folder and keeps it among the results; raises Mistake for what cannot be kept."""
    now = datetime.now(UTC)
    try:
        parcel = unpacked(source)
        contribution, removed = cleaned(read(parcel, now), Cleaner())
    except Unfit as unfit:
        raise Mistake(sentence(f"{source} is not taken in", unfit, ANOTHER)) from unfit
    matrix = _reported(contribution)
    placed = place(results, contribution, _origin(parcel, contribution, now))
    sys.stdout.write(_told(placed, contribution, matrix, removed))
    return 0


def cleaned(contribution: Contribution, cleaner: Cleaner) -> tuple[Contribution, int]:
    """The run without private places and names, and how many there were."""
    run = clean_run(contribution.run, cleaner)
    records = tuple(clean_record(record, cleaner) for record in contribution.records)
    return replace(contribution, run=run, records=records), cleaner.removed


def _reported(contribution: Contribution) -> Matrix:
    """The matrix, reported in every form once before it is kept: a run that no report bears would break all others."""
    run = contribution.run
    matrix = build_matrix(run.plan, contribution.records, run.environment)
    for text in (to_terminal(matrix), to_markdown(matrix, run.command), to_json(matrix)):
        text.encode()
    return matrix


def _origin(parcel: Parcel, contribution: Contribution, now: datetime) -> Origin:
    return Origin(
        imported=now.isoformat(timespec="seconds"),
        contributed=True,
        bundled=parcel.bundled,
        sha256=parcel.digest,
        run_schema=contribution.schema,
    )


def _told(placed: Placed, contribution: Contribution, matrix: Matrix, removed: int) -> str:
    if not placed.new:
        return f"{placed.folder} holds this very run already; nothing was written.\n"
    environment = contribution.run.environment
    chip = one_line(environment.accelerator or environment.cpu)
    places = f" {removed} private places were taken out of its texts." if removed else ""
    return (
        f"Taken in as {placed.folder}: {len(contribution.records):,} records from {chip}, {matrix.looked_at} of "
        f"{len(matrix.rows) + len(matrix.holes)} cells with a ratio.{places} Somebody else measured it: what it says "
        f"is checked for sense, not for truth. Next: ./speedmatrix report {placed.folder}\n"
    )
