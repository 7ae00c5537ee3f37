"""What is published: which answers stand for a workload, what is kept apart, and what the pages say of it."""

import itertools
import re
from dataclasses import replace

import pytest

from harness.analyze.collection import StoredRun
from harness.analyze.sweep import KnownTime
from harness.analyze.verdict import Verdict
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.core.plan import WINNER, NoResult
from harness.report.figures import MARK
from harness.report.front_page import index_page
from harness.report.published import LONGEST_NAME, Place, Publication, Topic, file_name
from harness.report.published_pages import machine_page, workload_page
from harness.report.published_parts import Page, heat_map_picture, in_short
from tests.analyze.synthetic import ENVIRONMENT
from tests.report.collected import ANOTHER, Made, composed, kept, placed, shared, sound

WORKERS = Made(treatment=("workers",), ratio=1.5)
AMP = Made(treatment=("amp",), ratio=1.2)
BOTH = Made(treatment=("amp", "workers"), ratio=2.0)
EVERYTHING = Made(treatment=("amp", "chunk_cache", "workers"), ratio=3.0, label="all")
ALL = frozenset({"workers", "amp", "pin_memory", "chunk_cache"})
OTHERWISE = {"losses": (2.3, 2.6, 2.9)}  # further off than other seeds are


def topic(*made: Made) -> Topic:
    ((one,),) = [setting.topics for setting in placed(kept(*made)).settings]
    return one


def leak(*made: Made) -> str:
    return workload_page(placed(kept(*made)), "leak", has_claims=True).text


def best(one: Topic) -> str | None:
    return one.best.row.label if one.best else None


def test_the_best_is_the_fastest_that_learns_the_same() -> None:
    assert best(topic(WORKERS, AMP, EVERYTHING)) == "all"
    spoilt = replace(EVERYTHING, start=OTHERWISE)
    found = topic(WORKERS, AMP, spoilt)
    assert best(found) == "workers"
    assert found.faster_otherwise is not None
    assert found.faster_otherwise.row.label == "all"
    assert "Faster still on leak, but its quality differs: `all`" in leak(WORKERS, AMP, spoilt)


def test_the_best_is_best_at_the_low_end_of_its_interval() -> None:
    (entry,) = topic(replace(EVERYTHING, ratio=2.0)).sheets[0].entries
    other = topic(WORKERS)
    wide = replace(entry, row=replace(entry.row, result=replace(entry.row.estimate, low=1.05, high=3.8)))
    found = replace(other, sheets=(replace(other.sheets[0], entries=(*other.sheets[0].entries, wide)),))
    assert [one.row.label for one in found.sheets[0].measured] == ["all", "workers"]
    assert best(found) == "workers"


def fastest(*runs: StoredRun) -> str:
    """The front page's table and what stands right below it."""
    text = index_page(publication(placed(*runs)), None).text
    return text.partition("## What was promised")[0].partition("## Machines")[0]


def test_an_option_that_was_slower_alone_is_named_beside_the_stack_that_holds_it() -> None:
    slow = replace(AMP, ratio=0.8)
    twice = [kept(WORKERS, slow, EVERYTHING, day=day) for day in (1, 2)]
    assert "- leak on example-9000: `amp` 0.80x" in fastest(*twice)
    assert "`amp` 0.80x" not in fastest(twice[0]), "one run alone may have met a slow hour"
    without = Made(treatment=("chunk_cache", "workers"), ratio=3.3)
    assert "`amp` 0.80x" not in fastest(kept(WORKERS, slow, EVERYTHING, replace(without, ratio=2.5)))
    assert "`amp` 0.80x" not in fastest(kept(WORKERS, slow))


def test_what_other_environments_gave_stands_beside_the_fastest() -> None:
    older = replace(ENVIRONMENT, python="3.12.1")
    runs = [kept(replace(EVERYTHING, ratio=ratio), day=day, environment=older) for day, ratio in ((1, 2.5), (2, 2.5))]
    assert "elsewhere 2.50x\xa0\\[2.47,\xa02.53\\] |" in fastest(kept(EVERYTHING, day=3), *runs)
    another = kept(replace(EVERYTHING, ratio=4.0), day=4, environment=replace(ENVIRONMENT, python="3.13.1"))
    assert "elsewhere 2.50x\xa0to\xa03.00x |" in fastest(another, kept(EVERYTHING, day=3), *runs)
    assert "elsewhere 2" not in fastest(kept(EVERYTHING))


def test_what_reads_faster_and_was_disturbed_is_not_passed_over() -> None:
    made = kept(WORKERS, EVERYTHING)
    (table,) = made.matrix.tables
    rows = [
        replace(row, result=replace(row.estimate, drift=1.0, verdict=Verdict.DISTURBED)) if row.label == "all" else row
        for row in table.rows
    ]
    run = replace(made, matrix=replace(made.matrix, tables=(replace(table, rows=tuple(rows)),)))
    assert "| `workers` 1.50x" in fastest(run).replace("\xa0", " ")
    assert "| `all` reads 3.00x" in fastest(run).replace("\xa0", " ")
    assert "but the machine was disturbed |" in fastest(run)


