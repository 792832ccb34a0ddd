"""Offsets in open transactions, which do not count before a commit marker.

A producer has one transaction at a time. If a newer epoch has fenced an older instance of the
producer, no commit marker can follow for the older one: its open offsets are dropped, and later
records of the old epoch are ignored. A marker may have a newer epoch than the transaction that it
ends: an abort that fences, and every end of a transaction since KIP-890.
"""

from collections.abc import Iterable, Iterator, KeysView

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

    __slots__ = ("_by_group", "_by_producer", "count")

    def __init__(self) -> None:
        self._by_producer: dict[int, _Transaction] = {}
        self._by_group: dict[str, dict[TopicPartition, int]] = {}
        """Group -> partition -> how many transactions would commit an offset for it: requests ask
        for one key, and there may be very many transactions."""
        self.count = 0
        """The number of offsets in all open transactions."""

    def add(
        self, producer_id: int, epoch: int, key: OffsetCommitKey, commit: CommittedOffset
    ) -> None:
        """Keep a transactional commit until its transaction is committed or aborted."""
        transaction = self._by_producer.get(producer_id)
        if transaction is None or transaction.epoch < epoch:
            # The newer epoch has fenced the older instance, whose offsets are dropped.
            if transaction is not None:
                self._drop(transaction)
            transaction = self._by_producer[producer_id] = _Transaction(epoch)
        if transaction.epoch == epoch:
            if key not in transaction.commits:
                self._added(key)
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
        self._drop(transaction)
        return transaction.commits.items()

    def forget(self, key: OffsetCommitKey) -> None:
        """Remove an offset from all open transactions: it was deleted after it was written."""
        if not self.has(key):
            return
        for producer_id, transaction in list(self._by_producer.items()):
            if transaction.commits.pop(key, None) is not None:
                self._removed(key)
                if not transaction.commits:
                    del self._by_producer[producer_id]

    def has(self, key: OffsetCommitKey) -> bool:
        """Whether an open transaction would commit an offset under this key."""
        return key.partition in self._by_group.get(key.group, ())

    def groups(self) -> KeysView[str]:
        """The groups for which open transactions would commit offsets; a live view."""
        return self._by_group.keys()

    def groups_of(self, producer_id: int) -> frozenset[str]:
        """The groups for which this producer's open transaction would commit offsets."""
        transaction = self._by_producer.get(producer_id)
        commits = () if transaction is None else transaction.commits
        return frozenset(key.group for key in commits)

    def of_group(self, group: str) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        """The offsets that open transactions would commit for this group."""
        if group not in self._by_group:
            return
        for transaction in self._by_producer.values():
            for key, commit in transaction.commits.items():
                if key.group == group:
                    yield key.partition, commit

    def _drop(self, transaction: _Transaction) -> None:
        """Count the offsets of a transaction no longer: it has ended."""
        for key in transaction.commits:
            self._removed(key)

    def _added(self, key: OffsetCommitKey) -> None:
        """Count one more transaction with this key."""
        partitions = self._by_group.setdefault(key.group, {})
        partitions[key.partition] = partitions.get(key.partition, 0) + 1
        self.count += 1

    def _removed(self, key: OffsetCommitKey) -> None:
        """Count one transaction less with this key."""
        partitions = self._by_group[key.group]
        partitions[key.partition] -= 1
        if not partitions[key.partition]:
            del partitions[key.partition]
            if not partitions:
                del self._by_group[key.group]
        self.count -= 1
