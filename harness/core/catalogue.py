"""Everything there is: workloads, optimizations and claims by name, and what names mean among them."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.core.claims import Claim
from harness.core.configuration import (
    CONTROLS,
    Configuration,
    ConfigurationRequest,
    Option,
    batch_scale,
    parse_option,
    settled,
    unmet,
)
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Optimization
from harness.core.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Options that were measured to have another ratio in a process that arms share than in processes of their own."""

    device: str  # on which
    names: tuple[str, ...]  # of options; of a combination all of them
    reason: str  # in words, without a full stop


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All workloads and optimizations by name, and the claims about them in the ledger's order."""

    workloads: Mapping[str, Workload]
    optimizations: Mapping[str, Optimization]
    own: str | None = None  # the name of the workload that came from a user's file
    claims: tuple[Claim, ...] = ()
    apart: tuple[Apart, ...] = ()

    @property
    def known(self) -> Mapping[str, Optimization]:
        """All that a configuration may switch on by name: the optimizations, and the controls, which nobody seeks."""
        return {**CONTROLS, **self.optimizations}

    def workload(self, name: str) -> Workload:
        """The workload of that name; raises Mistake with the names there are."""
        if name not in self.workloads:
            raise Mistake(f"There is no workload '{name}'; choose one of {', '.join(sorted(self.workloads))}.")
        return self.workloads[name]

    def optimization(self, name: str) -> Optimization:
        """The optimization of that name; raises Mistake with the remedy."""
        if name not in self.known:
            raise Mistake(f"There is no optimization '{name}'; ./speedmatrix list shows them all.")
        return self.known[name]

    def of(self, workload: Workload) -> tuple[Optimization, ...]:
        """The optimizations that a workload could use, by name: the general ones and its own."""
        return tuple(one for _, one in sorted(self.optimizations.items()) if one.workload in (None, workload.name))

    def options(self, workload: Workload, names: tuple[str, ...], environment: Environment) -> tuple[Option, ...]:
        """Options from names; `original` stands for those of the real system that this machine can run.

        A later option replaces an earlier one of the same name, so `original+workers=2` means two workers.
        """
        chosen: dict[str, Option] = {}
        for name in names:
            for option in self.original(workload, environment) if name == "original" else (parse_option(name),):
                chosen[option.name] = settled(option, self.optimization(option.name), environment)
        return tuple(sorted(chosen.values()))

    def original(self, workload: Workload, environment: Environment) -> tuple[Option, ...]:
        """What the real system had switched on, as far as this machine can run it."""
        named = map(parse_option, workload.found_on(environment.device))
        found = tuple(settled(one, self.optimization(one.name), environment) for one in named)
        return tuple(one for one in found if not unmet(self.optimization(one.name), environment, workload, one.level))

    def config(self, request: ConfigurationRequest, size: str, environment: Environment) -> Configuration:
        """The configuration a user asked for, at the size given where the request names none; raises Mistake."""
        workload = self.workload(request.workload)
        name = request.size or size
        if name not in workload.sizes:
            raise Mistake(f"{workload.name} has no size '{name}'; choose one of {', '.join(workload.sizes)}.")
        options = self.options(workload, request.names, environment)
        scale = batch_scale(options, self.known)
        batch = request.batch or workload.sizes[name].batch * scale
        if batch % scale:
            raise Mistake(f"A batch of {batch} does not stand for {scale} of one size; choose a multiple of {scale}.")
        workload.at(name, batch)  # refuses a batch that the size cannot fill
        return Configuration(workload=workload.name, size=name, batch=batch, options=options)
