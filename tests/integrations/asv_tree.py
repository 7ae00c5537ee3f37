"""A repository of its own for asv: the working tree as it is, committed, with nothing of the user's in reach."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
AUTHOR = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A checkout, and the folder that stands in for the user's home."""

    folder: Path
    home: Path
    variables: dict[str, str]

    def git(self, *words: str) -> str:
        command = ["git", *AUTHOR, *words]
        done = subprocess.run(command, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, message: str, *words: str) -> str:
        """Commits all that is not in results; gives the commit."""
        self.git("add", "--all", "--", ".", ":!results")
        self.git("commit", "--quiet", "--no-verify", "--message", message, *words)
        return self.git("rev-parse", "HEAD")

    def asv(self, *words: str, status: int = 0) -> str:
        """What asv says; it is given no input and no terminal."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "asv", *words],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == status, said
        return said


def tree_in(folder: Path, **variables: str) -> Tree:
    """A copy of every file that git knows or would know, but for results, as the first commit of a new repository."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".", ":!results"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            target = folder / "tree" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    tree = Tree(folder=folder / "tree", home=folder / "home", variables=_variables(folder) | variables)
    tree.home.mkdir()
    tree.home.chmod(0o500)  # asv would like to write there
    tree.git("init", "--quiet", "--initial-branch", "main")
    tree.commit("All of it")
    return tree


def _variables(folder: Path) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SPEEDMATRIX_", "ASV", "GIT_"))}
    return ours | {"HOME": str(folder / "home"), "SPEEDMATRIX_DATA": str(folder / "data"), "PYTHONPATH": ""}
