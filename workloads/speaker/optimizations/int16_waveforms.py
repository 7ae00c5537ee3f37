"""Send waveforms to the device as int16, each scaled to its own peak, and widen them there.

A waveform that came from 16 bits travels in 32: through the queue between worker and trainer, into pinned memory and
over the bus. Scaled to its peak and rounded, it needs half of that, and the rounding lies 98 dB below the peak.

It pays where the way to the device is the bottleneck: many workers, a slow bus, a fast model. Here a batch of 100 is
13 MB in float32, which a bus of PCIe 4 carries in half a millisecond, so that little can be gained. It hurts the
worker, who must find the peak and round; with reads that cost little any more, that shows.

    peak = np.abs(sound).max(); stored = np.rint(sound * (32767 / peak)).astype(np.int16)
    waveforms = stored.to(device, non_blocking=True).float() * (peak.to(device) / 32767)[:, None]
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="int16_waveforms",
    title="Send waveforms to the device as int16",
    stage=Stage.INPUT,
    numerics=Numerics.CLOSE,
    sets={"transfer_type": "int16"},
    proof={"transfer_type": "int16"},
)
