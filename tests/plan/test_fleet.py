"""A fleet's file, and how its shards are likely to go."""

from dataclasses import replace

import pytest

from harness.core.mistake import Mistake
from harness.core.plan import Request
from harness.plan.cost import seconds_for
from harness.plan.fleet import Kind, Measure, course, parsed
from harness.run.preparation import prepared
from tests.core.invented import GPU

ONE = '[[machine]]\nname = "a"\ncount = 2\nmeasure = [{ words = "leak", shards = 3 }]\n'


def test_a_file_is_read_as_it_says() -> None:
    (found,) = parsed(ONE, "fleet.toml")
    assert found == Kind(name="a", count=2, measure=(Measure(words="leak", shards=3),))
    priced = parsed(ONE + 'per_hour = 2.5\nrun = "results/a/1"\n', "fleet.toml")[0]
    assert (priced.per_hour, priced.run) == (2.5, "results/a/1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "is not TOML"),
        ("", r"must hold tables \[\[machine\]\]"),
        ("machine = 3", r"must hold 'machine' as tables \[\[machine\]\]"),
        ("kind = 3\n" + ONE, "an entry 'kind'; it may hold machine alone"),
        (ONE.replace("name", "called"), "fleet.toml, machine 1.called is unknown; put the file right"),
        (ONE.replace("2", "0"), "needs a count and shards of 1 at least"),
        (ONE.replace("3", "0"), "needs a count and shards of 1 at least"),
        (ONE.replace('{ words = "leak", shards = 3 }', ""), "something to measure"),
        (ONE + ONE, "names a kind of machine twice"),
    ],
)
def test_what_is_no_fleet_is_one_sentence(text: str, words: str) -> None:
    with pytest.raises(Mistake, match=words):
        parsed(text, "fleet.toml")


def test_one_machine_takes_all_and_more_machines_than_shards_take_the_longest() -> None:
    alone = course([60.0] * 50, 1)
    assert alone.span_s == pytest.approx(3000, rel=0.06)
    assert alone.idle < 0.03
    many = course([60.0, 60.0, 600.0], 10)
    assert many.perfect_s == 600
    assert many.span_s == pytest.approx(600, rel=0.1)
    assert many.idle > 0.8


@pytest.mark.parametrize(("machines", "idle"), [(40, 0.25), (200, 0.9)])
def test_many_gpus_measure_pairs_levels_and_claims_of_all_five(machines: int, idle: float) -> None:
    """With steps of 50 ms. Forty are kept busy; of two hundred most wait for the blocks that time whole epochs."""
    request = Request(environment=GPU, device="cuda", size="standard", protocol="standard")
    lengths_s = []
    for one in (prepared(replace(request, design=name)) for name in ("pairs", "levels", "claims")):
        paces = {name: replace(pace, step_s=0.05) for name, pace in one.paces.items()}
        lengths_s += [seconds_for(replace(one.plan, blocks=(block,)), paces) for block in one.plan.blocks]
    found = course(lengths_s, machines)
    print(f"{len(lengths_s)} shards on {machines} machines: {found}")
    assert len(lengths_s) > 500
    assert found.perfect_s < found.span_s < 1.4 * found.perfect_s
    assert found.idle < idle
