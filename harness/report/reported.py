"""The page of what the five reports say: an option, a claim, or why there is neither."""

from collections.abc import Iterator, Sequence

from harness.core.reported import Item, Report
from harness.report.document import escaped, grid
from harness.report.optimization_pages import PAGE_MARK

PLACE = "coverage-of-reports.md"
_COLUMNS = "lines", "said", "options", "claims", "otherwise, or missing"


def reports_page(reports: Sequence[Report]) -> str:
    """The whole page as Markdown."""
    return "\n".join((PAGE_MARK, "", *_lines(reports))) + "\n"


def _lines(reports: Sequence[Report]) -> Iterator[str]:
    items = [item for report in reports for item in report.items]
    yield "# What the five reports say, and where it stands"
    yield ""
    yield (
        f"{len(items)} items of the reports that the workloads come from. {_with_options(items)} have an option that "
        f"can be switched, {sum(not one.options and bool(one.claims) for one in items)} a claim without an option of "
        f"their own, {sum(not one.options and not one.claims for one in items)} stand in words alone. Verdicts on the "
        "claims: [results/claims.md](../results/claims.md). Written by `./speedmatrix document` from "
        "`harness/reports.toml`."
    )
    for report in reports:
        yield from ("", f"## {escaped(report.title)} (`{report.workload}`)", "")
        yield from grid(_COLUMNS, map(_row, report.items))


def _with_options(items: Sequence[Item]) -> int:
    return sum(bool(one.options) for one in items)


def _row(item: Item) -> tuple[str, ...]:
    options = ", ".join(f"[{escaped(name)}](optimizations/{name}.md)" for name in item.options)
    claims = ", ".join(f"`{name}`" for name in item.claims)
    return escaped(item.lines), escaped(item.said), options or "-", claims or "-", escaped(item.words or "-")
