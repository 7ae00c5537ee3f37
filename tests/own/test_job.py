"""Jobs: what is seen of them, how they are built anew, and the sentence for each wrong use."""

import functools
import multiprocessing
import pickle
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset, default_collate

import speedmatrix as sm
from harness.core.own_file import TOLD, Address
from harness.core.recipe import Recipe
from harness.core.workload import Built
from harness.own import inference, items
from harness.own.items import Indexed, Items, Kept, drawn_from
from harness.own.job import Job, OwnOption
from harness.own.parts import _is_active
from tests.own.trainings import Augmented, Derived, Named, Net, Pictures, Ragged, named_loss, sgd


def a_job(**changes: Any) -> Job:
    usual = {"model": Net, "dataset": Pictures(), "loss": nn.CrossEntropyLoss(), "optimizer": sgd, "batch": 8}
    return sm.job(**(usual | changes))


# What is seen of a job.


def test_traits_are_seen_and_not_told() -> None:
    facts = a_job().facts
    assert (facts.items, facts.batch, facts.steps, facts.least_samples, facts.seeded) == (96, 8, 12, 1, False)
    assert set(facts.traits) == {"convolutions", "relu", "in_memory_data", "capturable"}
    assert facts.parameters == sum(one.numel() for one in Net().parameters())
    # A convolution of 36 places, 4 channels and 9 weights, and a matrix of 144 by 3; the first layer has no gradient
    # of its input. Each of a multiplication and an addition.
    assert facts.operations == 2 * (2 * 36 * 4 * 9 + 3 * 144 * 3)
    assert facts.fixed == {}


def test_a_batch_norm_needs_two_samples_and_other_layers_have_no_traits() -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.BatchNorm1d(3))

    facts = a_job(model=model).facts
    assert facts.least_samples == 2
    assert not {"convolutions", "relu"} & set(facts.traits)


class Shortcut(Net):
    """Its shortcut needs what the activation would overwrite."""

    def forward(self, pictures: Tensor) -> Tensor:
        first = self.layers[0](pictures)
        return self.layers[2:](first + self.layers[1](first))


def test_activations_whose_input_is_needed_again_are_not_overwritten() -> None:
    facts = a_job(model=Shortcut).facts
    assert "relu" not in facts.traits
    assert any(note.what == "activations" for note in facts.notes)


class Reading(Net):
    """Asks for a value in the middle of the step."""

    def forward(self, pictures: Tensor) -> Tensor:
        return super().forward(pictures) * (2.0 if pictures.sum().item() > 0 else 1.0)


def test_a_model_that_reads_back_is_not_captured() -> None:
    assert "capturable" not in a_job(model=Reading).facts.traits


def test_random_items_are_made_to_depend_on_their_index() -> None:
    job = a_job(dataset=Augmented())
    assert job.facts.seeded
    assert "in_memory_data" not in job.facts.traits  # kept items would be the same in every epoch
    items = built(job, Recipe())
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = items[5][0]
    assert torch.equal(first, items[5][0])
    assert not torch.equal(first, items[6][0])
    assert torch.equal(torch.get_rng_state(), before)


class OfAll(Pictures):
    """Draws from each of the generators that are known."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        drawn = [float(torch.rand(())), random.random(), np.random.rand(), np.random.randn()]  # noqa: NPY002
        return torch.tensor(drawn), index % 3


def _now_drawn() -> list[float]:
    return [float(torch.rand(())), random.random(), np.random.rand()]  # noqa: NPY002


def _seed_all() -> None:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002


@pytest.mark.parametrize("collate", [None, torch.utils.data.default_collate], ids=["items", "whole batches"])
def test_seeds_of_a_batch_cost_microseconds_and_leave_random_numbers_as_they_were(
    monkeypatch: pytest.MonkeyPatch, collate: Any
) -> None:
    saved: list[object] = []
    plain = random.getstate
    monkeypatch.setattr(random, "getstate", lambda: [saved.append(1), plain()][1])
    items = built(a_job(dataset=OfAll(), model=lambda: nn.Linear(4, 3), collate=collate), Recipe())
    singles = torch.stack([items[one][0] for one in range(8)])
    loading = iter(DataLoader(items, batch_sampler=[list(range(8))], collate_fn=list))  # it draws a number at first
    _seed_all()
    expected = _now_drawn()
    _seed_all()
    saved.clear()
    batch = next(loading)
    assert len(saved) == 1, "once for the batch"
    assert torch.equal(batch[0] if collate else torch.stack([one for one, _ in batch]), singles)
    assert len(singles.unique()) == singles.numel()
    assert _now_drawn() == expected


def test_seeds_that_take_a_good_part_of_a_step_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(data: Pictures) -> list[str]:
        return [note.found for note in a_job(dataset=data).facts.notes if note.what == "seeds"]

    assert not told(SlowNoise())
    monkeypatch.setattr(inference, "seed_all", lambda _seed: time.sleep(0.002))
    (words,) = told(SlowNoise())
    assert "% of a step" in words


class SlowNoise(Augmented):
    """Takes 5 ms an item."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(0.005)
        return super().__getitem__(index)


class Unseeded(Pictures):
    """Draws from a generator of its own."""

    generator = torch.Generator()

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.randn(1, 8, 8, generator=self.generator), index % 3


def masked(items: list[Any]) -> tuple[Tensor, Tensor]:
    """A collate function that draws, as those of masked language models do."""
    inputs, targets = default_collate(items)
    return inputs * (torch.rand(inputs.shape) > 0.15), targets


def test_a_collate_function_that_draws_depends_on_the_batch_alone() -> None:
    job = a_job(collate=masked)
    assert job.facts.seeded
    assert any("draws at random" in note.found for note in job.facts.notes)
    items = built(job, Recipe())
    torch.manual_seed(1)
    first = items.__getitems__([3, 5])
    torch.manual_seed(2)
    assert torch.equal(first[0], items.__getitems__([3, 5])[0])
    assert not torch.equal(first[0][1:], items.__getitems__([5, 3])[0][:1])
    assert not a_job(collate=default_collate).facts.seeded


