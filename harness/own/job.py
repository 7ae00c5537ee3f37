"""Jobs: the user's own training as five lines, what is seen of it, and its measurement."""

import hashlib
import inspect
import io
import os
import pickle
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, Literal

import torch

from harness import __version__
from harness.api import Matrix, run
from harness.core.mistake import Mistake
from harness.core.optimization import Numerics, Optimization, Stage
from harness.core.own_file import (
    NOW,
    PICKLED,
    TOLD,
    Address,
    Reached,
    content,
    digest_told,
    file_and_digest,
    files_of,
    is_being_read,
    looked_at_since,
    looking,
    name_in,
    opened_elsewhere,
    opened_so_far,
    own_folders,
    parse_address,
    read_file,
    tell_arms,
    training_of,
    unpacked,
    variables_of,
)
from harness.core.recipe import COMMON_FIELDS
from harness.core.workload import Lesson, Size, Workload
from harness.own.facts import Facts, Note, facts_text, read_facts, together
from harness.own.inference import look
from harness.own.items import first_line, is_factory, source_of
from harness.own.network import device_here
from harness.own.parts import Builder
from harness.run.data import data_root
from harness.run.preparation import is_measuring, measuring_alone
from harness.store import make_folder, replace_file

SIZES = ("smoke", "quick", "standard")  # a job has one size, under whatever name it is asked for
LESSON_EPOCHS = 10  # of a job that is trained for its score, unless as many steps are asked for
NAME = re.compile(r"[a-z][a-z0-9_]*")
FOLDERS = "__speedmatrix_folders__"  # the first name in the file of a job that no script defines
LINES = "__speedmatrix_lines__"  # among a module's names: how many jobs each of its lines has made since it began


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOption:
    """An option of the user's own: what it makes of the job, and what shows on a running arm that it took effect."""

    name: str
    change: "Callable[[Job], Job]"
    active: Callable[[Any], bool]  # of what was built: model, loss, dataset, batch
    numerics: Numerics = Numerics.CLOSE
    title: str = ""


def _caller() -> FrameType:
    """The nearest frame on the stack whose module is none of ours."""
    depth = 1
    while (frame := sys._getframe(depth)).f_back is not None:  # noqa: SLF001  as warnings do
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith("harness.") and name not in {"speedmatrix", "dataclasses"}:
            return frame
        depth += 1
    return frame


def calling_module() -> str:
    """The name of the nearest module on the stack that is none of ours."""
    return str(_caller().f_globals.get("__name__", "__main__"))


