"""What the ledger's claims come to on a machine: the pair of stacks, what is left out, and the design that asks."""

from dataclasses import replace
from typing import Any

import pytest

from harness.catalogue import read_catalogue
from harness.core.claims import ANY, Bound, Claim, Metric, Resolution, Tried, Untried
from harness.core.configuration import Comparison, Configuration, Option, parse_option
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import Block, NoResult
from harness.core.protocol import BRIEF, Protocol
from harness.plan.designs import DESIGNS, ClaimContext, concerns, marked, questions, resolve
from harness.plan.feasibility import Entry, Scope
from tests.analyze.synthetic import ENVIRONMENT
from tests.core.invented import ALL, GPU, KNOWN, workload

EMULATED = replace(ENVIRONMENT, device="emulated:a100", accelerator="emulated A100")
TOY = workload(original=("workers=4", "tf32"))
CATALOGUE = read_catalogue()


def claim(treatment: str, reference: str = "baseline", **facts: Any) -> Claim:
    given = {"name": "toy", "workload": "toy", "metric": Metric.THROUGHPUT, **facts}
    return Claim(text="x", source="x", bound=Bound.GAIN, treatment=treatment, reference=reference, **given)


def resolved(one: Claim, environment: Environment = ENVIRONMENT) -> Resolution:
    return resolve(one, ClaimContext(workload=TOY, environment=environment, known=KNOWN))


def tried(treatment: str, reference: str = "", **facts: Any) -> Tried:
    stacks = (tuple(sorted(map(parse_option, one.split("+")))) if one else () for one in (treatment, reference))
    ours, theirs = stacks
    return Tried(treatment=ours, reference=theirs, timing=Timing.STEP, **facts)


def test_a_claim_becomes_two_stacks() -> None:
    assert resolved(claim("workers=2+prefetch=4", "workers=2")) == tried("prefetch=4+workers=2", "workers=2")
    assert resolved(claim("original+workers=2", "original"), GPU) == tried("tf32+workers=2", "tf32+workers=4")
    assert resolved(claim("baseline", "fast_reader")).label == "without fast_reader"  # type: ignore[union-attr]


def test_what_the_machine_lacks_is_left_out_and_told() -> None:
    found = resolved(claim("workers=2+tf32"))
    assert found == tried("workers=2", shortfalls=("tested without tf32: needs a CUDA device",))
    assert resolved(claim("workers=2+tf32"), GPU) == tried("tf32+workers=2")
    both = resolved(claim("workers=2+tf32", "tf32"))
    assert both == tried("workers=2", shortfalls=("tested without tf32: needs a CUDA device",))


@pytest.mark.parametrize(
    "conditions", ["batch 64 on an A100 with 80 GB", "RTX 5090", "any GPU", "g5 with an A10G", "a V100"]
)
def test_a_cpu_neither_proves_nor_refutes_what_was_said_of_a_gpu(conditions: str) -> None:
    words = ("said of a GPU, and tested on a CPU",)
    one = claim("workers=2", conditions=conditions)
    assert resolved(one) == tried("workers=2", shortfalls=words)
    assert resolved(one, GPU) == tried("workers=2")
    assert resolved(replace(one, conditions="two cores of an EPYC, T-shaped")) == tried("workers=2")
    for other in (replace(one, metric=Metric.HOST_MEMORY), replace(one, timing=Timing.LOADER)):
        found = resolved(other)
        assert isinstance(found, Tried)
        assert not found.shortfalls


@pytest.mark.parametrize(
    ("cores", "words"),
    [
        (1, ("4 workers shared 1 core (the machine of the promise may have more)",)),
        (2, ("4 workers shared 2 cores (the machine of the promise may have more)",)),
        (4, ()),
    ],
)
def test_workers_that_share_cores_are_told(cores: int, words: tuple[str, ...]) -> None:
    assert resolved(claim("workers=4"), replace(ENVIRONMENT, cores=cores)) == tried("workers=4", shortfalls=words)


