import re
from dataclasses import replace

import pytest
from rich.console import Console

from harness.analyze.profile import bottleneck
from harness.core.plan import NoResult
from harness.core.records import Record, Window
from harness.report.document import show
from harness.report.matrix import cause, matrix_parts
from tests.analyze.synthetic import comparison, matrix, plan, records, story
from tests.report.whole import matrix_to_terminal


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_no_ratio_is_cut(width: int) -> None:
    shown = matrix_to_terminal(story(), width=width)
    assert max(len(line) for line in shown.splitlines()) <= width
    assert "3.23x [3.16, 3.30]" in shown
    assert "…" not in shown


def test_a_wide_terminal_shows_costs_that_a_narrow_one_leaves_out() -> None:
    wide, usual, narrow = (matrix_to_terminal(story(), width=width) for width in (120, 80, 60))
    for shown in (wide, usual):
        assert re.search(r"workers +3\.23x \[3\.16, 3\.30\] +faster +80 % +412 MiB +yes +same bits", shown)
    assert "412 MiB" not in narrow
    assert re.search(r"workers +3\.23x \[3\.16, 3\.30\] +faster +80 % +same bits", narrow)


def test_rows_stand_in_the_order_of_their_ratios() -> None:
    shown = matrix_to_terminal(story(), width=120)
    places = [shown.index(f"\n {name} ") for name in ("baseline", "workers", "augment", "amp")]
    assert places == sorted(places)


def test_every_hole_has_its_words_and_no_ratio() -> None:
    found = story()
    shown = " ".join(matrix_to_terminal(found, width=120).split())
    for words in (row.absence.words for row in found.rows if row.absence):
        assert words in shown
    assert "compile needs a C++ compiler (g++)" in shown
    assert "speaker, without a ratio" in shown
    assert "tf32 needs a CUDA device" in shown


def test_the_cause_names_the_stage_and_both_ceilings() -> None:
    shown = " ".join(matrix_to_terminal(story(), width=120).split())
    assert (
        "With the baseline the bottleneck is the input. It trains 100 samples/s; its step alone reaches 500 samples/s, "
        "so a perfect input would gain about 5.00x; its loader alone reaches 125 samples/s, so a step without cost "
        "would gain about 1.25x."
    ) in shown
    slow_step = matrix(plan(comparison("workers")), records(0, 1.0))
    profile = slow_step.tables[0].profile
    assert profile is not None
    assert profile.bottleneck is not None
    other = replace(profile, bottleneck=replace(profile.bottleneck, stage="compute"))
    turned = replace(slow_step, tables=(replace(slow_step.tables[0], profile=other),))
    assert "With the baseline the bottleneck is the training step" in matrix_to_terminal(turned, width=120)
    words = cause("baseline", replace(profile.bottleneck, stage="compute", compute_rate=80.0))
    assert (
        "its step alone reaches 80 samples/s in a probe at a slow moment (a ratio is refused for it only where every "
        "replicate, of two or more, shows it), so a perfect input would gain hardly anything;"
    ) in words


def test_a_probe_that_is_slower_by_a_hair_was_at_no_slow_moment() -> None:
    words = cause("baseline", bottleneck(100.0, loader_rate=125.0, compute_rate=98.0))
    assert "its step alone reaches 98 samples/s, so a perfect input would gain hardly anything;" in words


def test_of_what_a_perfect_input_would_gain_waiting_is_told_apart() -> None:
    """Loader workers take the step's cores, so that the step alone is faster by more than its waiting."""
    words = cause("all", bottleneck(529.0, loader_rate=868.0, compute_rate=705.0, input_wait=0.02, loads_beside=True))
    assert (
        "its step alone reaches 705 samples/s, so a perfect input would gain about 1.33x (about 1.02x from waiting "
        "no more; the rest is what loading costs the steps that run beside it); its loader alone"
    ) in words
    turns = cause("all", bottleneck(100.0, loader_rate=125.0, compute_rate=500.0, input_wait=0.8, loads_beside=True))
    assert "its step alone reaches 500 samples/s, so a perfect input would gain about 5.00x; its" in turns
    alone = cause("all", bottleneck(529.0, loader_rate=868.0, compute_rate=705.0, input_wait=0.02))
    assert "would gain about 1.33x (about 1.02x from waiting no more;" in alone, "as beside a GPU without workers"


def test_a_probe_that_steps_contradict_is_named() -> None:
    measured = matrix(plan(comparison("workers")), records(0, 1.0))
    (table,) = measured.tables
    assert table.profile is not None
    assert table.profile.bottleneck is not None
    doubtful = replace(table.profile, bottleneck=replace(table.profile.bottleneck, short_probe=True))
    shown = matrix_to_terminal(replace(measured, tables=(replace(table, profile=doubtful),)), width=120)
    assert "a probe was too short" in " ".join(shown.split())
    assert "a probe was too short" not in matrix_to_terminal(measured, width=120)


def test_colour_only_repeats_words() -> None:
    plain, coloured = matrix_to_terminal(story(), width=120), matrix_to_terminal(story(), width=120, colour=True)
    assert "\x1b" not in plain
    assert "\x1b[32mfaster" in coloured
    # rich pads a coloured configuration before its style ends, so spaces at line ends are no difference
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()


def test_foreign_text_is_no_markup_and_no_escape_sequence() -> None:
    no_result = NoResult(workload="leak", label="[red]x[/red]", reason="bad \x1b[2J screen\nnext")
    shown = matrix_to_terminal(matrix(plan(no_results=(no_result,)), []), width=120)
    assert re.search(r"\[red\]x\[/red\] +bad \[2J screen next", shown)
    assert "\x1b" not in shown


def test_an_empty_matrix_is_still_a_report() -> None:
    assert "0 of 0 have a ratio" in matrix_to_terminal(matrix(plan(), []), width=80)


def test_without_a_single_ratio_there_is_no_table_but_words() -> None:
    shown = matrix_to_terminal(matrix(plan(comparison("workers")), []), width=120)
    assert "1 (reference)" not in shown
    assert "training steps against" not in shown
    assert "leak, without a ratio" in shown
    assert re.search("workers +not measured yet", shown)


def test_the_parts_print_on_a_console_of_the_callers_own() -> None:
    console = Console(width=120)
    with console.capture() as captured:
        show(matrix_parts(story(), "./speedmatrix run"), console)
    assert "3.23x [3.16, 3.30]" in captured.get()


@pytest.mark.parametrize(("share", "told"), [(0.95, True), (0.8, False)])
def test_steps_that_wait_for_the_host_to_launch_them_say_so(share: float, told: bool) -> None:
    def launched(one: Record) -> Record:
        told = {"queue_s": share * one.wall_s, "device_s": one.wall_s, "wait_s": 0.0} if isinstance(one, Window) else {}
        return replace(one, **told)

    text = matrix_to_terminal(matrix(plan(comparison("workers")), list(map(launched, records(0, 2.0)))))
    words = " ".join(text.split())
    assert ("With the baseline the host's launches hold the step up (95 % of it)" in words) == told
    assert (words.count("the host's launches hold the step up") == 2) == told