def drawing() -> OwnOption:
    return sm.option("drawing", change=functools.partial(Job.replace, dataset=Augmented(960)), active=bool)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"collate": masked}, [30, 50, 30]), ({"options": [drawing()]}, [30, 50])],
    ids=["a collate function that draws", "an option that draws"],
)
def test_items_that_are_kept_in_memory_are_seeded_as_those_that_are_read(
    changes: dict[str, Any], expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one arm is spared what the other pays for seeds, and its batches are drawn otherwise."""
    job = a_job(dataset=Pictures(960), **changes)
    assert job.facts.seeded
    assert "in_memory_data" in job.facts.traits
    arms = [built(job, Recipe(in_memory_data=kept)) for kept in (False, True)]
    assert isinstance(arms[1].dataset, Kept)
    seeds, plain = list[int](), items.seed_all

    def noted(seed: int) -> None:
        seeds.append(seed)
        plain(seed)

    monkeypatch.setattr(items, "seed_all", noted)
    batches = list[Any]()
    for number, arm in enumerate(arms):
        seeds.clear()
        torch.manual_seed(number)
        batches.append(arm.__getitems__([3, 5]))
        assert seeds == expected
    if "collate" in changes:
        assert all(map(torch.equal, *batches))


def test_random_items_that_no_seed_reaches_are_told() -> None:
    facts = a_job(dataset=Unseeded()).facts
    assert not facts.seeded
    assert any("generator of their own" in note.found for note in facts.notes)


def test_tensors_can_be_fetched_by_the_batch_and_others_kept_in_memory() -> None:
    tensors = TensorDataset(torch.randn(96, 1, 8, 8), torch.arange(96) % 3)
    job = a_job(dataset=tensors)
    assert set(job.facts.traits) >= {"batched_fetch"}
    whole = built(job, Recipe(batched_fetch=True))
    assert isinstance(whole, Indexed)
    inputs, targets = whole.__getitems__([3, 5])
    assert torch.equal(inputs, tensors.tensors[0][[3, 5]])
    assert targets.tolist() == [0, 2]
    kept = built(a_job(), Recipe(in_memory_data=True))
    assert isinstance(kept.dataset, Kept)
    assert all(torch.equal(kept[at][0], Pictures()[at][0]) for at in range(96))


class Scaled(TensorDataset):
    """Tensors with work of its own on each item."""

    def __getitem__(self, index: int) -> Any:
        picture, label = super().__getitem__(index)
        return 2 * picture, label


def test_work_on_the_items_of_tensors_is_not_left_out() -> None:
    job = a_job(dataset=Scaled(torch.ones(96, 1, 8, 8), torch.arange(96) % 3))
    assert "batched_fetch" not in job.facts.traits
    assert "in_memory_data" in job.facts.traits


class Batched(Pictures):
    """The same, several at once."""

    def __getitems__(self, places: list[int]) -> list[tuple[Tensor, int]]:
        return [self[one] for one in places]


class Otherwise(Pictures):
    """Its batches hold no labels."""

    def __getitems__(self, places: list[int]) -> list[Tensor]:
        return [self[one][0] for one in places]


def test_what_fetches_whole_batches_does_so_today() -> None:
    job = a_job(dataset=Batched())
    facts = job.facts
    assert set(facts.traits) >= {"batched_fetch", "in_memory_data"}
    assert "batched_fetch" in facts.original
    for recipe in (Recipe(batched_fetch=True), Recipe(batched_fetch=True, in_memory_data=True)):
        whole = built(job, recipe)
        assert isinstance(whole, Indexed)
        assert isinstance(whole.dataset, Kept) == recipe.in_memory_data
        inputs, targets = whole.__getitems__([3, 5])
        assert torch.equal(inputs, torch.stack([Pictures()[at][0] for at in (3, 5)]))
        assert targets.tolist() == [0, 2]
    assert "batched_fetch" not in a_job().facts.original
    tensors = TensorDataset(torch.randn(96, 1, 8, 8), torch.arange(96) % 3)
    assert "batched_fetch" not in a_job(dataset=tensors).facts.original  # PyTorch reads its items one by one


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [(Subset(Augmented(), range(90)), "a seed for each item"), (Otherwise(), "and single items")],
    ids=["seeded", "other batches"],
)
def test_batches_that_cannot_stand_for_single_items_are_not_fetched_whole(dataset: Any, reason: str) -> None:
    facts = a_job(dataset=dataset).facts
    assert "batched_fetch" not in {*facts.traits, *facts.original}
    assert any("`original` too" in note.means and reason in note.means for note in facts.notes)


class SeldomFlipped(Pictures):
    """Changes an item in one of a thousand cases."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture, label = super().__getitem__(index)
        return (picture.flip(-1) if random.random() < 0.001 else picture), label


def test_items_that_are_seldom_changed_are_drawn_at_random_all_the_same() -> None:
    """Kept in memory, they would never be changed again."""
    facts = a_job(dataset=SeldomFlipped()).facts
    assert facts.seeded
    assert "in_memory_data" not in facts.traits
    assert any("drawn at random" in one.found for one in facts.notes)


class Sleeping(Pictures):
    """Takes 2 ms an item, and 50 ms more before the very first, as where a file is opened."""

    opened = False

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(0.002 if self.opened else 0.05)
        self.opened = True
        return super().__getitem__(index)


class Keeping(Sleeping):
    """Keeps what was read."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.kept: dict[int, tuple[Tensor, int]] = {}

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index not in self.kept:
            self.kept[index] = super().__getitem__(index)
        return self.kept[index]


def test_an_epoch_is_the_whole_set_where_items_that_come_again_would_be_cheaper() -> None:
    facts = a_job(dataset=Keeping(3200)).facts
    assert facts.epoch_steps == facts.steps == 400
    (note,) = [note for note in facts.notes if note.what == "reading again"]
    assert "keeps items" in note.found
    for plain in (Sleeping(3200), Pictures(32_000)):
        facts = a_job(dataset=plain).facts
        assert facts.epoch_steps < facts.steps / 2
        assert not [note for note in facts.notes if note.what == "reading again"]


class Interrupted(Keeping):
    """One reading of each fifteen takes 30 ms more, as where another process has the core."""

    readings = 0

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.readings += 1
        time.sleep(0.03 * (self.readings % 15 == 0))
        return super().__getitem__(index)


def test_a_busy_machine_hides_no_data_set_that_keeps_items() -> None:
    assert sum(a_job(dataset=Interrupted(3200)).facts.keeps_items for _ in range(5)) >= 4


class KeptOnDisk(Sleeping):
    """Keeps what was read in a folder, as a cache does that all processes share."""

    def __init__(self, count: int, folder: Path) -> None:
        super().__init__(count)
        self.folder = folder

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        kept = self.folder / str(index)
        if not kept.exists():
            kept.write_bytes(pickle.dumps(super().__getitem__(index)))
        found: tuple[Tensor, int] = pickle.loads(kept.read_bytes())  # noqa: S301  our own
        return found


def test_a_cache_that_all_processes_share_is_filled_before_anything_is_timed(tmp_path: Path) -> None:
    """Else whoever reads an item first pays for all others: a copy of the reference read twice as fast."""
    job = a_job(dataset=KeptOnDisk(3200, tmp_path))
    facts = job.facts
    assert (facts.keeps_items, facts.kept_outside) == (False, True)
    assert facts.epoch_steps < facts.steps / 2
    (note,) = [note for note in facts.notes if note.what == "reading again"]
    assert "cache on the disk" in note.found
    every = Items(job.dataset, facts.batch * facts.epoch_steps, built(job, Recipe(start_method="spawn")).shape,
                  seeded=False, file=None)  # fmt: skip
    assert {every.place(one) for one in range(len(every))} <= {int(one.name) for one in tmp_path.iterdir()}
    assert not a_job(dataset=Keeping(3200)).facts.kept_outside


@pytest.mark.parametrize(
    ("count", "epoch_s", "shuffle"), [(3200, 1.0, False), (807, 100.0, True)], ids=["in order", "whole"]
)
def test_a_shared_cache_is_filled_at_the_places_that_arms_read(
    count: int, epoch_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shuffle: bool
) -> None:
    """One item after another, as the loader takes them; of a whole epoch all but an incomplete batch."""
    monkeypatch.setattr(inference, "EPOCH_S", epoch_s)
    loader = DataLoader(KeptOnDisk(count, tmp_path), batch_size=8, shuffle=shuffle)
    facts = a_job(dataset=loader, batch=None).facts
    assert facts.kept_outside
    assert facts.in_order is not shuffle
    assert facts.all_items is shuffle
    assert set(range(8 * facts.epoch_steps)) <= {int(one.name) for one in tmp_path.iterdir()}


def test_a_shared_cache_that_takes_long_to_fill_is_to_be_filled_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "FILLED_S", 0.01)
    with pytest.raises(sm.Mistake, match="read the data set once, so that its cache is full"):
        _ = a_job(dataset=KeptOnDisk(3200, tmp_path)).facts


def test_what_the_operating_system_keeps_is_not_taken_for_the_data_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "_blocks_read", iter(range(10_000)).__next__)  # each item comes from the disk
    facts = a_job(dataset=Keeping(3200)).facts
    assert facts.epoch_steps < facts.steps / 2
    assert any(note.what == "reading again" and "lay on the disk" in note.found for note in facts.notes)


def test_what_a_loader_says_is_taken() -> None:
    loader = DataLoader(Pictures(), batch_size=16, num_workers=1, pin_memory=False, persistent_workers=True)
    facts = a_job(dataset=loader, batch=None).facts
    assert facts.batch == 16
    assert {"workers=1", "persistent_workers", "set_to_none"} <= facts.original.keys()
    assert not any("prefetch_factor" in name for name in facts.original)
    loader = DataLoader(Pictures(), batch_size=16, num_workers=1, prefetch_factor=3)
    assert "prefetch_factor=3" in a_job(dataset=loader, batch=None).facts.original


def test_workers_begin_as_the_file_says_where_the_loader_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda **_: "spawn")
    loader = DataLoader(Pictures(), batch_size=16, num_workers=1)
    assert "start_method=spawn" in a_job(dataset=loader, batch=None).facts.original


def test_the_test_of_an_option_that_cannot_look_at_the_usual_model_ends_no_arm() -> None:
    head = sm.option("head", change=lambda job: job, active=lambda built: built.model.head is not None)
    seen = Built(dataset=Pictures(), model=nn.Linear(2, 2), loss=nn.Identity(), device_stage=None, batch=None)
    assert not _is_active(head, seen, asked=False)
    with pytest.raises(AttributeError):
        _is_active(head, seen, asked=True)


def test_an_optimizer_without_kernels_leaves_those_options_out() -> None:
    class Plain(torch.optim.Optimizer):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {"lr": 0.1})

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            """Trains nothing."""

    facts = a_job(optimizer=Plain).facts
    assert "optimizer_kernel" in facts.fixed
    assert "foreach_optimizer" not in facts.original


def test_a_kernel_that_the_optimizer_was_made_with_is_what_the_user_has_today() -> None:
    fused = a_job(optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.1, fused=True)).facts
    assert "fused_optimizer" in fused.original
    assert "foreach_optimizer" not in fused.original
    loop = a_job(optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.1, foreach=False)).facts
    assert not {"fused_optimizer", "foreach_optimizer"} & loop.original.keys()


@pytest.mark.parametrize(
    "optimizer", [lambda: torch.optim.SGD([], lr=0.1), lambda model: torch.optim.SGD(model.weights(), lr=0.1)]
)
def test_an_optimizer_that_cannot_be_built_is_one_sentence(optimizer: Any) -> None:
    with pytest.raises(sm.Mistake, match="The optimizer cannot be built"):
        _ = a_job(optimizer=optimizer).facts


# Two jobs in one comparison, and options of the user's own, share what every arm is given alike.


def beside(first: Job, second: Job) -> inference.Facts:
    return inference.look(first, None, {"other": second})


def test_the_epoch_of_two_jobs_is_the_whole_set_where_either_keeps_items() -> None:
    plain, keeping = a_job(dataset=Sleeping(3200)), a_job(dataset=Keeping(3200))
    for facts in (beside(plain, keeping), beside(keeping, plain)):
        assert facts.keeps_items
        assert facts.epoch_steps == 400


def test_items_of_two_jobs_are_seeded_where_either_draws_them() -> None:
    tensors = TensorDataset(torch.randn(96, 1, 8, 8), torch.arange(96) % 3)
    for first in (a_job(), a_job(dataset=tensors)):
        facts = beside(first, a_job(dataset=Augmented()))
        assert facts.seeded
        assert "batched_fetch" not in {*facts.traits, *facts.original}


def test_two_jobs_fetch_batches_as_each_data_set_does() -> None:
    facts = beside(a_job(), a_job(dataset=Batched()))
    assert facts.whole_batches
    assert "batched_fetch" not in beside(a_job(dataset=Batched()), a_job()).traits, "it has that already"
    with pytest.raises(sm.Mistake, match=r"another __getitems__, which every arm is given alike.*--only batched_fetch"):
        beside(a_job(dataset=Augmented()), a_job(dataset=Subset(Augmented(), range(90))))


def fused(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, fused=True)


def loaded(**settings: Any) -> DataLoader[Any]:
    return DataLoader(Pictures(), batch_size=8, **settings)


SET_ALIKE: dict[str, tuple[dict[str, Any], str]] = {
    "fused": ({"optimizer": fused}, r"fused True in place of None.*\(--only fused_optimizer\)"),
    "workers": ({"dataset": loaded(num_workers=2)}, r"num_workers 2 in place of 0.*\(--only workers=2\)"),
    "pinning": ({"dataset": loaded(pin_memory=True)}, r"pin_memory True in place of False.*\(--only pin_memory\)"),
    "clipping": ({"clip_norm": 1.0}, r"clip_norm 1\.0 in place of None"),
}


@pytest.mark.parametrize("what", SET_ALIKE)
def test_what_every_arm_is_given_alike_is_no_difference_of_two_jobs(what: str) -> None:
    changes, words = SET_ALIKE[what]
    with pytest.raises(sm.Mistake, match=f"other has {words}") as told:
        beside(a_job(), a_job(**changes))
    assert str(told.value).count("\n") == 0
    option = sm.option("mine", change=lambda job: job.replace(**changes), active=bool)
    facts = a_job(options=[option]).facts
    assert re.search(f"mine has {words}", facts.fixed["mine"])


def test_an_option_that_changes_the_data_set_is_looked_at() -> None:
    keeping, drawing, wrong = (
        sm.option(name, change=functools.partial(Job.replace, dataset=data), active=bool)
        for name, data in (("keeping", Keeping(3200)), ("drawing", Augmented(3200)), ("wrong", Ragged()))
    )
    sleeping = Sleeping(3200)
    assert not a_job(dataset=sleeping).facts.keeps_items
    facts = a_job(dataset=sleeping, options=[keeping, drawing, wrong]).facts
    assert facts.keeps_items
    assert facts.seeded
    assert facts.epoch_steps == 400
    assert "wrong" not in facts.fixed, "its arm tells what is wrong with it"


def test_what_cannot_be_pickled_is_not_spawned() -> None:
    class Local(Pictures):
        """Of a function, where nobody can import it."""

    assert "start_method" in a_job(dataset=Local()).facts.fixed
    assert "start_method" not in a_job().facts.fixed


def test_facts_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    told = str(a_job())
    for words in ("parameters", "items: the same", "in memory", "score: none given"):
        assert words in told


# How a job is built anew.


def built(job: Job, recipe: Recipe) -> Any:
    return parts_of(job)(recipe)


def parts_of(job: Job) -> Callable[[Recipe], Any]:
    from harness.core.workload import Size
    from harness.own.parts import Builder

    facts = job.facts
    size = Size(
        batch=8,
        epoch_steps=12,
        evaluation_items=0,
        data_bytes=0,
        shape={},
        original_epoch_steps=12,
        seeded_items=facts.seeded,
        all_items=facts.steps == 12,
    )
    parts = Builder(job=job, others={}, file=Path(__file__)).parts()
    return lambda recipe: parts.dataset(Path(), size, recipe)


def test_arms_of_two_batches_read_the_same_items() -> None:
    """The larger one leaves out fewer than a batch of its own, and the smaller one many batches of its own."""
    from harness.core.workload import Size
    from harness.own.parts import Builder

    usual = Size(batch=32, epoch_steps=40, evaluation_items=0, data_bytes=0, shape={}, original_epoch_steps=46)
    parts = Builder(job=a_job(dataset=Pictures(1500)), others={}, file=Path(__file__)).parts()
    several = [parts.dataset(Path(), size, Recipe()) for size in (usual, replace(usual, batch=256, epoch_steps=5))]
    ours, theirs = ([one.place(index) for index in range(1280)] for one in several)
    assert ours == theirs
    assert max(ours) > 1400, "from all over the data set"


def test_of_a_longer_data_set_than_the_references_not_only_the_first_items_are_read() -> None:
    from harness.core.workload import Size
    from harness.own.parts import Builder

    size = Size(
        batch=8, epoch_steps=12, evaluation_items=0, data_bytes=0, shape={"items": 96}, original_epoch_steps=12,
        all_items=True,
    )  # fmt: skip
    job, longer = a_job(dataset=Pictures(96)), a_job(dataset=Pictures(960))
    for one, last in ((job, 95), (longer, 950)):
        found = (
            Builder(job=one, others={}, file=Path(__file__)).parts().dataset(Path(), size, Recipe(start_method="spawn"))
        )
        assert found.place(95) == last


def datasets_of(counts: tuple[int, int], **epoch: Any) -> list[Any]:
    """What two jobs with data sets of so many items hand over to the loader in one comparison."""
    first, second = (a_job(dataset=Pictures(count), score=lambda _: 0.5) for count in counts)
    workload = first.as_workload(Address(Path(__file__), ("job", "other")), [second])
    size, parts = replace(workload.sizes["quick"], **epoch), workload.parts()
    assert workload.lesson is not None
    assert workload.lesson.epoch_steps == min(counts) // 8
    return [parts.dataset(Path(), size, recipe) for recipe in (Recipe(), Recipe(own=(("other", True),)))]


@pytest.mark.parametrize(("counts", "kind"), [((96, 100), Items), ((100, 96), Items), ((96, 96), Pictures)])
def test_two_data_sets_stand_in_the_loader_as_they_are_only_where_they_are_of_one_length(
    counts: tuple[int, int], kind: type[Any]
) -> None:
    """Else one arm would pay for a call of ours around each item."""
    assert [type(one) for one in datasets_of(counts)] == [kind, kind]


def test_an_epoch_of_a_lesson_fits_into_the_shorter_of_two_data_sets() -> None:
    assert [len(one) for one in datasets_of((96, 90), epoch_steps=90 // 8)] == [88, 88]


NET = Net()


@functools.cache
def kept() -> nn.Module:
    return Net()


@pytest.mark.parametrize(
    "model", [Net, NET, lambda: NET, kept, lambda: nn.Sequential(NET, nn.Linear(3, 3))],
    ids=["factory", "object", "lambda", "cached", "in part"],
)  # fmt: skip
def test_models_of_one_seed_are_alike_and_of_another_differ(model: Any) -> None:
    from harness.own.parts import fresh_model

    def weights(seed: int) -> list[Tensor]:
        torch.manual_seed(seed)
        return [one.detach().clone() for one in fresh_model(model)[0].parameters()]

    one, again, other = weights(0), weights(0), weights(1)
    assert all(map(torch.equal, one, again))
    assert not any(map(torch.equal, one, other))


@pytest.mark.parametrize("model", [lambda: NET, kept], ids=["lambda", "cached"])
def test_a_look_trains_no_network_of_the_users(model: Any) -> None:
    before = [one.detach().clone() for one in model().parameters()]
    notes = {one.what: one.found for one in a_job(model=model).facts.notes}
    assert "a copy in every arm" in notes["model"]
    assert all(map(torch.equal, before, model().parameters()))
    assert {one.what: one.found for one in a_job().facts.notes}["model"].endswith("made anew from a seed in every arm")


def test_in_an_arm_the_weights_that_were_copied_leave_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.own.parts import fresh_model

    net, moved = Net(), list[int]()
    monkeypatch.setattr(net, "cpu", lambda: moved.append(1))
    fresh_model(net)
    assert not moved, "they are the user's own"
    monkeypatch.setenv(TOLD, "{}")
    fresh_model(net)
    assert len(moved) == 1


def test_an_optimizer_is_made_again_for_the_copy_with_its_groups_and_another_kernel() -> None:
    from harness.own.parts import fresh_model, of_copy, with_kernel

    model = Net()
    groups = [{"params": [model.layers[0].weight], "lr": 0.5}, {"params": [model.layers[4].bias]}]
    given = torch.optim.AdamW(groups, lr=0.1, weight_decay=0.3)
    copy, *_ = fresh_model(model)
    made = with_kernel(of_copy(given, model, copy), {"foreach": True, "fused": False})
    assert [group["lr"] for group in made.param_groups] == [0.5, 0.1]
    assert made.param_groups[0]["params"][0] is copy.layers[0].weight
    assert made.param_groups[1]["weight_decay"] == 0.3
    assert all(group["foreach"] and not group["fused"] for group in made.param_groups)
    assert isinstance(made, torch.optim.AdamW)


def test_of_an_optimizer_that_accelerate_has_prepared_the_one_within_is_taken() -> None:
    from harness.own.parts import fresh_model, optimizer_of

    model = Net()
    prepared = type("AcceleratedOptimizer", (), {"__module__": "accelerate.optimizer"})()
    prepared.optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    copy, *_ = fresh_model(model)
    made = optimizer_of(a_job(model=model, optimizer=prepared), copy, list(copy.parameters()))
    assert (type(made), made.param_groups[0]["lr"]) == (torch.optim.SGD, 0.5)
    assert made.param_groups[0]["params"][0] is copy.layers[0].weight


def test_a_factory_is_called_as_its_decorator_has_it() -> None:
    def sized(width: int) -> nn.Module:
        return Sized(width)

    made = functools.wraps(sized)(lambda: sized(3))
    assert items.called(made).width == 3


def cropped(items: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """What a collate function does whose items have sizes of their own."""
    return torch.stack([picture[:, :8] for picture, _ in items]), torch.tensor([label for _, label in items])


@pytest.mark.parametrize("ragged", [False, True])
def test_items_with_shapes_of_their_own_are_told(*, ragged: bool) -> None:
    job = a_job(dataset=Ragged(), collate=cropped) if ragged else a_job()
    facts = job.facts
    assert ("varying_shapes" in facts.traits) is ragged
    assert any(one.what == "shapes" for one in facts.notes) is ragged


class OfThirtyTwo(Net):
    """Takes whole batches alone."""

    def forward(self, pictures: Tensor) -> Tensor:
        return super().forward(pictures.view(32, 1, 8, 8))


def test_a_model_that_takes_whole_batches_alone_is_looked_at_on_one() -> None:
    facts = a_job(model=OfThirtyTwo, batch=32).facts
    assert "relu" in facts.traits
    assert [one.what for one in facts.notes].count("model") == 1
    assert facts.operations == a_job().facts.operations


def test_items_of_several_shapes_can_be_trained_on_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference.Looking, "_places", lambda _self, count: list(range(count)))

    def model() -> nn.Module:
        return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4, 3))

    facts = a_job(dataset=Ragged(), model=model, batch=1).facts
    assert "varying_shapes" in facts.traits
    assert "batch_scale" in facts.fixed


def test_items_are_taken_from_all_over_a_large_set() -> None:
    job = a_job(dataset=Pictures(960))
    items = built(job, Recipe())
    assert len(items) == 96
    assert torch.equal(items[95][0], Pictures(960)[950][0])


@pytest.mark.parametrize(("items", "count"), [(960, 96), (150, 80), (239, 80), (96, 96), (3, 2)])
def test_an_epoch_is_spread_over_the_set_and_each_replicate_has_one_of_its_own(items: int, count: int) -> None:
    """A set of two halves that cost differently is timed as what it costs on average, not as its first half."""
    shape = built(a_job(), Recipe(start_method="spawn")).shape
    draws = [Items(range(items), count, shape, seeded=False, file=None, draw=draw) for draw in range(40)]
    places = [[one.place(index) for index in range(count)] for one in draws]
    for one in places:
        assert sorted(set(one)) == one, "each item once"
        assert 0 <= one[0] <= one[-1] < items
        assert sum(place < items / 2 for place in one) == pytest.approx(count / 2, abs=1)
    if items == count:
        assert len(set(map(tuple, places))) == 1
    else:
        assert len(set(map(tuple, places[:4]))) > 1
        assert {place for one in places for place in one} == set(range(items))


def test_a_set_stands_in_the_loader_as_it_is_only_where_an_epoch_is_all_of_it() -> None:
    assert isinstance(built(a_job(), Recipe()), Pictures), "96 items and an epoch of 12 batches of 8"
    assert isinstance(built(a_job(dataset=Pictures(103)), Recipe()), Pictures), "a loader drops seven items too"
    assert isinstance(built(a_job(dataset=Pictures(104)), Recipe()), Items)


@pytest.mark.parametrize("recipe", [Recipe(in_memory_data=True), Recipe(start_method="spawn")])
def test_every_arm_has_the_items_of_the_set_as_it_is_where_an_incomplete_batch_is_dropped(recipe: Recipe) -> None:
    plain, other = built(a_job(dataset=Pictures(103)), Recipe()), built(a_job(dataset=Pictures(103)), recipe)
    assert all(torch.equal(plain[index][0], other[index][0]) for index in range(96))


def test_a_set_that_has_fewer_items_than_an_epoch_is_told() -> None:
    with pytest.raises(sm.Mistake, match="has 90 items, and an epoch here takes 96; give every job and option"):
        built(a_job(dataset=Pictures(90)), Recipe())


def test_a_data_set_reaches_another_process_after_its_file_was_run() -> None:
    items = Items(Pictures(), 8, built(a_job(), Recipe(start_method="spawn")).shape, seeded=True, file=None)
    again = pickle.loads(pickle.dumps(items))  # noqa: S301  our own
    assert torch.equal(again[3][0], items[3][0])


def test_dictionaries_are_trained_on_through_a_training_step() -> None:
    facts = sm.job(model=Net, dataset=Named(), optimizer=sgd, batch=8, training_step=named_loss).facts
    assert "collate" in facts.fixed
    assert "in_memory_data" in facts.traits


# Wrong use, each with a sentence.


class Streaming(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield torch.zeros(1)


class Endless:
    def __getitem__(self, index: int) -> Any:
        return torch.zeros(1)


class Texts(Pictures):
    def __getitem__(self, index: int) -> Any:
        return "words", index


class Objects(Pictures):
    def __getitem__(self, index: int) -> Any:
        return object(), index


class Sized(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width


class OnCuda(Net):
    def __init__(self) -> None:
        super().__init__()
        self.cuda()


def frozen() -> nn.Module:
    return Net().requires_grad_(requires_grad=False)


def detached(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, targets).detach()


def infinite(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, targets) * torch.inf


def going_backward(model: nn.Module, batch: Any) -> Tensor:
    loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    return loss


def of_another_model(_parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(Net().parameters(), lr=0.1)


def closing(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.LBFGS(parameters)


class Asserting(torch.optim.SGD):
    """As SAM is usually written."""

    def step(self, closure: Any = None) -> None:
        assert closure is not None, "requires a closure"


class Mistyped(torch.optim.SGD):
    def step(self, closure: Any = None) -> None:  # noqa: ARG002
        len(3)  # type: ignore[arg-type]


class Sparse(nn.Module):
    """An embedding with sparse gradients before an activation that may be overwritten."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 8, sparse=True)
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, words: Tensor) -> Tensor:
        return self.layers(self.embedding(words))


