"""What `verify` keeps when only a part is looked at again."""

import json
from dataclasses import replace
from pathlib import Path

from harness.cli.checks import _with_others
from harness.core.codec import encode
from tests.analyze.synthetic import ENVIRONMENT

FACTS: dict[str, object] = {"version": "1", "size": "smoke", "steps": 20, "environment": encode(ENVIRONMENT)}
OLD = [{"subject": "all", "status": "differs"}, {"subject": "workers=1", "status": "same bits"}]
NEW: list[dict[str, object]] = [{"subject": "all", "status": "close"}]


def kept(path: Path, facts: dict[str, object]) -> list[dict[str, object]]:
    path.write_text(json.dumps({**facts, "found": OLD}), encoding="utf-8")
    return _with_others(NEW, FACTS, path)


def test_a_new_look_takes_the_place_of_an_old_one_and_leaves_the_others(tmp_path: Path) -> None:
    assert kept(tmp_path / "leak.json", FACTS) == [*NEW, OLD[1]]


def test_a_few_pages_of_memory_are_no_other_machine(tmp_path: Path) -> None:
    more = encode(replace(ENVIRONMENT, memory_bytes=ENVIRONMENT.memory_bytes + 8192))
    assert len(kept(tmp_path / "leak.json", FACTS | {"environment": more})) == 2


def test_other_circumstances_are_not_mixed(tmp_path: Path) -> None:
    assert kept(tmp_path / "leak.json", FACTS | {"steps": 4}) == NEW
    assert kept(tmp_path / "leak.json", FACTS | {"environment": encode(replace(ENVIRONMENT, cores=64))}) == NEW


def test_the_first_look_keeps_what_it_found(tmp_path: Path) -> None:
    assert _with_others(NEW, FACTS, tmp_path / "leak.json") == NEW
