"""A first look at every workload, for asv: what its main optimizations bring, what memory they take, how they start.

    asv run                                  # all workloads and the overhead, about five minutes on two cores
    asv run --bench Leak --bench Speaker     # a class for each workload: these two
    asv run --bench overhead                 # the harness's own cost alone, half a minute

A relative time is the time of a step with the optimization over the time of the same step without it, so less is better
and 1 is no gain: asv knows only that larger is worse. These variables of the environment change what is measured:

    SPEEDMATRIX_ASV_SIZE      smoke, quick or standard; else quick. A size that is named is part of the environment's
                              name, and has a series of its own
    SPEEDMATRIX_ASV_BUDGET    time for each workload (90s, 10m, up to 110m); else 1.6 times what two replicates of
                              all its comparisons are likely to take; it ends with them
    SPEEDMATRIX_DATA          folder of the generated data; else the user's cache
"""

from typing import Any

from harness.core.workload import Workload
from harness.integrations.asv_cells import DIGITS, as_samples, labels, series, shown, workloads


def suite_of(workload: Workload) -> type:
    """The class that asv finds for a workload; its parameter is what is compared with `baseline`."""

    def setup(_self: object, label: str) -> None:
        shown(workload.name, label)

    def track_relative_time(_self: object, label: str) -> dict[str, Any]:
        """The step's time with it over the time without it, the ratio of totals between the ends of its interval."""
        return as_samples(shown(workload.name, label).relative, DIGITS)

    def track_peak_memory(_self: object, label: str) -> dict[str, Any]:
        """The most memory with it, of the GPU if there is one."""
        return as_samples(shown(workload.name, label).peak_bytes)

    def track_time_to_first_step(_self: object, label: str) -> dict[str, Any]:
        """From the start of building to the end of the first step."""
        return as_samples(shown(workload.name, label).start_s)

    values = {
        track_relative_time: ("time relative to the baseline", "ratio"),
        track_peak_memory: ("peak memory", "bytes"),
        track_time_to_first_step: ("time to the first step", "seconds"),
    }
    for value, (words, unit) in values.items():
        value.pretty_name, value.unit = f"{workload.title}: {words}", unit  # type: ignore[attr-defined]
    parts = {value.__name__: value for value in values}
    return type(
        workload.name.capitalize(),
        (),
        parts
        | {
            "__module__": __name__,
            "setup": setup,
            "params": [labels(workload)],
            "param_names": ["optimization"],
            "version": series(workload),
        },
    )


globals().update({one.name.capitalize(): suite_of(one) for one in workloads()})