@pytest.mark.parametrize(("ratio", "named"), [(3.01, "amp+workers"), (2.97, "amp+workers"), (2.0, "all")])
def test_a_searchs_winner_stands_before_what_cannot_be_told_apart_from_it(ratio: float, named: str) -> None:
    first, afresh = kept(WORKERS, EVERYTHING), kept(replace(BOTH, ratio=ratio), day=3)
    searched = replace(afresh, matrix=replace(afresh.matrix, design=WINNER))
    ((found,),) = [setting.topics for setting in placed(first, searched).settings]
    assert best(found) == named
    ((usual,),) = [setting.topics for setting in placed(first, afresh).settings]
    assert best(usual) == ("amp+workers" if ratio == 3.01 else "all")


def test_what_is_not_faster_for_sure_is_not_the_best() -> None:
    assert best(topic(replace(WORKERS, ratio=1.001), replace(AMP, ratio=0.7))) is None
    assert "nothing whose first losses agree is faster for sure" in leak(replace(WORKERS, ratio=1.001))


def test_a_probe_or_another_reference_does_not_stand_for_training() -> None:
    loader = Made(treatment=("workers",), ratio=40.0, timing=Timing.LOADER)
    on_top = Made(treatment=("amp", "workers"), ratio=9.0, reference=("amp",), label="workers")
    found = topic(AMP, loader, on_top)
    assert best(found) == "amp"
    assert len(found.sheets) == 3


def test_what_was_plain_once_stands_for_plain_by_its_name_until_plain_has_a_ratio() -> None:
    former = Made(treatment=("amp", "tuned_malloc"), ratio=9.0, reference=("tuned_malloc",), label="amp")
    once = topic(former)
    assert best(once) == "amp"
    assert once.main is not None
    assert once.main.name == "tuned_malloc"
    assert "against tuned\\_malloc" in leak(former)
    both = topic(former, AMP)
    assert both.main is not None
    assert both.main.name == "baseline"


def test_a_ratio_against_as_found_is_one_that_was_measured_so() -> None:
    found = topic(EVERYTHING, Made(treatment=("amp", "workers"), ratio=1.6, label="original"))
    assert found.best is not None
    assert found.against("original", found.best) is None  # and not 3.0 / 1.6
    direct = replace(EVERYTHING, ratio=1.9, reference=("amp", "workers"))
    measured = topic(EVERYTHING, direct)  # the plan calls that reference original
    assert measured.best is not None
    assert "1.90x" in leak(EVERYTHING, direct)
    assert measured.against("original", measured.best) is not None


def test_of_several_batches_the_newest_stands_for_the_workload_and_of_one_run_that_with_most_ratios() -> None:
    larger = Made(treatment=("amp",), ratio=9.0, batch=128)
    assert "batch 128" in leak(WORKERS, AMP, larger)  # it has a table of its own
    for runs, batch in (
        ([kept(WORKERS, AMP, larger)], 64),
        ([kept(WORKERS, AMP, day=2), kept(larger, day=3)], 128),
        ([kept(WORKERS, AMP, day=3), kept(larger, day=2)], 64),
    ):
        (setting,) = placed(*runs).settings
        (found,) = setting.topics
        assert found.main is not None
        assert found.main.config.batch == batch


def test_a_long_stack_is_called_by_its_number_of_switches_in_figures() -> None:
    assert in_short("all") == "all"
    assert in_short("amp_bfloat16+workers=2") == "amp_bfloat16+workers=2"
    assert in_short("amp_bfloat16+channels_last+workers=2") == "all 3 together"
    assert in_short("somebody's_switch_of_thirty_letters") == "somebody's_switch_of_thirty_letters"


def test_environments_are_never_mixed() -> None:
    place = placed(kept(WORKERS, AMP, day=2), kept(replace(WORKERS, ratio=4.0), day=3, environment=ANOTHER))
    assert [len(setting.topics[0].sheets) for setting in place.settings] == [1, 1]
    page = workload_page(place, "leak", has_claims=True).text
    assert page.index("1.50x") < page.index(f"## Environment `{ANOTHER.digest}`") < page.index("4.00x"), "fullest first"
    assert "Measured in 2 environments, which are never mixed" in page
    paths = [picture.path for picture in workload_page(place, "leak", has_claims=True).pictures]
    assert len(paths) == len(set(paths))


