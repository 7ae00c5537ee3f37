"""PowerSGD: each gradient matrix travels as the product of two thin ones; what is lost is added to the next gradient.

Sends a small share of the bytes and computes for it. It begins with the third step, since the first shapes the buckets.
Here all gradients share one bucket: the collectives of one bucket wait for each other within gloo's threads, and two
buckets were seen to wait for ever. Vogels, Karimireddy and Jaggi 2019.

    state = PowerSGDState(process_group=None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook)
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="powersgd",
    title="Gradients sent as matrices of rank one",
    stage=Stage.RANKS,
    numerics=Numerics.DIFFERENT,
    sets={"communication_hook": "powersgd"},
    proof={"communication_hook": "powersgd"},
    requires=("ranks",),
)
