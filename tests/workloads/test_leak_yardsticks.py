"""The leak classifier's yardsticks: the right amount of work on files of the right weight."""

from pathlib import Path

from workloads.leak import WORKLOAD
from workloads.leak.data import prepare


def test_a_segment_alone_and_a_batch_at_once_weigh_what_the_real_ones_do(tmp_path: Path) -> None:
    smoke = WORKLOAD.sizes["smoke"]
    list(prepare(tmp_path, smoke))
    seen = []
    for yardstick in WORKLOAD.parts().yardsticks(tmp_path, smoke):
        assert yardstick.mean_bytes == yardstick.target_bytes
        assert yardstick.like is not None
        seen.append((yardstick.published_ms, yardstick.work(), yardstick.like()))
    singles, batches = seen
    assert singles[0] == 0.060 * 512
    for found in singles[1:]:
        assert isinstance(found, list)
        assert len(found) == 512
        assert found[0][0].shape == (1, 64, 1)
    assert batches[0] == 0.34
    for inputs, targets in batches[1:]:  # type: ignore[misc]
        assert (inputs.shape, targets.shape) == ((5632, 1, 64, 1), (5632,))  # type: ignore[has-type]
