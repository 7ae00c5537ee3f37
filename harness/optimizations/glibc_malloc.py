"""Serve host memory by glibc's own rules, as any script does that sets nothing.

A price. Every other arm tells glibc to take all memory from one growing heap and to keep it. By its own rules glibc
asks the system for a new mapping for every large tensor and gives it back when the tensor goes, so each step pays page
faults for memory that it had a moment ago. It costs most where a step on a CPU makes large tensors, and where they land
is luck that lasts as long as the process. A GPU's memory is not concerned. To get the fixed thresholds in a script:

    MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 MALLOC_TOP_PAD_=268435456 python train.py
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="glibc_malloc",
    title="The C library's allocator as it comes",
    stage=Stage.LAUNCH,
    numerics=Numerics.EXACT,
    sets={"malloc": "glibc"},
    proof={"malloc": "glibc"},
    sought=False,
)
