"""Keep the encoded images in memory, for the trainer and all its workers once.

Encoded, the whole subset is 5.5 GB, a tenth of the memory of the machine that read it from an object store in every
epoch. Held in memory it needs no storage at all after the start. Decoded it would be five times as large, and from
finished samples no crop could be drawn anew.

It is filled before the first step by 32 threads, because one object after another would take as long as a whole epoch
does with one worker. It must be shared: a dictionary in the data set is filled again in each worker, is copied into
each spawned one, and is gone with workers that are not persistent. Here it is one piece of anonymous shared memory.

It pays as much as a local copy, and more where the disk is slow or the kernel's cache too small. It costs its size in
memory and a longer start. It does nothing where decoding or the model sets the pace.

    memory = os.memfd_create("encoded images")           # workers inherit it, or open /proc/<trainer>/fd/<number>
    with ThreadPoolExecutor(32) as pool:
        for encoded in pool.map(read, paths):
            os.write(memory, encoded)
"""

from harness.core.optimization import Need, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="ram_cache",
    title="Encoded images held in shared memory",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"encoded_cache": "ram"},
    proof={"encoded_cache": "ram"},
    alone_on=Timing.LOADER,
    needs=(
        Need(
            missing="needs Linux's memfd_create",
            met=lambda environment, _: environment.system.startswith("Linux"),
        ),
    ),
    supersedes=("local_copy", "concurrent_reads", "sharded_files"),
)
