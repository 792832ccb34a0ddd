"""Lets the epochs of a producer be used up soon: Kafka's 32,767 are more than a run can use."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from chiplog_core.transactions import ending, producer, stored


@contextmanager
def few_epochs(last: int) -> Iterator[None]:
    """Within the block `last` is the last epoch that a client gets; with 0 nothing changes."""
    if not last:
        yield
        return
    with (
        mock.patch.object(producer, "LAST_EPOCH", last),
        mock.patch.object(stored, "LAST_EPOCH", last),
        mock.patch.object(producer, "FENCING_EPOCH", last + 1),
        mock.patch.object(ending, "FENCING_EPOCH", last + 1),
    ):
        yield
