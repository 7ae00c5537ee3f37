"""Monitoring: the trainer reads its memory and its share of the CPU every so many steps, and on a GPU NVML's counters.

What most training scripts do for their logs. A reading asks the kernel for the process's files under /proc, which takes
tens of microseconds, and on a GPU the driver for utilisation and memory, which takes longer. Spread over ten steps that
is nothing beside steps of many milliseconds; it can be seen where steps are very short, or where every one is read.
Handles should be opened once: a script that opens them for each reading pays for that too.

    if step % 10 == 0:
        log(process.memory_info().rss, process.cpu_percent(), pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="monitoring",
    title="Memory and utilisation read for a log",
    stage=Stage.HOST,
    numerics=Numerics.EXACT,
    sets={"monitoring_steps": LEVEL},
    proof={"monitoring_steps": LEVEL},
    levels=(10, 50),
    sought=False,
)
