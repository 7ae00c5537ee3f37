"""Send the sound to the device and work out the log-mel there, for the whole batch.

As found, every item decodes a clip and then computes the log-mel of all of it in float64 on the CPU, one clip at a time
in the process that feeds the GPU: several times the work of decoding. A worker that only decodes has little left to do;
a transform of a batch is a small part of a training step on a GPU. Whole clips travel, as the int16 that they are
stored in, because the reference of the dB scale is the loudest value of the whole clip and not of the part that is
seen; padded to the longest of the batch they weigh about what the features did.

It pays where the feed is the bottleneck. It hurts where the device is: on a CPU the same threads do the same transform
inside the step. A port to torchaudio's defaults (HTK scale, no norm, reflected edges) is another input, at full speed;
an arm is refused if its features drift from the original's by 0.1 dB.

    sounds = sounds.to("cuda", non_blocking=True).float() / 32768
    spectrum = torch.stft(sounds, 512, 160, window=window, pad_mode="constant", return_complex=True)
    mels = slaney_filters @ spectrum.abs().square()
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="device_mel",
    title="Log-mel of a batch on the device",
    stage=Stage.INPUT,
    numerics=Numerics.CLOSE,
    sets={"features": "device"},
    proof={"features": "device", "mel_drift_below_0.1_db": True},
    supersedes=("torch_mel", "float32_mel"),
)
