"""The interface of clients at listeners with TLS."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from ssl import TLSVersion
from typing import ClassVar, Self

from e2e.clients.client import Client, Record
from e2e.clients.over_tls.files import TlsFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How a client connects: to which address, with which files and which version of TLS."""

    bootstrap: str
    files: TlsFiles
    version: TLSVersion | None = None
    """None if the client may choose."""


class OverTls(ABC):
    """A client library or tool. It is closed at the end of its context."""

    name: ClassVar[str]

    def __init__(self, directory: Path) -> None:
        """`directory` exists, and is for files that the client needs."""
        self.directory = directory
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @abstractmethod
    def produce(self, tls: Tls, topic: str, values: Sequence[bytes]) -> None:
        """Write lines of text to a topic; returns once all are acknowledged."""

    @abstractmethod
    def consume(self, tls: Tls, topic: str, count: int) -> list[bytes]:
        """The first records of partition 0."""

    @abstractmethod
    def refusal(self, tls: Tls, limit_s: int) -> str:
        """Why it cannot connect, in the client's own words; empty if it can.

        `limit_s` is how long it may try; clients that end by themselves ignore it."""


class ByClient(OverTls):
    """A client that the tests of plain listeners have, too."""

    @abstractmethod
    def client(self, tls: Tls) -> Client:
        """The client with its settings."""

    def produce(self, tls: Tls, topic: str, values: Sequence[bytes]) -> None:
        """See `OverTls`."""
        self.client(tls).produce(tls.bootstrap, topic, [Record(value) for value in values])

    def consume(self, tls: Tls, topic: str, count: int) -> list[bytes]:
        """See `OverTls`."""
        found = self.client(tls).consume(tls.bootstrap, topic, 0, count)
        return [one.record.value or b"" for one in found]