WORDS = TensorDataset(torch.arange(72) % 9, torch.arange(72) % 3)


class Broken(Pictures):
    """Cannot be read from one place on."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def __getitem__(self, index: int) -> Any:
        if index >= self.first:
            raise OSError(f"no file {index}.png")
        return super().__getitem__(index)


class Delicate(Net):
    """Fails where its activation has overwritten what it is given."""

    def forward(self, pictures: Tensor) -> Tensor:
        features = self.layers[0](pictures)
        before = features.clone()
        found = self.layers[1](features)
        if not torch.equal(before, features):
            raise ValueError("its features are gone")
        return self.layers[2:](found)


def test_a_model_that_fails_once_its_activations_overwrite_keeps_them() -> None:
    assert "relu" not in a_job(model=Delicate).facts.traits


def test_sparse_gradients_are_compared_too() -> None:
    assert "relu" in a_job(model=Sparse, dataset=WORDS).facts.traits


def failing(samples: list[Any]) -> Any:
    raise KeyError("label")


def of_shape(side: int, targets: Tensor) -> TensorDataset:
    return TensorDataset(torch.zeros(9, 1, side, side), targets)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no optimizer": ({"optimizer": None}, "needs optimizer; give optimizer="),
    "items of several shapes": ({"dataset": Ragged()}, r"Items differ in shape .*give collate="),
    "items that are texts": ({"dataset": Texts()}, "A batch holds a str.*tensors and numbers"),
    "items that are objects": ({"dataset": Objects()}, "No batch can be made of items that are .*object"),
    "a stream": ({"dataset": Streaming()}, r"Streaming cannot be indexed.*watch\(loader\)"),
    "no length": ({"dataset": Endless()}, "Endless has no length; define __len__"),
    "no items": ({"dataset": Pictures(0)}, "The data set is empty"),
    "too large a batch": ({"batch": 97}, "A batch of 97 is larger than the data set of 96 items"),
    "no batch": ({"batch": None}, "The batch is None; give batch="),
    "a loader without batches": (
        {"dataset": DataLoader(Pictures(), batch_size=None), "batch": None},
        r"batch_size=None.*batch=1 and collate=lambda items: items\[0\], or put .*watch\(loader\)",
    ),
    "a batch of nothing": ({"batch": 0}, "The batch is 0; give batch="),
    "dictionaries": ({"dataset": Named()}, r"no pair of inputs and targets; give training_step="),
    "a model that is none": ({"model": lambda: "net"}, "The model is of the type str"),
    "a model with arguments": ({"model": Sized}, r"Sized cannot be called without arguments.*write lambda: Sized\("),
    "a model for CUDA": ({"model": OnCuda}, r"asks for CUDA and this machine has no GPU; leave out .cuda\(\)"),
    "a model that cannot be copied": ({"model": Derived()}, r"cannot be copied .*Derived, or lambda: Derived\("),
    "a frozen model": ({"model": frozen}, "no parameter that could be trained; leave requires_grad on"),
    "other shapes": ({"dataset": of_shape(9, torch.zeros(9).long())}, "The model fails on a batch"),
    "targets that do not fit": ({"loss": nn.MSELoss(), "dataset": of_shape(8, torch.zeros(9, 7))}, "The loss fails"),
    "a loss that is none": ({"loss": "cross entropy"}, "The loss is of the type str; give a module or a function"),
    "a loss for each sample": ({"loss": nn.CrossEntropyLoss(reduction="none")}, "no single number; give one with red"),
    "a loss without gradient": ({"loss": detached}, r"The loss has no gradient; leave out detach\(\)"),
    "a step with two values": (
        {"training_step": lambda model, batch: (model(batch[0]).mean(), 1)},
        r"The loss is a tuple and no tensor; let training_step \(or the loss\) return the loss alone, a tensor\.$",
    ),
    "a step with none": ({"training_step": lambda _model, _batch: None}, "The loss is a NoneType and no tensor; let"),
    "a step that goes backward": (
        {"training_step": going_backward},
        r"a second time.*; training_step returns the loss before backward\(\); a step that .* is from_loop\(step",
    ),
    "an infinite loss": ({"loss": infinite}, "not a finite number"),
    "two optimizers": ({"optimizer": [sgd, sgd]}, r"2 optimizers make a step of your own.*from_loop.*watch\(loader\)"),
    "an optimizer by name": ({"optimizer": "adam"}, "The optimizer is of the type str"),
    "an optimizer of other parameters": ({"optimizer": of_another_model}, "trains parameters that are not the model's"),
    "an object for a factory": ({"optimizer": torch.optim.SGD(Net().parameters(), lr=0.1)}, "made for another model"),
    "an optimizer of another object": (
        {"model": Net(), "optimizer": torch.optim.SGD(Net().parameters(), lr=0.1)}, "make both from one model",
    ),
    "a factory that gives none": ({"optimizer": lambda _: None}, "factory made a NoneType"),
    "an optimizer with a closure": ({"optimizer": closing}, "LBFGS wants a closure"),
    "an optimizer that asserts a closure": (
        {"optimizer": lambda some: Asserting(some, lr=0.1)}, "Asserting fails in a step .AssertionError: requires",
    ),
    "an optimizer with a fault": ({"optimizer": lambda some: Mistyped(some, lr=0.1)}, "Mistyped fails .*TypeError"),
    "sparse gradients": (
        {"model": Sparse, "dataset": WORDS, "optimizer": torch.optim.AdamW}, "AdamW fails in a step .*sparse gradients",
    ),
    "a data set that cannot be opened": ({"dataset": lambda: Broken(1 // 0)}, "The data set cannot be read .ZeroDiv"),
    "first items that cannot be read": ({"dataset": Broken(0)}, r"The data set cannot be read \(OSError: no file 0"),
    "later items that cannot be read": ({"dataset": Broken(3)}, r"Item \d+ of the data set cannot .*no file"),
    "a collate function that fails": ({"collate": failing}, "The collate function fails on 8 items .KeyError"),
    "a name with a colon": ({"name": "my:job"}, "is no name for a job"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(WRONG))
def test_wrong_use_is_one_sentence_with_its_remedy(name: str) -> None:
    changes, words = WRONG[name]
    if name == "a model for CUDA" and torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    with pytest.raises(sm.Mistake, match=words) as told:
        _ = a_job(**changes).facts
    assert str(told.value).count("\n") == 0
    assert str(told.value).endswith(".")


def test_an_option_needs_a_name_of_its_own_and_known_numerics() -> None:
    one = functools.partial(sm.option, change=lambda job: job, active=bool)
    with pytest.raises(sm.Mistake, match="'workers' cannot name an option"):
        one("workers")
    with pytest.raises(sm.Mistake, match="no numerics 'wild'"):
        one("mine", numerics="wild")
    with pytest.raises(sm.Mistake, match="Two options are called 'mine'"):
        a_job(options=[one("mine"), one("mine")])
    with pytest.raises(sm.Mistake, match="A job has no 'modell'"):
        a_job().replace(modell=Net)


@pytest.mark.parametrize("word", ["only", "own"])
def test_two_jobs_are_compared_with_each_other_alone(word: str) -> None:
    with pytest.raises(sm.Mistake, match=f"takes no '{word}'; leave that out"):
        sm.compare(a_job(), a_job(), **{word: "workers=1"})


def test_a_score_makes_a_lesson_of_whole_epochs_and_nothing_else_changes() -> None:
    def score(_model: nn.Module) -> float:
        return 0.5

    one = a_job(score=score, better="less")
    assert "score: less is better" in str(one)
    workload = one.as_workload(Address(Path(__file__)))
    assert workload.lesson is not None
    assert (workload.lesson.better, workload.lesson.epoch_steps, workload.lesson.clear) == ("less", 12, None)
    assert a_job().as_workload(Address(Path(__file__))).lesson is None
    with pytest.raises(sm.Mistake, match="A score cannot be better by 'higher'; say better='more' or better='less'"):
        a_job(better="higher")


# Files: what a script defines, and how far it is run.

SCRIPT = """
import speedmatrix as sm
from tests.own.trainings import Net, Pictures, sgd
from torch import nn
job = sm.job(model=Net, dataset=Pictures(), loss=nn.CrossEntropyLoss(), optimizer=sgd, batch=8)
"""
ASKING = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--data', required=True)\n"
DECORATED = """
import functools


