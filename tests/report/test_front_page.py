"""The first page of results: what it compares at a glance, what it tells once, and what it sums up."""

from dataclasses import replace

import pytest

from harness.analyze.claims import Account, ClaimVerdict
from harness.core.emulation import table_of
from harness.core.optimization import Timing
from harness.report.claims import claims_parts, decided, summary
from harness.report.document import escaped, to_markdown
from harness.report.front_page import index_page
from harness.report.published import Publication
from harness.report.published_pages import machine_page
from tests.report.collected import Made, emulating, kept, placed
from tests.report.test_claims import claim, finding
from tests.report.test_published import (
    AMP,
    EVERYTHING,
    OVER,
    WORKERS,
    at_a_glance,
    emulated,
    leak,
    publication,
)

ITS_OWN = Made(treatment=("amp", "workers"), ratio=1.3, label="original")
PINNED = Made(treatment=("pin_memory",), ratio=1.1)


def test_a_stack_that_an_option_alone_beats_is_named_as_such() -> None:
    alone, stack, over, runs = at_a_glance(replace(WORKERS, ratio=4.0), EVERYTHING).split(" | ")
    assert alone.startswith("`workers` 4.00x ")
    assert stack.startswith("none is surely faster than `workers` alone (`all` 3.00x ")
    assert stack.endswith("])")
    assert (over, runs) == ("not measured", "one"), "of what is fastest, and not of the stack"


def test_the_real_systems_settings_as_the_fastest_stack_say_where_nothing_tells_of_all_options() -> None:
    lone = "; `all` has no ratio here"
    behind = at_a_glance(replace(WORKERS, ratio=4.0), ITS_OWN).split(" | ")
    assert behind[1].startswith("none is surely faster than `workers` alone (`original` 1.30x ")
    assert behind[1].endswith(f"]){lone}")
    assert behind[2] == "not measured"
    first = at_a_glance(AMP, ITS_OWN).split(" | ")[1]
    assert first.startswith("`original` 1.30x ")
    assert first.endswith(f"]{lone}")
    assert lone not in at_a_glance(AMP, ITS_OWN, replace(EVERYTHING, ratio=1.2))
    assert lone not in at_a_glance(AMP, ITS_OWN, EVERYTHING)


def test_what_the_real_system_has_on_already_is_no_advice() -> None:
    assert at_a_glance(WORKERS, PINNED, EVERYTHING).startswith("`workers` 1.50x ")
    assert at_a_glance(WORKERS, PINNED, EVERYTHING, OVER).startswith("`pin_memory` 1.10x ")
    assert at_a_glance(WORKERS, EVERYTHING, OVER).startswith("- | `all` 3.00x ")
    whole = at_a_glance(replace(WORKERS, ratio=4.0), EVERYTHING, OVER)
    alone, stack, *_ = whole.split(" | ")
    assert alone.startswith("`workers` 4.00x ")
    assert alone.endswith("] (the real system has it)")
    assert stack.startswith("none is surely faster than `workers` alone (`all` 3.00x ")


@pytest.mark.parametrize(
    ("start", "told"), [({"inactive": ("workers is 0, not 2",)}, "no ratio (not active)"), ({}, "1.60x ")]
)
def test_a_refused_ratio_over_the_real_system_says_why(start: dict[str, tuple[str, ...]], told: str) -> None:
    assert at_a_glance(EVERYTHING, replace(OVER, start=start)).split(" | ")[2].startswith(told)
    nobody = replace(OVER, ratio=None)
    assert at_a_glance(EVERYTHING, nobody).split(" | ")[2] == "not measured"


@pytest.mark.parametrize(
    ("launching_s", "words"),
    [
        (0.001, "Step times may be off by these factors, which intervals do not include: leak 4.8."),
        (
            0.05,
            "The host launches these batches for longer than the device computes them (leak 50 ms): any fast device",
        ),
    ],
)
def test_what_decides_about_emulated_steps_is_told(launching_s: float, words: str) -> None:
    """0.01 s by a table that may be wrong by 2 times, and of another network than its own by 2.4 times more."""
    today = replace(emulated("a100"), driver=table_of("emulated:a100"))
    device = placed(emulating(kept(WORKERS, EVERYTHING, environment=today), 0.01, launching_s))
    times = (kept(WORKERS, day=day, environment=emulated(name)) for day, name in ((2, "2ms"), (3, "40ms")))
    swept = placed(*times, name="steps")
    assert swept.sweeps
    alone = index_page(Publication(places=(device,)), None).text
    assert words in alone
    both = index_page(Publication(places=(device, swept)), None).text
    assert " The sweeps below are about full-size models." in both
    assert both.count(words) == 1
    assert words in machine_page(device).text


def test_the_first_page_sums_up_promises_as_their_own_page_does() -> None:
    accounts = [
        Account(machine=name, runs=(), findings=(finding(claim("toy"), said),))
        for name, said in (("a", ClaimVerdict.UNDECIDED), ("b", ClaimVerdict.CONFIRMED))
    ]
    places = (replace(placed(kept(WORKERS), name=one.machine), accounts=(one,)) for one in accounts)
    told = escaped(f"{summary(accounts)} {decided(accounts)}")
    assert "1 held; " in told
    assert told in index_page(publication(*places), None).text
    assert told in to_markdown(claims_parts(accounts[::-1]))


def test_a_long_reference_like_the_real_systems_settings_is_named_by_what_differs() -> None:
    more = ("amp", "augment", "chunk_cache", "workers")
    beyond = Made(treatment=(*more, "pin_memory"), ratio=1.2, reference=more, label="pin_memory")
    page = leak(WORKERS, OVER, beyond)
    assert "training steps against original+augment+chunk\\_cache\n" in page
    assert "\noriginal + augment + chunk\\_cache is amp, augment, chunk\\_cache, workers.\n" in page
    original = Made(treatment=more, ratio=1.4, label="original")
    less = ("amp", "augment", "pin_memory", "workers")
    other = Made(treatment=(*less, "chunk_cache"), ratio=1.2, reference=less, label="chunk_cache")
    assert "training steps against original without chunk\\_cache, with pin\\_memory\n" in leak(
        WORKERS, original, other
    )
    far = ("augment", "chunk_cache", "pin_memory", "set_to_none")
    unlike = Made(treatment=(*far, "workers"), ratio=1.2, reference=far, label="workers")
    assert "training steps against a stack of 4\n" in leak(WORKERS, OVER, unlike)
    loader = replace(beyond, timing=Timing.LOADER)
    assert "loader alone against original+augment+chunk\\_cache\n" in leak(WORKERS, OVER, loader)


def test_the_runs_of_a_machine_are_folded() -> None:
    text = machine_page(placed(kept(WORKERS), kept(AMP, day=3))).text
    folded = text.split("## Runs\n\n<details>\n<summary>2 runs</summary>\n\n")[1]
    assert folded.count("| [2026010") == 2
    assert folded.endswith("\n\n</details>\n")