def calling_line() -> tuple[str, int, int]:
    """The file's name and the line at its top level that make a job, and how many that line has made so far."""
    frame = _caller()
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    names, line = frame.f_globals, frame.f_lineno
    if names.get(LINES, (LINES,))[0] is not names.get("__spec__"):  # which is another when a module is loaded again
        names[LINES] = names.get("__spec__"), Counter[int]()
    names[LINES][1][line] += 1
    return Path(frame.f_code.co_filename).name, line, names[LINES][1][line]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training of the user's: objects, or factories that make them; `measure` tells which options pay on it."""

    model: Any = None
    dataset: Any
    loss: Any = None
    optimizer: Any = None
    batch: int | None = None
    collate: Callable[[list[Any]], Any] | None = None
    training_step: Callable[[Any, Any], Any] | None = None  # model and batch -> loss, where they are no pair
    clip_norm: float | None = None
    score: Callable[[Any], Any] | None = None  # of the trained model
    better: Literal["less", "more"] = "more"  # which score
    options: tuple[OwnOption, ...] = ()
    name: str | None = None
    loop: Callable[..., Any] | None = None  # a whole step of the user's own, or what makes one
    optimizer_takes: str = "parameters"  # or `model`: what its factory is given
    module: str = field(default="__main__", compare=False)  # where it was made
    line: tuple[str, int, int] = field(default_factory=calling_line, init=False, compare=False)  # that made it

    def __getstate__(self) -> dict[str, Any]:
        """All but the line: a cell of a notebook that runs again makes the same job."""
        return {**vars(self), "line": ("", 0, 0)}

    def __repr__(self) -> str:
        parts = {"model": self.model, "dataset": self.dataset, "loop": self.loop, "optimizer": self.optimizer}
        told = ", ".join(f"{name}={_name_of(one)}" for name, one in parts.items() if one is not None)
        return f"<speedmatrix.Job {self.name or ''} {told}>".replace("  ", " ")

    def __str__(self) -> str:
        """What is seen of it, a line for each fact, and what each means for the measurement."""
        return described_facts(self.facts)

    def replace(self, **changes: Any) -> "Job":
        """The same job with other parts; raises Mistake for what it does not have."""
        known = {one.name for one in fields(self) if one.compare}
        if unknown := sorted(changes.keys() - known):
            raise Mistake(f"A job has no '{unknown[0]}'; replace one of {', '.join(sorted(known))}.")
        return replace(self, **changes)

    def fresh_step(self) -> Callable[[Any], Any]:
        """The loop's step; made anew where it was given as something that makes one."""
        assert self.loop is not None  # noqa: S101  asked of loops alone
        made = self.loop() if _makes_step(self.loop) else self.loop
        if not callable(made):
            raise Mistake("The loop's maker returned no step; let it return a function that takes a batch.")
        return made

    @property
    def facts(self) -> Facts:
        """What is seen of it: steps of a few samples are taken; raises Mistake for what cannot be trained."""
        return look(self, None, {})

    def measure(
        self, budget: str = "5m", *, results: Path | str = "results", data: Path | str | None = None,
        fresh: bool = False, **wanted: Any,
    ) -> Matrix:  # fmt: skip
        """Measures which options pay on this job; `wanted` are fields of a Request, such as `only`; raises Mistake.

        What was begun with the same words and the same code is continued.
        """
        if is_being_read():
            raise Reached(self)
        return run(own=address_of(self), budget=budget, results=results, data=data, fresh=fresh, **wanted)

    def as_workload(self, address: Address, others: "Iterable[Job]" = ()) -> Workload:
        """This job as a workload whose file has that address; what is seen of it is kept until the code changes."""
        named = dict(zip(address.names[1:], others, strict=True))
        name = self.name or (address.path.stem if address.path.suffix == ".py" else "job")
        newer = parse_address(address.version) if address.version not in {"", NOW} else None
        digest = _digest_for(self, address, newer)
        facts = _kept_facts(self, _place_of_facts(name, digest, address.path), address.path, named, newer)
        builder = Builder(
            job=self, others=named, file=address.path,
            versions={NOW: address.version == NOW} if address.version else {},
        )  # fmt: skip
        size = Size(
            batch=facts.batch, epoch_steps=facts.epoch_steps, evaluation_items=0, data_bytes=0,
            shape={"items": facts.least_items or facts.items}, original_epoch_steps=facts.steps, step_s=facts.step_s,
            compute_s=facts.compute_s, keeps_items=facts.keeps_items, seeded_items=facts.seeded,
            whole_batches=facts.whole_batches, draw=None if facts.kept_outside else 0,
            all_items=facts.all_items, in_order=facts.in_order,
        )  # fmt: skip
        return Workload(
            name=name, title=f"{name}: training of the user's own", origin=address.path.name,
            parameters=facts.parameters, traits=frozenset(facts.traits), sizes=dict.fromkeys(SIZES, size),
            parts=builder.parts,
            own=dict.fromkeys((*(one.name for one in self.options), *named, *builder.versions), False),
            elsewhere={NOW: str(replace(newer, version=NOW))} if newer else {},
            lesson=Lesson(
                steps=LESSON_EPOCHS * facts.steps, better=self.better, epoch_steps=size.shape["items"] // facts.batch
            ) if self.score else None,
            original=facts.original, least_samples=facts.least_samples, fixed=facts.fixed,
            operations=dict.fromkeys(SIZES, facts.operations) if facts.operations else {},
            source=training_of(address.path.name, digest), seen=tuple(described_facts(facts).splitlines()),
            optimizations=(
                *(_optimization(one, name) for one in self.options),
                *(_variant(one, name, f"The job {one} in place of this one") for one in named),
                *(_variant(one, name, "The code as it is now") for one in builder.versions),
            ),
        )  # fmt: skip