def test_of_equally_sure_answers_the_newest_is_shown_with_its_own_run() -> None:
    page = workload_page(
        placed(kept(WORKERS, AMP, day=2), kept(replace(WORKERS, ratio=1.7), day=3)), "leak", has_claims=True
    )
    rows = [line for line in page.text.splitlines() if line.startswith("| workers |")]
    assert len(rows) == 1
    assert "1.70x" in rows[0]
    assert "[2026-01-03](20260103T030405-01234563)" in rows[0]
    assert "[2026-01-02](20260102T030405-01234562)" in next(
        line for line in page.text.splitlines() if line.startswith("| amp |")
    )


@pytest.mark.parametrize("days", [(2, 3), (3, 2)])
@pytest.mark.parametrize("named", ["", "all"])
def test_isolated_arms_answer_before_shared_ones_whichever_is_newer(days: tuple[int, int], named: str) -> None:
    isolated, newer = (replace(WORKERS, ratio=ratio, label=named) for ratio in (1.5, 1.7))
    ((found,),) = [one.topics for one in placed(kept(isolated, day=days[0]), shared(kept(newer, day=days[1]))).settings]
    assert found.main is not None
    assert [round(one.row.estimate.ratio, 1) for one in found.main.measured if one.row.estimate] == [1.5]
    only = placed(shared(kept(newer))).settings[0].topics[0]
    assert only.main is not None
    assert len(only.main.measured) == 1


def test_of_an_option_by_itself_an_isolated_evaluation_counts_before_a_shared_epoch() -> None:
    epoch, evaluation = (replace(WORKERS, timing=one) for one in (Timing.EPOCH, Timing.EVALUATION))
    runs = kept(AMP), kept(evaluation, day=3), shared(kept(epoch, day=4))
    ((found,),) = [setting.topics for setting in placed(*runs).settings]
    assert found.alone["workers"].row.comparison.timing is Timing.EVALUATION


def test_an_index_takes_each_workload_from_the_newest_environment_that_tells_of_it() -> None:
    older = kept(WORKERS, replace(AMP, workload="spoof"), day=2)
    newer = kept(replace(AMP, workload="spoof", ratio=1.9), day=3, environment=ANOTHER)
    index = index_page(Publication(places=(placed(older, newer),)), None).text
    rows = {line.split("]")[0]: line for line in index.splitlines() if line.startswith("| [")}
    assert "1.50x" in rows["| [`leak`"]
    assert "1.90x" in rows["| [`spoof`"]
    page = machine_page(placed(older, newer)).text
    assert "differs from the first environment: python 3.12.1, there 3.11.9." in page


def at_a_glance(*made: Made) -> str:
    """The row of the first table, without the workload and the machine."""
    index = index_page(Publication(places=(placed(kept(*made)),)), None).text
    start = "| [`leak`](example-9000/leak.md) | [example-9000](example-9000/README.md) | "
    (line,) = (line for line in index.splitlines() if line.startswith(start))
    return line.removeprefix(start).removesuffix(" |").replace("\xa0", " ")


def test_a_glance_shows_the_best_option_alone_and_the_fastest_stack() -> None:
    whole = at_a_glance(WORKERS, AMP, EVERYTHING)
    alone, stack, over, runs = whole.split(" | ")
    assert alone.startswith("`workers` 1.50x ")
    assert stack.startswith("`all` 3.00x ")
    assert (over, runs) == ("not measured", "one")
    assert "`amp`" not in whole
    assert at_a_glance(WORKERS).count("`workers`") == 1, "an option is not named beside itself"
    slower, other = Made(treatment=("chunk_cache",), ratio=0.9), Made(treatment=("pin_memory",), ratio=2.5)
    assert "chunk_cache" not in at_a_glance(WORKERS, slower, EVERYTHING), "it gains nothing"
    beside = at_a_glance(WORKERS, AMP, EVERYTHING, other)
    assert beside.startswith("`pin_memory` 2.50x ")
    assert ", not part of `all` | " in beside
    assert at_a_glance(replace(WORKERS, ratio=1.001)) == "nothing for sure | - | - | -"
    alone, stack, *_ = at_a_glance(WORKERS).split(" | ")
    assert alone.startswith("`workers` 1.50x ")
    assert stack == "no stack has a ratio"
    for worse in (replace(EVERYTHING, ratio=1.001), replace(EVERYTHING, start=OTHERWISE)):
        alone, stack, *_ = at_a_glance(WORKERS, AMP, worse).split(" | ")
        assert alone.startswith("`workers` 1.50x ")
        assert stack == "none is surely faster and learns the same"
    lesser = at_a_glance(WORKERS, replace(EVERYTHING, ratio=1.2), replace(BOTH, ratio=1.3)).split(" | ")
    behind = "none is surely faster than `workers` alone (`amp+workers` 1.30x"
    assert [one.partition(" \\[")[0] for one in lesser] == ["`workers` 1.50x", behind, "not measured", "one"]
    left = replace(EVERYTHING, reference=("amp", "workers"), ratio=1.6)
    assert at_a_glance(EVERYTHING, left).split(" | ")[2].startswith("1.60x ")


