"""Keep the number of files and a list of their numbers, made once when the file is opened.

Proposed to avoid repeated reads of metadata. There are none to avoid: an item's file and place follow from its number
by division, and the shape of an open dataset is known. What it costs is a list of Python integers in every worker.

    self._num_files_cached = len(self._labels)
    self._file_indices_cache = list(range(self._num_files_cached))
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

GONE = "no item is read through HDF5 any more"

OPTIMIZATION = Optimization(
    name="file_index_cache",
    title="File numbers kept in a list",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"file_index_cache": True},
    proof={"file_index_cache": True},
    alone_on=Timing.LOADER,
    excludes=dict.fromkeys(("in_memory_data", "batched_fetch", "memory_map", "data_on_device"), GONE),
    pointless_where={"segment_read hdf5": "whose items never ask for the number of files"},
)
