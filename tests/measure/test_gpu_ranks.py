"""Ranks with a GPU each: options that only NCCL and several GPUs have take effect there."""

from pathlib import Path

import pytest
import torch

from tests.run.test_ranks import begun

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "name",
    [
        "synchronized_batch_norm",
        *("nccl_algorithm=Tree", "nccl_algorithm=Ring", "nccl_protocol=Simple", "nccl_protocol=LL"),
    ],
)
def test_an_option_takes_effect_between_two_gpus(name: str, smoke_data: dict[str, Path]) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs two CUDA devices; would check that {name} takes effect between ranks over NCCL")
    assert begun(smoke_data["spoof"], "ranks=2", name, workload="spoof", device="cuda")["inactive"] == []
