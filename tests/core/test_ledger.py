"""The reader of the ledger refuses whatever a claim could get wrong, and the ledger itself is whole."""

import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from harness.catalogue import read_catalogue
from harness.core.claims import ANY, Bound, Claim, Metric, Tried, names_of, options, parsed
from harness.core.configuration import parse_option
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.plan.designs import ClaimContext, resolve
from tests.analyze.synthetic import ENVIRONMENT
from tests.core.invented import GPU, KNOWN, workload
from tests.core.ledger import checked

ROOT = Path(__file__).parents[2]
CATALOGUE = read_catalogue()
WORKLOADS = {"toy": workload(original=("workers=4", "fast_reader"))}
GOOD: dict[str, Any] = {
    "name": "toy-workers",
    "text": "Workers are twice as fast.",
    "source": "somebody/somewhere, README.md",
    "workload": "toy",
    "metric": "throughput",
    "bound": "range",
    "low": 1.5,
    "high": 2,
    "treatment": "workers=2",
}


def toml(*entries: dict[str, Any]) -> str:
    return "\n".join(
        "\n".join(("[[claim]]", *(f"{name} = {shown(value)}" for name, value in one.items() if value is not None)))
        for one in entries
    )


def shown(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def read(*entries: dict[str, Any]) -> tuple[Claim, ...]:
    return checked(parsed(toml(*entries), "toy.toml"), WORKLOADS, KNOWN)


def test_a_claim_is_read_with_its_defaults() -> None:
    (claim,) = read(GOOD)
    assert (claim.metric, claim.bound, claim.low, claim.high) == (Metric.THROUGHPUT, Bound.RANGE, 1.5, 2.0)
    assert (claim.reference, claim.timing, claim.contradicts, claim.differing) == ("baseline", "step", (), {"workers"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text": None}, "toy.toml, claim 1 (toy-workers).text is missing"),
        ({"gain": 2}, "toy.toml, claim 1 (toy-workers).gain is unknown"),
        ({"low": "much"}, "toy.toml, claim 1 (toy-workers).low is of none of the kinds it may have"),
        ({"metric": "charm"}, "toy.toml, claim 1 (toy-workers).metric must be one of throughput, "),
        ({"bound": "some"}, "toy.toml, claim 1 (toy-workers).bound must be one of range, "),
        ({"timing": "hour"}, "toy.toml, claim 1 (toy-workers).timing must be one of step, "),
        ({"name": "Toy workers"}, "needs a name of lower-case words joined by hyphens"),
        ({"source": " "}, "toy-workers lacks its text or its source"),
        ({"workload": "nope"}, "toy-workers names a workload 'nope' that is not there"),
        ({"low": 3}, "toy-workers promises from 3 to 2, which is no range"),
        ({"low": -1}, "toy-workers has a figure that is not above 0"),
        ({"low": None}, "toy-workers is of bound 'range' and so must give low and high"),
        ({"bound": "point"}, "toy-workers is of bound 'point' and so must give low"),
        ({"bound": "gain"}, "toy-workers is of bound 'gain' and so must give no figure"),
        (
            {"metric": "device share", "bound": "point", "high": None},
            "about the device share of one configuration; give a range",
        ),
        ({"metric": "quality"}, "toy-workers is about quality, of which no figure can be tested"),
        ({"treatment": None}, "toy-workers names no treatment and does not say why it is untestable"),
        ({"treatment": "baseline"}, "toy-workers has the same treatment and reference"),
        ({"untestable": "nobody can"}, "toy-workers is untestable and names a treatment; one of the two is wrong"),
        ({"stand_in_reference": "workers"}, "toy-workers names a stand-in's reference and no stand-in"),
        ({"treatment": "workers=many"}, "impossible on toy: workers has no level many"),
        ({"treatment": "workers"}, "impossible on toy: workers needs a level"),
        ({"treatment": "prefetch=4"}, "impossible on toy: prefetch_factor needs loader workers"),
        ({"treatment": "halved+fused"}, "impossible on toy: halved excludes fused"),
        ({"reference": "fast_reader+best_reader"}, "impossible on toy: "),
        ({"stand_in": "prefetch=4"}, "impossible on toy: prefetch_factor needs loader workers"),
        ({"essential": ["fused"]}, "toy-workers calls fused essential and does not switch it on"),
        ({"contradicts": ["nobody"]}, "toy-workers contradicts 'nobody', which is no other claim"),
        ({"contradicts": ["toy-workers"]}, "toy-workers contradicts 'toy-workers', which is no other claim"),
    ],
)
def test_what_is_wrong_is_one_sentence_that_names_the_claim(change: dict[str, Any], words: str) -> None:
    with pytest.raises(Mistake) as caught:
        read(GOOD | change)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_are_unique_and_contradictions_mutual() -> None:
    with pytest.raises(Mistake, match="toy-workers stands in it twice"):
        read(GOOD, GOOD)
    other = GOOD | {"name": "toy-again"}
    with pytest.raises(Mistake, match="toy-workers contradicts toy-again, which does not say so in turn"):
        read(GOOD | {"contradicts": ["toy-again"]}, other)
    assert len(read(GOOD | {"contradicts": ["toy-again"]}, other | {"contradicts": ["toy-workers"]})) == 2


def test_only_tables_of_claims() -> None:
    for text in ("", "[other]\n", 'claim = "x"\n', "[[claim]]\nname = 'x'\n[other]\n"):
        with pytest.raises(Mistake, match=r"toy.toml must hold tables \[\[claim\]\], before them perhaps said_of"):
            parsed(text, "toy.toml")
    with pytest.raises(Mistake, match=r"toy.toml is not TOML \("):
        parsed("[[claim", "toy.toml")


def test_an_evaluation_needs_one() -> None:
    without = {"toy": replace(workload(), traits=frozenset())}
    with pytest.raises(Mistake, match="is timed on evaluation, which toy has not"):
        checked(parsed(toml(GOOD | {"timing": "evaluation"}), "toy.toml"), without, KNOWN)


def test_another_workloads_optimization_is_refused() -> None:
    other = {"doll": workload(name="doll")}
    with pytest.raises(Mistake, match="names fast_reader, which belongs to toy"):
        checked(parsed(toml(GOOD | {"workload": "doll", "treatment": "fast_reader"}), "toy.toml"), other, KNOWN)


def test_a_stack_spells_out_what_was_found_and_a_later_switch_wins() -> None:
    found = options("original+workers=2", WORKLOADS["toy"])
    assert list(map(str, found)) == ["fast_reader", "workers=2"]
    assert options("baseline", WORKLOADS["toy"]) == ()
    assert names_of("baseline+workers=2") == ("workers=2",)


# What the write-ups promise, one name for each line of theirs that says what a change is worth.
OF_THE_REPORTS = """
speaker-loader-group speaker-workers speaker-mixed-precision speaker-single-precision-penalty
speaker-accumulation-convergence speaker-vectorised-operations speaker-preallocated-tensors
speaker-checkpointing-memory speaker-local-disk speaker-evaluation-interval speaker-larger-batch speaker-emptied-cache
speaker-smaller-network speaker-data-cache speaker-phase-one speaker-phase-two speaker-phase-three speaker-total
speaker-device-starved speaker-device-target spoof-workers spoof-persistent-workers spoof-mixed-precision
spoof-loss-scaling spoof-cudnn-benchmark spoof-compile spoof-compile-first-epoch spoof-inference-mode
spoof-non-blocking spoof-set-to-none spoof-total spoof-total-epoch-time spoof-total-training-time
spoof-evaluation-time spoof-quality spoof-equal-error-rate spoof-larger-batch spoof-reproducible-settings
spoof-more-workers-when-idle spoof-no-cpu imagenet-prefetching imagenet-prefetching-first-epoch
imagenet-prefetching-memory imagenet-local-copy-loading imagenet-local-copy-training imagenet-local-copy-device-share
imagenet-warm-store imagenet-larger-batch imagenet-linear-learning-rate imagenet-small-images-training
imagenet-small-images-loading imagenet-no-persistent-workers leak-loader-settings leak-prefetch-memory leak-spawn
leak-compile leak-compile-range leak-compile-mode leak-compile-first-epoch leak-chunk-cache leak-memory-map
leak-file-index leak-batched-evaluation leak-batched-evaluation-range leak-evaluation-device-share
leak-preallocated-results leak-rarer-monitoring leak-deferred-metrics leak-accumulation leak-accumulation-range
leak-spec-augment leak-phase-one leak-phase-two leak-phase-three leak-total leak-device-share-before
leak-device-share-target leak-rate-target leak-evaluation-rate-target leak-loader-time-target
leak-smaller-batch-fallback patches3d-batch-two patches3d-batch-four patches3d-batch-memory patches3d-workers
patches3d-worker-rule patches3d-worker-memory patches3d-prefetching patches3d-accumulation patches3d-option-a
patches3d-option-a-epoch patches3d-option-b patches3d-option-b-overall patches3d-option-c patches3d-option-c-overall
patches3d-total patches3d-device-share-before patches3d-rate-before
"""


def test_every_claim_can_be_tested_as_it_says() -> None:
    assert checked(CATALOGUE.claims, CATALOGUE.workloads, CATALOGUE.optimizations) == CATALOGUE.claims


def test_every_promise_of_the_five_reports_is_in_the_ledger() -> None:
    assert not set(OF_THE_REPORTS.split()) - {claim.name for claim in CATALOGUE.claims}


def test_the_ledger_is_large_and_every_workload_has_its_share() -> None:
    names = [claim.name for claim in CATALOGUE.claims]
    assert len(names) == len(set(names)) >= 170
    for workload_name in (ANY, *CATALOGUE.workloads):
        assert sum(claim.workload == workload_name for claim in CATALOGUE.claims) >= 15, workload_name


def test_the_ledger_can_be_tested_by_optimizations_that_exist() -> None:
    stacks = [stack for one in CATALOGUE.claims for stack in (one.treatment, one.reference, one.stand_in)]
    named = {parse_option(name).name for stack in stacks for name in names_of(stack)}
    assert named - {"original"} <= CATALOGUE.optimizations.keys()


def test_most_claims_are_testable_and_the_others_say_why_not() -> None:
    untestable = [claim for claim in CATALOGUE.claims if claim.untestable]
    assert len(untestable) < len(CATALOGUE.claims) / 5
    assert all(not claim.untestable.endswith(".") and len(claim.untestable) > 20 for claim in untestable)
    assert all(claim.text.endswith(".") for claim in CATALOGUE.claims)


def test_a_phase_that_adds_is_held_against_the_phases_before_it() -> None:
    by_name = {claim.name: claim for claim in CATALOGUE.claims}
    leak = CATALOGUE.workloads["leak"]
    one, two, three = (by_name[f"leak-phase-{number}"] for number in ("one", "two", "three"))
    assert options(two.reference, leak) == options(one.treatment, leak)
    # In the default mode: what max-autotune captures cannot add gradients up.
    both = {*options(two.treatment, leak), *map(parse_option, ("gradient_accumulation=2", "compile=default"))}
    assert set(options(three.reference, leak)) == both - {parse_option("compile=max-autotune")}


def test_a_part_of_a_phase_is_held_against_the_real_system() -> None:
    """Whose workers read ahead; without any the set in memory would gain what no phase promised."""
    (claim,) = [one for one in CATALOGUE.claims if one.name == "leak-in-memory"]
    leak = CATALOGUE.workloads["leak"]
    real = options("original", leak)
    assert options(claim.reference, leak) == real
    assert set(options(claim.treatment, leak)) == {*real, parse_option("in_memory_data")}


def test_what_is_said_of_an_epoch_and_not_timed_on_epochs_says_so() -> None:
    about = [one for one in CATALOGUE.claims if re.search(r"\bepochs?\b", one.text) and not one.untestable]
    assert len(about) >= 10
    assert [one.name for one in about if one.timing is not Timing.EPOCH and "epoch" not in one.deviation] == []


@pytest.mark.parametrize(
    "name",
    [
        "leak-evaluation-device-share", "leak-prefetch-memory", "patches3d-worker-rule",
        "patches3d-worker-memory",
    ],
)  # fmt: skip
def test_what_this_suite_would_only_confirm_to_itself_or_cannot_see_is_untestable(name: str) -> None:
    (claim,) = [one for one in CATALOGUE.claims if one.name == name]
    assert claim.untestable
    assert not claim.treatment


def test_no_share_of_a_device_is_asked_of_an_evaluation() -> None:
    """Which takes no training step, and a device's own time is that of steps."""
    asked = {claim.name for claim in CATALOGUE.claims if claim.metric is Metric.DEVICE_SHARE and claim.treatment}
    timed = {claim.name: claim.timing for claim in CATALOGUE.claims}
    assert asked
    assert [name for name in sorted(asked) if timed[name] is Timing.EVALUATION] == []


@pytest.mark.parametrize("name", ["leak-batched-evaluation", "leak-batched-evaluation-range"])
def test_what_was_promised_of_an_evaluation_with_autocast_has_it_where_the_machine_can(name: str) -> None:
    (claim,) = [one for one in CATALOGUE.claims if one.name == name]
    leak = CATALOGUE.workloads["leak"]
    told = {}
    for environment in (GPU, ENVIRONMENT):
        context = ClaimContext(workload=leak, environment=environment, known=CATALOGUE.optimizations)
        found = resolve(claim, context)
        assert isinstance(found, Tried)
        told[environment.device] = {one.name for one in found.treatment}, found.shortfalls
    whole = {"batched_evaluation", "inference_mode", "evaluation_autocast"}
    assert told["cuda"] == (whole, ())
    names, (words, *_) = told["cpu"]
    assert names == whole - {"evaluation_autocast"}
    assert words.startswith("tested without evaluation_autocast=float16: needs")


def test_the_memory_of_workers_comes_on_top_of_the_training_process() -> None:
    (claim,) = [one for one in CATALOGUE.claims if one.name == "imagenet-prefetching-memory"]
    assert (claim.low, claim.high) == (pytest.approx(12 / 32), pytest.approx(12 / 28, abs=0.005))


def test_contradictions_are_shown_from_both_sides() -> None:
    by_name = {claim.name: claim for claim in CATALOGUE.claims}
    pairs = [(claim.name, other) for claim in CATALOGUE.claims for other in claim.contradicts]
    assert len(pairs) >= 20
    assert all(name in by_name[other].contradicts for name, other in pairs)


def test_the_ledger_lies_inside_the_package_and_is_installed_with_it() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert "harness" in wheel["wheel"]["only-include"]  # whole, whatever the kind of file
    assert not {"include", "exclude"} & set(wheel["wheel"])
    files = sorted(path.name for path in (ROOT / "harness" / "claims").iterdir())
    assert files == [f"{name}.toml" for name in ("imagenet", "leak", "patches3d", "public", "speaker", "spoof")]
    assert {one.name for one in fields(Claim)} >= {"text", "source", "conditions"}
