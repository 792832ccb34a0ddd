"""Keys, values and the fold: against bytes put together by hand by Kafka's schema."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_broker.transactions.errors import (
    UnreadableTransactionError,
    UnstorableTransactionError,
)
from chiplog_broker.transactions.fold import TransactionsState
from chiplog_broker.transactions.key import decode_key, encode_key
from chiplog_broker.transactions.value import decode_value, encode_value
from chiplog_core.groups.at import At
from chiplog_core.transactions.states import STATUS_NUMBERS, TransactionState
from chiplog_core.transactions.stored import StoredTransaction
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch

ONGOING = StoredTransaction(
    producer_id=5,
    producer_epoch=7,
    transaction_timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({At("b", 1), At("a", 2), At("a", 0)}),
    last_update_timestamp_ms=1_000,
    start_timestamp_ms=900,
)
ONGOING_V0 = (
    struct.pack(">hqhib", 0, 5, 7, 60_000, 1)
    + struct.pack(">i", 2)
    + struct.pack(">h1siii", 1, b"a", 2, 0, 2)
    + struct.pack(">h1sii", 1, b"b", 1, 1)
    + struct.pack(">qq", 1_000, 900)
)
ONGOING_V1 = (
    struct.pack(">hqhib", 1, 5, 7, 60_000, 1)
    + b"\x03"
    + (b"\x02a\x03" + struct.pack(">ii", 0, 2) + b"\x00")
    + (b"\x02b\x02" + struct.pack(">i", 1) + b"\x00")
    + struct.pack(">qq", 1_000, 900)
    + b"\x00"
)
EMPTY = replace(
    ONGOING, state=TransactionState.EMPTY, partitions=frozenset(), start_timestamp_ms=-1
)
EMPTY_V1 = struct.pack(">hqhib", 1, 5, 7, 60_000, 0) + b"\x00" + struct.pack(">qqb", 1_000, -1, 0)
TAGGED = replace(
    ONGOING,
    state=TransactionState.PREPARE_ABORT,
    partitions=frozenset(),
    previous_producer_id=3,
    next_producer_id=9,
    client_transaction_version=2,
    next_producer_epoch=0,
)
TAGGED_V1 = (
    struct.pack(">hqhib", 1, 5, 7, 60_000, 3)
    + b"\x01"
    + struct.pack(">qq", 1_000, 900)
    + b"\x04"
    + (b"\x00\x08" + struct.pack(">q", 3))
    + (b"\x01\x08" + struct.pack(">q", 9))
    + (b"\x02\x02" + struct.pack(">h", 2))
    + (b"\x03\x02" + struct.pack(">h", 0))
)

NUMBERS = st.integers(-(2**63), 2**63 - 1)
EPOCHS = st.integers(-(2**15), 2**15 - 1)


@pytest.mark.parametrize(
    ("stored", "raw"), [(ONGOING, ONGOING_V1), (EMPTY, EMPTY_V1), (TAGGED, TAGGED_V1)]
)
def test_values_are_kafkas(stored: StoredTransaction, raw: bytes) -> None:
    assert encode_value(stored) == raw
    assert decode_value(raw, "t") == stored


def test_values_of_version_0_are_read() -> None:
    assert decode_value(ONGOING_V0, "t") == ONGOING
    # Null partitions, as Kafka writes an empty transaction.
    raw = struct.pack(">hqhibiqq", 0, 5, 7, 60_000, 0, -1, 1_000, -1)
    assert decode_value(raw, "t") == EMPTY


@settings(max_examples=30)
@given(
    state=st.sampled_from(sorted(set(STATUS_NUMBERS) - {TransactionState.EMPTY})),
    partitions=st.frozensets(st.builds(At, st.text(max_size=5), st.integers(0, 2**31 - 1))),
    producer_ids=st.tuples(NUMBERS, NUMBERS, NUMBERS),
    epochs=st.tuples(EPOCHS, EPOCHS, EPOCHS),
)
def test_what_is_stored_is_read_again(
    state: TransactionState,
    partitions: frozenset[At],
    producer_ids: tuple[int, int, int],
    epochs: tuple[int, int, int],
) -> None:
    stored = replace(
        ONGOING,
        state=state,
        partitions=partitions,
        producer_id=producer_ids[0],
        previous_producer_id=producer_ids[1],
        next_producer_id=producer_ids[2],
        producer_epoch=epochs[0],
        next_producer_epoch=epochs[1],
        client_transaction_version=epochs[2],
    )
    assert decode_value(encode_value(stored), "t") == stored


@pytest.mark.parametrize("raw", [ONGOING_V0, ONGOING_V1, TAGGED_V1])
def test_values_that_are_cut_or_changed_are_refused(raw: bytes) -> None:
    for length in range(len(raw)):
        with pytest.raises(UnreadableTransactionError, match=r"TransactionLogValue"):
            decode_value(raw[:length], "t")
    with pytest.raises(UnreadableTransactionError, match="unknown version"):
        decode_value(b"\x00\x02" + raw[2:], "t")
    with pytest.raises(UnreadableTransactionError, match="unknown state 8"):
        decode_value(raw[:16] + b"\x08" + raw[17:], "t")


def test_keys_are_kafkas() -> None:
    assert encode_key("my-id") == b"\x00\x00\x00\x05my-id"
    assert decode_key(b"\x00\x00\x00\x05my-id") == "my-id"
    assert decode_key(b"\x00\x01whatever") is None
    for unreadable in (None, b"", b"\x00\x00\x00\x05my", b"\x00\x00\x00\x01ab"):
        with pytest.raises(UnreadableTransactionError):
            decode_key(unreadable)
    with pytest.raises(UnstorableTransactionError):
        encode_key("x" * 32_768)


def batch(base_offset: int, *records: tuple[str, StoredTransaction | None]) -> bytearray:
    return build_batch(
        [
            NewRecord(None if stored is None else encode_value(stored), encode_key(name), 1)
            for name, stored in records
        ],
        BatchOptions(base_offset=base_offset),
    )


def test_the_last_record_of_each_id_counts() -> None:
    state = TransactionsState(3)
    state.apply(batch(3, ("a", EMPTY), ("b", EMPTY)) + batch(7, ("a", ONGOING)))
    assert dict(state) == {"a": ONGOING, "b": EMPTY}
    assert state.end_offset == 8
    state.apply(batch(8, ("b", None), ("c", None)))
    assert (state.get("a"), state.get("b"), len(state)) == (ONGOING, None, 1)


def test_transactions_that_are_not_complete() -> None:
    state = TransactionsState()
    assert state.unfinished() == []
    state.apply(batch(0, ("a", ONGOING), ("b", EMPTY), ("c", ONGOING)))
    assert sorted(name for name, _ in state.unfinished()) == ["a", "c"]
    state.apply(batch(3, ("a", EMPTY), ("b", ONGOING), ("c", None)))
    assert state.unfinished() == [("b", ONGOING)]


def test_damaged_and_foreign_records() -> None:
    state = TransactionsState()
    other = build_batch([NewRecord(b"?", b"\x7f\x00unknown", 1)])
    state.apply(other)
    assert (len(state), state.end_offset) == (0, 1)
    damaged = batch(1, ("a", EMPTY))
    damaged[-1] ^= 1
    with pytest.raises(Exception, match=r"checksum|CRC|crc"):
        state.apply(damaged)
