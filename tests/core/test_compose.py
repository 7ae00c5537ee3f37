from itertools import permutations

import pytest

from harness.core.configuration import Conflict, Option, compose, expected, inactive, parse_option, settings, unmet
from harness.core.mistake import Mistake
from harness.core.recipe import Recipe, as_mapping
from tests.analyze.synthetic import ENVIRONMENT
from tests.core.invented import GPU, KNOWN, optimization, workload

TOY = workload()


def composed(*names: str) -> Recipe:
    return compose(TOY, [parse_option(name) for name in names], KNOWN)


def test_no_switch_is_plain_with_the_workloads_own_choices() -> None:
    assert composed() == Recipe(own=(("reader", "slow"),))


def test_a_level_is_filled_in_where_it_stands() -> None:
    workers = KNOWN["workers"]
    assert settings(workers, 4) == expected(workers, 4) == {"workers": 4}
    assert settings(KNOWN["tf32"], None) == {"tf32_convolutions": True}


def test_order_does_not_matter() -> None:
    found = {composed(*names) for names in permutations(["workers=2", "prefetch=4", "fast_reader", "tf32"])}
    assert found == {Recipe(workers=2, prefetch_factor=4, tf32_convolutions=True, own=(("reader", "fast"),))}


def test_one_choice_cannot_have_two_values_and_both_switches_are_named() -> None:
    with pytest.raises(Conflict, match=r"^workers=2 and workers=4 both set workers$"):
        composed("workers=2", "workers=4")
    with pytest.raises(Conflict, match=r"^best_reader and fast_reader both set reader$"):
        composed("best_reader", "fast_reader")


@pytest.mark.parametrize("names", [("halved", "fused"), ("fused", "halved")])
def test_an_exclusion_holds_in_both_orders_with_its_reason(names: tuple[str, str]) -> None:
    with pytest.raises(Conflict, match=r"^halved excludes fused: they quarrel$"):
        composed(*names)


def test_an_impossible_recipe_is_a_conflict_with_its_reason() -> None:
    with pytest.raises(Conflict, match="prefetch_factor needs loader workers"):
        composed("prefetch=4")


def test_a_choice_of_another_workload_is_a_conflict() -> None:
    with pytest.raises(Conflict, match="other has no choice named reader"):
        compose(workload("other", own={}), [Option(name="fast_reader")], KNOWN)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("workers", "workers needs a level: workers=1, workers=2, workers=4."),
        ("workers=many", "workers has no level many; its levels are 1, 2, 4, or another number up to 1024."),
        ("workers=0", "workers has no level 0; its levels are 1, 2, 4, or another number up to 1024."),
        ("compile=eager", "compile has no level eager; its levels are default."),
        ("tf32=1", "tf32 has no level 1; its levels are none; write the bare name."),
    ],
)
def test_a_wrong_level_is_a_mistake_that_shows_the_right_ones(name: str, words: str) -> None:
    with pytest.raises(Mistake) as found:
        composed(name)
    assert str(found.value) == words


def test_a_number_between_the_listed_levels_is_a_level() -> None:
    assert composed("workers=3").workers == 3


def test_what_is_unmet_is_said_in_words() -> None:
    assert unmet(KNOWN["tf32"], ENVIRONMENT, TOY) == "needs a CUDA device"
    assert unmet(KNOWN["tf32"], GPU, TOY) is None
    assert unmet(KNOWN["fast_reader"], ENVIRONMENT, workload("other")) == "belongs to toy"
    assert unmet(KNOWN["fast_reader"], ENVIRONMENT, TOY) is None
    assert unmet(KNOWN["whole_evaluation"], ENVIRONMENT, workload(own={})) is None


def test_what_did_not_engage_is_said_in_words() -> None:
    proof = {"workers": 2, "pinned": True}
    assert inactive(proof, {"workers": 2, "pinned": True, "else": 1}) == ()
    assert inactive(proof, {"workers": 0}) == ("workers is 0, not 2", "pinned is not reported, not True")


def test_settings_that_agree_are_no_conflict() -> None:
    known = {**KNOWN, "again": optimization("again", {"tf32_convolutions": True})}
    found = compose(TOY, [Option(name="again"), Option(name="tf32")], known)
    assert as_mapping(found)["tf32_convolutions"] is True