def test_the_first_table_has_one_row_for_a_workload_and_one_machine_of_each_kind() -> None:
    cpu = placed(kept(WORKERS, AMP, EVERYTHING))
    fast = kept(replace(WORKERS, ratio=4.0), replace(EVERYTHING, ratio=9.0), environment=emulated("a100"))
    places = cpu, replace(placed(fast), name="beside"), replace(placed(kept(replace(AMP, ratio=7.0))), name="poorer")
    index = index_page(Publication(places=places), None).text.replace("\xa0", " ")
    before, _, row = index.partition("| **leak** |")
    head = before.splitlines()[-2]
    assert head.startswith("| system | on [example-9000](example-9000/README.md) | beside [beside](beside/README.md) |")
    on_cpu, emulated_, over, sure = row.splitlines()[0].removesuffix(" |").split(" | ")
    assert on_cpu.strip().startswith("`workers` 1.50x ")
    assert "; `all` 3.00x " in on_cpu
    assert emulated_.startswith("`workers` 4.00x ")
    assert over == "CPU: not measured; emulated: not measured"
    assert sure == "CPU: one run; emulated: one run"


def test_a_gain_over_the_real_system_may_be_of_another_host_of_the_same_emulated_device() -> None:
    beside = emulated("a100")
    ours, theirs = kept(WORKERS, AMP, EVERYTHING, environment=beside), kept(EVERYTHING, OVER, environment=beside)
    places = placed(ours), replace(placed(theirs), name="another")
    row = index_page(Publication(places=places), None).text.replace("\xa0", " ").partition("| **leak** |")[2]
    over = row.splitlines()[0].split(" | ")[1]
    assert over.startswith("emulated: 1.60x ")
    assert over.endswith(" on [another](another/README.md)")


OVER = Made(treatment=("amp", "pin_memory", "workers"), ratio=1.6, reference=("amp", "workers"), label="all")
UNLIKE = "without `chunk_cache` and with `pin_memory`"


def test_a_ratio_over_the_real_system_says_in_what_its_stack_differed() -> None:
    assert at_a_glance(EVERYTHING, OVER).split(" | ")[2].endswith(f"], {UNLIKE}")
    alike = replace(OVER, treatment=EVERYTHING.treatment)
    assert at_a_glance(EVERYTHING, alike).split(" | ")[2].endswith("]")
    assert "- `all` on leak (example-9000): amp," in fastest(kept(replace(WORKERS, ratio=4.0), EVERYTHING))
    assert f"], {UNLIKE}." in leak(EVERYTHING, OVER)
    assert f"], {UNLIKE} |" in machine_page(placed(kept(EVERYTHING, OVER))).text
    elsewhere = fastest(kept(EVERYTHING, day=3), kept(alike, day=2, environment=ANOTHER)).replace("\xa0", " ")
    assert "], in another environment | one |" in elsewhere


def test_the_real_systems_own_settings_gain_nothing_over_themselves() -> None:
    settings, told = Made(treatment=("amp", "workers"), ratio=1.3, label="original"), "1 (these are its settings)"
    assert at_a_glance(AMP, settings).split(" | ")[2] == told
    assert f"over the real system's settings {told}." in leak(AMP, settings)
    assert f"| {told} |" in machine_page(placed(kept(AMP, settings))).text


THERE = Made(treatment=("amp", "set_to_none", "workers"), ratio=2.1, reference=("amp", "workers"), label="set_to_none")


def test_what_is_faster_than_the_stack_over_the_real_system_is_named_beside_it() -> None:
    told = f"], {UNLIKE}; faster: its settings with `set_to_none`, 2.10x "
    assert told in at_a_glance(EVERYTHING, OVER, THERE)
    for page in (leak(EVERYTHING, OVER, THERE), machine_page(placed(kept(EVERYTHING, OVER, THERE))).text):
        assert told.rstrip() in page
    other = replace(THERE, treatment=("amp", "set_to_none"), label="lean")
    assert f"], {UNLIKE}; faster: `lean`, 2.10x " in at_a_glance(EVERYTHING, OVER, other)
    for no_better in (replace(THERE, ratio=1.5), replace(THERE, start=OTHERWISE), replace(THERE, timing=Timing.LOADER)):
        assert "faster: " not in at_a_glance(EVERYTHING, OVER, no_better)
    runs = kept(EVERYTHING, day=3), kept(replace(OVER, treatment=EVERYTHING.treatment), THERE, environment=ANOTHER)
    assert "], in another environment; faster: its settings with `set_to_none`, 2.10x" in fastest(*runs)


