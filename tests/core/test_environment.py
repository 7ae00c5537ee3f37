from dataclasses import fields, replace
from typing import Any

import pytest

from harness.core.environment import Environment, is_one_kind
from tests.analyze.synthetic import ENVIRONMENT

OTHER: dict[str, Any] = {
    "accelerator_memory_bytes": 1,
    "cores": 3,
    "memory_bytes": 1,
    "packages": (("numpy", "2.1.1"), ("torch", "2.11.0")),
    "variables": (("CUDA_LAUNCH_BLOCKING", "1"),),
    "cpu_flags": ("amx_bf16",),
    "allocators": ("jemalloc",),
}


@pytest.mark.parametrize("name", [field.name for field in fields(Environment)])
def test_the_digest_differs_when_any_fact_differs(name: str) -> None:
    other = replace(ENVIRONMENT, **{name: OTHER.get(name, "something else")})
    assert other.digest != ENVIRONMENT.digest


def test_to_have_looked_and_found_nothing_is_no_other_environment() -> None:
    looked = replace(ENVIRONMENT, variables=(), cpu_flags=(), allocators=())
    assert looked.digest == ENVIRONMENT.digest
    assert looked.facts == ENVIRONMENT.facts


def test_the_digest_stays_the_same() -> None:
    assert ENVIRONMENT.digest == "a278b6232163"  # from before variables were known: where none is set, nothing changes


@pytest.mark.parametrize(
    ("accelerator", "cpu", "machine"),
    [
        ("NVIDIA H200", "x", "h200"),
        ("NVIDIA GeForce RTX 4090", "x", "geforce-rtx-4090"),
        (None, "AMD EPYC 9R14", "cpu-2-amd-epyc-9r14"),
        (None, "Intel(R) Xeon(R) Processor @ 2.80GHz", "cpu-2-intel-xeon-2-80ghz"),
        (None, "../../etc/\n<b>", "cpu-2-etc-b"),
    ],
)
def test_a_machines_name_is_neutral_and_fit_for_a_folder(accelerator: str | None, cpu: str, machine: str) -> None:
    assert replace(ENVIRONMENT, accelerator=accelerator, cpu=cpu).machine == machine


def test_a_machines_name_is_never_long() -> None:
    assert len(replace(ENVIRONMENT, cpu="very " * 40).machine) == 48


def test_some_pages_of_memory_are_no_other_environment() -> None:
    whole = replace(ENVIRONMENT, memory_bytes=24 << 30)
    assert replace(whole, memory_bytes=(24 << 30) + 8192).digest == whole.digest
    assert replace(whole, memory_bytes=32 << 30).digest != whole.digest


H200 = replace(
    ENVIRONMENT, device="cuda", accelerator="NVIDIA H200", accelerator_memory_bytes=150_754_820_096,
    driver="580.159.03", capability="9.0", memory_bytes=128 << 30,
)  # fmt: skip


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"driver": "580.159.04"},
        {"driver": "580.159"},
        {"memory_bytes": 130 << 30},
        {"accelerator_memory_bytes": 150_000_000_000},
    ],
)
def test_boxes_of_one_kind_differ_in_patches_and_a_little_memory(facts: dict[str, Any]) -> None:
    assert is_one_kind(H200, replace(H200, **facts))


@pytest.mark.parametrize(
    "facts",
    [
        {"driver": "580.160.03"},
        {"driver": "581.159.03"},
        {"driver": None},
        {"memory_bytes": 64 << 30},
        {"accelerator_memory_bytes": 80 << 30},
        {"accelerator_memory_bytes": None},
        {"cpu": "another"},
        {"cores": 8},
        {"packages": (("torch", "2.12.0"),)},
        {"variables": (("CUDA_LAUNCH_BLOCKING", "1"),)},
    ],
)
def test_whatever_else_differs_is_another_kind(facts: dict[str, Any]) -> None:
    assert not is_one_kind(H200, replace(H200, **facts))
