"""What is rendered is the same in every process, in whatever order its hashes put what has none."""

import hashlib
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from harness.plan.designs import matrix
from harness.report.comparison import comparison_parts, comparison_to_json
from harness.report.document import to_markdown
from harness.report.html import to_html
from tests.core.invented import GPU
from tests.plan.test_designs import scope
from tests.report.exhibits import shown, two_machines
from tests.report.test_comparison import five

ROOT = Path(__file__).parents[2]


def rendered() -> dict[str, str]:
    """A plan, pages and tables, each of data that are always the same."""
    made = {
        "plan": repr(list(matrix(scope(environment=GPU)))),
        "report": to_html(shown()),
        "report of two machines": to_html(two_machines()),
        "comparison": to_markdown(comparison_parts(five())),
        "comparison as JSON": comparison_to_json(five()),
    }
    if find_spec("pyarrow"):
        from harness.exchange.parquet import tables
        from tests.report.test_parquet import exported

        made["tables"] = repr(list(tables([exported()])))
    return made


def digests() -> dict[str, str]:
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in rendered().items()}


def test_another_process_renders_the_same_bytes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.report.test_same_bytes"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == digests()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests()))