def job(  # noqa: PLR0913  what users type
    model: Any = None,
    dataset: Any = None,
    loss: Any = None,
    optimizer: Any = None,
    batch: int | None = None,
    *,
    collate: Callable[[list[Any]], Any] | None = None,
    training_step: Callable[[Any, Any], Any] | None = None,
    clip_norm: float | None = None,
    score: Callable[[Any], Any] | None = None,
    better: Literal["less", "more"] = "more",
    options: Iterable[OwnOption] = (),
    name: str | None = None,
) -> Job:
    """A job from model, data set (or its loader), loss and optimizer, each an object or what makes one.

    A factory of the optimizer is given the parameters. `training_step` takes model and batch and returns the loss,
    where a batch is no pair of inputs and targets. `score` takes the trained model, in evaluation mode, and returns a
    number for `learn`; `better` says whether more or less of it is. Raises Mistake where a part is missing.
    """
    given = {"model": model, "dataset": dataset, "optimizer": optimizer}
    given |= {} if training_step else {"loss": loss}
    if missing := [part for part, one in given.items() if one is None]:
        raise Mistake(
            f"A job needs {' and '.join(missing)}; give {missing[0]}= an object, or a function that makes it."
        )
    if name is not None and not re.fullmatch(r"[^@#:\s]+", name):
        raise Mistake(f"'{name}' is no name for a job; leave out spaces and the signs @, # and :.")
    if better not in {"less", "more"}:
        raise Mistake(f"A score cannot be better by '{better}'; say better='more' or better='less'.")
    chosen = tuple(options)
    names = [one.name for one in chosen]
    if twice := next((one for one in names if names.count(one) > 1), None):
        raise Mistake(f"Two options are called '{twice}'; give each a name of its own.")
    return Job(
        model=model, dataset=dataset, loss=loss, optimizer=optimizer, batch=batch, collate=collate,
        training_step=training_step, clip_norm=clip_norm, score=score, better=better, options=chosen, name=name,
        module=calling_module(),
    )  # fmt: skip


def option(
    name: str,
    *,
    change: Callable[[Job], Job],
    active: Callable[[Any], bool],
    numerics: str = "close",
    title: str = "",
) -> OwnOption:
    """An option of your own: `change` gives the changed job, `active` sees on what was built whether it took effect.

    `active` is given an object with `model`, `loss`, `dataset` and `batch`, after the first steps. `numerics` says what
    it may do to losses: exact, close or different. Raises Mistake for a name that is taken.
    """
    if not NAME.fullmatch(name) or name in {*COMMON_FIELDS, NOW}:
        raise Mistake(f"'{name}' cannot name an option; take another name of small letters, digits and underscores.")
    if numerics not in set(Numerics):
        raise Mistake(f"There are no numerics '{numerics}'; choose {', '.join(Numerics)}.")
    return OwnOption(name=name, change=change, active=active, numerics=Numerics(numerics), title=title)


def compare_jobs(*jobs: Job, budget: str = "5m", **wanted: Any) -> Matrix:
    """The second job against the first, in processes that take turns; its row bears the second job's name."""
    if len(jobs) != 2 or not all(isinstance(one, Job) for one in jobs):
        raise Mistake("compare takes two jobs, the reference first, or runs that were measured before.")
    if taken := sorted({"only", "own"} & wanted.keys()):
        raise Mistake(
            f"compare measures the second job alone against the first, so it takes no '{taken[0]}'; leave that out, or "
            "ask for options with measure(only=...) of either job."
        )
    first, second = jobs
    if is_being_read():
        raise Reached(first)
    where = address_of(first, second)
    return run(own=where, only=[str(where).rpartition(":")[2].split(",")[1]], budget=budget, **wanted)


def _optimization(one: OwnOption, workload: str) -> Optimization:
    return Optimization(
        name=one.name, title=one.title or f"{one.name}, an option of the user's own", stage=Stage.DEVICE,
        numerics=one.numerics, sets={one.name: True}, proof={one.name: True}, workload=workload,
        page=inspect.getdoc(one.change) or "",
    )  # fmt: skip


def _variant(name: str, workload: str, title: str) -> Optimization:
    return Optimization(
        name=name, title=title, stage=Stage.DEVICE, numerics=Numerics.DIFFERENT,
        sets={name: True}, proof={name: True}, workload=workload,
    )  # fmt: skip


