"""Ranks: real processes over gloo. Each option is active, each has its numerics, and each loss has its words."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import torch

from harness.core.configuration import expected, parse_option
from harness.core.recipe import Recipe
from harness.core.records import Fault
from harness.measure.devices import Device
from harness.measure.ranks import Mismatch, join, of_link, of_nccl, store_for
from harness.run import ranks
from harness.run.arm import NCCL_LOG, ArmLost, ProcessArm, launch_environment
from harness.run.processes import is_alive, members_of
from harness.run.sentinel import Sentinel
from tests.measure.tasks import CATALOGUE
from tests.run.test_shared import job_of

EXACT = {  # options of ranks that change no bit of two ranks' losses
     "ddp_bucket_size=100", "gradient_as_bucket_view", "static_graph", "find_unused_parameters",
     "zero_redundancy_optimizer", "fully_sharded=each_pass", "fully_sharded=kept",
}  # fmt: skip
CLOSE = {"compressed_gradients=bfloat16", "compressed_gradients=float16"}
OTHERS = {"powersgd", "post_local_sgd", "gradients_not_reduced"}
QUICK = {"zero_redundancy_optimizer", "fully_sharded=kept", "compressed_gradients=bfloat16", "powersgd"}


@contextmanager
def alive(
    folder: Path, *names: str, workload: str = "leak", window_limit_s: float = 60.0, device: str = "cpu"
) -> Iterator[ProcessArm]:
    """An arm that has arrived, and its expected settings."""
    job = replace(job_of(workload, folder, names, shared=False), device=device)
    proof: dict[str, Any] = {}
    for name in names:
        option = parse_option(name)
        proof |= expected(CATALOGUE.optimizations[option.name], option.level)
    protocol = replace(job.protocol, window_limit_s=window_limit_s, start_limit_s=900.0, loss_steps=4)
    sentinel = Sentinel()
    arm = ProcessArm(replace(job, proof=proof, protocol=protocol), sentinel)
    try:
        arm.arrive()
        members = processes(arm)
        yield arm
    finally:
        arm.close()
        sentinel.close()
    assert not any(map(is_alive, members)), "an orphan"


def processes(arm: ProcessArm) -> list[int]:
    return sorted(members_of(frozenset({arm._host.process.group})))


def other_rank(arm: ProcessArm) -> int:
    (found,) = [one for one in processes(arm) if Path(f"/proc/{one}/comm").read_text().strip() == ranks.NAME]
    return found


@cache  # two arms of the same recipe begin alike
def begun(folder: Path, *names: str, workload: str = "leak", device: str = "cpu") -> dict[str, Any]:
    with alive(folder, *names, workload=workload, device=device) as arm:
        return arm.begin()


@pytest.fixture(scope="module")
def two(smoke_data: Mapping[str, Path]) -> dict[str, Any]:
    return begun(smoke_data["leak"], "ranks=2")


def test_two_ranks_learn_what_one_does_that_takes_a_batch_in_two_parts(
    two: dict[str, Any], smoke_data: Mapping[str, Path]
) -> None:
    one = begun(smoke_data["leak"], "gradient_accumulation=2")
    assert two["inactive"] == []
    samples = CATALOGUE.workloads["leak"].sizes["smoke"].batch
    assert (two["effective"]["update_samples"], one["effective"]["update_samples"]) == (samples, samples)
    assert two["losses"] == pytest.approx(one["losses"], rel=3e-3)  # each rank drops out others
    assert 2**25 < two["effective"]["link_bytes_per_s"] < 2**36  # a loopback, between 32 MiB and 64 GiB a second
    assert len(set(two["losses"])) == len(two["losses"])


@pytest.mark.parametrize(
    "name",
    [one if one in QUICK else pytest.param(one, marks=pytest.mark.thorough) for one in sorted(EXACT | CLOSE | OTHERS)],
)
def test_an_option_of_ranks_is_active_and_keeps_its_promise(
    name: str, two: dict[str, Any], smoke_data: Mapping[str, Path]
) -> None:
    found = begun(smoke_data["leak"], "ranks=2", name)
    assert found["inactive"] == []
    option = parse_option(name)
    for setting, value in expected(CATALOGUE.optimizations[option.name], option.level).items():
        assert two["effective"][setting] != value, "two ranks without the option show none of it"
    if name in EXACT:
        assert found["losses"] == two["losses"]
    else:
        assert found["losses"] == pytest.approx(two["losses"], rel=0.01 if name in CLOSE else 0.5)
        assert found["losses"] != two["losses"]


def test_options_of_ddp_that_change_no_bit_change_none_together(
    two: dict[str, Any], smoke_data: Mapping[str, Path]
) -> None:
    found = begun(smoke_data["leak"], "ranks=2", "ddp_bucket_size=100", "gradient_as_bucket_view", "static_graph")
    assert found["inactive"] == []
    assert found["losses"] == two["losses"]


def test_weights_are_averaged_also_where_gradients_are_set_to_none(smoke_data: Mapping[str, Path]) -> None:
    found = begun(smoke_data["leak"], "ranks=2", "post_local_sgd", "set_to_none")
    assert found["inactive"] == []


def test_gradients_that_add_up_are_reduced_once(smoke_data: Mapping[str, Path]) -> None:
    every = begun(smoke_data["leak"], "ranks=2", "gradient_accumulation=2")
    once = begun(smoke_data["leak"], "ranks=2", "gradient_accumulation=2", "no_sync")
    assert once["inactive"] == []
    assert every["effective"]["gradient_reduction"] is None
    assert 2 * once["effective"]["reduced_bytes"] == every["effective"]["reduced_bytes"]
    assert once["losses"] == pytest.approx(every["losses"], rel=1e-3)


@pytest.mark.thorough
@pytest.mark.timeout(1200)  # two compilers on one core
@pytest.mark.parametrize(
    ("workload", "mode"),
    [("leak", "default"), ("imagenet", "regional")],  # around DistributedDataParallel, and repeated blocks within it
)
def test_two_ranks_train_a_compiled_model(workload: str, mode: str, smoke_data: Mapping[str, Path]) -> None:
    names = ["ranks=2", "local_copy"] if workload == "imagenet" else ["ranks=2"]  # needs no object store
    eager, found = (begun(smoke_data[workload], *names, *more, workload=workload) for more in ([], [f"compile={mode}"]))
    assert found["inactive"] == []
    assert found["effective"]["reduced_bytes"] == eager["effective"]["reduced_bytes"]
    first, second, *_ = found["losses"]
    assert first == pytest.approx(eager["losses"][0], rel=1e-3)
    assert second == pytest.approx(eager["losses"][1], rel=0.05)  # 0.01 apart here: imagenet at `smoke` is chaotic


def test_windows_of_two_ranks_hold_whole_batches_also_with_loader_workers(smoke_data: Mapping[str, Path]) -> None:
    with alive(smoke_data["leak"], "ranks=2", "workers=1") as arm:
        assert arm.begin()["inactive"] == []
        lead = arm.settle(4, 0)
        first, second = (arm.window(max(1, lead), 6, start) for start in (0, 6))
        assert first["samples"] == second["samples"] == 6 * CATALOGUE.workloads["leak"].sizes["smoke"].batch
        assert first["wall_s"] > 0
        assert len(processes(arm)) == 4, "two ranks, each with a loader worker"


def test_a_killed_rank_is_one_outcome_that_says_which(smoke_data: Mapping[str, Path]) -> None:
    with alive(smoke_data["leak"], "ranks=2") as arm:
        arm.begin()
        os.kill(other_rank(arm), signal.SIGKILL)
        with pytest.raises(ArmLost, match="rank 1: ended by SIGKILL; see dmesg") as lost:
            arm.window(1, 4, 0)
        assert lost.value.kind is Fault.KILLED


def test_a_rank_that_fails_says_why(smoke_data: Mapping[str, Path], tmp_path: Path) -> None:
    with alive(tmp_path, "ranks=2") as arm, pytest.raises(ArmLost, match="There is no TRAINING_DATASET") as lost:
        arm.begin()
    assert lost.value.kind is Fault.ERROR


def test_a_rank_that_gives_nothing_is_told_from_one_that_ended(smoke_data: Mapping[str, Path]) -> None:
    with alive(smoke_data["leak"], "ranks=2", window_limit_s=16.0) as arm:
        arm.begin()
        rank = other_rank(arm)
        stopping = f"import os, signal, time\nfor _ in range(300): os.kill({rank}, signal.SIGSTOP); time.sleep(0.05)"
        with subprocess.Popen([sys.executable, "-c", stopping]) as stopper:
            with pytest.raises(ArmLost, match=r"rank 1: somebody else suspended it \(SIGSTOP\)") as lost:
                arm.window(1, 1000, 0)
            stopper.kill()
        assert lost.value.kind is Fault.SUSPENDED


def test_the_other_ranks_end_with_the_arm_s_process(smoke_data: Mapping[str, Path]) -> None:
    with alive(smoke_data["leak"], "ranks=2", "workers=1") as arm:
        arm.begin()
        rank = other_rank(arm)
        os.kill(arm._host.process.group, signal.SIGKILL)
        until = monotonic() + 5
        while is_alive(rank) and monotonic() < until:
            sleep(0.05)
        assert not is_alive(rank)


def test_a_port_that_is_in_use_hinders_nobody(smoke_data: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("MASTER_PORT", str(taken.getsockname()[1]))
        with alive(smoke_data["leak"], "ranks=2") as one, alive(smoke_data["leak"], "ranks=2") as other:
            assert one.begin()["losses"] == other.begin()["losses"]


def test_the_rate_of_a_link_is_what_a_bucket_takes_once_it_is_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter((0.5, 0.05, 0.05, 0.3, 0.05, 0.05))  # the first opens connections, one meets a neighbour

    def reduce(tensor: torch.Tensor, *_: Any) -> None:
        if tensor.nbytes > 8:
            sleep(next(taken))

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "gloo")
    monkeypatch.setattr(torch.distributed, "all_reduce", reduce)
    assert of_link(Device("cpu"))["link_bytes_per_s"] == pytest.approx(25 * 2**20 / 0.05, rel=0.3)


def test_what_nccl_was_told_is_read_from_its_own_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines as NCCL 2.2x writes them (src/graph/tuning.cc), in the file that the launcher asks for."""
    recipe = Recipe(ranks=2, nccl_algorithm="Tree", nccl_protocol="LL")
    told = launch_environment(recipe, {})
    assert not {name for name in launch_environment(Recipe(ranks=2), {}) if name.startswith("NCCL")}
    assert (told["NCCL_ALGO"], told["NCCL_PROTO"]) == ("Tree", "LL")
    monkeypatch.setenv(NCCL_LOG, f"{tmp_path}/%p.log")
    assert of_nccl() == {"nccl_algorithm": None, "nccl_protocol": None}, "a log that was not written"
    line = "host:1795:1795 [0] NCCL INFO NCCL_{} set by environment to {}\n"
    log = tmp_path / f"{os.getpid()}.log"
    log.write_text(line.format("P2P_DISABLE", "1.") + line.format("ALGO", "Tree"))
    assert of_nccl() == {"nccl_algorithm": "Tree", "nccl_protocol": None}
    log.write_text(line.format("PROTO", "LL"))
    assert of_nccl() == {"nccl_algorithm": None, "nccl_protocol": "LL"}


