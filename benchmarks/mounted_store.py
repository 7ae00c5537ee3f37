"""Does a mounted bucket with the latencies that others measured train as slowly as the real system did?

python -m benchmarks.mounted_store measure   appends to benchmarks/mounted_store.jsonl, about three minutes
python -m benchmarks.mounted_store table     writes benchmarks/mounted_store.md

The files of imagenet at `quick` are read by real loader workers through a mount whose cache is empty at first, three
epochs long, and then copied. Each worker waits for one file after another, so that as many workers as cores can serve
tell what the eight of the real system would do. Nothing that was measured on the real system goes into it.
"""

import json
import math
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from scipy import stats
from torch.utils.data import DataLoader

from harness.catalogue import read_catalogue
from harness.core.configuration import compose, parse_option
from harness.measure.surroundings import read_environment
from harness.run.data import data_root, ensure_data, serving
from harness.run.sentinel import Sentinel
from workloads.imagenet.data import Images, dataset
from workloads.imagenet.mount import Mounted
from workloads.imagenet.storage import Objects

RECORDS, TABLE = Path(__file__).with_name("mounted_store.jsonl"), Path(__file__).with_name("mounted_store.md")
WORKERS, PREFETCH, EPOCHS, REPETITIONS = 4, 2, 3, 10
THREADS = (1, 32)  # of a copy
# The real system: 8 workers, batches of 256, 51,000 files; its write-up tells the rates of its first three epochs, its
# repository the minutes of a copy on one thread.
ITS_WORKERS, ITS_BATCH, ITS_FILES = 8, 256, 51_000
ITS_STEPS, ITS_DEVICE = 195, 2.9  # of an epoch; steps a second that its GPU allows, as measured from a local disk
TOLD = {"epoch 0": 0.43, "epoch 1": 1.42, "epoch 2": 1.60, "copy on 1": 28.0}


def measure() -> None:
    """Measures and appends a line for every repetition."""
    catalogue = read_catalogue(ledger=False)
    workload = catalogue.workload("imagenet")
    size = workload.sizes["quick"]
    folder = ensure_data(data_root(None), workload, "quick", lambda _: None)
    images = dataset(folder, size, compose(workload, [parse_option("local_copy")], catalogue.optimizations))
    assert isinstance(images, Images)
    assert workload.service
    facts = {"cpu": read_environment("cpu").cpu, "workers": WORKERS, "files": len(images)}
    with ExitStack() as closing:
        sentinel = Sentinel()
        closing.callback(sentinel.close)
        address = closing.enter_context(serving(workload.service, folder, sentinel))
        for _ in range(REPETITIONS):
            line = facts | {"began": datetime.now(UTC).isoformat(timespec="seconds")} | _times(images, address)
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def _times(images: Images, address: str) -> dict[str, float]:
    found: dict[str, float] = {}
    with TemporaryDirectory() as kept:
        mounted = Mounted(Objects(address, 0.0), kept=Path(kept), fills=True)
        loader = DataLoader(
            replace(images, source=mounted), batch_size=16, num_workers=WORKERS, prefetch_factor=PREFETCH,
            persistent_workers=True, shuffle=True,
        )  # fmt: skip
        for epoch in range(EPOCHS):
            began = perf_counter()
            for _ in loader:
                pass
            found[f"epoch {epoch}"] = perf_counter() - began
    for threads in THREADS:
        began = perf_counter()
        with TemporaryDirectory() as copied, ThreadPoolExecutor(threads) as pool:
            mounted.connect()
            for place, encoded in enumerate(pool.map(mounted.fetch, [one.path for one in images.files])):
                (Path(copied) / f"{place}.JPEG").write_bytes(encoded)
        found[f"copy on {threads}"] = perf_counter() - began
    return found


def table(lines: Sequence[dict[str, Any]]) -> str:
    """The page: what the mount gives beside what the real system told."""
    rows = [
        ("epoch 0", "the cache is empty", "it/s", _rate),
        ("epoch 1", "files are looked up again, and kept", "it/s", _rate),
    ]
    rows += [("epoch 2", "the same", "it/s", _rate)]
    rows += [(f"copy on {one}", "of 51,000 files, on so many threads", "min", _minutes) for one in THREADS]
    text = [
        "<!-- Written by `python -m benchmarks.mounted_store table`; changes by hand are lost. -->\n",
        "# A mounted bucket with the latencies of others, held against the real system\n",
        f"{len(lines)} repetitions, {lines[0]['workers']} loader workers on two cores ({lines[0]['cpu']}).\n",
        f"Rates are those of {ITS_WORKERS} such workers and batches of {ITS_BATCH}.\n",
        "| | what happens | here (95 % interval) | the real system |\n|---|---|---|---|",
    ]  # fmt: skip
    for key, words, unit, told in rows:
        middle, low, high = _interval([told(one, key) for one in lines])
        text.append(f"| {key} | {words} | {middle:.2f} {unit} [{low:.2f}, {high:.2f}] | {TOLD.get(key, '-')} |")
    found = {key: _interval([told(one, key) for one in lines])[0] for key, _, _, told in rows}
    paid = [_paid_back(found, threads) for threads in THREADS]
    text += [
        "",
        f"A GPU that takes {ITS_DEVICE} steps a second pays for the copy {paid[0]} if one thread makes it, and ",
    ]
    text[-1] += f"{paid[1]} if {THREADS[1]} do: what differs is waiting."
    return "\n".join(text) + "\n"


def _paid_back(found: dict[str, float], threads: int) -> str:
    """After how many epochs a copy has saved what it took."""
    first, later = (ITS_STEPS / found[key] - ITS_STEPS / ITS_DEVICE for key in ("epoch 0", "epoch 2"))
    left = 60 * found[f"copy on {threads}"] - first
    return "within its first epoch" if left <= 0 else f"after {1 + math.ceil(left / later)} epochs"


def _rate(line: dict[str, Any], key: str) -> float:
    return float(line["files"] / line[key] / line["workers"] * ITS_WORKERS / ITS_BATCH)


def _minutes(line: dict[str, Any], key: str) -> float:
    return float(line[key] / line["files"] * ITS_FILES / 60)


def _interval(values: Sequence[float]) -> tuple[float, float, float]:
    logs = [math.log(one) for one in values]
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return math.exp(fmean(logs)), math.exp(fmean(logs) - half), math.exp(fmean(logs) + half)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure()
    else:
        TABLE.write_text(
            table([json.loads(one) for one in RECORDS.read_text(encoding="utf-8").splitlines()]), encoding="utf-8"
        )
