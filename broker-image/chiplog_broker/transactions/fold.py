"""The transactional ids of one partition of `__transaction_state`, as the result of its records.

The same records give the same state on every broker, after every restart, and before and after
compaction: the last record of each key in the log counts, and a tombstone removes the key.
"""

from collections.abc import Iterator

from chiplog_broker.transactions.key import decode_key
from chiplog_broker.transactions.value import decode_value
from chiplog_core.transactions.states import AT_REST
from chiplog_core.transactions.stored import StoredTransaction
from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import check_crc, iter_batches
from chiplog_wire.records.reader import read_records


class TransactionsState:
    """The transactional ids of one partition, as of `end_offset`."""

    __slots__ = ("_transactions", "_unfinished", "end_offset", "partition_count")

    def __init__(self, end_offset: int = 0) -> None:
        """Empty; `end_offset` is the log start offset, where the first batch may begin."""
        self.end_offset = end_offset
        self.partition_count = 0
        """The partitions of all transactions together."""
        self._transactions: dict[str, StoredTransaction] = {}
        self._unfinished: dict[str, StoredTransaction] = {}
        """Those among them with a transaction that is not complete."""

    def apply(self, batches: Buffer) -> None:
        """Apply whole batches, in the order of the log.

        After an error the state must not be used any more. Raises `UnreadableTransactionError` and
        `RecordsError`. The checksums are compared: a wrong state would commit what was aborted.
        """
        view = memoryview(batches)
        for position, header in iter_batches(view):
            assert header.base_offset >= self.end_offset, "batches out of the log's order"
            batch = view[position : position + header.size_bytes]
            check_crc(batch, header)
            if not header.is_control:
                for record in read_records(batch, header):
                    self._apply_record(record.key, record.value)
            self.end_offset = header.last_offset + 1

    def _apply_record(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record. Unknown kinds of keys are ignored."""
        transactional_id = decode_key(key)
        if transactional_id is None:
            return
        self.put(transactional_id, None if value is None else decode_value(value, transactional_id))

    def put(self, transactional_id: str, stored: StoredTransaction | None) -> None:
        """Replace the state of a transactional id; None removes it."""
        before = self._transactions.pop(transactional_id, None)
        if before is not None:
            self.partition_count -= len(before.partitions)
        self._unfinished.pop(transactional_id, None)
        if stored is not None:
            self._transactions[transactional_id] = stored
            self.partition_count += len(stored.partitions)
            if stored.state not in AT_REST:
                self._unfinished[transactional_id] = stored

    def get(self, transactional_id: str) -> StoredTransaction | None:
        """The last state of this transactional id; None if it has none."""
        return self._transactions.get(transactional_id)

    def unfinished(self) -> list[tuple[str, StoredTransaction]]:
        """The transactional ids with a transaction that is open, or whose markers are being
        written."""
        return list(self._unfinished.items())

    def __len__(self) -> int:
        return len(self._transactions)

    def __iter__(self) -> Iterator[tuple[str, StoredTransaction]]:
        """All transactional ids with their states, as they are now: the state may change
        meanwhile."""
        return iter(list(self._transactions.items()))
