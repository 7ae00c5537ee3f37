"""Whatever comes in: either a refusal, or a run that every analysis and every report bears, with all of it escaped."""

import copy
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.analyze.claims import measure, trials
from harness.analyze.matrix import Matrix, build_matrix
from harness.cli.sharing import cleaned
from harness.core.claims import Metric
from harness.core.optimization import Timing
from harness.core.protocol import BRIEF
from harness.core.records import Ready, Window
from harness.exchange import validation
from harness.exchange.bundle import Contribution, Parcel, read, unpacked
from harness.exchange.placing import Cleaner, Origin, place
from harness.exchange.validation import FASTEST, LONGEST_S, SHORTEST_S, SLOWEST, Unfit, check_records
from harness.report.figures import interval_plot
from harness.report.matrix import matrix_to_json
from harness.store import MEASUREMENTS, RUN, read_records, read_run
from tests.analyze.synthetic import arm, comparison, plan, ready, window
from tests.exchange.made import GOOD, GOOD_RUN, RAW_LINES, RAW_RUN, changed_run, line_data, run_data
from tests.report.whole import matrix_to_markdown, matrix_to_terminal

MEASURED_VALUE = (Metric.THROUGHPUT, Metric.DEVICE_SHARE, Metric.HOST_MEMORY, Metric.DEVICE_MEMORY, Metric.START_UP)
NOW = datetime(2026, 11, 21, tzinfo=UTC)
STRANGE = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63 - 1, -(2**63) + 1, 0.0, -0.0, 1e-308, 5e-324, 1e308, -1.5, 0.5),
    *(
        "",
        "nan",
        "inf",
        "-inf",
        "\x1b[2J",
        "<script>alert(1)</script>",
        "| a | b |",
        "](javascript:x)",
        "../..",
        "'",
        "x" * 3000,
    ),
    *(
        [],
        {},
        [[]],
        {"": None},
        [1, 2, 3],
        "0",
        "workers",
        "step",
        "leak",
        "\u202e",
        "\0",
        "\U0001f600",
        "a\nb",
        "$(id)",
    ),
)


def parcel(run: object, lines: list[Any]) -> Parcel:
    """As if a folder had been read; no digest stands in the way."""
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return Parcel(files={RUN: json.dumps(run).encode(), MEASUREMENTS: content}, digest="0" * 64, bundled=False)


def taken(given_parcel: Parcel) -> Contribution | None:
    """What import would keep, or None where it refuses in one line."""
    try:
        contribution, _ = cleaned(read(given_parcel, NOW), Cleaner())
    except Unfit:
        return None
    return contribution


class Tags(HTMLParser):
    """Collects what a browser would take for elements."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, _attributes: object) -> None:
        self.found.append(tag)


def bear(contribution: Contribution) -> Matrix:
    """Everything that reads a run: none may raise or warn, and none may show a stranger's text as it came."""
    run, records = contribution.run, contribution.records
    matrix = build_matrix(run.plan, records, run.environment)
    shown = matrix_to_terminal(matrix)
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    without_code = matrix_to_markdown(matrix, "speedmatrix run")
    assert "<script" not in without_code.replace("\\<", "")
    json.loads(matrix_to_json(matrix))
    for text in (shown, without_code, matrix_to_markdown(matrix, run.command), matrix_to_json(matrix)):
        text.encode()
    for table in matrix.tables:
        tags = Tags()
        tags.feed(interval_plot(table))
        assert {*tags.found} <= {"svg", "title", "style", "text", "line", "rect", "circle", "g", "path"}
    for row in matrix.rows:
        if row.estimate is not None:
            assert 0 < row.estimate.low <= row.estimate.ratio <= row.estimate.high
    for trial in trials(run.plan, records):
        for metric in MEASURED_VALUE:
            measure(metric, trial)
    return matrix


