"""Open the HDF5 file for plain reading instead of in the mode for reading while another process writes.

SWMR, single writer and multiple readers, makes metadata in the file safe to follow while it grows. The real system
opens a file that nobody writes with `swmr=True`. Plain reading saves the checks, which concern metadata: the values of
a contiguous dataset are read the same way in both modes.

    file = h5py.File(path, "r", libver="latest")
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

GONE = "no item is read through HDF5 any more"

OPTIMIZATION = Optimization(
    name="swmr_off",
    title="HDF5 opened for plain reading",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"swmr": False},
    proof={"swmr": False},
    alone_on=Timing.LOADER,
    excludes=dict.fromkeys(("in_memory_data", "batched_fetch", "memory_map", "data_on_device"), GONE),
    pointless_where={"layout contiguous": "whose values are read the same way in both modes"},
)
