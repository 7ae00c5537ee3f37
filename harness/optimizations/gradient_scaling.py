"""Loss scaling without mixed precision: a GradScaler around a float32 step.

Scaling keeps the small gradients of float16 layers from vanishing. Where no autocast makes any layer float16 there is
nothing to save: what remains is a multiplication, a search of all gradients for overflows, and on a GPU a wait for its
answer in every step, unless the optimizer is fused. Real systems have run so for weeks, believing that they trained in
mixed precision.

    scaler = torch.amp.GradScaler()
    scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="gradient_scaling",
    title="Loss scaling without mixed precision",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"gradient_scaling": True},
    proof={"gradient_scaling": True},
    pointless_where={"float16_layers False": "no layer computes in float16, so no gradient can underflow"},
    sought=False,
)
