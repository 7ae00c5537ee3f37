"""Speaker verification: ResNetSE34L on VoxCeleb, as in a fork of clovaai/voxceleb_trainer."""

from harness.core.workload import Parts, Size, Workload

SMOKE = Size(
    batch=4,
    epoch_steps=5,
    evaluation_items=6,
    data_bytes=20_000_000,
    shape={
        "speakers": 5, "utterances": 4, "utterance_ms": 4_500, "test_speakers": 2, "rooms": 2,
        "stacked_utterances": 2,
        "noise_files": 2, "noise_s": 7, "music_files": 2, "music_s": 12, "speech_files": 7, "speech_s": 18,
    },
    original_epoch_steps=1_092_009 // 100,
)  # fmt: skip

QUICK = Size(
    batch=5,
    epoch_steps=4,  # four items of each augmentation
    evaluation_items=12,
    data_bytes=440_000_000,
    shape={
        "speakers": 10, "utterances": 2, "utterance_ms": 7_800, "test_speakers": 3, "rooms": 4,
        "stacked_utterances": 2,
        "noise_files": 4, "noise_s": 23, "music_files": 3, "music_s": 232, "speech_files": 8, "speech_s": 507,
    },
    original_epoch_steps=1_092_009 // 100,
)  # fmt: skip

STANDARD = Size(
    batch=100,
    epoch_steps=200,
    evaluation_items=400,
    data_bytes=10_500_000_000,
    shape={
        "speakers": 1_000, "utterances": 20, "utterance_ms": 7_800, "test_speakers": 40, "rooms": 200,
        "stacked_utterances": 16,
        "noise_files": 90, "noise_s": 23, "music_files": 60, "music_s": 232, "speech_files": 60, "speech_s": 507,
    },
    original_epoch_steps=1_092_009 // 100,
)  # fmt: skip


def parts() -> Parts:
    """The parts that need torch."""
    import torch

    from workloads.speaker import corpus, data, evaluation
    from workloads.speaker.loss import AngularMarginLoss
    from workloads.speaker.model import EMBEDDING, ResNetSE34L

    return Parts(
        prepare=corpus.prepare,
        model=lambda _size, _recipe: ResNetSE34L(),
        loss=lambda size, _recipe: AngularMarginLoss(size.shape["speakers"], EMBEDDING),
        optimizer=lambda parameters, kernel: torch.optim.Adam(parameters, lr=1e-3, **kernel),
        dataset=data.dataset,
        evaluate=evaluation.evaluate,
        effective=lambda built: data.effective(built.dataset),
    )


WORKLOAD = Workload(
    name="speaker",
    title="Speaker verification: ResNetSE34L on VoxCeleb",
    origin="dimuthuanuraj/voxceleb_trainer, a fork of clovaai/voxceleb_trainer",
    parameters=1_437_078,
    traits=frozenset({"convolutions", "evaluation", "batched_evaluation"}),
    sizes={"smoke": SMOKE, "quick": QUICK, "standard": STANDARD},
    parts=parts,
    own={"audio_read": "whole_file", "noise_files": "unsplit"},
    as_found=("workers=5",),
    score="equal error rate in percent, less is better",
)