def places(data: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value of JSON data."""
    yield path
    if isinstance(data, (dict, list)):
        for name, one in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(one, (*path, name))


def mutated(data: Any, dice: random.Random) -> Any:
    """The data with one value replaced, dropped, doubled or moved."""
    path = dice.choice(list(places(data)))
    if not path:
        return dice.choice(STRANGE)
    changed = copy.deepcopy(data)
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    deed = dice.choice(("replace", "replace", "replace", "nudge", "drop", "double", "rename"))
    value = holder[path[-1]]
    if deed == "drop":
        del holder[path[-1]]
    elif deed == "double" and isinstance(holder, list):
        holder.insert(dice.randrange(len(holder) + 1), copy.deepcopy(value))
    elif deed == "rename" and isinstance(holder, dict):
        holder[dice.choice(("x", "", "\x1b", str(path[-1]) + " "))] = holder.pop(path[-1])
    elif deed == "nudge" and isinstance(value, (int, float)) and not isinstance(value, bool):
        holder[path[-1]] = dice.choice((value + 1, value - 1, value * 1e6, value * 1e-6, -value, value * 3))
    else:
        holder[path[-1]] = dice.choice(STRANGE)
    return changed


def test_the_good_run_is_borne() -> None:
    contribution = taken(parcel(run_data(), line_data()))
    assert contribution is not None
    assert bear(contribution).looked_at == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(["schema", "run"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.repeats
@settings(max_examples=150, deadline=None)
@given(JSON, st.lists(JSON, max_size=3))
def test_arbitrary_data_are_refused(run: object, lines: list[Any]) -> None:
    assert taken(parcel(run, lines)) is None


@pytest.mark.repeats
@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(run: bytes, lines: bytes) -> None:
    found = Parcel(files={RUN: run, MEASUREMENTS: lines}, digest="", bundled=False)
    assert taken(found) is None


@pytest.mark.repeats
@pytest.mark.parametrize("spoilt", ["run", "records"])
@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**48), times=st.integers(1, 3))
def test_a_run_with_strange_values_is_refused_or_borne(spoilt: str, seed: int, times: int) -> None:
    dice = random.Random(seed)
    run, lines = run_data(), line_data()
    for _ in range(times):
        if spoilt == "run":
            run = mutated(run, dice)
        else:
            place_of_it = dice.randrange(len(lines))
            lines[place_of_it] = mutated(lines[place_of_it], dice)
    if contribution := taken(parcel(run, lines)):
        bear(contribution)


def test_both_ends_are_reached() -> None:
    """The test above would prove nothing if everything were refused, or nothing."""
    dice = random.Random(1)
    kept = [
        taken(parcel(run_data(), [mutated(one, dice) for one in line_data()[:1]] + line_data()[1:])) for _ in range(120)
    ]
    assert 10 < sum(one is not None for one in kept) < 110


LENGTHS = st.floats(SHORTEST_S, LONGEST_S / 100) | st.sampled_from((SHORTEST_S, 1.0, LONGEST_S / 100))
RATES = st.floats(SLOWEST, 0.99 * FASTEST) | st.sampled_from((SLOWEST, 1.0, 0.99 * FASTEST))
LABELS = (("workers",), ("amp",), ("pin_memory",), ("augment",), ("chunk_cache",))
POOL = [comparison(*names, timing=Timing.EVALUATION) for names in LABELS]


@pytest.mark.repeats
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(LENGTHS, RATES), min_size=30, max_size=30), st.lists(RATES, min_size=4, max_size=4))
def test_the_ends_of_every_range_are_borne(drawn: list[tuple[float, float]], upper_bounds: list[float]) -> None:
    """Windows of any allowed length and rate, in a pool that lends its variances."""
    found: list[Window | Ready] = []
    left = iter(drawn)
    for block, replicate in itertools.product(range(len(POOL)), (0, 1)):
        for position in (0, 1):
            rates = {"loader_rate": upper_bounds[2 * replicate + position], "compute_rate": upper_bounds[position]}
            found.append(ready(arm(block, replicate, position), **rates))
        began_s = 0.0
        for order in range(3):
            wall_s, rate = next(left)
            began_s += 1e-5 * wall_s  # what leads in
            one = window(arm(block, replicate, order % 2), order, 100.0, began_s=began_s, timing=Timing.EVALUATION)
            count = max(1, int(rate * wall_s))  # of one pass, which may have any number of items
            changes = {"wall_s": wall_s, "wait_s": wall_s, "copy_s": wall_s, "lead_s": 1e-6 * wall_s}
            found.append(replace(one, steps=1, samples=count, **changes))
            began_s += (1 + 1e-5) * wall_s
    run = replace(GOOD_RUN, plan=plan(*POOL))
    check_records(run, found)
    matrix = bear(Contribution(run=run, records=tuple(found), schema=2))
    assert matrix.looked_at == len(POOL)


def test_the_widest_interval_there_can_be_is_one() -> None:
    """Treatments that are a million million million times faster in one replicate and slower in the other."""
    found: list[Window | Ready] = []
    for replicate, (reference, treatment) in enumerate(((10**12, 1), (1, 10**12))):
        found += [ready(arm(0, replicate, position)) for position in (0, 1)]
        lengths = {reference: 1.0 if reference > 1 else 1e6, treatment: 1.0 if treatment > 1 else 1e6}
        began_s = 0.0
        for order in range(9):
            samples = treatment if order % 2 else reference
            one = window(arm(0, replicate, order % 2), order, 100.0, began_s=began_s, timing=Timing.EVALUATION)
            one = replace(one, steps=1, samples=samples, wait_s=0.0, copy_s=0.0, lead_s=1e-6)
            found.append(replace(one, wall_s=lengths[samples]))
            began_s += lengths[samples] + 1.0
    run = replace(GOOD_RUN, plan=plan(comparison("workers", timing=Timing.EVALUATION)))
    check_records(run, found)
    matrix = bear(Contribution(run=run, records=tuple(found), schema=2))
    estimate = next(row.estimate for row in matrix.rows if row.estimate)
    assert 0 < estimate.low < 1e-200
    assert 1e200 < estimate.high < float("inf")


@pytest.mark.repeats
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**48), flips=st.integers(1, 6))
def test_a_bundle_with_changed_bytes_is_refused_or_the_same(tmp_path_factory: Any, seed: int, flips: int) -> None:
    dice = random.Random(seed)
    content = bytearray(GOOD)
    for _ in range(flips):
        content[dice.randrange(len(content))] = dice.randrange(256)
    if dice.random() < 0.2:
        content = content[: dice.randrange(len(content))]
    path = tmp_path_factory.getbasetemp() / "changed.zip"
    path.write_bytes(content)
    try:
        found = read(unpacked(path), NOW)
    except Unfit:
        return
    assert found.run == GOOD_RUN  # a byte of the archive that nobody reads, such as a date


def origin() -> Origin:
    return Origin(imported="2026-11-21T00:00:00+00:00", bundled=True, sha256="0" * 64, run_schema=2)


def test_what_is_kept_reads_back_as_what_was_checked(tmp_path: Path) -> None:
    contribution = taken(Parcel(files={RUN: RAW_RUN, MEASUREMENTS: b"".join(RAW_LINES)}, digest="", bundled=False))
    assert contribution is not None
    folder = place(tmp_path, contribution, origin())[0]
    assert read_run(folder) == contribution.run
    assert tuple(read_records(folder)) == contribution.records


NEUTRALISED = {
    "markup": "<script>alert(1)</script>",
    "a table's border": "a | b || c",
    "a link": "[click](javascript:alert(1)) https://evil.example",
    "terminal commands": "\x1b]0;owned\x07\x1b[2J\x1b[31m",
    "lines": "one\n# two\n```\nthree",
    "letters that run backwards": "\u202egpj.exe",
}


@pytest.mark.parametrize("name", NEUTRALISED)
def test_free_texts_are_shown_as_text(name: str, tmp_path: Path) -> None:
    """Reasons may say anything: they are kept and escaped wherever they are shown."""

    def change(data: Any) -> None:
        data["plan"]["holes"] = [{"workload": "leak", "subject": "compile", "reason": NEUTRALISED[name]}]

    path = tmp_path / "run.zip"
    path.write_bytes(changed_run(change))
    contribution = read(unpacked(path), NOW)
    assert contribution.run.plan.no_results[0].reason == NEUTRALISED[name]
    bear(contribution)


@pytest.mark.parametrize("name", ["lead_s", "whole_s", "part_s"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1.0])
def test_no_time_of_a_protocol_is_endless(name: str, value: float) -> None:
    with pytest.raises(Unfit):
        validation._check_protocol(replace(BRIEF, **{name: value}))
