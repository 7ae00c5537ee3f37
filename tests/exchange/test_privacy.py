"""What is passed on names no folder, user or host, and still says where in a package something failed."""

import json
import string
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.core.records import Lost
from harness.exchange.placing import Cleaner, clean_record, private_words, relative
from harness.store import MEASUREMENTS
from tests.analyze.synthetic import arm, ready, window

RESULTS = Path(__file__).parents[2] / "results"

TRACE = """Traceback (most recent call last):
  File "/home/alice smith/venv/lib/python3.11/site-packages/torch/nn/modules/conv.py", line 9, in forward
    return self._conv(x)
  File "/srv/alice/speedmatrix/harness/measure/trial.py", line 31, in begin
  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode
  File "/home/alice/secret-project/mine.py", line 2, in <module>
OSError: [Errno 28] No space left on device: '/scratch/alice/data/x.h5' (host alice-h200.example.org)
"""


def test_a_trace_keeps_the_places_inside_packages_alone() -> None:
    cleaner = Cleaner(private=private_words(["alice", "alice-h200.example.org", "root"]))
    clean = cleaner.sentence(TRACE)
    assert (
        clean
        == """Traceback (most recent call last):
  File "site-packages/torch/nn/modules/conv.py", line 9, in forward
    return self._conv(x)
  File "harness/measure/trial.py", line 31, in begin
  File "python3.11/json/decoder.py", line 355, in raw_decode
  File "FOLDER/mine.py", line 2, in <module>
OSError: [Errno 28] No space left on device: 'FOLDER/x.h5' (host NAME)
"""
    )
    assert cleaner.removed == 6


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("no such file: /home/alice", "no such file: FOLDER"),
        ("/home/j.doe", "FOLDER"),
        ("~/data/train.h5 is missing", "FOLDER/train.h5 is missing"),
        ("~alice/data", "FOLDER"),
        ("PATH=/home/alice/bin:/home/bob/bin", "PATH=FOLDER:FOLDER"),
        ("file:///home/alice/x.py", "FOLDER/x.py"),
        ("//server/alice/x.py", "FOLDER/x.py"),
        (r"C:\Users\alice\x.py", "FOLDER/x.py"),
        ("(/mnt/alice/cache.npz)", "(FOLDER/cache.npz)"),
        ("GET https://alice:secret@example.org/a/b?c=d failed", "GET https://example.org/a/b?c=d failed"),
        ("s3://bucket/key is slow", "s3://bucket/key is slow"),
        ("no room in /dev/shm", "no room in /dev/shm"),
        ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"),
        ("needs 3 samples/s and/or a GPU; 1 / 2", "needs 3 samples/s and/or a GPU; 1 / 2"),
        ("can't open '/x y/z.py' or \"/a b/c.py\"", "can't open 'FOLDER/z.py' or \"FOLDER/c.py\""),
        ("dtype torch.float32, layout contiguous", "dtype torch.float32, layout contiguous"),
    ],
)
def test_places(text: str, clean: str) -> None:
    cleaner = Cleaner()
    assert cleaner.sentence(text) == clean
    assert bool(cleaner.removed) == (text != clean)


def test_a_command_stays_one_command() -> None:
    cleaner = Cleaner(private=("leak",))
    command = "speedmatrix run leak --data-root '/home/alice smith/data' --only workers=2"
    assert cleaner.command(command) == "speedmatrix run leak --data-root FOLDER --only workers=2"


def test_names_that_everybody_has_and_short_ones_are_words() -> None:
    assert private_words(["root", "ann", "Ubuntu", "alice", "alice-h200"]) == ("alice-h200", "alice")


def test_the_harness_s_own_words_are_left_alone() -> None:
    cleaner = Cleaner(private=("contiguous", "workers"))
    given_ready = ready(
        arm(), effective={"layout": "contiguous", "cache": "/home/alice/cache"}, inactive=("workers: /a/b",)
    )
    found = clean_record(given_ready, cleaner)
    assert found == ready(arm(), effective={"layout": "contiguous", "cache": "FOLDER"}, inactive=("NAME: FOLDER",))
    assert clean_record(window(arm(), 0, 100.0), cleaner) == window(arm(), 0, 100.0)


def test_a_loss_is_cleaned_in_reason_and_trace() -> None:
    lost = Lost(arm=arm(), outcome="failed", reason="OSError: /home/alice/x", trace=TRACE)
    found = clean_record(lost, Cleaner())
    assert isinstance(found, Lost)
    assert found.reason == "OSError: FOLDER"
    assert "/home" not in found.trace


PIECES = st.sampled_from(
    ["/home/alice/x.py", "~", "'", '"', "://", "a", " ", "\n", "C:\\", "/", ":", "file:", ".", "@"]
)
TEXTS = st.lists(PIECES | st.text(string.printable, max_size=5), max_size=12).map("".join)


@pytest.mark.repeats
@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("'/home/alice")
@example("A://0@0@")
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    once = Cleaner().sentence(text)
    assert Cleaner().sentence(once) == once


@pytest.mark.repeats
@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(string.ascii_letters + ". -", min_size=1, max_size=9), min_size=1, max_size=5))
def test_no_folder_of_a_home_survives(parts: list[str]) -> None:
    path = "/".join(["/home/alice", *parts])
    assert "alice" not in relative(path)
    assert "alice" not in Cleaner().sentence(f'File "{path}", line 3')


@pytest.mark.parametrize(
    "text", ["a." * 8000, "'/" * 8000, "~" * 16000, "/" * 16000, "://" * 5000, "C:\\" * 5000, "\"/'/" * 4000]
)
def test_no_text_costs_more_than_its_length(text: str) -> None:
    from time import process_time

    began = process_time()
    Cleaner(private=("alice",)).sentence(text)
    assert process_time() - began < 2.0


def test_no_committed_run_names_a_folder_of_its_machine() -> None:
    told = [
        (path.parent.name, json.loads(line)["trace"])
        for path in sorted(RESULTS.glob(f"*/*/{MEASUREMENTS}"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if '"record": "lost"' in line
    ]
    assert any(trace for _, trace in told)
    unclean = {run for run, trace in told if Cleaner().sentence(trace) != trace}
    assert not unclean, "pack such a run with ./speedmatrix bundle and commit what is in the bundle"