def test_in_what_all_stacks_beside_emulated_devices_differ_is_said_once() -> None:
    made = [replace(one, workload=name) for name in ("leak", "spoof") for one in (EVERYTHING, OVER)]
    told = fastest(kept(*made, environment=emulated("a100"))).split("<details>")[1]
    assert f"Held against the real system's settings, stacks are {UNLIKE}." in told
    assert told.count(UNLIKE) == 1
    real = fastest(kept(*made)).split("<details>")[1]
    assert real.count(f"], {UNLIKE} |") == 2


def test_arms_that_load_alone_tell_no_memory_of_an_option() -> None:
    loads = Made(treatment=("chunk_cache",), ratio=9.0, timing=Timing.LOADER)
    page = workload_page(placed(composed(kept(WORKERS, loads))), "leak", has_claims=True).text
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert "| ~1.70x" in rows["chunk_cache"]
    assert " | - | [2026" in rows["chunk_cache"]
    assert "MiB (host peak) | [2026" in rows["workers"]


def test_what_was_measured_against_a_former_baseline_is_named_and_not_in_the_table() -> None:
    former = Made(treatment=("amp", "tuned_malloc"), ratio=9.0, reference=("tuned_malloc",), label="amp")
    index = index_page(publication(placed(kept(former))), None).text
    assert "against the baseline of 0.2.0 alone, and not in this table: [example-9000](example-9000/README.md)" in index
    assert "9.00x" not in index


def test_a_contributed_run_is_marked_and_stands_in_for_nothing_of_ours() -> None:
    theirs = kept(replace(WORKERS, ratio=9.0), day=5, contributed=True)  # newer, and the same environment it says
    place = placed(kept(WORKERS, day=2), theirs)
    assert [setting.is_contributed for setting in place.settings] == [False, True]
    page = workload_page(place, "leak", has_claims=True).text
    ours, contributed = page.split("contributed\n")
    assert "1.50x" in ours
    assert "9.00x" not in ours
    assert "[2026-01-05](20260105T030405-01234565) (contributed)" in contributed
    index = index_page(Publication(places=(place,)), None).text
    assert "| [example-9000](example-9000/README.md) (contributed) |" in index
    assert "9.00x" not in index
    more = placed(kept(WORKERS, day=2), kept(replace(WORKERS, ratio=9.0), AMP, EVERYTHING, day=5, contributed=True))
    assert "9.00x" not in index_page(publication(more), None).text, "however much they measured"


def test_a_repeat_stands_beside_the_best_and_says_whether_it_agrees() -> None:
    for ratio, told in ((3.0, r"again 3.00x \["), (3.9, r"again 3.90x \[")):
        again = kept(replace(EVERYTHING, ratio=ratio), day=1)
        index = index_page(publication(placed(again, kept(EVERYTHING, day=3))), None).text.replace("\xa0", " ")
        assert told in index
        assert ("which **disagrees** |" in index) == (ratio == 3.9)


def test_tiles_of_the_heat_map_show_what_the_tables_show() -> None:
    slow, fast = kept(WORKERS, AMP, day=2), shared(kept(replace(WORKERS, ratio=1.9), day=3))
    place = placed(slow, fast)
    picture = heat_map_picture(place.settings[0])
    assert picture is not None
    assert "1.50" in picture.svg
    assert "1.90" not in picture.svg


def test_what_everything_meant_once_is_told_and_drawn_nowhere_else() -> None:
    former = Made(treatment=("amp", "workers"), ratio=2.5, label="all")
    place = placed(kept(former, WORKERS, day=2), kept(EVERYTHING, day=3))
    page = workload_page(place, "leak", has_claims=True).text
    stacks, tables = page.split("### What all is made of")
    assert "2.50x" in stacks
    assert "3.00x" in stacks
    assert "2.50x" not in tables
    assert (
        "`all`, in training steps against the baseline ([2026-01-03](20260103T030405-01234563)), is amp, "
        "chunk\\_cache, workers. In training steps against the baseline ([2026-01-02](20260102T030405-01234562)): "
        "without `chunk_cache`."
    ) in stacks


def test_the_options_of_a_stack_are_those_of_the_ratio_that_is_quoted() -> None:
    averaged = [sound(kept(EVERYTHING, day=day)) for day in (1, 3)]
    page = workload_page(placed(*averaged, kept(OVER, day=4)), "leak", has_claims=True).text
    assert (
        "`all`, in training steps against the baseline, is amp, chunk\\_cache, workers. "
        f"In training steps against the original: {UNLIKE}."
    ) in page
    assert "`all` is amp, chunk\\_cache, workers." in leak(EVERYTHING)