def decorated(function):
    return functools.wraps(function)(lambda: function(8))


@decorated
def mine(batch)"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEEDMATRIX_DATA", str(tmp_path / "cache"))


def script(folder: Path, text: str) -> Path:
    path = folder / "my_training.py"
    path.write_text(text)
    return path


def test_a_script_is_left_where_it_would_measure(tmp_path: Path) -> None:
    from harness.catalogue import read_workload

    path = script(tmp_path, f"{SCRIPT}job.measure(budget='1m')\nraise SystemExit(7)\n")
    workload = read_workload(path)
    assert (workload.name, workload.sizes["quick"].batch) == ("my_training", 8)
    assert workload.path == str(path)
    assert workload.source.startswith("own training, my_training.py ")


@pytest.mark.parametrize("stack", ["", "original+"])
def test_gradients_that_add_up_are_a_reference_that_takes_its_batch_in_parts(tmp_path: Path, stack: str) -> None:
    path, reference = script(tmp_path, SCRIPT), f"{stack}gradient_accumulation=4"
    plan = sm.plan(own=path, batch=32, reference=reference, only=["channels_last"], device="cpu")
    assert "channels_last" in [one.label for one in plan.comparisons]
    for one in plan.comparisons:
        assert one.reference.batch == one.treatment.batch == 32
        assert "gradient_accumulation=4" in one.reference.stack.split("+")


