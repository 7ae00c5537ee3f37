"""Real data in place of the suite's own: `--data-root [WORKLOAD=]PATH` into checked folders."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from harness.catalogue import Catalogue
from harness.core.mistake import Mistake
from harness.core.workload import Size


def roots(texts: Iterable[str], catalogue: Catalogue, chosen: tuple[str, ...]) -> dict[str, Path]:
    """The folder of each workload that real data are given for; raises Mistake for what cannot be meant."""
    found: dict[str, Path] = {}
    for text in texts:
        name, separator, path = text.partition("=")
        if not separator or name not in catalogue.workloads:
            if len(chosen) != 1:
                raise Mistake(f"Whose data lie in {text}? Name one workload, or write --data-root WORKLOAD={text}.")
            name, path = chosen[0], text
        if name not in chosen:
            raise Mistake(f"{name} has data but is not measured; name it, or leave out --data-root {text}.")
        if not Path(path).is_dir():
            raise Mistake(f"There is no folder {path}; --data-root takes the folder that holds the data of {name}.")
        found[name] = Path(path).absolute()
    return found


def adopted(catalogue: Catalogue, found: Mapping[str, Path], size: str | None) -> Catalogue:
    """The catalogue with the facts of real data; raises Mistake that says what is wrong with them."""
    workloads = dict(catalogue.workloads)
    for name, folder in found.items():
        workload = catalogue.workload(name)
        if workload.adopt is None:
            raise Mistake(f"{name} takes no data from elsewhere; leave out --data-root.")
        adopt, wanted = workload.adopt, [one for one in workload.sizes if size in (None, one)]
        workloads[name] = replace(
            workload, sizes={**workload.sizes, **{one: adopt(folder, workload.sizes[one]) for one in wanted}}
        )
    return replace(catalogue, workloads=workloads)


def described(size: Size) -> str:
    """What real data hold, in words, without saying where they lie."""
    facts = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in size.shape.items())
    return f"real data; {facts or 'no facts given'}; {size.evaluation_items:,} evaluation items"
