"""Keep freed host memory: thresholds that tell glibc to serve large tensors from one heap and to give nothing back.

By its own rules glibc asks the system for a new mapping for every tensor beyond 32 MB, and gives back the top of its
heap when smaller ones go, so each step pays page faults for memory that it had a moment ago. With these thresholds all
memory comes from one growing heap that is kept. It pays where a step on a CPU, or a loader worker, makes and drops
large arrays; a GPU's memory is not concerned. The price: memory that was once used stays with the process, in each
worker too. A glibc before 2.36 may take no threshold above 32 MB (write 33554432): it then maps every tensor over 128
KB, which is worse than none.

    MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 MALLOC_TOP_PAD_=268435456 python train.py
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="tuned_malloc",
    title="glibc keeps freed memory",
    stage=Stage.LAUNCH,
    numerics=Numerics.EXACT,
    sets={"malloc": "tuned"},
    proof={"malloc": "tuned"},
    supersedes=("allocator",),  # which gained nothing alone on any workload, and cost something on two
)
