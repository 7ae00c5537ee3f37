"""What `explain` says of a configuration: what differs, what is bound, the step; and what a stack's name stands for."""

import inspect
import io
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
import torch
from rich.console import Console
from torch import Tensor

from harness.catalogue import read_catalogue
from harness.cli.explain import (
    FEW,
    Difference,
    between,
    described,
    feed_in_words,
    optimizer_in_words,
    show_explanation,
)
from harness.core.configuration import Comparison, compose, parse_config, unmet
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.plan import Request
from harness.core.protocol import PROTOCOLS
from harness.core.recipe import Recipe, Value, patched
from harness.measure.step import plain_step
from harness.measure.surroundings import unread
from harness.plan.designs import alone
from harness.plan.planning import Context, reference_request
from harness.run.preparation import prepared
from tests.analyze.synthetic import ENVIRONMENT
from tests.core.invented import GPU

CATALOGUE = read_catalogue()
SCREEN = 60  # lines, of 120 columns


def context(environment: Environment = ENVIRONMENT, protocol: str = "brief") -> Context:
    return Context(catalogue=CATALOGUE, environment=environment, protocol=PROTOCOLS[protocol])


@pytest.fixture
def explained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What is printed for a configuration or an optimization."""
    monkeypatch.setenv("COLUMNS", "120")

    def said(what: str, reference: str = "baseline", *, protocol: str = "brief", fully: bool = False) -> str:
        show_explanation(what, reference, protocol, "cpu", None, fully=fully)
        return capsys.readouterr().out

    return said


def difference_of(what: str, reference: str = "baseline", where: Environment = ENVIRONMENT) -> Difference:
    request = parse_config(what)
    config = context(where).config(request)
    below = context(where).config(reference_request(reference, config.workload, None, None))
    workload, known = CATALOGUE.workload(config.workload), CATALOGUE.optimizations
    recipes = compose(workload, config.options, known), compose(workload, below.options, known)
    switched = ((one, known[one.name], unmet(known[one.name], ENVIRONMENT, workload)) for one in config.options)
    return between(recipes, switched)


def table(difference: Difference, *, fully: bool = False) -> str:
    stream = io.StringIO()
    Console(file=stream, width=120).print(difference.table(fully=fully))
    return stream.getvalue()


@pytest.mark.parametrize("workload", CATALOGUE.workloads)
def test_everything_fits_on_a_screen_with_its_step(workload: str, explained: Callable[..., str]) -> None:
    said = explained(f"{workload}:all")
    assert len(said.splitlines()) <= SCREEN
    source = inspect.getsource(plain_step).strip().splitlines()
    assert [line.rstrip() for line in said.splitlines()][-len(source) :] == source
    parts, size = CATALOGUE.workload(workload).parts(), CATALOGUE.workload(workload).sizes["quick"]
    recipe = compose(CATALOGUE.workload(workload), (), CATALOGUE.optimizations)
    parameters = sum(one.numel() for one in parts.model(size, recipe).parameters())
    assert f"{parameters:,} parameters" in " ".join(said.split())
    assert "next batch" in said


@pytest.mark.parametrize("workload", CATALOGUE.workloads)
def test_what_a_gpu_switches_on_is_folded_to_a_few_lines(workload: str) -> None:
    found = difference_of(f"{workload}:all", where=GPU)
    lines = table(found).splitlines()
    assert len(found.switched) > FEW
    assert len(lines) <= 22
    assert all(one.option.name in table(found) for one in found.switched)
    needs = ("needs a CUDA device", "needs a GPU of compute capability 8.0 or higher")
    assert all(reason.endswith(needs) for reason in found.hindrances)
    assert list(found.hindrances)


@pytest.mark.parametrize("workload", CATALOGUE.workloads)
@pytest.mark.parametrize("environment", [ENVIRONMENT, GPU], ids=["cpu", "gpu"])
def test_everything_is_what_the_design_switches_on(workload: str, environment: Environment) -> None:
    where = context(environment)
    plain = where.config(reference_request("baseline", workload, None, None))
    first = next(alone(where.scope(CATALOGUE.workload(workload), plain)))
    assert first.label == "all"
    assert where.config(parse_config(f"{workload}:all")) == first.treatment  # type: ignore[union-attr]


def planned(stack: str | None, reference: str, only: tuple[str, ...] = ()) -> Comparison:
    """The one comparison that a wish comes to on this machine."""
    wish = Request(workloads=("leak",), only=only, stack=stack, reference=reference, device="cpu")
    (found,) = prepared(wish).plan.comparisons
    return found


def test_a_stack_and_a_reference_may_be_everything() -> None:
    whole = planned("all", "baseline")
    assert whole.label == "all"
    assert whole.treatment.options
    assert planned(None, "all", only=("workers=7",)).reference == whole.treatment
    named = planned("all+workers=7", "original")
    assert "workers=7" in map(str, named.treatment.options)
    assert {one.name for one in named.treatment.options} >= {one.name for one in named.reference.options}


def test_everything_of_a_patient_protocol_has_what_starts_slowly() -> None:
    able = replace(ENVIRONMENT, compiler="g++ 13")
    slow, quick = (context(able, name).config(parse_config("leak:all")) for name in ("standard", "brief"))
    assert {one.name for one in slow.options} - {one.name for one in quick.options} >= {"compile"}


def test_a_switch_that_is_named_itself_wins_over_a_whole_stack() -> None:
    for stack in ("all+workers=7", "workers=7+all", "original+workers=7"):
        config = context().config(parse_config(f"leak:{stack}"))
        assert "workers=7" in map(str, config.options), stack
    with pytest.raises(Mistake, match="There is no optimization 'nope'"):
        context().config(parse_config("leak:all+nope"))


def test_a_few_switches_have_a_row_each_with_their_proof(explained: Callable[..., str]) -> None:
    said = explained("leak@smoke:workers=2+batched_fetch+fused_optimizer")
    assert "workers 0 → 2 " in said
    assert "batched_fetch  " in said
    assert "fused_optimizer (optimizer_kernel loop → fused)" in said
    assert "Loader worker processes" in said
    assert "workers = 2" in said
    assert "Of a DataLoader with 2 workers, 4 batches ahead, whole batches, not item by item" in " ".join(said.split())
    assert "618,758 parameters" in said


def test_against_a_stack_it_tells_what_only_that_one_has(explained: Callable[..., str]) -> None:
    said = explained("leak:workers=2+channels_last", "channels_last+workers=8+prefetch_factor=4+persistent_workers")
    assert "against leak@quick#256:channels_last+workers=8+prefetch" in " ".join(said.split())
    assert "workers 8 → 2" in said
    words = "Changed in the reference alone: prefetch_factor 4 → none, persistent_workers on → off."
    assert words in " ".join(said.split())
    assert "On in both: channels_last." in said
    same = explained("leak:original", "original")
    assert "against  leak@quick#256:original" in same
    assert "PyTorch's default since 2.0" in same  # where each setting of the real system is known from
    assert "No option of it differs" in same


def test_a_stack_that_cannot_run_here_is_explained_all_the_same(explained: Callable[..., str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("has a CUDA device; without one it would check the words for a stack that needs it")
    said = explained("leak:pin_memory+non_blocking+workers=1")
    assert "Cannot run on this machine: non_blocking, pin_memory: needs a CUDA device." in " ".join(said.split())
    assert "workers 0 → 1" in said
    assert "what is bound in it can be seen where it can run" in said
    assert said.rstrip().endswith("return step")


def test_all_shows_each_switch_and_nothing_shortened(explained: Callable[..., str]) -> None:
    folded, full = explained("spoof:all"), explained("spoof:all", fully=True)
    assert "--all gives each option a row" in folded
    assert "what it is" in full
    assert "mel_drift_below_0.1_db" in "".join(full.split())
    assert "…" not in full


def test_an_evaluation_is_explained_by_its_own_source(explained: Callable[..., str]) -> None:
    said = explained("leak:batched_evaluation")
    assert "def evaluate(" in said
    assert "def step(" not in said


def _doubled(batch: int) -> int:
    """Twice the batch. Nothing more."""
    return 2 * batch


def _together(steps: list[Callable[[int], int]], times: int) -> Callable[[int], int]:
    """All steps in turn; the maker speaks for what it made."""

    def run(batch: int) -> int:
        for step in steps * times:
            batch = step(batch)
        return batch

    return run


def test_a_callable_is_told_by_its_docstring_and_by_what_it_closes_over() -> None:
    move = partial(Tensor.to, device=torch.device("cpu"), non_blocking=True)
    found = list(described(_together([_doubled, move], 3)))
    assert [call for call, _ in found] == ["run(times=3)", "_doubled", "to(device=cpu, non_blocking=True)"]
    assert [words for _, words in found] == ["All steps in turn", "Twice the batch", ""]


def test_absence_and_foreign_callables() -> None:
    assert list(described(nullcontext)) == [("nullcontext", "Nothing")]
    clip = partial(torch.nn.utils.clip_grad_norm_, [torch.zeros(1), torch.zeros(2)], 0.5)
    assert list(described(clip)) == [("clip_grad_norm_(2 Tensors, 0.5)", "")]


def test_an_optimizer_is_told_by_what_is_on() -> None:
    call, words = optimizer_in_words(torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=0.25, fused=True))
    assert call == "Adam"
    assert "lr 0.25" in words
    assert "fused True" in words
    assert "amsgrad" not in words


UNUSUAL: dict[str, dict[str, Value]] = {
    "Of a DataLoader with no workers": {},
    "Of a DataLoader with 1 worker, 2 batches ahead": {"workers": 1},
    "no workers, the short last batch kept, direct collate": {"collate": "direct", "keep_last_batch": True},
    "2 workers, 4 batches ahead, sent by pickle": {"workers": 2, "batch_transport": "pickle"},
    "in pinned memory, the next one sent to the device while": {"device_prefetch": True, "pin_memory": True},
    "started by spawn, 2 threads in each": {"workers": 2, "start_method": "spawn", "worker_threads": 2},
    "from memory, the files' page cache cold": {"page_cache": "cold", "in_memory_data": True},
}


@pytest.mark.parametrize("words", UNUSUAL)
def test_the_way_of_a_batch_names_what_is_special(words: str) -> None:
    assert words in feed_in_words(patched(Recipe(), UNUSUAL[words]))


@pytest.mark.gpu
@pytest.mark.parametrize("workload", CATALOGUE.workloads)
def test_everything_on_a_gpu_fits_on_a_screen(
    workload: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device; would check that the full stack of a GPU is explained in one screen")
    if reason := unread(CATALOGUE.workload(workload)):
        pytest.skip(f"{workload} cannot be built here: {reason}")
    monkeypatch.setenv("COLUMNS", "120")
    show_explanation(f"{workload}:all", "baseline", "brief", "cuda", None, fully=False)
    said = capsys.readouterr().out
    assert len(said.splitlines()) <= SCREEN
    assert "def step(" in said