def test_where_nothing_remains_it_is_untried_with_the_reason() -> None:
    assert resolved(claim("tf32")) == Untried(reason="tf32 needs a CUDA device")
    assert resolved(claim("workers=2+tf32", "workers=2")) == Untried(reason="tf32 needs a CUDA device")
    alone = replace(ENVIRONMENT, cores=1)
    assert resolved(claim("tf32", "fused"), alone) == Untried(
        reason="fused needs at least two CPU cores; tf32 needs a CUDA device"
    )


def test_a_remainder_that_adds_nothing_would_turn_the_claim_round() -> None:
    """Left with what the reference alone has on, it would test the absence of that."""
    assert resolved(claim("tf32", "fast_reader")) == Untried(reason="tf32 needs a CUDA device")
    assert isinstance(resolved(claim("tf32", "fast_reader"), GPU), Tried)
    assert isinstance(resolved(claim("tf32", "tf32+fast_reader")), Tried)  # a harm, which it never added to


def test_what_is_essential_is_not_left_out() -> None:
    assert isinstance(resolved(claim("workers=2+tf32", essential=("workers",))), Tried)
    assert resolved(claim("workers=2+tf32", essential=("tf32",))) == Untried(reason="tf32 needs a CUDA device")


def test_a_stand_in_is_tried_where_the_treatment_cannot_be() -> None:
    one = claim("tf32", stand_in="halved")
    assert resolved(one, GPU) == tried("tf32")
    assert resolved(one) == tried(
        "halved", shortfalls=("tested with halved in place of tf32: tf32 needs a CUDA device",)
    )
    assert resolved(claim("tf32", stand_in="tf32")) == Untried(reason="tf32 needs a CUDA device")


def test_a_stand_in_may_have_a_reference_of_its_own_and_serves_where_what_is_essential_is_missing() -> None:
    wanted = claim("tf32+workers=2", "tf32", essential=("tf32",))
    assert resolved(wanted) == Untried(reason="tf32 needs a CUDA device")
    one = replace(wanted, stand_in="halved+workers=2", stand_in_reference="halved")
    said = "tested with halved+workers=2 over halved in place of tf32+workers=2: tf32 needs a CUDA device"
    assert resolved(one) == tried("halved+workers=2", "halved", shortfalls=(said,))
    assert resolved(one, GPU) == tried("tf32+workers=2", "tf32")


def test_what_no_stack_has_is_told_on_every_machine() -> None:
    one = claim("workers=2+tf32", deviation="tested without luck")
    lost = "tested without tf32: needs a CUDA device"
    assert resolved(one, GPU) == tried("tf32+workers=2", shortfalls=("tested without luck",))
    assert resolved(one) == tried("workers=2", shortfalls=("tested without luck", lost))
    other = resolved(claim("tf32", stand_in="halved", deviation="tested without luck"))
    assert isinstance(other, Tried)
    assert "tested without luck" in other.shortfalls


def test_an_impossible_rest_is_untried() -> None:
    """Without its workers a prefetch makes no sense."""
    known = KNOWN | {"workers": replace(KNOWN["workers"], needs=KNOWN["tf32"].needs)}
    context = ClaimContext(workload=TOY, environment=ENVIRONMENT, known=known)
    found = resolve(claim("workers=2+prefetch=4"), context)
    assert found == Untried(reason="prefetch_factor needs loader workers: add workers=2")


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (claim("", untestable="nobody can"), "nobody can"),
        (claim("magic+workers=2"), "there is no optimization 'magic'"),
        (claim("workers=2", metric=Metric.DEVICE_SHARE), "the device's own time is seen on CUDA devices only"),
        (claim("workers=2", metric=Metric.DEVICE_MEMORY), "a device's memory is seen on CUDA devices only"),
        (claim("original"), None),
    ],
)
def test_what_cannot_be_tried_says_why(one: Claim, reason: str | None) -> None:
    found = resolved(one)
    assert (found.reason if isinstance(found, Untried) else None) == reason


