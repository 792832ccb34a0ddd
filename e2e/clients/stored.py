"""What a topic holds after a crash, held against what its producer was promised."""

from collections import Counter
from dataclasses import dataclass

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.load import Ledger
from e2e.clients.topics import end_offsets


@dataclass(frozen=True, slots=True)
class Differences:
    """Everything that is not as it should be; all empty where all is well."""

    lost: list[bytes]
    """Acknowledged, and not at its offset; where no offset was answered, nowhere."""
    twice: list[bytes]
    """Found at more than one offset."""
    gaps: list[tuple[int, int]]
    """Partition and offset that no record has, below the end."""


def differences(bootstrap: str, topic: str, partitions: int, ledger: Ledger) -> Differences:
    """Read the whole topic and compare."""
    found: dict[tuple[int, int], bytes | None] = {}
    gaps: list[tuple[int, int]] = []
    for number, end in enumerate(end_offsets(bootstrap, topic, range(partitions))):
        landed = Librdkafka().consume(bootstrap, topic, number, end)
        found |= {(number, one.offset): one.record.value for one in landed}
        gaps += [(number, n) for n in range(end) if (number, n) not in found]
    times = Counter(found.values())
    return Differences(
        lost=[
            value
            for value, (partition, offset) in ledger.acknowledged.items()
            if (times[value] == 0 if offset is None else found.get((partition, offset)) != value)
        ],
        twice=[value for value, count in times.items() if value is not None and count > 1],
        gaps=gaps,
    )
