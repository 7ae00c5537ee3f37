"""speedmatrix itself: both variants as arms that take turns, in fresh processes of both for every replicate.

python -m benchmarks.precision.in_harness RESULT.json      PRECISION_SETTINGS holds replicates, rounds and seed

Plan, campaign, arms, journal and estimate are those of `run`. Only the one optimization, a pass fewer, is declared
here, because a workload that comes from a file brings none of its own.
"""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from benchmarks.precision.told import counts, settings
from harness import __version__
from harness.analyze.claims import trials
from harness.analyze.soundness import Absence
from harness.analyze.verdict import UNCALIBRATED, Thresholds, Verdict
from harness.catalogue import read_catalogue
from harness.core.catalogue import Catalogue
from harness.core.configuration import Comparison, Configuration, Option
from harness.core.mistake import Mistake
from harness.core.optimization import Numerics, Optimization, Stage, Timing, promises
from harness.core.plan import Block, Plan
from harness.core.protocol import BRIEF
from harness.measure.surroundings import read_environment
from harness.plan.schedule import blocks
from harness.results import calibration_beside
from harness.run.arm import ProcessArm
from harness.run.execution import Campaign
from harness.run.preparation import Prepared, job_of
from harness.run.processes import ROOT
from harness.run.sentinel import Sentinel
from harness.run.watching import Watcher
from harness.store import Journal, Run, create, read_records

NAME, SIZE = "passes", "quick"
FILE = Path(__file__).parent / "workload.py"


def main(result: Path) -> None:
    """Measures the pair and writes its estimate; raises Mistake where there is none."""
    ready, folder = prepared(), result.parent
    campaign = measured(ready, folder)
    (run,) = (folder / "runs").glob("*/*")
    (trial,) = trials(ready.plan, read_records(run), _thresholds(ready))
    found = trial.result
    if isinstance(found, Absence):
        raise Mistake(f"speedmatrix gave no estimate: {found.words}; give it more time.")
    told = {
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "changed": None if found.disturbed else found.verdict in {Verdict.FASTER, Verdict.SLOWER},
        "method": found.method,
        "lent": min(1e6, found.df - found.processes + 1),
        "life_s": 2 * campaign.arm_s[NAME],  # two arms
    }
    result.write_text(json.dumps(told))


def _thresholds(ready: Prepared) -> Thresholds:
    """What the calibration of this machine decides, as for any run that lies in `results`."""
    folder = ROOT / "results" / ready.environment.machine / "precision"
    calibration = calibration_beside(folder, _run(ready))
    return calibration.thresholds if calibration else UNCALIBRATED


def prepared() -> Prepared:
    """The plan of one comparison: the treatment against the reference, or the reference against itself."""
    reference, treatment = counts()
    fewer = Optimization(
        name="fewer_passes", title="Fewer passes", stage=Stage.DEVICE, numerics=Numerics.EXACT,
        sets={"passes": treatment}, proof={"passes": treatment},
    )  # fmt: skip
    found = read_catalogue(FILE, ledger=False)
    workload = replace(found.workload(NAME), own={"passes": reference})
    catalogue = Catalogue({NAME: workload}, {**found.optimizations, fewer.name: fewer}, own=NAME)
    config = Configuration(workload=NAME, size=SIZE, batch=workload.sizes[SIZE].batch)
    changed = replace(config, options=(Option(name=fewer.name),)) if treatment != reference else config
    label = fewer.name if treatment != reference else "itself"
    comparison = Comparison(label=label, treatment=changed, reference=config, timing=Timing.STEP)
    chosen = settings()
    plan = Plan(
        design="precision",
        seed=int(chosen["seed"]),
        protocol=replace(BRIEF.fixed(), replicates=int(chosen["restarts"]), rounds=int(chosen["rounds"])),
        blocks=blocks([comparison], BRIEF.treatments),
        no_results=(),
        names={str(config): "baseline"},
        promises=promises([fewer] if treatment != reference else []),
    )
    return Prepared(catalogue=catalogue, environment=read_environment("cpu"), plan=plan)


def measured(ready: Prepared, folder: Path) -> Campaign:
    """The campaign of the plan when it has been run, every record on the disk."""
    sentinel, journal = Sentinel(), Journal(create(folder / "runs", _run(ready)))

    def start(block: Block, replicate: int, position: int) -> ProcessArm:
        return ProcessArm(job_of(ready, {(NAME, SIZE): folder}, block, replicate, position), sentinel)

    campaign = Campaign(
        plan=ready.plan, records=[], start=start, append=journal.append, watcher=Watcher(), clock=monotonic
    )
    try:
        campaign.run()
    finally:
        sentinel.close()
        journal.close()
    return campaign


def _run(ready: Prepared) -> Run:
    return Run(
        began=datetime.now(UTC).isoformat(timespec="seconds"), version=__version__, command="precision_per_second",
        rehearsed=False, environment=ready.environment, plan=ready.plan,
    )  # fmt: skip


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except Mistake as mistake:
        sys.exit(f"{mistake}")
