"""The identity of a producer, and when its epochs are used up."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1

FENCING_EPOCH: Final = 2**15 - 1
"""The largest epoch. No client gets it, so that a producer can always be fenced by markers with a
larger epoch than its own."""
LAST_EPOCH: Final = FENCING_EPOCH - 1
"""The largest epoch that a client gets. After it the producer gets another id."""


class Producer(NamedTuple):
    """A producer id and an epoch."""

    producer_id: int
    epoch: int

    @property
    def is_exhausted(self) -> bool:
        """Whether no epoch that a client may get is left for this id."""
        return self.epoch >= LAST_EPOCH


NO_PRODUCER: Final = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

NewProducerId: TypeAlias = Callable[[], int | None]
"""Draws an id that no producer had before; None if the broker cannot do so now."""
