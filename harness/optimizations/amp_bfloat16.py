"""Mixed precision in bfloat16: matrix products and convolutions in 16 bits with float32's range.

Halves the bytes moved and uses the fast matrix units of recent GPUs and CPUs; needs no loss scaling. Does nothing while
the step waits for data. Losses change in the third digit.

A CPU without matrix units for bfloat16 converts every number on the way and may take several times as long. There
it is measured alone, and `all` leaves it out.

On CPUs with AMX, torch 2.11's oneDNN reads memory that nobody wrote in some convolutions with 512 channels, and the
loss may be no number; `doctor` tries it, and `ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16` cures it.

    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = criterion(model(inputs), targets)
"""

from harness.core.optimization import FAST_BFLOAT16, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="amp_bfloat16",
    title="Mixed precision, bfloat16",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"autocast": "bfloat16"},
    proof={"bfloat16_layers": True},
    alone_on=Timing.COMPUTE,
    supersedes=("amp_float16",),
    stacked_if=FAST_BFLOAT16,
)