def test_a_batch_larger_than_the_timed_epoch_takes_more_of_the_data_set(tmp_path: Path) -> None:
    from harness.catalogue import read_workload

    workload = read_workload(script(tmp_path, SCRIPT.replace("Pictures()", "Pictures(100_000)")))
    assert workload.sizes["quick"].samples < 5000
    assert workload.at("quick", 5000).samples == 5000
    assert workload.at("quick", 99_999).samples == 99_999
    with pytest.raises(sm.Mistake, match="has 100000 samples in an epoch; choose a batch of at most 100000"):
        workload.at("quick", 100_001)


def test_facts_are_kept_until_the_code_changes(tmp_path: Path) -> None:
    from harness.catalogue import read_workload

    path = script(tmp_path, SCRIPT)
    first = read_workload(path)
    (kept,) = (tmp_path / "cache" / "own").glob("*.json")
    kept.write_text(kept.read_text().replace('"parameters": ', '"parameters": 1'))
    assert read_workload(path).parameters == int(f"1{first.parameters}")
    (tmp_path / "beside.py").write_text("changed = True")
    assert read_workload(path).parameters == first.parameters


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("x = 1", "", "defines no WORKLOAD and no job"),
        (f"{SCRIPT}other = job.replace(batch=16)", "", "has several jobs; name one: .*my_training.py:job"),
        (SCRIPT, ":work", "has no job 'work' when it is imported; it has job"),
        (SCRIPT.replace("job = ", "if __name__ == '__main__':\n    job = "), ":job", "has no job 'job' when it is imp"),
        ("import nothing_of_that_name", "", r"ModuleNotFoundError in line 1.*name the interpreter that trains"),
        ("raise SystemExit", "", "ends itself in line 1 when it is imported"),
        (f"{SCRIPT}other = job.replace(batch=16)", ":job,other", "other takes 16 samples a step and the reference 8"),
        (f"{SCRIPT}def score(model): ...", ":score", r"score in my_training\.py cannot be called without arg.*'model'"),
        (
            f"{SCRIPT}def bad():\n    return 1 / 0",
            ":bad",
            r"bad in my_training\.py fails \(ZeroDivisionError in line 7: ",
        ),
        (
            f"{SCRIPT}def end():\n    raise SystemExit(3)",
            ":end",
            r"end in my_training\.py fails \(SystemExit in line 7: 3\); put",
        ),
        (f"{SCRIPT}def main():\n    pass", ":main", "^main in my_training.py gives a NoneType and no job; let it"),
        (f"{ASKING}parser.parse_args()\n", "", r"^my_training\.py asks for arguments in line 4 and .*\(os\.environ"),
        (f"{ASKING}def main():\n    parser.parse_args()\n", ":main", "^my_training.py asks for arguments in line 5 "),
    ],
)
def test_a_script_without_its_job_is_told(tmp_path: Path, text: str, name: str, words: str) -> None:
    from harness.catalogue import read_workload

    path = script(tmp_path, text)
    with pytest.raises(sm.Mistake, match=words):
        read_workload(Path(f"{path}{name}"))