def _makes_step(loop: Callable[..., Any]) -> bool:
    """Whether a loop was given as a function without parameters, which makes the step."""
    try:
        return not inspect.signature(loop).parameters
    except ValueError:
        return False


def _name_of(part: Any) -> str:
    return getattr(part, "__name__", type(part).__name__)


# What is seen of a job is kept beside the data, so that every process of a run plans the same.


def _digest_for(one: Job, address: Address, newer: Address | None) -> str:
    """The digest of a job, of both versions if there is a newer one; arms are told it and have it from there."""
    if (told := digest_told(address)) is not None:
        return told
    # However the address names it: a script that measures its job and a command that is given the script mean the same.
    called = name_in(address.path, one) or next(iter(address.names), "")
    words = f"{called} {address.names[1:]} {one.name} {one.batch}"
    if (old := unpacked(address.path)) is not None:
        words += old[0].name  # its own facts, though no file beside it has changed since
    digest = _digest_of(address.path, words + (_digest_of(newer.path, words) if newer else ""))
    tell_arms(address, digest)
    return digest


def _digest_of(path: Path, words: str) -> str:
    """Eight digits for a job's file, the Python files around it, what it reads and asks for, and where it runs."""
    digest = hashlib.sha256(f"{words} {torch.__version__} {__version__} {device_here()} {variables_of(path)}".encode())
    for one in files_of(path):
        digest.update(content(one))
    return digest.hexdigest()[:8]


def _place_of_facts(name: str, digest: str, file: Path) -> Path:
    """Where facts are kept, those of each folder by themselves: other data may lie beside the same code."""
    return own_folder() / f"{name}-{digest}-{hashlib.sha256(os.fsencode(file.parent)).hexdigest()[:8]}.json"


def _kept_facts(one: Job, path: Path, file: Path, others: dict[str, Job], newer: Address | None) -> Facts:
    if path.is_file() and path.stat().st_mtime >= looked_at_since():
        kept = read_facts(path.read_text(encoding="utf-8"))
        if is_factory(one.dataset) or _are_of(one, kept):  # what a factory makes may take long
            return kept
    # Its steps would disturb whatever is timed, and their own times would be kept.
    with nullcontext() if TOLD in os.environ or is_measuring() else measuring_alone(), looking():
        facts = look(one, file, others)
    facts.notes += _command_line(file)
    facts.opened = opened_elsewhere(file, opened_so_far())
    if newer:
        from harness.own.history import seen

        ours, theirs = facts, seen(replace(newer, version=NOW)).facts
        facts = together(ours, theirs, each_its_own=True)
        parts_read = {(its.epoch_steps, its.items, its.in_order) for its in (ours, theirs, facts)}
        if facts.kept_outside and len(parts_read) > 1:
            raise Mistake(
                "Items are far cheaper once any process has read them, and both versions read other parts of them: "
                "read the data sets of both once, so that their caches are full, and then measure."
            )
    replace_file(path, facts_text(facts).encode(), "set XDG_CACHE_HOME to a folder that can be written")
    return facts


def _are_of(one: Job, facts: Facts) -> bool:
    """Whether facts fit the data: a configuration that is no Python file may have changed."""
    source = source_of(one)
    return source.batch in {None, facts.batch} and len(source.dataset) == facts.items


_COMMAND_LINE = re.compile(rb"\b(?:parse_args|parse_known_args|sys\.argv|ArgumentParser|LightningCLI)\b")


def _command_line(file: Path) -> list[Note]:
    """A note where a file reads a command line."""
    if file.suffix == PICKLED or not _COMMAND_LINE.search(content(file)):
        return []
    return [Note("command line", "none is given to your file", "the defaults that it has itself are measured")]


def facts_of(workload: Workload) -> Facts:
    """What was seen of a job, of which this workload was made in this process."""
    file = parse_address(workload.path or "").path
    return read_facts(_place_of_facts(workload.name, digest_of(workload), file).read_text(encoding="utf-8"))


def digest_of(workload: Workload) -> str:
    """The digest of the job of which this workload was made."""
    return file_and_digest(workload.source)[1]


def own_folder() -> Path:
    """Where facts and jobs that no script defines are kept; raises Mistake where it cannot be made."""
    return make_folder(data_root(None) / "own", "set SPEEDMATRIX_DATA to a folder that can be written")


