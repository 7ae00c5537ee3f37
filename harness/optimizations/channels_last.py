"""Channels-last: image tensors lie in memory with the channels of a pixel side by side.

Convolutions on tensor cores and in oneDNN want this layout and otherwise convert to it and back. Pays for convolutional
networks, most of all with 16-bit types; hurts where one layer forces the old layout and every neighbour has to convert.

    model = model.to(memory_format=torch.channels_last)
    inputs = inputs.to(memory_format=torch.channels_last)
"""

from harness.core.optimization import CONVOLUTIONS, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="channels_last",
    title="Channels-last memory format",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"channels_last": True},
    proof={"memory_format": "channels_last"},
    alone_on=Timing.COMPUTE,
    needs=(CONVOLUTIONS,),
)