@pytest.mark.parametrize("head", ["def mine(batch=8)", DECORATED], ids=["plain", "decorated"])
def test_a_function_may_make_the_job(tmp_path: Path, head: str) -> None:
    from harness.catalogue import read_workload

    path = script(tmp_path, SCRIPT.replace("batch=8", "batch=batch").replace("job = sm", f"{head}:\n    return sm"))
    assert read_workload(Path(f"{path}:mine")).sizes["quick"].batch == 8


def test_a_function_is_left_where_it_would_measure(tmp_path: Path) -> None:
    from harness.catalogue import read_workload

    text = SCRIPT.replace("job = sm", "def main():\n    job = sm")
    path = script(tmp_path, f"{text}    job.measure(budget='1m')\n    raise SystemExit(7)\n")
    assert read_workload(Path(f"{path}:main")).sizes["quick"].batch == 8


LOOP = """
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(100_000):
    model(torch.zeros(1, 4)).sum().backward()
    optimizer.step()
"""


def test_a_script_is_left_where_it_goes_on_to_train(tmp_path: Path) -> None:
    """As it would in every arm, for hours."""
    from harness.catalogue import read_workload

    assert read_workload(script(tmp_path, f"{SCRIPT}import torch\n{LOOP}")).sizes["quick"].batch == 8
    tried = LOOP.replace("100_000", "3")
    assert read_workload(script(tmp_path, f"import torch\n{tried}{SCRIPT}")).sizes["quick"].batch == 8


