"""Image classification: ResNet-50 on 100 classes of ImageNet, its JPEGs in an object store."""

from contextlib import suppress
from importlib import import_module

from harness.core.workload import PYTORCH_DEFAULTS, Lesson, Parts, Size, Workload
from workloads.imagenet.adoption import adopt
from workloads.imagenet.service import SERVICE

FILE_BYTES = 112_000  # of a JPEG, on average
EPOCHS = 20  # the most that the real system's own plan names


def _size(
    *, batch: int, image_px: int, classes: int, train_files: int, validation_files: int, width_per_group: int = 64
) -> Size:
    return Size(
        batch=batch,
        epoch_steps=train_files // batch,
        evaluation_items=validation_files,
        data_bytes=(2 * train_files + validation_files) * FILE_BYTES,  # training files once more, in shards
        shape={
            "image_px": image_px,
            "classes": classes,
            "train_files": train_files,
            "width_per_group": width_per_group,
        },
        original_epoch_steps=50_000 // 256,
        step_s=(0.0375 if image_px < 64 else 0.0142) * batch,  # a small picture trains on the core that fetches it
        compute_s=(0.4 * 0.0375 if image_px < 64 else 0.0011) * batch,
    )


def _parts() -> Parts:
    from workloads.imagenet.corpus import prepare
    from workloads.imagenet.data import dataset
    from workloads.imagenet.device import device_stage
    from workloads.imagenet.evaluation import evaluate
    from workloads.imagenet.evidence import effective
    from workloads.imagenet.model import build_loss, build_model, build_optimizer, build_schedule
    from workloads.imagenet.yardsticks import yardsticks

    for client in ("boto3.session", "botocore.config"):  # once, for all arms that are forked from here
        with suppress(ImportError):  # without them images are read from a local copy
            import_module(client)
    return Parts(
        prepare=prepare,
        model=lambda size, _recipe: build_model(size),
        loss=lambda _size, _recipe: build_loss(),
        optimizer=build_optimizer,
        schedule=build_schedule,
        dataset=dataset,
        device_stage=device_stage,
        evaluate=evaluate,
        effective=effective,
        yardsticks=yardsticks,
    )


WORKLOAD = Workload(
    name="imagenet",
    title="Image classification: ResNet-50 on JPEGs in an object store",
    origin="cydal/ImageNet-Full-training",
    parameters=23_712_932,
    operations={"smoke": 1_228_831_488, "quick": 540_586_752, "standard": 24_288_018_432},
    # Without "relu": torchvision builds its activations so that they overwrite their input from the start.
    traits=frozenset(
        {"convolutions", "capturable", "evaluation", "evaluation_options", "batched_evaluation", "device_results"}
    ),
    sizes={
        "smoke": _size(batch=8, image_px=42, classes=4, train_files=32, validation_files=16),
        # Half as wide inside its blocks: at full width a core computes for twice as long as it waits for the store, of
        # which the real system complains. An epoch has 29 steps, which no number of loader workers divides.
        "quick": _size(batch=8, image_px=42, classes=10, train_files=232, validation_files=100, width_per_group=32),
        "standard": _size(batch=256, image_px=224, classes=100, train_files=30_000, validation_files=1_000),
    },
    parts=_parts,
    own={
        "storage": "s3",
        "s3_state": "warm",
        "packing": "files",
        "encoded_cache": "none",
        "concurrent_reads": 1,
        "decoder": "pillow",
        "draft_decode": False,
        "batch_dtype": "float32",
        "image_size": 224,
    },
    original={
        **PYTORCH_DEFAULTS,
        "workers=8": "the loaders of 8113857",
        "persistent_workers": "the loaders of 8113857",
        "pin_memory": "the loaders of 8113857",
        "non_blocking": "Lightning moves batches so, wherever they are pinned",
        "amp_float16": "precision 16-mixed of its Trainer",
        "channels_last": "memory_format of its model",
        "tf32_matmul": "set_float32_matmul_precision of its training script",
        "cudnn_benchmark": "benchmark of its Trainer",
        "batched_evaluation": "its evaluation scored whole batches",
    },
    batches=("384", "512"),
    first_look=("ram_cache", "local_copy", "decoder"),
    least_samples=2,
    original_epochs=EPOCHS,
    original_evaluation_items=1_000,
    score="top-1 accuracy in percent",
    lesson=Lesson(steps=150, chance=10.0, clear=25.0, better="more"),
    service=SERVICE,
    adopt=adopt,
    data_version=3,
)
