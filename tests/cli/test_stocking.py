"""The workloads' files in a slice: written when first needed, once, beside the minutes, and only if there is time."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from harness.cli import campaign_state as stocking
from harness.cli.campaign_state import Asked, Data, Meter, SliceOver, Stock, ground_of, missing_bytes, prepared_for
from harness.cli.measuring import Place
from harness.cli.planning import Prepared
from harness.exchange.archive import ACCOUNT
from harness.measure.surroundings import read_environment
from harness.plan.campaign import Kind
from harness.report.campaign import writing_s
from harness.run.data import data_folder
from harness.run.rehearsal import VirtualClock
from tests.cli.test_spending import ONE


@pytest.fixture(scope="module")
def ready() -> Prepared:
    asked = Asked(workloads=("leak", "spoof"), size="smoke", protocol="brief", seed=0)
    found = prepared_for(Kind.FIRST_LOOK, asked.workloads, ground_of(asked, read_environment("cpu")))
    assert found is not None
    return found


@dataclass(slots=True)
class Writer:
    """Writes folders in no time but that of a clock."""

    data: Path
    clock: VirtualClock = field(default_factory=VirtualClock)
    written: list[tuple[str, ...]] = field(default_factory=list)  # together

    def prepare_data(self, ready: Prepared, _place: Place, _console: Console) -> Data:
        keys = dict.fromkeys((one.reference.workload, one.reference.size) for one in ready.plan.blocks)
        found = {key: data_folder(self.data, ready.catalogue.workload(key[0]), key[1]) for key in keys}
        missing = [key for key, folder in found.items() if not folder.exists()]
        for key in missing:
            found[key].mkdir(parents=True)
        if missing:
            self.written.append(tuple(sorted(name for name, _ in missing)))
            self.clock.now_s += 200
        return found


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Writer:
    found = Writer(tmp_path / "data")
    monkeypatch.setattr(stocking, "prepare_data", found.prepare_data)
    return found


def stock(writer: Writer, meter: Meter) -> Stock:
    return Stock(results=writer.data.parent, data=writer.data, meter=meter, console=Console(quiet=True))


def test_files_are_written_once_and_the_minutes_do_not_pay(writer: Writer, ready: Prepared, tmp_path: Path) -> None:
    with Meter(tmp_path / ACCOUNT, ONE, 0.0, writer.clock) as meter:
        ours = stock(writer, meter)
        assert set(missing_bytes(ready, writer.data)) == {"leak, size smoke", "spoof, size smoke"}
        found = ours.of(ready, 60.0)
        assert ours.of(ready, 60.0) == found
        assert set(found) == {("leak", "smoke"), ("spoof", "smoke")}
        assert writer.written == [("leak", "spoof")]
        assert (ours.has_written, ours.writing) == (True, False)
        assert missing_bytes(ready, writer.data) == {}
        assert meter.account.data_s == pytest.approx(ONE.data_s + 200)
        assert meter.spent_s == pytest.approx(ONE.spent_s)


def test_what_the_slice_would_not_hold_is_not_begun(writer: Writer, ready: Prepared, tmp_path: Path) -> None:
    with Meter(tmp_path / ACCOUNT, ONE, 0.0, writer.clock) as meter:
        ours = stock(writer, meter)
        with pytest.raises(SliceOver):
            ours.of(ready, 1e-6)
        assert writer.written == []
        ours.of(ready, 60.0)
        assert stock(writer, meter).of(ready, 1e-6)  # they are there now


def test_of_several_those_that_fit_are_written_and_the_next_slice_goes_on(
    writer: Writer, ready: Prepared, tmp_path: Path
) -> None:
    seconds = {
        name: writing_s(count, ready.environment.cores) for name, count in missing_bytes(ready, writer.data).items()
    }
    first = ready.plan.blocks[0].reference.workload
    with Meter(tmp_path / ACCOUNT, ONE, 0.0, writer.clock) as meter:
        ours = stock(writer, meter)
        with pytest.raises(SliceOver):
            ours.of(ready, sum(seconds.values()) - 0.001)
        assert writer.written == [(first,)]
        assert ours.has_written
        ours.of(ready, sum(seconds.values()))
        assert len(writer.written) == 2


def test_what_is_broken_off_is_known_to_have_been_writing(
    writer: Writer, ready: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_off(*_: object) -> Data:
        raise KeyboardInterrupt

    monkeypatch.setattr(stocking, "prepare_data", broken_off)
    with Meter(tmp_path / ACCOUNT, ONE, 0.0, writer.clock) as meter:
        ours = stock(writer, meter)
        with pytest.raises(KeyboardInterrupt):
            ours.of(ready, 60.0)
        assert (ours.writing, ours.has_written) == (True, False)