def test_what_a_claim_tests_is_marked_in_its_block() -> None:
    context = ClaimContext(workload=TOY, environment=ENVIRONMENT, known=KNOWN)
    asked = questions([claim("workers=2"), claim("workers=2", name="epochs", timing=Timing.EPOCH)], context)
    made = [one for one in entries(claim("workers=2")) if isinstance(one, Comparison)]
    (tested,) = made
    other = replace(tested, treatment=replace(tested.treatment, options=(Option(name="workers", level=4),)))
    block = Block(identity="b00", reference=tested.reference, timing=tested.timing, comparisons=(other, tested, other))
    assert marked(block, asked).claimed == (2,)
    assert marked(block, frozenset()).claimed == ()
    elsewhere = replace(block, comparisons=(replace(tested, timing=Timing.LOADER),))
    assert marked(elsewhere, asked).claimed == ()


def scope(*claims: Claim, environment: Environment = ENVIRONMENT, **facts: Any) -> Scope:
    given = {"protocol": Protocol(), "reference": Configuration(workload="toy", size="quick", batch=12), **facts}
    return Scope(
        workload=TOY,
        optimizations=ALL,
        known=KNOWN,
        original=(),
        environment=environment,
        claims=claims,
        **given,
    )


def entries(*claims: Claim, **facts: Any) -> list[Entry]:
    return list(DESIGNS["claims"](scope(*claims, **facts)))


def test_the_design_makes_each_pair_once_and_tells_of_the_others() -> None:
    found = entries(
        claim("workers=2"),
        claim("workers=2", name="again"),
        claim("workers=2+tf32", name="nearly"),
        claim("workers=2", name="epochs", timing=Timing.EPOCH),
        claim("workers=4", "workers=2", name="more"),
        claim("tf32", name="absent"),
        claim("workers=2", name="elsewhere", workload="leak"),
        claim("halved", name="general", workload=ANY),
    )
    made = [one for one in found if isinstance(one, Comparison)]
    assert [(one.label, str(one.treatment), str(one.reference), one.timing) for one in made] == [
        ("workers=2", "toy@quick#12:workers=2", "toy@quick#12", "step"),
        ("halved", "toy@quick#12:halved", "toy@quick#12", "step"),  # first those that share a reference
        ("workers=2", "toy@quick#12:workers=2", "toy@quick#12", "epoch"),
        ("workers=4", "toy@quick#12:workers=4", "toy@quick#12:workers=2", "step"),
    ]
    assert [one for one in found if isinstance(one, NoResult)] == [
        NoResult(workload="toy", label="absent", reason="tf32 needs a CUDA device")
    ]


def test_what_starts_slowly_waits_for_the_patient_protocol() -> None:
    assert isinstance(entries(claim("compile=default"))[0], Comparison)
    (no_result,) = entries(claim("compile=default"), protocol=BRIEF)
    assert isinstance(no_result, NoResult)
    assert "starts too slowly for a first look" in no_result.reason


def test_a_claim_keeps_its_own_reference_and_timing() -> None:
    below = Configuration(workload="toy", size="quick", batch=12, options=(parse_option("workers=2"),))
    for facts in ({"reference": below}, {"probe": Timing.LOADER}):
        with pytest.raises(Mistake, match="A claim names its own reference and what it is timed on"):
            entries(claim("workers=2"), **facts)


def test_claims_in_general_concern_every_workload() -> None:
    assert concerns(claim("x", workload=ANY), TOY)
    assert not concerns(claim("x", workload="leak"), TOY)


