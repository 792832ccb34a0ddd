"""The interface of the tested clients: transactional producers, and consumers that feed them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self

LIMIT_S = 120
"""Hang guard of each call. Brokers may be starved, and one of them may be killed meanwhile."""
TRANSACTION_TIMEOUT_MS = 60_000
MAX_POLL_RECORDS = 10


class Isolation(StrEnum):
    """What a consumer returns, by the name that all libraries use."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


class TransactionFailedError(Exception):
    """The client's call failed; the text is the client's error."""


class FencedError(TransactionFailedError):
    """The client's own error for "another producer has this transactional id now"."""


@contextmanager
def errors_of(library: type[Exception], fenced: type[Exception]) -> Iterator[None]:
    """Turn a library's errors into those of the interface; `fenced` is its error of that name."""
    try:
        yield
    except library as failed:
        kind = FencedError if isinstance(failed, fenced) else TransactionFailedError
        raise kind(repr(failed)) from failed


@dataclass(frozen=True, slots=True)
class Input:
    """A record that is to be transformed."""

    partition: int
    offset: int
    value: bytes


def inputs(found: Mapping[Any, Sequence[Any]]) -> list[Input]:
    """The records of a poll, which both Python libraries return by partition."""
    return [
        Input(one.partition, one.offset, one.value) for records in found.values() for one in records
    ]


class Source(ABC):
    """A member of a group that reads committed records and commits nothing by itself."""

    @abstractmethod
    def poll(self) -> list[Input]:
        """The next records, at most `MAX_POLL_RECORDS`; none if there are none yet."""

    @abstractmethod
    def rewind(self) -> None:
        """Go back to the group's committed offsets, to the beginning where there are none."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Producer(ABC):
    """An initialised transactional producer.

    All methods raise `FencedError` for the client's own error of that name, and
    `TransactionFailedError` for others.
    """

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, partition: int, values: Sequence[bytes]) -> None:
        """Send records as part of the transaction, without waiting for their answers."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until all sent records are acknowledged."""

    @abstractmethod
    def send_offsets(self, source: Source) -> None:
        """Make the source's positions part of the transaction."""

    @abstractmethod
    def send_offset(
        self, group: str, topic: str, partition: int, offset: int, metadata: str
    ) -> None:
        """Make this offset of a group without members part of the transaction."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """End it without ending its transaction; never fails."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TransactionalClient(ABC):
    """A client library. As a context manager it starts and stops what it needs for all tests."""

    name: ClassVar[str]
    survives_coordinator: ClassVar[bool] = True
    """Whether a transaction can be ended after the broker that coordinated it was killed."""

    @abstractmethod
    def producer(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> Producer:
        """A producer, initialised: the one before with this id is fenced."""

    @abstractmethod
    def source(self, bootstrap: str, group: str, topic: str) -> Source:
        """A member of the group that reads the topic from the beginning."""

    @abstractmethod
    def read(
        self, bootstrap: str, topic: str, partition: int, count: int, isolation: Isolation
    ) -> list[bytes]:
        """The values of the first `count` records that the isolation level returns.

        Fewer if no more arrive in time.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None