@pytest.mark.parametrize(("name", "place"), [("", "in line 7"), (":main", "in line 8")])
def test_a_script_that_trains_before_it_has_a_job_is_told(tmp_path: Path, name: str, place: str) -> None:
    from harness.catalogue import read_workload

    text = f"import torch\n{LOOP}{SCRIPT}"
    if name:
        text = "def main():\n    import torch\n" + LOOP.replace("\n", "\n    ") + "\n"
    with pytest.raises(sm.Mistake, match=rf"trains {place} when it is read.*make the job before that"):
        read_workload(Path(f"{script(tmp_path, text)}{name}"))


def test_a_class_of_a_prompt_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from harness.own.job import address_of

    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    here = type("Here", (Net,), {"__module__": "__main__"})
    with pytest.raises(sm.Mistake, match=r"Here is defined in a notebook.*%%writefile.*cloudpickle"):
        address_of(a_job(model=here))
    main.__file__ = "/somewhere/train.py"
    with pytest.raises(sm.Mistake, match=r"Here is defined in train\.py.*top level.*tune train\.py:FUNCTION"):
        address_of(a_job(model=here))
    with pytest.raises(sm.Mistake, match=r"cannot be sent to other processes.*top level of a script"):
        address_of(a_job(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1)))


def test_a_job_of_no_script_travels_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from harness.catalogue import read_workload
    from harness.own.job import address_of

    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    where = address_of(a_job())
    assert where.suffix == ".job"
    workload = read_workload(where)
    assert (workload.name, workload.parameters) == ("job", a_job().facts.parameters)
    assert isinstance(workload.path, str)
    assert Address(Path(workload.path)).path.is_file()


def test_random_numbers_go_on_as_before() -> None:
    before = torch.get_rng_state()
    with drawn_from(5):
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