def test_a_waterfall_stands_above_the_one_sentence_that_says_how_its_bars_were_made() -> None:
    last = replace(EVERYTHING, ratio=1.4, reference=("amp", "chunk_cache"), label="workers")
    alone = "Each bar is an option's ratio alone: none was measured when added last."
    both = "Each bar is the mean of an option's ratio alone and its ratio when added last"
    assert alone in leak(WORKERS, AMP, EVERYTHING)
    assert both not in leak(WORKERS, AMP, EVERYTHING)
    assert f"{both}; where only one was measured" in leak(WORKERS, AMP, EVERYTHING, last)
    assert f"{both}. Without a bar" in leak(WORKERS, EVERYTHING, last)
    assert "Each bar is an option's ratio when added last: none was measured alone." in leak(EVERYTHING, last)


def test_the_waterfall_appears_with_what_it_needs() -> None:
    names = [
        picture.path for picture in workload_page(placed(kept(WORKERS, AMP, BOTH)), "leak", has_claims=True).pictures
    ]
    assert any("waterfall" in name for name in names)


def test_copies_of_the_reference_are_noise_and_no_rows() -> None:
    copy = Made(treatment=(), ratio=1.0, label="itself")
    page = leak(WORKERS, AMP, copy)
    assert "| itself |" not in page
    assert "1 copy gave 1.000; 1 of 1 intervals contain 1." in page


def test_holes_have_words_and_are_folded() -> None:
    no_results = [
        NoResult(workload="leak", label=name, reason="needs a CUDA device") for name in ("tf32", "pin_memory")
    ]
    page = workload_page(
        placed(kept(WORKERS, Made(treatment=("amp",), ratio=None), no_results=no_results)), "leak", has_claims=True
    )
    folded = page.text.split("<details>")[-1].split("</details>")[0]
    assert "Without a ratio: 3 comparisons" in folded
    assert "| needs a CUDA device | pin\\_memory, tf32 |" in folded
    assert "| not measured yet: run the same command again to continue | amp |" in folded


def test_much_that_nobody_came_to_is_counted_and_not_named() -> None:
    options = ("amp", "augment", "chunk_cache", "pin_memory", "workers")
    names = (one for size in (2, 3) for one in itertools.combinations(options, size))
    untold = [Made(treatment=one, ratio=None) for one in names]
    told = "20 comparisons (`./speedmatrix plan leak` lists what a run measures)"
    assert f"| not measured yet: run the same command again to continue | {told} |" in leak(WORKERS, *untold)


def test_a_long_reference_gets_a_short_name_and_is_spelt_out_once() -> None:
    rest = ("amp", "augment", "chunk_cache", "workers")
    whole = Made(treatment=rest, ratio=3.0, label="all")
    removed = Made(treatment=rest[:3], ratio=0.5, reference=rest, label="all without workers")
    page = leak(WORKERS, whole, removed)
    assert "training steps against all" in page
    assert "all is amp, augment, chunk\\_cache, workers." in page
    unnamed = leak(WORKERS, replace(removed, label="less"))
    assert "training steps against a stack of 4" in unnamed
    assert "a stack of 4 is amp, augment, chunk\\_cache, workers." in unnamed


def publication(*places: Place) -> Publication:
    return Publication(places=places, has_claims=True)


def test_faster_but_otherwise_is_what_a_verdict_calls_faster() -> None:
    (entry,) = topic(replace(EVERYTHING, ratio=1.05, start=OTHERWISE)).sheets[0].entries
    other = topic(replace(WORKERS, ratio=1.001))
    for word, found in ((Verdict.FASTER, True), (Verdict.UNDECIDED, False)):  # as on a machine of 5 % of margin
        row = replace(entry.row, result=replace(entry.row.estimate, verdict=word))
        both = (*other.sheets[0].entries, replace(entry, row=row))
        beside = replace(other, sheets=(replace(other.sheets[0], entries=both),))
        assert (beside.faster_otherwise is not None) is found


def emulated(device: str) -> Environment:
    """A device whose step takes a time that was set."""
    return replace(ENVIRONMENT, device=f"emulated:{device}", accelerator=f"emulated {device}")


def test_emulated_step_times_become_a_curve_of_each_workload() -> None:
    runs = [
        kept(replace(WORKERS, ratio=ratio), day=day, environment=emulated(device))
        for day, device, ratio in ((2, "2ms", 3.0), (3, "40ms", 1.5), (4, "900ms", 1.01), (1, "2ms", 9.0))
    ]
    place = replace(placed(*runs), marks={"leak": {"T4": KnownTime(0.04, 0.02, 0.08)}})
    (found,) = place.sweeps
    (curve,) = found.curves
    assert [round(one.estimate.ratio, 1) for one in curve.points] == [3.0, 1.5, 1.0], "the newest of each"
    page = machine_page(place)
    (picture,) = [one for one in page.pictures if "sweep" in one.path]
    assert picture.svg.startswith(MARK)
    assert "T4" in picture.svg
    assert "workers pays below" in page.text
    assert "differs from the first" not in page.text, "the table has what was emulated"
    index = index_page(Publication(places=(place,)), None).text
    assert f"(example-9000/{picture.path})" in index
    assert "emulated steps of 2 ms to 900 ms on" in index
    assert "| emulated 2ms" not in index