@pytest.mark.parametrize("environment", [ENVIRONMENT, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", CATALOGUE.workloads)
def test_every_claim_of_the_ledger_is_tried_or_says_why_not(name: str, environment: Environment) -> None:
    found = CATALOGUE.workloads[name]
    context = ClaimContext(workload=found, environment=environment, known=CATALOGUE.optimizations)
    resolutions = {one.name: resolve(one, context) for one in CATALOGUE.claims if concerns(one, found)}
    untried = {key: one.reason for key, one in resolutions.items() if isinstance(one, Untried)}
    assert all(reason.strip() for reason in untried.values())
    share = len(untried) / len(resolutions)
    assert share < 0.35 if environment is GPU else share < 0.75


# Words of the ledger's deviations -> the optimizations that they speak of.
SPOKEN_OF = {
    "both arms take the same samples to an update": ("batch_scale", "gradient_accumulation"),
    "patches have one shape": ("fixed_patch_shape",),
    "accumulation in both arms": ("gradient_accumulation",),
    "the default mode of torch.compile": ("compile",),
    "a front end with a loop": ("looped_front_end",),
    "the loop was put into a front end": ("looped_front_end",),
    "chunks that are compressed": ("hdf5_layout",),
    "on a mount whose noises are cached": ("network_mount",),
    "on a mount with latencies": ("mounted_storage",),
}


@pytest.mark.parametrize("environment", [ENVIRONMENT, EMULATED, GPU], ids=["cpu", "emulated", "gpu"])
@pytest.mark.parametrize("name", CATALOGUE.workloads)
def test_no_deviation_speaks_of_an_option_that_was_left_out(name: str, environment: Environment) -> None:
    found = CATALOGUE.workloads[name]
    context = ClaimContext(workload=found, environment=environment, known=CATALOGUE.optimizations)
    for one in CATALOGUE.claims:
        resolution = resolve(one, context) if concerns(one, found) else None
        if isinstance(resolution, Tried):
            said = "; ".join(resolution.shortfalls)
            spoken = {option for words, options in SPOKEN_OF.items() if words in said for option in options}
            assert spoken <= {option.name for option in (*resolution.treatment, *resolution.reference)}, one.name


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("patches3d-option-a", "batch_scale=2"),
        ("patches3d-option-b-overall", "batch_scale=4"),
        ("patches3d-total", "batch_scale=4"),
        ("leak-phase-three", "gradient_accumulation=2"),
        ("speaker-phase-one", "batch_scale=2"),
        ("speaker-phase-three", "looped_front_end"),
    ],
)
def test_a_part_of_what_was_promised_is_no_test_of_it(name: str, missing: str) -> None:
    (one,) = [each for each in CATALOGUE.claims if each.name == name]
    found = CATALOGUE.workloads[one.workload]
    resolutions = [
        resolve(one, ClaimContext(workload=found, environment=environment, known=CATALOGUE.optimizations))
        for environment in (replace(ENVIRONMENT, compiler="g++ 13"), EMULATED)
    ]
    assert isinstance(resolutions[0], Tried)
    assert isinstance(resolutions[1], Untried)
    assert missing in resolutions[1].reason


@pytest.mark.parametrize("name", CATALOGUE.workloads)
def test_on_a_gpu_every_pair_of_the_ledger_can_be_measured(name: str) -> None:
    """At the real system's size nothing but what the workload lacks stands in the way."""
    found = CATALOGUE.workloads[name]
    size = found.sizes["standard"]
    machine = replace(GPU, cores=32, compiler="g++ 13", memory_bytes=2**38)
    on_gpu = Scope(
        workload=found,
        reference=Configuration(workload=name, size="standard", batch=size.batch),
        optimizations=CATALOGUE.of(found),
        known=CATALOGUE.optimizations,
        original=(),
        environment=machine,
        protocol=Protocol(),
        claims=CATALOGUE.claims,
    )
    no_results = [one for one in DESIGNS["claims"](on_gpu) if isinstance(one, NoResult)]
    claims = {one.name: one for one in CATALOGUE.claims}
    own = [one for one in no_results if one.label in claims and claims[one.label].workload == name]
    stopped = {one.label for one in own if not claims[one.label].untestable}
    assert stopped == set()
    assert [one for one in no_results if one.label not in claims] == []
