"""speedmatrix from Python: `run`, `plan`, `load`, `compare`; see docs/using.md, and harness/api.py.

A module and no package, because the script that bears this name lies beside it.
"""

from harness import __version__
from harness.api import Matrix, Mistake, Request, Row, compare, load, plan, run

__all__ = ["Matrix", "Mistake", "Request", "Row", "__version__", "compare", "load", "plan", "run"]
