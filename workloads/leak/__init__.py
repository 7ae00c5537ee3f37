"""The HDF5 mel leak classifier: tiny samples, so that the work around each sample costs more than the sample."""

from pathlib import Path

from harness.core.workload import CLIPPING_DEFAULTS, PYTORCH_DEFAULTS, Lesson, Parts, Size, Workload
from workloads.leak.classes import CLASSES, LEAK, counts, named

MEL_BYTES = 40 * 2 * 64 * 2  # of one file: 40 long segments of two short ones, each 64 mels in float16
WAVEFORM_BYTES = 40 * 2 * 512 * 4
COPIES = 3  # of the training split's mel segments: contiguous, chunked, compressed
HEADER_BYTES = 128 * 1024


def _size(*, batch: int, epoch_steps: int, files: int, validation_files: int, waveforms: bool = True) -> Size:
    split_bytes = (COPIES * files + validation_files) * (MEL_BYTES + 2)
    waveform_files = (files if waveforms else 0) + validation_files
    return Size(
        batch=batch,
        epoch_steps=epoch_steps,
        evaluation_items=validation_files,
        data_bytes=split_bytes + waveform_files * WAVEFORM_BYTES + HEADER_BYTES,
        shape={
            "files": files,
            "validation_files": validation_files,
            "training_waveforms": files if waveforms else 0,
            "longs": 40,
            "shorts": 2,
            "mels": 64,
            "frames": 1,
            "classes": len(CLASSES),
            "leak": LEAK,
            **named(counts(files)),
        },
        original_epoch_steps=562,
        step_s=0.0005 * batch if batch < 5632 else 0.39,  # a small batch trains on the core that loads it
        compute_s=0.00047 * batch if batch < 5632 else 0.09,
    )


def _parts() -> Parts:
    from torch.optim.lr_scheduler import CosineAnnealingLR

    from workloads.leak.data import prepare
    from workloads.leak.datasets import dataset
    from workloads.leak.device import device_stage
    from workloads.leak.evaluation import evaluate
    from workloads.leak.evidence import effective
    from workloads.leak.loss import build_loss
    from workloads.leak.model import build_model, build_optimizer
    from workloads.leak.yardsticks import yardsticks

    return Parts(
        prepare=prepare,
        model=build_model,
        loss=build_loss,
        optimizer=build_optimizer,
        schedule=CosineAnnealingLR,
        dataset=dataset,
        evaluate=evaluate,
        effective=effective,
        device_stage=device_stage,
        clip_norm=1.0,
        yardsticks=yardsticks,
    )


def _adopt(folder: Path, size: Size) -> Size:
    from workloads.leak.adoption import adopt

    return adopt(folder, size)


WORKLOAD = Workload(
    name="leak",
    title="HDF5 mel leak classifier",
    origin="eviltwinkie/AILH_MASTER, AI_DEV/dataset_trainer.py at f3718d4",
    parameters=618_758,
    operations=dict.fromkeys(("smoke", "quick", "standard"), 24_462_336),
    traits=frozenset(
        {
            "convolutions",
            "relu",
            "capturable",
            "batched_fetch",
            "in_memory_data",
            "clipping",
            "evaluation",
            "evaluation_options",
            "batched_evaluation",
            "device_results",
        }
    ),
    sizes={
        "smoke": _size(batch=64, epoch_steps=8, files=24, validation_files=12),
        # Nearly all that a step costs grows with its samples: 256 tell what 512 did, in half of the time.
        "quick": _size(batch=256, epoch_steps=32, files=1_500, validation_files=40),
        # The 3,165,040 segments make 561 whole batches; the short 562nd is left out, so that all steps are alike.
        # The training split goes without its 6.5 GB of waveforms, which nobody reads in training.
        "standard": _size(batch=5632, epoch_steps=561, files=39_563, validation_files=7_913, waveforms=False),
    },
    parts=_parts,
    own={
        "chunk_cache_mib": None,  # None leaves HDF5's own default
        "class_loss": "cross_entropy",
        "classes": "all",
        "convolution": "square",
        "data_on_device": False,
        "file_index_cache": False,
        "files_per_batch": 16,  # of a batched evaluation
        "hdf5_layout": "contiguous",
        "segment_read": "hdf5",
        "spec_augment": None,
        "swmr": True,
    },
    of_process={
        "swmr": "HDF5 opens a file in one mode in a process",
        "chunk_cache_mib": "all who have a file open in a process share HDF5's caches, which the first has sized",
    },
    original={
        **PYTORCH_DEFAULTS,
        **CLIPPING_DEFAULTS,
        "workers=8": "the settings that its performance analysis begins with",
        "prefetch_factor=4": "the settings that its performance analysis begins with",
        "persistent_workers": "the settings that its performance analysis begins with",
        "pin_memory": "the settings that its performance analysis begins with",
        "tf32_matmul": "dataset_trainer.py at f3718d4",
        "cudnn_benchmark": "dataset_trainer.py at f3718d4",
        "channels_last": "dataset_trainer.py at f3718d4",
        "amp_float16": "dataset_trainer.py at f3718d4",
        "monitoring=10": "its profiler took a sample every ten batches",
    },
    batches=("4096", "2x5632"),
    first_look=("batched_fetch", "hdf5_chunk_cache", "data_on_device"),
    original_epochs=200,
    original_evaluation_items=7_913,
    score="F1 of LEAK over files, by the vote of their long segments",
    reader="h5py",
    lesson=Lesson(steps=80, chance=2 * 16 / (40 + 16), clear=0.8, better="more"),
    variants={"binary": 617_987},
    adopt=_adopt,
    data_version=2,
)
