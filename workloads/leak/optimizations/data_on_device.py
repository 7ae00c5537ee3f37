"""Keep the whole mel tensor on the device; the loader hands over index numbers alone.

All 3,165,040 training segments of the real system are 405 MB in float16, a small part of any GPU. With them there, a
batch is one gather on the device. What travels is an index of 8 bytes a sample, where the real system sends 128 bytes
(float16) and this suite 256 (widened to float32). No worker, pinned buffer or prefetching is needed any more. It does
not pay where the step is bound by computing, and cannot be where the set outgrows the device's memory, which it shares
with the model. Augmentation must then run on the device too (`device_spec_augment`).

    mel = torch.from_numpy(file["segments_mel"][:]).flatten(0, 2).unsqueeze(1).to("cuda")  # (segments, 1, 64, 1)
    inputs = mel.index_select(0, numbers.to("cuda")).float()
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="data_on_device",
    title="Training set held on the device",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"data_on_device": True},
    proof={"data_on_device": True},
    supersedes=("batched_fetch", "in_memory_data", "memory_map"),
)
