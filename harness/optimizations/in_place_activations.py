"""In-place activations: a ReLU overwrites its input instead of writing a second tensor.

Autograd keeps what a ReLU gives, and the layer before keeps nothing of what it gave, so that as much is stored for the
backward pass: saved is one tensor at the peak, and its allocation, which is little time. Nothing is saved where a
compiler fuses the activation away. Right only where nobody needs the input again: the layer before must not want its
output for its gradient, and no shortcut may branch off between the two. The first is an error of autograd; the second
is silent and trains another network.

    activation = nn.ReLU(inplace=True)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing, trait

OPTIMIZATION = Optimization(
    name="in_place_activations",
    title="Activations that overwrite their input",
    stage=Stage.DEVICE,
    numerics=Numerics.EXACT,
    sets={"in_place_activations": True},
    proof={"in_place_activations": True},
    alone_on=Timing.COMPUTE,
    needs=(trait("relu", "needs ReLU layers that may overwrite their input and do not do so already"),),
)
