"""Anomaly detection: autograd notes where each operator was called, and checks every gradient for NaN.

Meant for the hour in which one looks for a NaN, and easily left on. Each operator of the forward pass then stores a
Python traceback, and each function of the backward pass looks through its results. On a GPU each look is a kernel and a
wait, so the host cannot run ahead at all, which steps of many small operations feel most. With float16 it may end the
training: a gradient that overflows to NaN is an error then, where loss scaling would only skip the update.

    torch.autograd.set_detect_anomaly(True)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="anomaly_detection",
    title="Autograd's search for NaN",
    stage=Stage.SYNC,
    numerics=Numerics.EXACT,
    sets={"anomaly_detection": True},
    proof={"anomaly_detection": True},
    alone_on=Timing.COMPUTE,
    sought=False,
)
