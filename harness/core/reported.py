"""What the five reports say, item by item, and where each stands here."""

import importlib.resources
import tomllib
from dataclasses import dataclass

FILE = "reports.toml"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a report says: its lines, options and claims that it became, and what is otherwise or missing."""

    lines: str
    said: str
    options: tuple[str, ...]
    claims: tuple[str, ...]
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report, and the workload that was made of it."""

    workload: str
    title: str
    items: tuple[Item, ...]


def read_reports() -> tuple[Report, ...]:
    """All five, as `harness/reports.toml` has them."""
    text = (importlib.resources.files("harness") / FILE).read_text(encoding="utf-8")
    return tuple(
        Report(
            workload=one["workload"],
            title=one["title"],
            items=tuple(
                Item(lines, said, tuple(options.split()), tuple(claims.split()), words)
                for lines, said, options, claims, words in one["items"]
            ),
        )
        for one in tomllib.loads(text)["report"]
    )
