"""The order in which samples are taken: the same batches in every epoch."""

from collections.abc import Iterator

import torch
from torch.utils.data import Sampler

from harness.core.mistake import Mistake


class Order(Sampler[list[int]]):
    """Batches of indices in one seeded order, repeated: every window of an epoch's length holds the same samples.

    Where epochs have no boundary, the order can be told where to go on, so that windows of several arms hold the same
    samples whatever steps each of them took before.
    """

    def __init__(self, samples: int, batch: int, seed: int, *, endless: bool, short_last: bool = False) -> None:
        """Shuffles `samples` indices once; `endless` leaves out the boundary between epochs.

        With `short_last` half of the last batch is missing, as where a set is no multiple of the batch; raises Mistake
        where that would leave nothing, or nothing to be shorter than.
        """
        shuffle = torch.randperm(samples, generator=torch.Generator().manual_seed(seed)).tolist()
        self._batches = [shuffle[first : first + batch] for first in range(0, samples - batch + 1, batch)]
        self._endless = endless
        self._next = 0
        if short_last:
            if batch < 2 or len(self._batches) < 2:
                raise Mistake(
                    "A shorter last batch needs two batches or more, of two samples or more; take a larger size."
                )
            self._batches[-1] = self._batches[-1][: batch // 2]

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of one epoch, or of epochs without end."""
        if not self._endless:
            yield from self._batches
            return
        while True:
            batch = self._batches[self._next % len(self._batches)]
            self._next += 1
            yield batch

    def go_to(self, number: int) -> None:
        """The next batch that is asked for is this one, counted from the very first; of epochs without end alone."""
        self._next = number

    def __len__(self) -> int:
        """Batches in one epoch."""
        return len(self._batches)

    def samples(self, first: int, last: int) -> int:
        """Samples in the batches from number `first` up to but without `last`, counted from the very first batch."""
        return self._up_to(last) - self._up_to(first)

    def _up_to(self, batches: int) -> int:
        epochs, rest = divmod(batches, len(self._batches))
        return epochs * sum(map(len, self._batches)) + sum(map(len, self._batches[:rest]))
