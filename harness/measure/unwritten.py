"""Unwritten memory: does a convolution in bfloat16 read bytes that nobody wrote?

    MALLOC_PERTURB_=128 python -m harness.measure.unwritten     prints true or false

oneDNN, as torch 2.11 has it, does on CPUs with AMX: a 3x3 convolution of stride 2 with 512 output channels onto a map
of 4 by 1 adds up what lay in fresh memory. glibc fills that with one byte where it is told to, and bfloat16 numbers of
two such bytes are near the largest there are, so that the sums show them. Without AMX
(`ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16`) nothing is read that was not written.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

FILLED = {"MALLOC_PERTURB_": "128"}  # freed memory is of this byte, and fresh memory of its complement, 127
LIMIT_S = 120.0
ROOT = Path(__file__).resolve().parents[2]


def reads_unwritten() -> bool | None:
    """Whether it does on this CPU, tried in a process of its own; None where that gives no answer."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "harness.measure.unwritten"],
            cwd=ROOT,
            env={**os.environ, **FILLED, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        told = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return told if isinstance(told, bool) else None


def _spoiled() -> bool:
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    images = torch.randn(24, 256, 8, 1)
    convolution = nn.Conv2d(256, 512, 3, stride=2, padding=1, bias=False)
    with torch.no_grad():
        right = convolution(images)
        found = [convolution.bfloat16()(images.bfloat16()).float() for _ in range(3)]
    return any(not torch.isfinite(one).all() or bool((one - right).abs().max() > 1) for one in found)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_spoiled()) + "\n")
