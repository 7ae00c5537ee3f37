"""Work out the features of every clip once, keep them on disk as float16, and read them in training.

The features of a whole clip never change: only where they are cut is random. Decoding and log-mel then disappear from
training, and an item is one read of some 90 KB. This suite writes the cache with the data, so that no arm pays for it;
`python -m workloads.spoof.cache FOLDER` writes it for real data.

It pays most of all where the feed is the bottleneck. It costs disk, 1.5 times what FLAC takes, and the time to write
it; it hurts where the cache does not fit the page cache of the machine, and it rules out augmenting the sound. float16
holds a level of 80 dB to within 0.03 dB. Count its hits: a cache that nothing reads is reported as a win too easily.

    features = numpy.load(f"features/{path}.npy")                     # (128, frames), float16
    features = numpy.tile(features, -(-404 // features.shape[1]))     # short clips are repeated
    start = random.randrange(features.shape[1] - 404 + 1)
    return torch.from_numpy(features[:, start : start + 404].astype("float32"))
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="feature_cache",
    title="Features of whole clips cached on disk",
    stage=Stage.INPUT,
    numerics=Numerics.CLOSE,
    sets={"features": "cached"},
    proof={
        "features": "cached",
        "cache_hits_per_item": 1.0,
        "decoded_clips_per_item": 0.0,
        "mel_drift_below_0.1_db": True,
    },
    alone_on=Timing.LOADER,
    excludes={
        "crop_before_mel": "the cache holds features of whole clips",
        "cpu_augmentation": "features that were worked out before cannot be augmented as sound",
    },
    supersedes=("device_mel", "torch_mel", "float32_mel"),
)
