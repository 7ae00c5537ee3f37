"""Voice anti-spoofing: SE-ResNet on ASVspoof 2019 LA and Fake-or-Real, as in gkibria121/ai-pipeline."""

from pathlib import Path

from harness.core.workload import PYTORCH_DEFAULTS, Lesson, Parts, Size, Workload

ORIGINAL_EPOCH_STEPS = 25_380 // 32

SMOKE = Size(
    batch=12,
    epoch_steps=5,
    evaluation_items=8,
    data_bytes=4_200_000,
    shape={
        "frames": 34, "scored_together": 3, "train_clips": 18, "train_bonafide": 9, "dev_clips": 8, "dev_bonafide": 4,
        "fake_or_real_train": 6, "fake_or_real_dev": 8,
        "fake_or_real_ms": 250,  # shorter than what the model sees, as the real two seconds are at the real size
        "narrowing": 1,
    },
    original_epoch_steps=ORIGINAL_EPOCH_STEPS,
)  # fmt: skip

QUICK = Size(
    # With four clips to a batch its norms turn weights that differ by 1e-6 into third losses that differ by 0.03, half
    # of what fresh networks of two classes may differ in; with twelve by 0.005 (means over four seeds).
    batch=12,
    epoch_steps=8,
    evaluation_items=32,
    data_bytes=29_000_000,
    shape={
        "frames": 404, "scored_together": 16, "train_clips": 96, "train_bonafide": 48, "dev_clips": 32,
        "dev_bonafide": 16, "fake_or_real_train": 48, "fake_or_real_dev": 32, "fake_or_real_ms": 2_000,
        "narrowing": 4,
    },
    original_epoch_steps=ORIGINAL_EPOCH_STEPS,
    step_s=0.24,
    compute_s=0.19,
)  # fmt: skip

STANDARD = Size(
    batch=32,
    epoch_steps=188,
    evaluation_items=400,
    data_bytes=1_300_000_000,
    shape={
        "frames": 404, "scored_together": 32, "train_clips": 6_016, "train_bonafide": 612, "dev_clips": 400,
        "dev_bonafide": 41, "fake_or_real_train": 2_000, "fake_or_real_dev": 400, "fake_or_real_ms": 2_000,
        "narrowing": 1,
    },
    original_epoch_steps=ORIGINAL_EPOCH_STEPS,
    step_s=0.27,
    compute_s=0.026,
)  # fmt: skip


def parts() -> Parts:
    """The parts that need torch."""
    import torch
    from torch.optim.lr_scheduler import CosineAnnealingLR

    from workloads.spoof import corpus, data, evaluation, evidence, yardsticks
    from workloads.spoof.loss import WeightedCrossEntropy
    from workloads.spoof.model import DEPTHS, SEResNet

    return Parts(
        prepare=corpus.prepare,
        model=lambda size, recipe: SEResNet(DEPTHS[str(recipe.choice("model"))], narrowing=size.shape["narrowing"]),
        loss=lambda _size, _recipe: WeightedCrossEntropy(),
        optimizer=lambda parameters, kernel: torch.optim.Adam(parameters, lr=3e-4, weight_decay=1e-4, **kernel),
        schedule=lambda optimizer, steps: CosineAnnealingLR(optimizer, steps, eta_min=1e-5),
        dataset=data.dataset,
        device_stage=data.device_stage,
        evaluate=evaluation.evaluate,
        effective=evidence.effective,
        yardsticks=yardsticks.yardsticks,
        between_epochs={"scoring_passes": 1},  # the plots, which score again, come when training ends
    )


def adopt(folder: Path, size: Size) -> Size:
    """The facts of a real ASVspoof 2019 tree, with Fake-or-Real beside it or not; raises Mistake about a bad one."""
    from workloads.spoof.adoption import adopted

    return adopted(folder, size)


WORKLOAD = Workload(
    name="spoof",
    title="Voice anti-spoofing: SE-ResNet on ASVspoof 2019 LA",
    origin="gkibria121/ai-pipeline, before d4dcd4c",
    parameters=11_981_251,
    operations={"smoke": 1_229_998_592, "quick": 709_743_232, "standard": 10_832_620_288},
    traits=frozenset(
        {
            "convolutions",
            "relu",
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
        "augmentation": False,
        "corpus": "asvspoof",
        "cut": "features",
        "features": "float64",
        "model": "se_resnet18",
        "scoring_passes": 2,
        "tiling": True,
    },
    original={
        **PYTORCH_DEFAULTS,
        "batched_evaluation": "its evaluation scored whole batches",
        "cudnn_deterministic": "cudnn_deterministic in the configuration before d4dcd4c",
        "pin_memory": "pin_memory=True in every DataLoader",
    },
    batches=("8", "16", "64"),
    first_look=("feature_cache", "workers", "device_mel"),
    least_samples=2,
    original_epochs=10,
    original_evaluation_items=24_844,
    score="equal error rate in percent over dev clips, less is better",
    reader="soundfile",
    lesson=Lesson(steps=72, chance=50.0, clear=20.0, better="less", batch=4),
    variants={"se_resnet34": 22_159_555},
    adopt=adopt,
    data_version=2,
)
