"""The catalogue: finds optimizations and workloads by their files, and refuses what is misnamed."""

import importlib
import importlib.metadata
import importlib.resources
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from harness.core.catalogue import Catalogue
from harness.core.claims import Claim, checked, parsed
from harness.core.mistake import Mistake
from harness.core.optimization import Optimization
from harness.core.workload import Workload

ENTRY_POINTS = "speedmatrix.workloads"  # the group under which a package announces workloads of its own

Found = TypeVar("Found", Workload, Optimization)


def read_catalogue(extra_workload: Path | None = None, *, ledger: bool = True) -> Catalogue:
    """Everything there is, with one workload from a file of the user's own if a path is given.

    Without the ledger it has no claims: an arm has no use for them and starts sooner.
    """
    workloads: dict[str, Workload] = {}
    optimizations = dict(_optimizations("harness.optimizations", workload=None))
    for name in _submodules("workloads"):
        workloads[name] = _named(importlib.import_module(f"workloads.{name}"), "WORKLOAD", Workload, name)
        if importlib.util.find_spec(f"workloads.{name}.optimizations"):
            _add(optimizations, _optimizations(f"workloads.{name}.optimizations", workload=name))
    claims = checked(_ledger(), workloads, optimizations) if ledger else ()  # of the suite's own workloads
    for name, workload in _installed():
        if name in workloads:
            raise Mistake(f"An installed package brings a workload '{name}', which is taken; uninstall or rename it.")
        workloads[name] = workload
    mine = read_workload(extra_workload) if extra_workload else None
    if mine:
        workloads[mine.name] = mine
    return Catalogue(workloads=workloads, optimizations=optimizations, own=mine.name if mine else None, claims=claims)


def _ledger() -> Iterator[Claim]:
    """The claims of all TOML files of the package, by file and then as they stand there."""
    files = [one for one in (importlib.resources.files("harness") / "claims").iterdir() if one.name.endswith(".toml")]
    for file in sorted(files, key=lambda one: one.name):
        yield from parsed(file.read_text(encoding="utf-8"), f"harness/claims/{file.name}")


def _add(optimizations: dict[str, Optimization], found: Iterable[tuple[str, Optimization]]) -> None:
    for name, one in found:
        if name in optimizations:
            other = optimizations[name].workload or "the general ones"
            raise Mistake(f"{one.workload} and {other} both have an optimization '{name}'; rename one of the files.")
        optimizations[name] = one


def _installed() -> Iterator[tuple[str, Workload]]:
    """Workloads of installed packages: each an entry point that names a Workload."""
    for point in sorted(importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda one: one.name):
        workload = point.load()
        if not isinstance(workload, Workload) or workload.name != point.name:
            raise Mistake(
                f"The entry point {point.name} = {point.value} of an installed package names no Workload of that name; "
                "put it right or uninstall the package."
            )
        yield point.name, workload


def read_workload(path: Path) -> Workload:
    """The WORKLOAD of a file outside the package; raises Mistake when there is none."""
    if not path.is_file():
        raise Mistake(f"There is no workload file {path}; give the path of a Python file that defines WORKLOAD.")
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise Mistake(f"{path} is not a Python file; a workload file ends in .py.")
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module  # so that loader workers can find its classes again
    specification.loader.exec_module(module)
    workload = getattr(module, "WORKLOAD", None)
    if not isinstance(workload, Workload):
        raise Mistake(f"{path} defines no WORKLOAD; see CONTRIBUTING.md, 'Add a workload'.")
    return replace(workload, path=str(path.resolve()))


def _optimizations(package: str, workload: str | None) -> Iterator[tuple[str, Optimization]]:
    for name in _submodules(package):
        module = importlib.import_module(f"{package}.{name}")
        optimization = _named(module, "OPTIMIZATION", Optimization, name)
        yield name, replace(optimization, workload=workload, page=(module.__doc__ or "").strip())


def _submodules(package: str) -> list[str]:
    module = importlib.import_module(package)
    return sorted(found.name for found in pkgutil.iter_modules(module.__path__) if not found.name.startswith("_"))


def _named(module: ModuleType, attribute: str, kind: type[Found], name: str) -> Found:
    found = getattr(module, attribute, None)
    if not isinstance(found, kind):
        raise Mistake(f"{module.__file__} defines no {attribute}; a file in that folder must define one.")
    if found.name != name:
        raise Mistake(f"{module.__file__} defines '{found.name}'; name the file after it, or it after the file.")
    return found
