"""The HDF5 mel leak classifier: tiny samples, so that the work around each sample costs more than the sample."""

from harness.core.workload import Parts, Size, Workload

SEGMENT_BYTES = 64 * 2 + 512 * 4  # one mel frame in float16 and its waveform in float32
FILE_BYTES = 40 * 2 * SEGMENT_BYTES + 2  # 40 long segments of two short ones, and the label
HEADER_BYTES = 64 * 1024


def _size(*, batch: int, epoch_steps: int, files: int, validation_files: int) -> Size:
    return Size(
        batch=batch,
        epoch_steps=epoch_steps,
        evaluation_items=validation_files,
        data_bytes=(files + validation_files) * FILE_BYTES + HEADER_BYTES,
        shape={"files": files, "validation_files": validation_files, "classes": 5},
        original_epoch_steps=562,
    )


def _parts() -> Parts:
    from workloads.leak.data import prepare
    from workloads.leak.datasets import dataset, effective
    from workloads.leak.evaluation import evaluate
    from workloads.leak.loss import build_loss
    from workloads.leak.model import build_model, build_optimizer

    return Parts(
        prepare=prepare,
        model=lambda size, _recipe: build_model(size),
        loss=lambda size, _recipe: build_loss(size),
        optimizer=build_optimizer,
        dataset=dataset,
        evaluate=evaluate,
        effective=lambda built: effective(built.dataset),
    )


WORKLOAD = Workload(
    name="leak",
    title="HDF5 mel leak classifier",
    origin="eviltwinkie/AILH_MASTER, AI_DEV/dataset_trainer.py at f3718d4",
    parameters=618_758,
    traits=frozenset({"convolutions", "batched_fetch", "in_memory_data", "evaluation", "batched_evaluation"}),
    sizes={
        "smoke": _size(batch=64, epoch_steps=8, files=24, validation_files=12),
        "quick": _size(batch=512, epoch_steps=16, files=1_500, validation_files=40),
        # The 3,165,040 segments make 561 whole batches; the short 562nd is left out, so that all steps are alike.
        "standard": _size(batch=5632, epoch_steps=561, files=39_563, validation_files=7_913),
    },
    parts=_parts,
    own={"chunk_cache_mib": None},  # None leaves HDF5's own default
    as_found=(
        "workers=8",
        "prefetch_factor=4",
        "persistent_workers",
        "pin_memory",
        "tf32",
        "cudnn_benchmark",
        "channels_last",
        "amp_float16",
    ),
    score="F1 of LEAK over files, by the vote of their long segments",
)
