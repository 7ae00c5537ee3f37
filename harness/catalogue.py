"""The catalogue: finds optimizations and workloads by their files, and refuses what is misnamed."""

import hashlib
import importlib
import importlib.metadata
import importlib.resources
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from harness.core.catalogue import Apart, Catalogue
from harness.core.claims import Claim, parsed
from harness.core.codec import document, entries
from harness.core.mistake import Mistake
from harness.core.optimization import Optimization
from harness.core.own_file import Address, NoJob, OwnFile, called_in, content, files_of, parse_address, read_file
from harness.core.workload import Workload

ENTRY_POINTS = "speedmatrix.workloads"  # the group under which a package announces workloads of its own

APART = "apart.toml"
ROOMS = ("core", "measure", "optimizations", "own", "run")  # of the harness, whose code acts in arms

Found = TypeVar("Found", Workload, Optimization)


def read_catalogue(extra_workload: Path | None = None, *, ledger: bool = True) -> Catalogue:
    """Everything there is, with one workload from a file of the user's own if a path is given.

    Without the ledger it has no claims: an arm has no use for them and starts sooner.
    """
    suite, known = _suite()
    workloads, optimizations = {**suite}, {**known}
    claims = _suite_claims() if ledger else ()
    for name, workload in _installed():
        if name in workloads:
            raise Mistake(f"An installed package brings a workload '{name}', which is taken; uninstall or rename it.")
        workloads[name] = workload
    mine = read_workload(extra_workload) if extra_workload else None
    if mine:
        workloads[mine.name] = mine
        _add(optimizations, ((one.name, one) for one in mine.optimizations))
    return Catalogue(
        workloads=workloads,
        optimizations=optimizations,
        own=mine.name if mine else None,
        claims=claims,
        apart=_apart() if ledger else (),
    )


@cache  # nothing of it changes while a process lives, and a command asks several times
def _suite() -> tuple[Mapping[str, Workload], Mapping[str, Optimization]]:
    """The suite's own workloads and optimizations, for callers to copy."""
    workloads: dict[str, Workload] = {}
    optimizations = dict(_optimizations("harness.optimizations", workload=None))
    for name in _submodules("workloads"):
        workloads[name] = _named(importlib.import_module(f"workloads.{name}"), "WORKLOAD", Workload, name)
        if importlib.util.find_spec(f"workloads.{name}.optimizations"):
            _add(optimizations, _optimizations(f"workloads.{name}.optimizations", workload=name))
    return workloads, optimizations


@cache
def _suite_claims() -> tuple[Claim, ...]:
    """The ledger, of which a test has tried each claim on the workloads that it is about."""
    return tuple(_ledger())


def _apart() -> tuple[Apart, ...]:
    """What `calibrate --isolation --output` has written down from the runs in `results/`."""
    text = (importlib.resources.files("harness") / APART).read_text(encoding="utf-8")
    return entries(document(text, f"harness/{APART}", {"apart"}), "apart", Apart, f"harness/{APART}")


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
    """The workload of a file outside the package, its WORKLOAD or what a job describes; raises Mistake if it has none.

    `train.py:job` names the job, `train.py:job,other` a second one that is compared with it.
    """
    where = parse_address(str(path))
    here = replace(where, path=where.path.resolve())  # before its code runs, which may go to another folder
    found = read_file(where.path)
    if isinstance(workload := found.names.get("WORKLOAD"), Workload) and not where.names:
        return replace(workload, path=str(here))
    first, *others = _jobs(found, where)
    described: Workload = first.as_workload(here, others)
    return replace(described, path=str(here))


def code_digest(workloads: Iterable[Workload], *, jobs: bool = False) -> str:
    """Eight hexadecimal digits for all Python files that arms of those workloads run, the harness's own among them.

    Those of a user's own `jobs` where wanted: the digest of these is part of a plan already (`Workload.source`).
    """
    package = Path(__file__).parent
    files = [file for room in ROOMS for file in sorted((package / room).rglob("*.py"))]
    for workload in workloads:
        files += [] if workload.source and not jobs else _files_of(workload)
    digest = hashlib.sha256()
    for file in files:
        text = content(file)
        digest.update(f"{file.parent.name}/{file.name} {len(text)} ".encode() + text)
    return digest.hexdigest()[:8]


def _files_of(workload: Workload) -> list[Path]:
    """The user's own file, in both versions where two are compared, with those beside it; or a package's."""
    if workload.path is not None:
        places = (workload.path, *workload.elsewhere.values())
        return [one for place in places for one in files_of(parse_address(place).path)]
    module = sys.modules[workload.parts.__module__]
    file = Path(str(module.__file__))
    if not module.__package__:
        return [file]
    shared = sorted(file.parents[1].glob("*.py")) if module.__package__ == f"workloads.{workload.name}" else []
    return [*shared, *sorted(file.parent.rglob("*.py"))]


def _jobs(found: OwnFile, where: Address) -> list[Any]:
    """The jobs that an address means: those named, or the only one there is."""
    jobs = {name: one for name, one in found.names.items() if _is_job(one)}
    if not where.names:
        if found.reached is not None:
            return [found.reached]
        if len(distinct := list({id(one): one for one in jobs.values()}.values())) == 1:
            return distinct
        if jobs:
            raise Mistake(f"{where.path} has several jobs; name one: {where.path}:{next(iter(jobs))}.")
        raise NoJob(
            f"{where.path} defines no WORKLOAD and no job; write job = speedmatrix.job(...) at its top level, "
            "or see CONTRIBUTING.md, 'Add a workload'."
        )
    chosen = [jobs.get(name, found.names.get(name)) for name in where.names]
    made = []
    for name, one in zip(where.names, chosen, strict=True):
        if _is_job(one):
            made.append(one)
            continue
        if not callable(one):
            there = f"it has {', '.join(jobs)}" if jobs else "job = speedmatrix.job(...) at its top level makes one"
            there += f", and was left{found.left}, where it trains" * bool(found.left)
            raise NoJob(f"{where.path} has no job '{name}' when it is imported; {there}.")
        made.append(called_in(where.path, name, one))
        if not _is_job(made[-1]):
            raise NoJob(
                f"{name} in {where.path.name} gives a {type(made[-1]).__name__} and no job; let it end with "
                "`return job`, or call job.measure() in it."
            )
    return made


def _is_job(one: object) -> bool:
    return hasattr(type(one), "as_workload")


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
