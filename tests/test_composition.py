"""Every pair of the catalogue's optimizations, on every workload."""

from dataclasses import replace
from itertools import combinations

import pytest

from harness.catalogue import read_catalogue
from harness.core.configuration import Configuration, Conflict, Option, compose, parse_option, settings
from harness.core.environment import Environment
from harness.core.optimization import Stage
from harness.core.plan import NoResult
from harness.core.protocol import PROTOCOLS
from harness.core.recipe import Recipe, as_mapping
from harness.plan.designs import alone
from harness.plan.feasibility import Scope
from tests.analyze.synthetic import ENVIRONMENT

CATALOGUE = read_catalogue()
GPU = replace(ENVIRONMENT, device="cuda", accelerator="Example GPU", compiler="g++", cores=16)
KNOWN = CATALOGUE.optimizations


def option(name: str) -> Option:
    return Option(name=name, level=KNOWN[name].usual_level(ENVIRONMENT))


def outcome(workload: str, options: tuple[Option, ...]) -> Recipe | frozenset[str]:
    """The recipe, or the words of the conflict whatever their order."""
    try:
        return compose(CATALOGUE.workload(workload), options, KNOWN)
    except Conflict as conflict:
        return frozenset(str(conflict).split())


@pytest.mark.parametrize("workload", CATALOGUE.workloads)
def test_every_pair_gives_one_recipe_or_one_reason_in_both_orders(workload: str) -> None:
    names = [one.name for one in CATALOGUE.of(CATALOGUE.workload(workload))]
    for one, other in combinations(map(option, names), 2):
        found = outcome(workload, (one, other))
        assert found == outcome(workload, (other, one)), (one, other)
        if isinstance(found, Recipe):
            both = settings(KNOWN[one.name], one.level) | settings(KNOWN[other.name], other.level)
            assert as_mapping(found).items() >= both.items()
        else:
            assert found, (one, other)


@pytest.mark.parametrize("workload", CATALOGUE.workloads)
def test_every_optimization_composes_with_what_it_requires(workload: str) -> None:
    for one in CATALOGUE.of(CATALOGUE.workload(workload)):
        stack = tuple(map(option, (one.name, *one.requires)))
        assert isinstance(outcome(workload, stack), Recipe), one.name


@pytest.mark.parametrize("workload", CATALOGUE.workloads)
def test_every_optimization_changes_something(workload: str) -> None:
    plain = compose(CATALOGUE.workload(workload), (), KNOWN)
    for one in CATALOGUE.of(CATALOGUE.workload(workload)):
        for level in one.levels or (None,):
            said = settings(one, level).items()
            assert not said <= as_mapping(plain).items(), (one.name, level)


@pytest.mark.parametrize("workload", CATALOGUE.workloads)
def test_what_the_real_system_had_on_composes(workload: str) -> None:
    found = CATALOGUE.workload(workload)
    names = found.original
    from_names = tuple(CATALOGUE.options(found, names, ENVIRONMENT))
    assert isinstance(outcome(workload, from_names), Recipe)


def test_optimizations_of_another_workload_are_conflicts_with_words() -> None:
    for name, workload in CATALOGUE.workloads.items():
        for one in KNOWN.values():
            if one.workload not in (None, name) and not set(one.sets) <= set(workload.own):
                found = outcome(name, (option(one.name),))
                assert isinstance(found, frozenset)
                assert found >= {name, "has", "no", "choice"}


@pytest.mark.parametrize("environment", [ENVIRONMENT, GPU], ids=["cpu", "cuda"])
@pytest.mark.parametrize("workload", CATALOGUE.workloads)
def test_nothing_is_left_out_without_words(workload: str, environment: Environment) -> None:
    found = CATALOGUE.workload(workload)
    reference = Configuration(workload=workload, size="quick", batch=found.sizes["quick"].batch)
    for protocol in PROTOCOLS.values():
        scope = Scope(
            workload=found,
            reference=reference,
            optimizations=CATALOGUE.of(found),
            known=KNOWN,
            original=(),
            environment=environment,
            protocol=protocol,
        )
        labels = {entry.label.partition("=")[0]: entry for entry in alone(scope)}
        assert set(labels) - {"all"} == {one.name for one in scope.optimizations if one.stage is not Stage.RANKS}
        for entry in labels.values():
            assert not isinstance(entry, NoResult) or len(entry.reason.split()) >= 3, entry


def test_local_updates_are_not_shared_out() -> None:
    """The others would never learn from what the owner of a weight has not seen."""
    stack = tuple(map(parse_option, ("post_local_sgd", "ranks=2", "zero_redundancy_optimizer")))
    with pytest.raises(Conflict, match="post_local_sgd excludes zero_redundancy_optimizer"):
        compose(CATALOGUE.workload("speaker"), stack, KNOWN)
