"""The history of transactions: what producers asked for, and what readers got.

A transaction has a unique name, which is the beginning of the values of its records, and the
metadata of the offset that it commits.
"""

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple


class Initialized(NamedTuple):
    """An InitProducerId request that was answered without an error."""

    asked_s: float
    """When its first attempt was sent."""
    at_s: float
    transactional_id: str
    process: str
    producer_id: int
    """-1 from a client that does not show it, as are the epoch and those of transactions."""
    epoch: int
    is_new: bool
    """Whether the process had no identity before: it fences the process before it."""


@dataclass(slots=True)
class Opening:
    """One attempt of a new process to get an identity, which fences all processes before it."""

    transactional_id: str
    process: str
    asked_s: float
    answered_s: float = inf
    """Infinite without an answer: then it may still have its effect."""


class Given(NamedTuple):
    """An identity in the answer to an EndTxn of the second generation."""

    at_s: float
    transactional_id: str
    process: str
    producer_id: int
    epoch: int


class Fence(NamedTuple):
    """A coordinator or a partition refused a request of a process as one that was fenced."""

    at_s: float
    transactional_id: str
    process: str
    is_late: bool
    """Whether it may be because its transaction had timed out."""


@dataclass(slots=True, kw_only=True)
class Transaction:
    """One transaction, as its producer knows it. Times are infinite for what did not happen."""

    name: str
    transactional_id: str
    process: str
    producer_id: int
    epoch: int
    began_s: float
    records: dict[str, list[str]] = field(default_factory=dict)
    """Partition -> values of the records sent to it. A commit is only asked for when all of them
    are acknowledged."""
    offset: int = -1
    """The offset that it commits for its group; -1 for none."""
    commit_asked_s: float = inf
    abort_asked_s: float = inf
    ended_s: float = inf
    """When the EndTxn was answered without an error."""
    may_get_late_requests: bool = False
    """Whether a late request of an earlier transaction of the same epoch may have hit it."""

    @property
    def is_committed(self) -> bool:
        """Whether its commit was acknowledged."""
        return self.commit_asked_s < inf and self.ended_s < inf

    @property
    def is_aborted(self) -> bool:
        """Whether its abort was acknowledged."""
        return self.abort_asked_s < inf and self.ended_s < inf


class Piece(NamedTuple):
    """What a reader of committed records got from one fetch of one partition."""

    at_s: float
    reader: str
    partition: str
    from_offset: int
    """The offset of the fetch."""
    to_offset: int
    """The offset of the next fetch."""
    records: tuple[tuple[int, str], ...]
    """(offset, value)"""
    stable: int
    """The last stable offset in the answer; -1 from a client that does not show it."""
    high_watermark: int
    """-1 from a client that does not show it."""


class Stable(NamedTuple):
    """An answer of a leader about the last stable offset of a partition (ListOffsets)."""

    at_s: float
    reader: str
    partition: str
    offset: int


class CommittedOffset(NamedTuple):
    """An answer to an OffsetFetch that requires stable offsets."""

    asked_s: float
    at_s: float
    transactional_id: str
    offset: int
    """-1 if nothing is committed."""
    name: str
    """Name of the transaction that committed it."""


@dataclass(slots=True)
class TransactionHistory:
    """All that transactional producers and their readers did and got, in the order of time."""

    initialized: list[Initialized] = field(default_factory=list)
    openings: list[Opening] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    stables: list[Stable] = field(default_factory=list)
    offsets: list[CommittedOffset] = field(default_factory=list)
    refused: list[tuple[float, str, str]] = field(default_factory=list)
    """(when, transaction, error) of requests that were refused although they were correct."""
    final: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Partition -> (offset, value) of its committed records after the last transaction."""
    last_offsets: dict[str, CommittedOffset] = field(default_factory=dict)
    """Transactional id -> the committed offset of its group after the last transaction."""
    open_in: list[tuple[str, int, int]] = field(default_factory=list)
    """(partition, last stable offset, high watermark) of partitions with an open transaction, long
    after all transactions ended or timed out."""
    unwell: list[tuple[str, str]] = field(default_factory=list)
    """(transactional id, reason) of producers that had not recovered long after the cluster."""
