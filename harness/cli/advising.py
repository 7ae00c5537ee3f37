"""`advise`: what a run says to switch on, to leave, to measure further and to stack, in plain words."""

from pathlib import Path

from harness.analyze.evidence import gather
from harness.catalogue import Catalogue, read_catalogue
from harness.cli.counsel import Advised, advised_by
from harness.cli.reporting import console, deliver, newest
from harness.cli.shelf import read_kept
from harness.core.mistake import Mistake
from harness.report import advice_json, advice_text, sentences
from harness.report.advice import chapters
from harness.store import read_records, read_run

FORMS = ("terminal", "markdown", "json")


def show_advice(run: Path | None, form: str, output: Path | None, results: Path) -> None:
    """Shows or writes the advice of a run, of the newest where none is named; raises Mistake."""
    if form not in FORMS:
        raise Mistake(f"There is no format '{form}'; choose {', '.join(FORMS[:-1])} or {FORMS[-1]}.")
    folder = run or newest(results)
    found, catalogue = read_run(folder), read_catalogue()
    kept = read_kept(folder)
    advised = advised_by(kept, tuple(gather(found.plan, read_records(folder))), found, catalogue)
    deliver(_rendered(advised, form, catalogue), output)


def _rendered(advised: Advised, form: str, catalogue: Catalogue) -> str:
    if form == "json":
        return advice_json.to_json(advised.advice, advised.commands)
    found = chapters(advised.advice, catalogue.optimizations)
    if form == "markdown":
        return advice_text.to_markdown(found, advised.commands, sentences.heading(advised.advice.kept.matrix))
    where = console()
    return advice_text.to_terminal(found, advised.commands, width=where.width, colour=where.is_terminal)
