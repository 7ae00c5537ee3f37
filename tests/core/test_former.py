"""Runs of former schemas mean today what was measured then: malloc thresholds are on in all their arms."""

from harness.core.configuration import Comparison, Configuration, Option
from harness.core.optimization import Numerics, Promise, Timing
from harness.core.plan import OWN_MALLOC, Block, Plan, in_todays_words
from harness.core.protocol import Protocol


def config(*names: str) -> Configuration:
    options = tuple(Option(name=name) for name in sorted(names))
    return Configuration(workload="leak", size="quick", batch=512, options=options)


def planned(*labels: str) -> Plan:
    """Each subject alone, against the baseline."""
    comparisons = tuple(
        Comparison(label=one, treatment=config(one), reference=config(), timing=Timing.STEP) for one in labels
    )
    promise = Promise(numerics=Numerics.EXACT, proof=(), pointless_where={})
    return Plan(
        design="alone",
        seed=0,
        protocol=Protocol(),
        blocks=(Block(identity="b00", reference=config(), timing=Timing.STEP, comparisons=comparisons),),
        no_results=(),
        names={str(config()): "baseline"},
        promises=dict.fromkeys(labels, promise),
    )


def test_a_run_of_today_is_read_as_it_stands() -> None:
    plan = planned("channels_last")
    assert in_todays_words(plan, OWN_MALLOC) == plan


def test_former_arms_had_the_thresholds_and_their_reference_was_not_plain() -> None:
    found = in_todays_words(planned("channels_last"), OWN_MALLOC - 1)
    (comparison,) = found.comparisons
    assert comparison.treatment == config("channels_last", "tuned_malloc")
    assert comparison.reference == found.blocks[0].reference == config("tuned_malloc")
    assert comparison.label == "channels_last"
    assert found.names == {}
    assert set(found.promises) == {"channels_last", "tuned_malloc"}


def test_what_was_the_harm_is_todays_plain_and_other_allocators_stay() -> None:
    found = in_todays_words(planned("glibc_malloc", "allocator"), OWN_MALLOC - 1)
    assert [(one.label, one.treatment) for one in found.comparisons] == [
        ("baseline", config()),
        ("allocator", config("allocator")),
    ]
    assert "glibc_malloc" not in found.promises
