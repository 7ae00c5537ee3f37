"""Kernels are told apart by their names, beside every proof and instead of none."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.core.optimization import Timing
from harness.core.protocol import BRIEF, PROTOCOLS, UNTIMED
from harness.core.recipe import Recipe
from harness.measure import observed_step as evidence
from harness.measure import observed_step as kernels
from harness.measure.cuda import Cuda
from harness.measure.devices import Device, settle_backend
from harness.measure.lessons import TIMED
from harness.measure.observed_step import counted, launched, of_kernels
from harness.measure.trial import begin
from harness.run.replicate import untimed
from tests.measure.settings import put_back
from tests.measure.tasks import task_of
from tests.measure.test_gpu import gpu

CPU, CUDA = Device("cpu"), Cuda("cuda")
# As they stand in the libraries of torch 2.11 (cuBLAS 13.1, cuDNN 9.19), but for nvjet's, which lie there in parts.
ON_TENSOR_CORES = (
    "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_aligna4_alignc4",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x64x32_stage5_warpsize2x2x1_g1",
    "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32_warpgroupsize1x1x1_g1",
    "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_aux_bool_drelu",
    "ampere_bf16_s16816gemm_bf16_128x64_sliced1x2_ldg8_relu_f2f_stages_64x3_nn",
    "ampere_h16816gemm_128x128_ldg8_relu_stages_32x5_nn",
    "_5x_cudnn_ampere_fp16_s16816cudnn_fp16_128x128_ldg8_relu_f2f_exp_interior_nhwc_tn_v1",
    "cutlass_tensorop_s1688fprop_analytic_tf32_128x64_16x6_nhwc_align4",
    "bn_apply_relu_simple_1x1x1_fast_path_wgrad_ampere_hmma_fp32_064_032_032_3",
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT",
)
WITHOUT = (
    "ampere_sgemm_128x128_nn",
    "ampere_hgemm_128x128_tt",
    "ampere_scudnn_128x128_dgrad_exp_small_nhwc_tt_v1",
    "sm90_xmma_trmm_out_place_l_r_n_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4",
    "_ZN7cutlass7Kernel2I46cutlass_70_simt_dgemm_grouped_64x64_8x2_align1EEvNT_6ParamsE",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, float)",
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(cudnn::ops::nchw2nhwc_params_t<float>)",
)


@pytest.mark.parametrize("name", ON_TENSOR_CORES)
def test_kernels_of_tensor_cores_are_known_by_their_names(name: str) -> None:
    assert counted([name])["tensor_core_kernels"] == 1


@pytest.mark.parametrize("name", WITHOUT)
def test_other_kernels_are_not_taken_for_them(name: str) -> None:
    assert counted([name])["tensor_core_kernels"] == 0


def test_channels_last_is_told_from_the_copies_that_make_it() -> None:
    found = counted(
        [
            "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x64x32",
            "void batch_norm_collect_statistics_channels_last_kernel<VarOp, float>(float const*)",
            "void cudnn::ops::nchwToNhwcKernel<float>()",
            "_Z22nchwToFoldedNhwcKernelIdddLb0EL21cudnnKernelDataType_t0EEviiii",
            "_Z22foldedNhwcToNchwKernelI13__nv_bfloat166__halffLb0EL21cudnnKernelDataType_t0EEviii",
            "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x64x32_stage5",
            "void cudnn::ops::ncdhwToNdhwcKernel<float>()",
            "void cudnn::ops::nhwcToNchwKernel<float>()",
            "ampere_sgemm_128x64_nn",
            "Memcpy HtoD (Pinned -> Device)",
            "Memset (Device)",
        ]
    )
    assert found == {"kernels": 9, "tensor_core_kernels": 2, "channels_last_kernels": 2, "layout_conversions": 5}


def test_a_cpu_has_no_kernels_and_takes_no_step() -> None:
    assert of_kernels(lambda: pytest.fail("a step was taken"), CPU) == {}


def test_where_no_profiler_can_look_there_are_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("CUPTI_ERROR_NOT_INITIALIZED. Try again.")

    monkeypatch.setattr(kernels, "launched", refuse)
    assert of_kernels(lambda: None, CUDA) == {"profiler": "saw nothing: CUPTI_ERROR_NOT_INITIALIZED"}


def test_replays_are_counted_among_the_calls_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = ([WITHOUT[0]], ["cudaGraphLaunch", "cudaMemcpyAsync", "cudaGraphLaunch"])
    monkeypatch.setattr(kernels, "launched", lambda *_: seen)
    found = of_kernels(lambda: None, CUDA)
    assert (found["graph_launches"], found["kernels"]) == (2, 1)


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_profiled_step_is_taken_once_and_its_calls_are_named() -> None:
    """On a CPU the profiler sees operators, which are the host's."""
    taken, device = [], Device("cpu")
    device.profiled = Cuda.profiled
    on_device, by_host = launched(lambda: taken.append(torch.ones(2).sum()), device)
    assert len(taken) == 1
    assert on_device == []
    assert "aten::sum" in by_host