def test_ranks_of_two_minds_are_refused_in_words() -> None:
    store = store_for(0, 5.0, serving=True)
    store.set("ranks/0", "2")
    with pytest.raises(Mismatch, match="rank 1 was told of 3 ranks, rank 0 of 2"):
        join(store, 1, 3, "cpu", 5.0)
    assert not torch.distributed.is_initialized()


def test_buckets_that_are_as_they_would_be_anyway_are_no_option(smoke_data: Mapping[str, Path]) -> None:
    found = begun(smoke_data["leak"], "ranks=2", "ddp_bucket_size=1")
    assert found["inactive"] == ["bucket_mb is None, not 1"]


@pytest.mark.thorough
def test_statistics_are_broadcast_by_default_and_no_loss_depends_on_it(smoke_data: Mapping[str, Path]) -> None:
    usual = begun(smoke_data["spoof"], "ranks=2", workload="spoof")
    off = begun(smoke_data["spoof"], "ranks=2", "buffer_broadcast_off", workload="spoof")
    assert off["inactive"] == []
    assert usual["effective"]["buffers_not_broadcast"] is False
    assert off["losses"] == usual["losses"]


def test_weights_that_travel_in_bfloat16_learn_closely_and_sum_their_gradients_in_float32(
    two: dict[str, Any], smoke_data: Mapping[str, Path]
) -> None:
    plain = begun(smoke_data["leak"], "ranks=2", "fully_sharded=kept")
    short = begun(smoke_data["leak"], "ranks=2", "fully_sharded=bfloat16")
    assert short["inactive"] == []
    assert plain["effective"]["sharded_weights"] == "kept"
    assert short["effective"]["reduced_bytes"] == plain["effective"]["reduced_bytes"]
    assert short["losses"] == pytest.approx(two["losses"], rel=0.01)
    assert short["losses"] != two["losses"]


