"""Compute the spectrograms of a batch in a Python loop, one utterance after another, and stack them.

A harm, and the opposite of advice: the report promises 1.3 times from vectorising Python loops, without having one in
its model. This is the loop that it could mean. For each utterance of a batch it queues a transform, a product with the
filters, a normalisation and a handful of small operations, where the batch needs them once.

On a GPU each of them is a kernel of some microseconds that must be launched, a hundred times over; on a CPU a transform
has its cost whoever calls it, and little is lost. Use it as a reference to see what vectorising is worth. Sums may be
added up in another order, so that last bits can differ.

    mels = torch.stack([mel(one) for one in waveforms])       # instead of mel(waveforms)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="looped_front_end",
    title="Spectrograms in a Python loop",
    stage=Stage.HOST,
    numerics=Numerics.CLOSE,
    sets={"front_end": "looped"},
    proof={"front_end": "looped"},
    alone_on=Timing.COMPUTE,
    sought=False,
)
