"""A Slurm of its own on this machine: one controller and one node of Debian's packages, all their files in a folder."""

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue", "sinfo")
MISSING = [one for one in PROGRAMS if shutil.which(one) is None]
START_S = 60.0
CONFIGURATION = """
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=2
JobRequeue=1
KillWait=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=cheap Nodes={host} Default=YES State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=urgent Nodes={host} State=UP PriorityTier=10 PreemptMode=OFF
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """Its commands, with what they need to find it."""

    folder: Path
    variables: Mapping[str, str]

    def call(self, *words: str, **variables: str) -> str:
        """What a command of Slurm prints."""
        told = subprocess.run(
            words, env={**self.variables, **variables}, cwd=self.folder, check=True, capture_output=True, timeout=60
        )
        return told.stdout.decode().strip()

    def states(self) -> dict[str, str]:
        """The states of all jobs that are not done, by the job's identity."""
        rows = self.call("squeue", "--noheader", "--array", "--format=%i %T").splitlines()
        return dict(row.split() for row in rows)


def _port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def started(folder: Path, stack: ExitStack) -> Slurm:
    """A Slurm with a cheap partition, whose jobs give way to those of an urgent one; the stack ends it."""
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir(parents=True, mode=0o700)
    key = folder / "munge" / "key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(
            host=host, folder=folder, controller=_port(), node=_port(), cores=len(os.sched_getaffinity(0))
        )
    )
    slurm = Slurm(folder=folder, variables={**os.environ, "SLURM_CONF": str(folder / "slurm.conf")})
    munge = [f"--{name}={folder}/munge/{name.partition('-')[0]}" for name in ("socket", "key-file", "pid-file")]
    others = [f"--log-file={folder}/munge/log", f"--seed-file={folder}/munge/seed"]
    for words in (["munged", "--foreground", "--force", *munge, *others], ["slurmctld", "-D", "-c"], ["slurmd", "-D"]):
        log = stack.enter_context((folder / f"{words[0]}.out").open("wb"))
        one = subprocess.Popen(words, env=slurm.variables, stdout=log, stderr=log, cwd=folder)
        stack.callback(one.wait, 30)
        stack.callback(one.terminate)
        sleep(0.5)
    until = monotonic() + START_S
    while (
        "idle" not in subprocess.run(["sinfo"], env=slurm.variables, capture_output=True, check=False).stdout.decode()
    ):
        if monotonic() > until:
            logs = "\n".join(one.read_text(errors="replace")[-2000:] for one in sorted(folder.glob("slurm*.log")))
            raise TimeoutError(f"Slurm does not start here: {logs}")
        sleep(0.5)
    return slurm