@pytest.mark.thorough
def test_batch_normalisation_over_all_ranks_is_refused_by_torch_on_a_cpu(smoke_data: Mapping[str, Path]) -> None:
    """Its need is a GPU: where the layers are converted, torch itself says so."""
    with pytest.raises(ArmLost, match="SyncBatchNorm layers only work with GPU modules") as lost:
        begun(smoke_data["spoof"], "ranks=2", "synchronized_batch_norm", workload="spoof")
    assert lost.value.kind is Fault.ERROR


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("workload", "names"),  # patches3d takes one sample at a time
    [("imagenet", ()), ("speaker", ()), ("speaker", ("activation_checkpointing",)), ("spoof", ())],
)
def test_shared_out_weights_learn_the_same_on_every_system(
    workload: str, names: tuple[str, ...], smoke_data: Mapping[str, Path]
) -> None:
    """Systems with a loss that has weights of its own, with clipped gradients and with running statistics."""
    usual = begun(smoke_data[workload], "ranks=2", *names, workload=workload)
    shared_out = begun(smoke_data[workload], "ranks=2", "fully_sharded=each_pass", *names, workload=workload)
    assert shared_out["inactive"] == []
    assert shared_out["losses"] == pytest.approx(usual["losses"], rel=1e-4)


def test_a_rank_that_the_kernel_ended_for_want_of_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    process = os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ)
    one = ranks.Rank(1, process, ours)
    os.kill(process, signal.SIGKILL)
    theirs.close()
    monkeypatch.setattr(ranks, "memory_kills", lambda: one.kills + 1)  # counted before anybody noticed
    with ours, pytest.raises(ranks.RankLost) as lost:
        one.answer(5.0)
    assert lost.value.fault is Fault.OOM_KILLED
