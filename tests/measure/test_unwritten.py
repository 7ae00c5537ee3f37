"""The look for memory that nobody wrote: what this CPU's convolutions do with it, and with AMX switched off."""

import sys
from pathlib import Path

import pytest

from harness.measure.unwritten import reads_unwritten

CPU_FACTS = Path("/proc/cpuinfo")
AMX = CPU_FACTS.exists() and "amx_bf16" in CPU_FACTS.read_text(encoding="utf-8")


@pytest.mark.thorough
def test_a_cpu_with_amx_reads_memory_that_nobody_wrote_and_no_other() -> None:
    found = reads_unwritten()
    assert found is AMX, "it does no longer: take the note out of doctor, and the expected failures out of the stacks"


@pytest.mark.thorough
def test_without_amx_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    assert reads_unwritten() is False


def test_a_process_that_gives_no_answer_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    silent.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(silent))
    assert reads_unwritten() is None