def swept(*made: tuple[str, bool, int]) -> list[list[float]]:
    """The step times of each sweep, of devices that were measured by us or by others on hosts of so much memory."""
    runs = (
        kept(WORKERS, day=day, environment=replace(emulated(device), memory_bytes=memory), contributed=contributed)
        for day, (device, contributed, memory) in enumerate(made, 1)
    )
    return [[point.step_s for curve in one.curves for point in curve.points] for one in placed(*runs).sweeps]


def test_a_curve_joins_what_one_host_measured_and_never_what_somebody_else_did() -> None:
    size = ENVIRONMENT.memory_bytes
    assert swept(("2ms", False, size), ("40ms", False, size + 4096)) == [[0.002, 0.04]], "some pages more every day"
    assert swept(("2ms", False, size), ("40ms", False, 2 * size)) == []
    theirs = [("2ms", True, size), ("9ms", True, size), ("40ms", True, size)]
    assert swept(("2ms", False, size), theirs[2]) == []
    assert swept(("2ms", False, size), ("9ms", False, size), *theirs) == [[0.002, 0.009]]
    assert swept(*theirs) == [[0.002, 0.009, 0.04]]


def test_one_step_time_is_no_curve() -> None:
    assert placed(kept(WORKERS, environment=emulated("2ms"))).sweeps == ()
    assert placed(kept(WORKERS), kept(WORKERS, environment=emulated("a100"))).sweeps == ()


def test_nothing_measured_is_said_in_words() -> None:
    assert "Nothing was measured yet" in index_page(publication(), None).text
    page = machine_page(placed(kept(Made(treatment=("amp",), ratio=None)))).text
    assert "No ratio of training steps against the baseline is left" in page


EVIL = "x|<b>`$\n# y](javascript:z)"


def evil_pages() -> list[Page]:
    environment = replace(ANOTHER, cpu=EVIL, system=EVIL, python=EVIL, packages=(("torch", EVIL),))
    made = (
        Made(treatment=("workers",), ratio=2.0, workload=EVIL, label=EVIL),
        Made(treatment=("amp", "workers"), ratio=3.0, workload=EVIL, label=EVIL + "+b"),
        Made(treatment=("amp",), ratio=1.3, workload=EVIL, start={"effective": {EVIL: EVIL}}),
    )
    run = kept(
        *made, environment=environment, no_results=[NoResult(workload=EVIL, label=EVIL, reason=EVIL)], contributed=True
    )
    run = replace(run, command=EVIL, version=EVIL, began=EVIL, matrix=replace(run.matrix, design=EVIL))
    place = placed(run, name=EVIL)
    return [
        index_page(publication(place), EVIL),
        machine_page(place, (EVIL,)),
        workload_page(place, EVIL, has_claims=False),
    ]


def test_foreign_text_is_shown_and_never_obeyed() -> None:
    for page in evil_pages():
        assert "\n# y" not in page.text
        spans = re.findall(r"(?<!\\)`([^`\n]*)`", page.text.removeprefix(MARK))
        assert all(re.fullmatch(r"[\w=+./ -]+", span) for span in spans), spans  # inside code nothing is escaped
        bare = page.text.replace("\\<", "")
        assert "<b" not in bare
        assert not re.search(r"(?<!\\)\]\(javascript", page.text)
        for table in re.findall(r"(?:^\|.*\n)+", page.text, flags=re.MULTILINE):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table
        for picture in page.pictures:
            assert "<b>" not in picture.svg
            assert re.fullmatch(r"figures/[A-Za-z0-9_.-]+\.svg", picture.path)


def test_a_strangers_workload_is_escaped_beside_what_slows_its_stack() -> None:
    made = [replace(one, workload=EVIL) for one in (WORKERS, replace(AMP, ratio=0.8), EVERYTHING)]
    text = fastest(kept(*made, day=1), kept(*made, day=2))
    assert ": `amp` 0.80x" in text
    assert "<b" not in text.replace("\\<", "")
    assert "\n# y" not in text


@pytest.mark.parametrize("name", ["../../etc", "a/b", "", "README", "readme", "x" * 99, "ö", ".hidden", "a b"])
def test_no_foreign_name_leaves_its_folder_or_takes_the_index(name: str) -> None:
    found = file_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,60}", found)
    assert found.upper() != "README"
    assert file_name(name) == found != file_name(name + "y")
    assert file_name("leak") == "leak"


