import json
import re
from dataclasses import replace

import pytest

from harness.core.optimization import Timing
from harness.core.plan import NoResult
from harness.report.advice import Chapter, advice_parts, advice_to_json, chapters
from harness.report.document import to_markdown, to_terminal
from tests.analyze.advised import KNOWN, Made, advised
from tests.report.test_html import EVIL

COMMAND = "./speedmatrix run leak --stack pin_memory+workers --replicates 2"
STORY = (
    Made(on=("workers",), ratio=3.0, slow_s=45.0, host=1.2),
    Made(on=("pin_memory",), ratio=1.5),
    Made(on=("pin_memory", "workers"), ratio=3.1),
    Made(on=("chunk_cache",), ratio=1.4),
    Made(on=("augment",), ratio=5.0),
    Made(on=("amp",), ratio=0.8, start={"losses": (2.31, 2.1, 1.9)}),
)
NO_RESULTS = (NoResult(workload="leak", label="compile", reason="needs a C++ compiler (g++)"),)


def told(*made: Made) -> Chapter:
    (found,) = chapters(advised(*(made or STORY), no_results=NO_RESULTS), KNOWN)
    return found


def titles(chapter: Chapter) -> list[str]:
    return [section.title for section in chapter.sections]


def section(chapter: Chapter, title: str) -> dict[str, str]:
    """What is said of each point of a section, by its name."""
    points = next(one.points for one in chapter.sections if one.title == title)
    return {one.name: " ".join((one.figure, *one.warnings, *one.main, *one.sentences, one.lead)) for one in points}


def test_what_changes_learning_carries_a_warning() -> None:
    said = section(told(), "Faster, with a warning")["augment"]
    assert "It is another training: train to the end and compare the score" in said
    assert "5.00x" not in section(told(), "Three ready-made stacks")["Fastest"]


def test_arms_that_shared_a_warm_process_tell_no_start_up() -> None:
    for title, name in (("Switch on", "workers"), ("Three ready-made stacks", "Fastest")):
        alone, shared = (section(told(replace(STORY[0], shared=one)), title)[name] for one in (False, True))
        assert "First step after" in alone
        assert "Its start takes" in alone
        assert "First step after" not in shared
        assert "start" not in shared


def test_stacks_have_numbers_only_where_they_were_measured() -> None:
    found = section(told(*STORY[:2], STORY[3]), "Three ready-made stacks")
    assert found["Fastest"].startswith("3.00x")
    assert "puts together pin_memory, workers: not measured as a stack" in found["Fastest"]
    assert "puts together the same as for the fastest one: not measured as a stack" in found["Reproducible"]
    assert "It is the same stack as the fastest one." in found["Balanced"]


def test_the_terminal_breaks_no_command_and_no_code() -> None:
    advice = advised(*STORY[:2])
    (chapter,) = chapters(advice, KNOWN)
    asked = advice.workloads[0].ready_made[0].untried
    assert asked is not None
    long = COMMAND + " --only x" * 30
    text = to_terminal(advice_parts([chapter], {asked: long}), width=60, colour=False)
    assert f"        {long}\n" in text
    assert "        workers.option(\n            on=True)\n" in text
    assert "\x1b" not in text
    assert "\x1b[" in to_terminal(advice_parts([chapter], {}), width=60, colour=True)


def test_without_a_command_it_says_so() -> None:
    assert "No command of this version asks for this alone." in to_terminal(
        advice_parts([told()], {}), width=100, colour=False
    )


def test_markdown_holds_the_code_of_the_stacks_in_fences() -> None:
    text = to_markdown(advice_parts([told()], {}, [("machine", "Example | 9000")]))
    assert "  ```python\n  workers.option(\n      on=True)\n  ```" in text
    assert "Example \\| 9000" in text
    assert "### The code of what these stacks switch on" in text


@pytest.mark.parametrize("evil", EVIL)
def test_foreign_words_stay_words(evil: str) -> None:
    advice = advised(*STORY[:2], no_results=(NoResult(workload=evil, label=evil, reason=evil),))
    found = chapters(advice, KNOWN)
    assert len(found) == 2
    asked = advice.workloads[0].ready_made[0].untried
    assert asked is not None
    markdown = to_markdown(advice_parts(found, {asked: evil}, []))
    outside = re.sub(r"```.*?```", "", markdown, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)<", outside)
    terminal = to_terminal(advice_parts(found, {asked: evil}), width=100, colour=False)
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\u2028\u2029\x00-\x09\x0b-\x1f]", terminal + markdown)


def test_json_has_the_numbers_behind_the_words() -> None:
    document = json.loads(advice_to_json(advised(*STORY, no_results=NO_RESULTS), {}))
    (workload,) = document["workloads"]
    first = workload["items"][0]
    assert (first["switch"], first["advice"], first["numerics"]) == ("augment", "faster, with a warning", "different")
    workers = workload["items"][1]
    assert workers["gain"]["low"] < 3.0 < workers["gain"]["high"]
    assert workers["start_up"]["extra_s"] == [45.0, 45.0]
    assert {one["style"] for one in workload["stacks"]} == {"fastest", "reproducible", "balanced"}
    assert {one["kind"] for one in workload["interplays"]} == {"redundant"}
    assert workload["skipped"] == [{"subjects": "compile", "why": "needs a C++ compiler (g++)"}]
    assert workload["bottleneck"]["stage"] == "input"


def test_a_run_without_ratios_says_so() -> None:
    chapter = told(Made(on=("workers",), ratio=2.0, start={"inactive": ("workers is 0, not 2",)}))
    assert titles(chapter) == []
    assert len(chapter.leads) == 1
    assert any("workers is 0, not 2" in words for _, words in chapter.skipped)


@pytest.mark.parametrize(
    ("made", "advisable"),
    [
        (Made(on=("workers",), ratio=2.0), True),
        (Made(on=("workers",), ratio=2.0, start={"inactive": ("workers is 0, not 2",)}), False),
        (Made(on=("workers",), ratio=9.0, timing=Timing.LOADER), False),
        (Made(on=(), ratio=1.0), False),  # the reference against itself
        (Made(on=("pin_memory", "workers"), ratio=2.0), True),
    ],
)
def test_a_workload_without_a_ratio_of_training_is_told_so_in_every_form(made: Made, advisable: bool) -> None:
    advice = advised(made)
    (workload,) = json.loads(advice_to_json(advice, {}))["workloads"]
    assert (workload["no_advice"] is None) == advisable
    if not advisable:
        (chapter,) = chapters(advice, KNOWN)
        assert workload["no_advice"] in chapter.leads
        assert to_markdown(advice_parts([chapter], {}, [])).count(workload["no_advice"]) == 1
        assert workload["no_advice"] in to_terminal(advice_parts([chapter], {}), width=300, colour=False)


def test_a_run_in_which_nothing_pays_offers_no_stack() -> None:
    chapter = told(Made(on=("workers",), ratio=0.8))
    assert titles(chapter) == ["Leave off"]
    assert "No single option was surely faster here, and no measured stack either." in chapter.leads


def test_a_single_switch_is_no_stack_beside_which_it_could_be_measured() -> None:
    assert "Beside all others" not in section(told(STORY[0]), "Switch on")["workers"]
