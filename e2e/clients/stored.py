"""Compares the records of a topic after a crash with its producer's acknowledgements."""

from collections import Counter
from dataclasses import dataclass

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.load import Ledger
from e2e.clients.topics import end_offsets


@dataclass(frozen=True, slots=True)
class Differences:
    """Lost, duplicate and missing records; all lists are empty if there are none."""

    lost: list[bytes]
    """Acknowledged values that are not stored at their offset. A value that was acknowledged
    without an offset is lost if it is stored nowhere."""
    twice: list[bytes]
    """Values that are stored at more than one offset."""
    gaps: list[tuple[int, int]]
    """Partition and offset below the log end offset at which there is no record."""


def differences(bootstrap: str, topic: str, partitions: int, ledger: Ledger) -> Differences:
    """Read the whole topic and compare it with the ledger."""
    found: dict[tuple[int, int], bytes | None] = {}
    gaps: list[tuple[int, int]] = []
    for number, end in enumerate(end_offsets(bootstrap, topic, range(partitions))):
        landed = Librdkafka().consume(bootstrap, topic, number, end)
        found |= {(number, one.offset): one.record.value for one in landed}
        gaps += [(number, n) for n in range(end) if (number, n) not in found]
    count_by_value = Counter(found.values())
    return Differences(
        lost=[
            value
            for value, (partition, offset) in ledger.acknowledged.items()
            if (
                count_by_value[value] == 0
                if offset is None
                else found.get((partition, offset)) != value
            )
        ],
        twice=[value for value, count in count_by_value.items() if value is not None and count > 1],
        gaps=gaps,
    )