def test_the_heat_map_has_each_optimization_on_what_it_acts_on() -> None:
    evaluation = Made(treatment=("pin_memory",), ratio=5.0, timing=Timing.EVALUATION)
    probe = Made(treatment=("augment",), ratio=9.0, timing=Timing.LOADER)
    required = Made(treatment=("chunk_cache", "workers"), ratio=1.3, reference=("workers",), label="chunk_cache")
    (setting,) = placed(kept(WORKERS, EVERYTHING, BOTH, evaluation, probe, required)).settings
    picture = heat_map_picture(setting)
    assert picture is not None
    shown = re.findall(r">([^<>]+)</text>", picture.svg)
    assert shown.index("all") < shown.index("pin_memory (evaluation)") < shown.index("workers")
    assert "1.30 *" in shown
    assert not {"augment", "amp+workers", "9.00", "2.00"} & set(shown)


def test_the_heat_map_marks_another_training_as_it_marks_one_whose_losses_differ() -> None:
    (setting,) = placed(kept(WORKERS, Made(treatment=("augment",), ratio=1.3), replace(AMP, start=OTHERWISE))).settings
    picture = heat_map_picture(setting)
    assert picture is not None
    assert {"1.50", "1.30 ≠", "1.20 ≠"} <= set(re.findall(r">([^<>]+)</text>", picture.svg))


def test_the_heat_map_shows_what_a_part_comes_to_where_whole_steps_were_not_timed() -> None:
    loads = Made(treatment=("augment",), ratio=9.0, timing=Timing.LOADER)
    run = composed(kept(WORKERS, loads, replace(loads, treatment=("workers",))))
    (setting,) = placed(run).settings
    picture = heat_map_picture(setting)
    assert picture is not None
    shown = re.findall(r">([^<>]+)</text>", picture.svg)
    assert "~1.70 ≠" in shown, "augment is another training"
    assert "~1.70" not in shown, "workers was timed on whole steps"
    assert "1.50" in shown


def test_what_was_measured_twice_is_held_against_itself() -> None:
    once = machine_page(placed(kept(WORKERS, AMP))).text
    assert "Measured again" not in once
    moved = kept(replace(WORKERS, ratio=1.9), AMP, day=3)
    page = machine_page(placed(kept(WORKERS, AMP), moved)).text
    assert "2 comparisons measured by two runs" in page
    assert "On another day: 1 of 2 compatible (50 %, expected at least 95 %)." in page
    rows = [line for line in page.splitlines() if line.endswith("| no |")]
    assert len(rows) == 1
    assert "26.7 %" in rows[0]


def test_every_page_says_what_its_machine_has_shown_of_itself() -> None:
    place = placed(kept(WORKERS, AMP))
    pages = (
        index_page(Publication(places=(place,)), None),
        machine_page(place),
        workload_page(place, "leak", has_claims=True),
    )
    for page in pages:
        assert place.settings[0].runs[0].matrix.noise in page.text


def test_what_a_machine_has_shown_at_several_times_stands_with_its_days() -> None:
    calm, busy = kept(WORKERS, day=2), kept(AMP, day=4)
    calm = replace(calm, matrix=replace(calm.matrix, noise="A/A: all well"))
    busy = replace(busy, matrix=replace(busy.matrix, noise="A/A: nothing below 10 % is told"))
    page = machine_page(placed(calm, busy)).text
    assert "Of 2026-01-02: A/A: all well." in page
    assert "Of 2026-01-04: A/A: nothing below 10 % is told." in page


def test_combinations_of_a_factorial_are_folded_and_no_name_is_longer_than_a_line() -> None:
    options = ("amp", "augment", "workers", "pin_memory", "chunk_cache")
    combinations = [tuple(sorted(pair)) for size in (2, 3, 5) for pair in itertools.combinations(options, size)]
    made = [Made(treatment=names, ratio=1.5, label="_and_more+".join(names)) for names in combinations]
    text = leak(Made(treatment=("workers",), ratio=1.2), *made)
    assert f"<summary>{len(combinations)} combinations more</summary>" in text
    table = text[text.index("### leak, size quick") :]
    shown, folded = table.split("</summary>")[0], table.split("</summary>")[1].split("</details>")[0]
    assert "| workers |" in shown
    assert "| in full |" in folded
    for line in folded.splitlines():
        name = line.replace("\\", "").partition("| ")[2].partition(" |")[0]
        assert len(name.replace(" + ", "+")) <= LONGEST_NAME
    assert all(" + ".join(one.label.split("+")).replace("_", "\\_") in folded for one in made)


def test_a_few_combinations_stand_among_the_others() -> None:
    text = leak(Made(treatment=("workers",), ratio=1.2), Made(treatment=("amp", "workers"), ratio=1.5))
    assert "combinations more" not in text
    assert "| amp + workers |" in text
