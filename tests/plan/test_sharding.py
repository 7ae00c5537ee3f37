"""Shards: every comparison in exactly one, beside its reference, and none much longer than the others."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.catalogue import read_catalogue
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import Plan, Request
from harness.core.protocol import REPLICATES_ALONE
from harness.plan.cost import seconds_for
from harness.plan.planning import SHORT_REPLICATES, SMALLEST_POOL, paces_of, planned
from harness.plan.sharding import parse_shard, shards
from harness.run.preparation import Prepared, run_of
from harness.store import ORIGIN, create, finish
from tests.analyze.synthetic import ENVIRONMENT
from tests.cli.test_commands import call

CATALOGUE = read_catalogue(ledger=False)
WISH = Request(size="quick", design="alone", device="cpu")


def of(request: Request) -> Plan:
    return planned(request, CATALOGUE, ENVIRONMENT)


@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_shards_are_the_plan_cut_between_its_blocks(count: int) -> None:
    whole = of(WISH)
    parts = [of(replace(WISH, shard=f"{number}/{count}")) for number in range(1, count + 1)]
    assert sorted((one for part in parts for one in part.blocks), key=str) == sorted(whole.blocks, key=str)
    assert [one for part in parts for one in part.no_results] == list(whole.no_results), "told once"
    assert len({(part.protocol, part.seed, part.design) for part in parts}) == 1
    assert (
        len({run_of(Prepared(catalogue=CATALOGUE, environment=ENVIRONMENT, plan=part)).digest for part in parts})
        == count
    )


def test_a_shard_of_few_comparisons_has_more_replicates_that_are_not_cut_short() -> None:
    """It is a run by itself, whose comparisons borrow no variance from those of other shards."""
    leak = replace(WISH, workloads=("leak",))
    whole = of(leak)
    parts = [of(replace(leak, shard=f"{one}/{len(whole.blocks)}")) for one in range(1, len(whole.blocks) + 1)]
    few = [part for part in parts if len(part.comparisons) < SMALLEST_POOL]
    assert 0 < len(few) < len(parts)
    for part in parts:
        usual = REPLICATES_ALONE if part in few else whole.protocol.replicates
        assert part.protocol == replace(whole.protocol, replicates=usual)
        short = {one.replicates for one in part.blocks if one.timing is Timing.STEP}
        assert short <= ({None} if part in few else {SHORT_REPLICATES})
    asked = [of(replace(leak, shard=f"{one}/{len(parts)}", replicates=3)) for one in range(1, len(parts) + 1)]
    assert {part.protocol.replicates for part in asked} == {3}, "whoever says how many gets as many"


def test_no_shard_is_much_longer_than_the_others() -> None:
    whole = of(WISH)
    paces = paces_of(whole, CATALOGUE, ENVIRONMENT)
    lengths = [seconds_for(replace(whole, blocks=blocks), paces) for blocks in shards(whole, paces, 6)]
    longest = max(seconds_for(replace(whole, blocks=(block,)), paces) for block in whole.blocks)
    assert max(lengths) - min(lengths) <= longest
    assert max(lengths) < 1.1 * sum(lengths) / 6


def test_parts_of_a_step_stay_with_the_steps_that_they_are_composed_with() -> None:
    usual = replace(WISH, design="stages")
    named = [{block.reference.workload for block in of(replace(usual, shard=f"{one}/5")).blocks} for one in range(1, 6)]
    assert sorted(map(len, named)) == [1] * 5
    with pytest.raises(Mistake, match="5 parts for 6 shards, and --design alone can be cut finer"):
        of(replace(usual, shard="1/6"))


@pytest.mark.parametrize("text", ["0/3", "4/3", "1/0", "a/3", "1", "1/2000", "-1/3", ""])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(Mistake, match="names no shard; write NUMBER/COUNT"):
        parse_shard(text)


def test_what_is_missing_begun_measured_twice_or_elsewhere_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "plan leak --size smoke --design alone --device cpu --shards 6"
    assert call(f"{words} --results {tmp_path}", monkeypatch, capsys).status == 3
    # The plan of this machine, whatever it is.
    from harness.run.preparation import prepared

    asked = Request(workloads=("leak",), size="smoke", design="alone", device="cpu")
    runs = [run_of(prepared(replace(asked, shard=f"{number}/6"))) for number in range(1, 7)]
    other = replace(runs[4].environment, python="3.12.1")
    kept = [
        (runs[0], True),
        (runs[1], False),
        (runs[2], True),
        (runs[2], True),
        (replace(runs[4], environment=other), True),
    ]
    for second, (run, done) in enumerate(kept):
        folder = create(tmp_path, replace(run, began=f"2026-01-01T00:00:0{second}+00:00"))
        if done:
            finish(folder)
    theirs = create(tmp_path, replace(runs[3], began="2026-01-01T00:00:09+00:00"))
    (theirs / ORIGIN).write_text("{}")  # what was taken in is nobody's shard: `run` measures it
    finish(theirs)
    ended = call(f"{words} --results {tmp_path}", monkeypatch, capsys)
    states = [line for line in ended.out.splitlines() if "/6" in line and "shards" not in line]
    for state, told in zip(
        states, ("measured", "begun", "measured 2", "missing", "in another", "missing"), strict=False
    ):
        assert told in state, ended.out
    assert "3.12.1" in ended.out
    assert ended.status == 3
