"""Sessions of pytest in processes of their own, as somebody at a terminal would begin them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def pytest_in(folder: Path, *words: str, root: Path = ROOT, seconds: float = 280) -> subprocess.CompletedProcess[str]:
    """A session at the root of a checkout, which keeps what it writes in a folder of the test's."""
    quiet = ("-p", "no:cacheprovider", f"--benchmark-storage=file://{folder / 'stored'}")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    environment |= {"PYTHONPATH": str(root), "COLUMNS": "160"}
    return subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *words, *quiet],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def benchmarks_of(path: Path) -> dict[str, dict[str, Any]]:
    """The benchmarks of a file of pytest-benchmark's by name."""
    return {one["name"]: one for one in json.loads(path.read_text(encoding="utf-8"))["benchmarks"]}
