"""A client as the tests see it: something that produces records and reads them back."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_LIMIT_S = 20


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a user gives it; None is a null, and not an empty value."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Landed:
    """A record and where it was found."""

    partition: int
    offset: int
    record: Record


class Client(ABC):
    """Idempotence is on in every producer; no consumer joins a group."""

    name: ClassVar[str]
    codecs: ClassVar[tuple[str, ...]] = CODECS

    @abstractmethod
    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], codec: str = "none"
    ) -> None:
        """Send the records in this order and return once all are acknowledged."""

    @abstractmethod
    def consume(self, bootstrap: str, topic: str, partition: int, count: int) -> list[Landed]:
        """The first `count` records of a partition, fewer where no more came in time."""
