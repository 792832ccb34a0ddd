"""Offsets in open transactions, which do not count before a commit marker.

A producer has one transaction at a time. If a newer epoch has fenced an older instance of the
producer, no commit marker can follow for the older one: its open offsets are dropped, and later
records of the old epoch are ignored. A marker may have a newer epoch than the transaction that it
ends: an abort that fences, and every end of a transaction since KIP-890.
"""

from collections.abc import Iterable, Iterator

from chiplog_broker.groups.keys import OffsetCommitKey
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.storage.names import TopicPartition


class _Transaction:
    """The offsets that one producer would commit."""

    __slots__ = ("commits", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.commits: dict[OffsetCommitKey, CommittedOffset] = {}


class OpenTransactions:
    """All open transactions of one partition, by producer id."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Transaction] = {}

    def add(
        self, producer_id: int, epoch: int, key: OffsetCommitKey, commit: CommittedOffset
    ) -> None:
        """Keep a transactional commit until its transaction is committed or aborted."""
        transaction = self._by_producer.get(producer_id)
        if transaction is None or transaction.epoch < epoch:
            # The newer epoch has fenced the older instance, whose offsets are dropped.
            transaction = self._by_producer[producer_id] = _Transaction(epoch)
        if transaction.epoch == epoch:
            transaction.commits[key] = commit

    def end(
        self, producer_id: int, epoch: int
    ) -> Iterable[tuple[OffsetCommitKey, CommittedOffset]]:
        """Close a producer's transaction because of a marker with this epoch, and return its
        offsets: none if there is no transaction."""
        transaction = self._by_producer.get(producer_id)
        if transaction is None or transaction.epoch > epoch:
            return ()  # the marker is for an older instance of the producer
        del self._by_producer[producer_id]
        return transaction.commits.items()

    def forget(self, key: OffsetCommitKey) -> None:
        """Remove an offset from all open transactions: it was deleted after it was written."""
        for producer_id, transaction in list(self._by_producer.items()):
            transaction.commits.pop(key, None)
            if not transaction.commits:
                del self._by_producer[producer_id]

    def has(self, key: OffsetCommitKey) -> bool:
        """Whether an open transaction would commit an offset under this key."""
        return any(key in transaction.commits for transaction in self._by_producer.values())

    def groups(self) -> frozenset[str]:
        """The groups for which open transactions would commit offsets."""
        return frozenset(
            key.group for transaction in self._by_producer.values() for key in transaction.commits
        )

    def of_group(self, group: str) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        """The offsets that open transactions would commit for this group."""
        for transaction in self._by_producer.values():
            for key, commit in transaction.commits.items():
                if key.group == group:
                    yield key.partition, commit