def test_an_arm_whose_clock_is_read_never_meets_a_profiler(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profiler may leave its hooks in the process, which make every launch dearer."""
    monkeypatch.setattr(evidence, "of_kernels", lambda *_: {"profiler": "came"})
    came = []
    with put_back():
        for protocol in (BRIEF, TIMED, UNTIMED):
            trial, ready = begin(
                task_of("leak", smoke_data["leak"], ()), Timing.LOADER, protocol, {}, other_seeds=False
            )
            trial.session.feed.close()
            came.append("profiler" in ready["effective"])
    assert came == [False, False, True]
    assert all(one.is_timed for one in PROTOCOLS.values())
    assert not untimed(20).is_timed


@pytest.fixture
def _plain_afterwards() -> Iterator[None]:
    yield
    settle_backend(Recipe())


def seen(step: Callable[[], object]) -> dict[str, Any]:
    step()  # libraries choose their kernels in a first call
    return of_kernels(step, CUDA)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("dtype", "precision", "on_tensor_cores"),
    [
        ("float32", "highest", False),
        ("float32", "high", True),
        ("bfloat16", "highest", True),
        ("float16", "highest", True),
    ],
)
@pytest.mark.usefixtures("_plain_afterwards")
def test_a_product_runs_where_its_type_sends_it(dtype: str, precision: Any, on_tensor_cores: bool) -> None:
    gpu(f"the kernel of a {dtype} product at precision {precision} is known for one of tensor cores, or for none")
    settle_backend(Recipe(matmul_precision=precision))
    one = torch.rand(1024, 1024, device="cuda", dtype=getattr(torch, dtype))
    found = seen(lambda: one @ one)
    assert found["kernels"] > 0, found
    assert (found["tensor_core_kernels"] > 0) is on_tensor_cores, launched(lambda: one @ one, CUDA)[0]


@pytest.mark.gpu
def test_convolutions_on_channels_last_tensors_convert_nothing() -> None:
    gpu("a channels-last convolution in bfloat16 runs channels-last kernels and no copy into another layout")
    convolution = nn.Conv2d(64, 64, 3, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    images = torch.rand(32, 64, 56, 56, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    found = seen(lambda: convolution(images).sum().backward())
    assert found["channels_last_kernels"] > 0, launched(lambda: convolution(images), CUDA)[0]
    assert found["layout_conversions"] == 0


@pytest.mark.gpu
def test_a_replay_is_one_launch_whatever_it_holds() -> None:
    gpu("a replayed graph is one cudaGraphLaunch, and its kernels are seen")
    one, graph = torch.rand(256, 256, device="cuda"), torch.cuda.CUDAGraph()
    torch.mm(one, one)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        value: Tensor = one
        for _ in range(5):
            value = torch.mm(value, one)
    found = seen(graph.replay)
    assert found["graph_launches"] == 1
    assert found["kernels"] >= 5


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("stack", "fact"),
    [(("amp_bfloat16",), "tensor_core_kernels"), (("channels_last", "amp_bfloat16"), "channels_last_kernels"),
     (("cuda_graph",), "graph_launches")],
)  # fmt: skip
def test_an_examined_arm_shows_its_kernels(stack: tuple[str, ...], fact: str, smoke_data: dict[str, Path]) -> None:
    gpu(f"{' and '.join(stack)} on leak is seen in the kernels of an examined arm, and plain has no such kernel")
    shown = []
    for names in (stack, ()):
        task = task_of("leak", smoke_data["leak"], names, device="cuda")
        trial, ready = begin(task, Timing.STEP, untimed(3), {}, other_seeds=False)
        trial.session.feed.close()
        shown.append(ready["effective"][fact])
    assert shown[0] > shown[1]
