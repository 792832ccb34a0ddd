"""The interface of all tested clients: produce records, and read them back."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_LIMIT_S = 20
WRITE_LIMIT_S = 120
"""Until when all records must be acknowledged, also by brokers that are starved and fail over."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a user gives it; None is a null, which is not the same as an empty value."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Landed:
    """A record that was read back, with its partition and offset."""

    partition: int
    offset: int
    record: Record


class Client(ABC):
    """A client library or tool. Its producer is idempotent, its consumer joins no group."""

    name: ClassVar[str]
    codecs: ClassVar[tuple[str, ...]] = CODECS
    """The compression codecs that it supports here."""

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        """`settings` under the client's own names, as for TLS."""
        self.settings = dict(settings or {})

    @abstractmethod
    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], codec: str = "none"
    ) -> None:
        """Send the records in this order and return once all are acknowledged."""

    @abstractmethod
    def consume(self, bootstrap: str, topic: str, partition: int, count: int) -> list[Landed]:
        """The first `count` records of a partition; fewer if no more arrive in `READ_LIMIT_S`."""
