"""CUDA graph: the whole step is recorded once and replayed, so that the host queues one launch instead of hundreds.

Forward pass, loss, backward pass and update become one graph that reads its batch from a fixed place. Pays where
kernels are so short that the host cannot queue them fast enough; nothing where the device is busy anyway or the step
waits for data. Shapes must not change, nothing in it may wait for the device or take a decision on the host, and the
graph keeps its memory for itself. The first steps run as usual, then one is recorded.

    optimizer.zero_grad(set_to_none=True)   # after some eager steps on a side stream; Adam needs capturable=True
    with torch.cuda.graph(graph):
        loss = criterion(model(inputs), targets); loss.backward(); optimizer.step()
    inputs.copy_(batch); targets.copy_(labels); graph.replay()
"""

from harness.core.optimization import CUDA, Numerics, Optimization, Stage, trait

OPTIMIZATION = Optimization(
    name="cuda_graph",
    title="Whole step as one CUDA graph",
    stage=Stage.HOST,
    numerics=Numerics.CLOSE,  # Adam counts its steps on the device then, and divides in another order
    sets={"cuda_graph": True},
    proof={"cuda_graph": True},
    needs=(CUDA, trait("capturable", "needs batches of one shape, and a model and a loss that never wait for the GPU")),
    start_s=5.0,
    sought=False,  # bars so much else that what goes together would turn on it
)
