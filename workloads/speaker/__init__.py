"""Speaker verification: ResNetSE34L on VoxCeleb, as in a fork of clovaai/voxceleb_trainer."""

from pathlib import Path

from harness.core.workload import PYTORCH_DEFAULTS, Lesson, Parts, Size, Workload

EPOCHS = 500  # as voxceleb_trainer has it where a configuration says nothing else
SMOKE = Size(
    batch=4,
    epoch_steps=5,
    evaluation_items=6,
    data_bytes=20_000_000,
    shape={
        "speakers": 5, "utterances": 4, "utterance_ms": 4_500, "test_speakers": 2, "rooms": 2,
        "stacked_utterances": 2,
        "noise_files": 2, "noise_s": 7, "music_files": 2, "music_s": 12, "speech_files": 7, "speech_s": 18,
        "narrowing": 1,
    },
    original_epoch_steps=1_092_009 // 100,
)  # fmt: skip

QUICK = Size(
    batch=5,
    epoch_steps=2,  # two items of each augmentation
    evaluation_items=24,
    data_bytes=400_000_000,
    shape={
        "speakers": 10, "utterances": 4, "utterance_ms": 7_800, "test_speakers": 6, "rooms": 4,
        "stacked_utterances": 2,
        "noise_files": 4, "noise_s": 23, "music_files": 2, "music_s": 232, "speech_files": 7, "speech_s": 507,
        # Of all stages but the first. At full width the model would take two thirds of a step on one core.
        "narrowing": 2,
    },
    original_epoch_steps=1_092_009 // 100,
    step_s=0.27,
    compute_s=0.12,
)  # fmt: skip

STANDARD = Size(
    batch=100,
    epoch_steps=80,
    evaluation_items=400,
    data_bytes=4_200_000_000,
    shape={
        "speakers": 1_000, "utterances": 8, "utterance_ms": 7_800, "test_speakers": 40, "rooms": 200,
        "stacked_utterances": 16,
        "noise_files": 60, "noise_s": 23, "music_files": 20, "music_s": 232, "speech_files": 30, "speech_s": 507,
        "narrowing": 1,
    },
    original_epoch_steps=1_092_009 // 100,
    step_s=3.54,
    compute_s=0.05,
)  # fmt: skip


def parts() -> Parts:
    """The parts that need torch."""
    import torch

    from workloads.speaker import corpus, data, evaluation
    from workloads.speaker.device_stage import device_stage
    from workloads.speaker.effective import effective
    from workloads.speaker.loss import build_loss
    from workloads.speaker.model import build_model, build_schedule
    from workloads.speaker.yardsticks import yardsticks

    return Parts(
        prepare=corpus.prepare,
        model=build_model,
        loss=build_loss,
        optimizer=lambda parameters, kernel: torch.optim.Adam(parameters, lr=1e-3, **kernel),
        schedule=build_schedule,
        dataset=data.dataset,
        evaluate=evaluation.evaluate,
        effective=effective,
        device_stage=device_stage,
        yardsticks=yardsticks,
    )


def adopt(folder: Path, size: Size) -> Size:
    """The facts of a real tree of VoxCeleb2, VoxCeleb1, MUSAN and simulated rooms; raises Mistake."""
    from workloads.speaker import adoption

    return adoption.adopt(folder, size)


WORKLOAD = Workload(
    name="speaker",
    title="Speaker verification: ResNetSE34L on VoxCeleb",
    origin="dimuthuanuraj/voxceleb_trainer, a fork of clovaai/voxceleb_trainer",
    parameters=1_437_078,
    operations={"smoke": 4_292_007_552, "quick": 1_507_848_192, "standard": 4_295_064_192},
    traits=frozenset(
        {
            "convolutions",
            "relu",
            "checkpointing",
            "capturable",
            "evaluation",
            "evaluation_options",
            "batched_evaluation",
            "device_results",
        }
    ),
    sizes={"smoke": SMOKE, "quick": QUICK, "standard": STANDARD},
    parts=parts,
    own={
        "architecture": "resnetse34l",
        "audio_read": "whole_file",
        "augmentation": "host",
        "convolution": "convolve",
        "crop_length": 200,
        "front_end": "batched",
        "network_mount": "none",
        "noise_files": "unsplit",
        "objective": "aam_softmax",
        "sample_type": "float64",
        "transfer_type": "float32",
        "utterance_cache": "none",
    },
    of_process=dict.fromkeys(
        ("audio_read", "noise_files", "sample_type"),
        "the largest array that a process has freed decides how glibc gives memory to all its arms",
    ),
    original={
        **PYTORCH_DEFAULTS,
        "workers=5": "nDataLoaderThread of configs/experiment_01.yaml",
        "cudnn_benchmark": "trainSpeakerNet.py at 7638cee",
    },
    batches=("128", "200", "4x100"),
    first_look=("seek_read", "workers", "split_noise"),
    original_epochs=EPOCHS,
    score="equal error rate in percent, less is better",
    # A fresh network tells voices apart already (25 to 33 %): clear is what it cannot.
    reader="soundfile",
    lesson=Lesson(steps=130, chance=50.0, clear=18.0, better="less", epoch_steps=130, batch=10),
    variants={"ResNetSE34V2": 8_028_492, "ResNetSE152": 76_595_232},
    adopt=adopt,
    data_version=2,
)
