"""What is printed for whoever goes on: the command that measures the rest, and one sentence where he may not look."""

from dataclasses import replace

import pytest

from harness import cli
from harness.catalogue import read_catalogue
from harness.cli.measuring import switched_off
from harness.cli.reading import _all_of_it
from harness.core.plan import Request
from harness.core.workload import PYTORCH_DEFAULTS


@pytest.mark.parametrize(
    ("asked", "again"),
    [
        (["run"], "./speedmatrix run --budget none"),
        (["run", "--budget", "9m", "--fresh", "--data", "/a b"], "./speedmatrix run --data '/a b' --budget none"),
        (["tune", "sub/train.py", "--budget=5m"], "./speedmatrix tune sub/train.py --budget none"),
        (["calibrate", "--budget", "2h"], "./speedmatrix calibrate --budget 2h"),
    ],
)  # fmt: skip
def test_the_command_for_the_rest_is_that_which_was_given_without_its_end(
    asked: list[str], again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPEEDMATRIX_CALLED", "./speedmatrix")
    assert _all_of_it(asked) == again


def test_whoever_has_options_on_is_told_that_they_are_off_in_the_reference() -> None:
    found = {**PYTORCH_DEFAULTS, "workers=4": "your DataLoader", "foreach_optimizer": "your optimizer"}
    workload = replace(read_catalogue(ledger=False).workload("leak"), original=found)
    (told,) = switched_off(workload, Request())
    assert "foreach_optimizer, workers=4 on" in told
    assert not list(switched_off(workload, Request(reference="original")))
    assert not list(switched_off(replace(workload, original=PYTORCH_DEFAULTS), Request()))


def test_a_folder_that_one_may_not_enter_is_one_sentence_and_status_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(13, "Permission denied", "/root/secret")

    monkeypatch.setattr(cli, "app", refused)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "/root/secret: permission denied; name a place that you may use.\n"
