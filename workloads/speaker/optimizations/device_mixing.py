"""Mix noises and rooms on the device, a batch at a time; the host only reads the pieces and sends them as int16.

Augmentation on the host handles one item after the other: a level in dB for every sound, a sum, or a convolution by
FFT of three transforms. On the device one indexed sum mixes all rows of a batch, and one batched FFT all rooms.

It pays in this system already without the rest, for a reason of its own: whole files are then read as int16, and a long
file costs most by becoming float64. It hurts where the device is the bottleneck, and it sends more, not less: 2.4 crops
an item in int16 and now and then a room, against one in float32. It mixes in float32; talkers of one row are added in
no fixed order on CUDA.

    gains = 10 ** ((level_db(speech)[rows] - level_db(noises) - snr_db) / 20)
    waveforms = speech.index_add(0, rows, gains[:, None] * noises)
    waveforms[reverberant] = torch.fft.irfft(rfft(speech[reverberant], n) * rfft(rooms, n), n)[:, :samples]
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="device_mixing",
    title="Mix noises and rooms on the device",
    stage=Stage.INPUT,
    numerics=Numerics.CLOSE,
    sets={"augmentation": "device"},
    proof={"augmentation": "device"},
    excludes={
        "float32_augmentation": "the device mixes in float32 anyhow",
        "int16_waveforms": "what the device mixes travels as int16 anyhow",
        "fftconvolve": "rooms are no longer convolved by scipy",
    },
    supersedes=("float32_augmentation", "int16_waveforms", "fftconvolve"),
)
