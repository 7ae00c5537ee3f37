from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest

from harness.analyze.search import shares as module
from harness.analyze.search.prediction import Trusted, Validation
from harness.analyze.search.shares import Needs, modelled_shares, shapley
from harness.analyze.search.stage_model import Array, Compared, Declared, Stack, Study, fit
from harness.core.configuration import Option
from harness.core.optimization import Stage

Value = Callable[[Sequence[Stack]], Array]


class Share(NamedTuple):
    log: float
    error: float


def shares(
    players: Sequence[Option], value: Value, needs: Needs, generator: np.random.Generator, orders: int = 200
) -> dict[Option, Share]:
    """The shares in one value."""
    logs, errors = shapley(players, lambda stacks: value(stacks)[:, None], needs, generator, orders)
    columns = logs[:, 0].tolist(), errors[:, 0].tolist()
    return {one: Share(log, error) for one, log, error in zip(players, *columns, strict=True)}


def options(count: int) -> list[Option]:
    return [Option(name=f"s{index:02d}") for index in range(count)]


def game(count: int, seed: int = 0) -> Value:
    """Single gains, pairs that help or hinder, and one triple."""
    generator = np.random.default_rng(seed)
    single, pairs = generator.normal(0.1, 0.1, count), np.triu(generator.normal(0, 0.05, (count, count)), 1)

    def value(stacks: Sequence[Stack]) -> Array:
        names = [one.name for one in options(count)]
        on = np.array([[name in {one.name for one in stack} for name in names] for stack in stacks], dtype=float)
        return on @ single + np.einsum("ni,ij,nj->n", on, pairs, on) + 0.3 * on[:, 0] * on[:, 1] * on[:, 2]

    return value


def test_the_right_glove_is_worth_what_shapley_says() -> None:
    """One left glove, two right ones, a pair is worth 1: two thirds for the left, a sixth for each right."""
    left, right, other = options(3)

    def pair(stacks: Sequence[Stack]) -> Array:
        return np.array([float(left in stack and (right in stack or other in stack)) for stack in stacks])

    found = shares([left, right, other], pair, {}, np.random.default_rng(0))
    assert [found[one].log for one in (left, right, other)] == pytest.approx([2 / 3, 1 / 6, 1 / 6])


@pytest.mark.parametrize("count", [5, 12, 15])
def test_shares_add_up_to_the_whole(count: int) -> None:
    value, players = game(count), options(count)
    found = shares(players, value, {}, np.random.default_rng(0))
    assert sum(one.log for one in found.values()) == pytest.approx(value([tuple(players)])[0])
    assert all((one.error == 0) == (count <= 12) for one in found.values())


def test_of_pairs_each_has_half() -> None:
    players = options(2)

    def value(stacks: Sequence[Stack]) -> Array:
        return np.array([{0: 0.0, 1: 0.1, 2: 0.8}[len(stack)] for stack in stacks])

    assert [one.log for one in shares(players, value, {}, np.random.default_rng(0)).values()] == pytest.approx(
        [0.4] * 2
    )


def test_drawn_orders_agree_with_all_subsets(monkeypatch: pytest.MonkeyPatch) -> None:
    value, players = game(8), options(8)
    exact = shares(players, value, {}, np.random.default_rng(0))
    monkeypatch.setattr(module, "EXACT", 0)
    found = shares(players, value, {}, np.random.default_rng(0), orders=400)
    for one in players:
        assert found[one].log == pytest.approx(exact[one].log, abs=4 * found[one].error + 1e-9)
        assert found[one].error < 0.02
    again = shares(players, value, {}, np.random.default_rng(0), orders=400)
    assert found == again


def test_an_order_and_its_reverse_are_exact_where_only_pairs_interact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT", 0)

    def value(stacks: Sequence[Stack]) -> Array:
        return np.array([len(stack) + 0.2 * len(stack) * (len(stack) - 1) / 2 for stack in stacks])

    found = shares(options(6), value, {}, np.random.default_rng(0), orders=4)
    assert [one.log for one in found.values()] == pytest.approx([1.5] * 6)
    assert [one.error for one in found.values()] == pytest.approx([0.0] * 6)


def test_what_lacks_something_does_nothing_until_it_is_there() -> None:
    parent, child = options(2)
    asked: set[Stack] = set()

    def value(stacks: Sequence[Stack]) -> Array:
        asked.update(stacks)
        return np.array([1.0 * (parent in stack) + 0.5 * (child in stack) for stack in stacks])

    found = shares([parent, child], value, {child.name: (parent.name,)}, np.random.default_rng(0))
    assert asked == {(), (parent,), (parent, child)}
    assert (found[parent].log, found[child].log) == pytest.approx((1.25, 0.25))


def test_what_the_reference_has_no_option_lacks() -> None:
    """Workers are in the reference: what fetches ahead of them has a share whether or not the catalogue says so."""
    workers, ahead, amp = Option(name="workers", level=2), Option(name="prefetch_factor", level=4), Option(name="amp")
    stages, below = {ahead.name: Stage.INPUT, amp.name: Stage.DEVICE}, (workers,)
    declared = Declared(stages=stages, overlapped=lambda _: True)
    reference = declared.arrangement(below)
    ratios = tuple(
        Compared(
            treatment=declared.arrangement((*added, *below)),
            reference=reference,
            log_ratio=float(np.log(ratio)),
            deviation=0.005,
        )
        for added, ratio in (((ahead,), 1.3), ((amp,), 1.2), ((amp, ahead), 1.56))
    )
    model = fit(Study(ratios=ratios, sights=(), seconds=0.1, declared=stages, asynchronous=False))
    known = Trusted(model=model, validation=Validation(stacks=3, median_error=0.01, inside=1.0), reference=reference)
    with_need, without = (
        modelled_shares(known, (amp, ahead), below, declared, needs) for needs in ({ahead.name: (workers.name,)}, {})
    )
    assert with_need == without
    assert with_need[ahead].low > 1.05
    whole = model.log_ratios((ratios[-1].treatment,), reference)[0][0]
    assert sum(one.log for one in with_need.values()) == pytest.approx(whole)
