"""Notes the markers that would be written, in place of a log that has transactions."""

from typing import Any, NamedTuple

import pytest

from chiplog_broker.partitions.marker import Marker
from chiplog_broker.transaction_coordinator.marker_writing import MarkerWriter
from chiplog_core.groups.at import At
from chiplog_core.transactions.producer import Producer
from chiplog_wire.protocol.errors import ErrorCode


class Written(NamedTuple):
    """A marker that was written."""

    at: At
    producer: Producer
    is_commit: bool
    is_raised: bool = False


def markers_are_noted(monkeypatch: pytest.MonkeyPatch) -> set[Written]:
    """Markers are written to this set only."""
    written: set[Written] = set()

    def write(_: MarkerWriter, at: At, marker: Marker, then: Any) -> None:
        producer = Producer(marker.producer_id, marker.producer_epoch)
        is_raised = marker.transaction_version >= 2
        written.add(Written(at, producer, marker.is_commit, is_raised))
        then(ErrorCode.none)

    monkeypatch.setattr(MarkerWriter, "write", write)
    return written
