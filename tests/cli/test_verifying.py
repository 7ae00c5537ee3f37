"""What `verify` keeps when only a part is looked at again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.analyze.quality import Verified
from harness.cli.checks import _keep
from harness.core.codec import encode
from harness.core.mistake import Mistake
from tests.analyze.synthetic import ENVIRONMENT

FACTS: dict[str, object] = {"version": "1", "size": "smoke", "steps": 20, "environment": encode(ENVIRONMENT)}
OLD = [{"subject": "all", "status": "differs"}, {"subject": "workers=1", "status": "same bits"}]
NEW = [Verified(workload="leak", label="all", promised=None, status="close", sentence="")]


def kept(path: Path, facts: dict[str, object]) -> list[str]:
    path.write_text(json.dumps({**facts, "found": OLD}), encoding="utf-8")
    _keep(NEW, path, FACTS, is_part=True)
    return [row["status"] for row in json.loads(path.read_text(encoding="utf-8"))["found"]]


def test_a_new_look_takes_the_place_of_an_old_one_and_leaves_the_others(tmp_path: Path) -> None:
    assert kept(tmp_path / "leak.json", FACTS) == ["close", "same bits"]


def test_a_few_pages_of_memory_are_no_other_machine(tmp_path: Path) -> None:
    more = encode(replace(ENVIRONMENT, memory_bytes=ENVIRONMENT.memory_bytes + 8192))
    assert len(kept(tmp_path / "leak.json", FACTS | {"environment": more})) == 2


@pytest.mark.parametrize(
    "other", [{"steps": 4}, {"version": "2"}, {"environment": encode(replace(ENVIRONMENT, cores=64))}]
)
def test_other_circumstances_are_neither_mixed_nor_written_over(tmp_path: Path, other: dict[str, object]) -> None:
    path = tmp_path / "leak.json"
    with pytest.raises(Mistake, match="leave --only and --stack out to verify all anew, or choose another folder"):
        kept(path, FACTS | other)
    assert json.loads(path.read_text(encoding="utf-8"))["found"] == OLD


@pytest.mark.parametrize("text", ["", "[]", "[1]", '{"found": []}', '{"found": [1]}'])
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "leak.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Mistake, match=r"leak\.json cannot be read .*; remove it, or choose another folder"):
        _keep(NEW, path, FACTS, is_part=True)


def test_the_first_look_keeps_what_it_found(tmp_path: Path) -> None:
    _keep(NEW, tmp_path / "new" / "leak.json", FACTS, is_part=True)
    assert len(json.loads((tmp_path / "new" / "leak.json").read_text(encoding="utf-8"))["found"]) == 1
