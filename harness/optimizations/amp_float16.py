"""Mixed precision in float16, with a GradScaler that keeps small gradients from vanishing.

The choice for GPUs before Ampere; on later ones bfloat16 is as fast and needs no scaler. Skips an update whenever a
gradient overflowed, and reads back from the device to find out, unless the optimizer is fused: its kernel skips the
update by itself.

    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(inputs), targets)
    scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()
"""

from harness.core.optimization import CUDA, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="amp_float16",
    title="Mixed precision, float16 with loss scaling",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"autocast": "float16", "gradient_scaling": True},
    proof={"float16_layers": True, "gradient_scaling": True},
    alone_on=Timing.COMPUTE,
    needs=(CUDA,),
)