def described_facts(facts: Facts) -> str:
    """Facts as lines: what was looked for, what was found, and what it means."""
    head = (
        f"{facts.parameters:,} parameters, batches of {facts.batch}, about {1000 * facts.step_s:.3g} ms a step here, "
    )
    head += f"of which {1000 * (facts.step_s - facts.compute_s):.3g} ms are loading."
    lines = [f"  {one.what}: {one.found}" + (f"; {one.means}" if one.means else "") for one in facts.notes]
    lines += [
        f"  left out: what sets {name}, since {reason}" for name, reason in facts.fixed.items() if len(facts.fixed) < 8
    ]
    return "\n".join((head, *lines))


# Where arms find a job: the file that makes it, or a file to which it was pickled once.


def address_of(*jobs: Job) -> Path:
    """The address under which other processes find jobs; raises Mistake where none can."""
    found = [_bound(one) for one in jobs]
    files = {file for file, _ in found if file is not None}
    if len(files) == 1 and all(name for _, name in found):
        address = Address(files.pop(), tuple(name for _, name in found if name))
        _check_found(jobs, address)
        return Path(str(address))
    return _pickled(jobs)


def _check_found(jobs: tuple[Job, ...], address: Address) -> None:
    """Raises Mistake where whoever imports the file would find other jobs under those names."""
    file = address.path
    if sys.argv[1:] and any(one.module == "__main__" for one in jobs):
        raise Mistake(f"Arms import {file.name} without its command line; set these values in the file.")
    there = read_file(file).names
    for name, one in zip(address.names, jobs, strict=True):
        if getattr(there.get(name), "line", None) != one.line:
            raise Mistake(
                f"Arms import {file.name}, and find another job '{name}' there, or none, than the one of line "
                f"{one.line[1]}; give each job a name of its own above the first measure() and any guard of __main__."
            )


def _bound(one: Job) -> tuple[Path | None, str | None]:
    """The file and the name of the module's variable that holds a job, where there is one."""
    module = sys.modules.get(one.module)
    file = getattr(module, "__file__", None)
    if module is None or file is None or not file.endswith(".py") or not Path(file).is_file():
        return None, None
    return Path(file).resolve(), next((name for name, value in vars(module).items() if value is one), None)


def _pickled(jobs: tuple[Job, ...]) -> Path:
    names = ("job", "other")[: len(jobs)]
    data = _dumped({FOLDERS: own_folders(), **dict(zip(names, jobs, strict=True))})
    path = own_folder() / f"{hashlib.sha256(data).hexdigest()[:8]}{PICKLED}"
    replace_file(path, data, "set SPEEDMATRIX_DATA to a folder that can be written")
    return Path(str(Address(path, names if len(names) > 1 else ())))


def _dumped(jobs: dict[str, Any]) -> bytes:
    try:
        import cloudpickle

        return bytes(cloudpickle.dumps(jobs))
    except ModuleNotFoundError:
        pass
    into = io.BytesIO()
    try:
        Sending(into).dump(jobs)
    except Mistake:
        raise
    except Exception as error:
        raise Mistake(
            f"The job cannot be sent to other processes ({type(error).__name__}: {first_line(error)}); make it at "
            "the top level of a script (job = speedmatrix.job(...)), or install cloudpickle."
        ) from error
    return into.getvalue()


class Sending(pickle.Pickler):
    """Refuses what no other process could import, which a plain pickle would only name."""

    def reducer_override(self, one: Any) -> Any:
        """Raises Mistake for classes and functions of the main module."""
        if isinstance(one, (type, FunctionType)) and one.__module__ == "__main__":
            if (script := Path(getattr(sys.modules.get("__main__"), "__file__", None) or "")).suffix == ".py":
                raise Mistake(
                    f"{one.__qualname__} is defined in {script.name}, where no other process finds the job; make the "
                    "job at its top level (job = speedmatrix.job(...)), or name the function that makes it: "
                    f"./speedmatrix tune {script.name}:FUNCTION."
                )
            raise Mistake(
                f"{one.__qualname__} is defined in a notebook or at a prompt, where no other process can import it; "
                "write its cell to a file (%%writefile net.py) and import it from there, or install cloudpickle."
            )
        return NotImplemented
