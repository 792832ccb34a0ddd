"""The fold against a dictionary: any order of commits, deletions, transactions and compaction.

The model knows the whole history. Of each key, the record highest in the log counts, among those
that count: plain ones, and those of transactions whose commit marker stands in the log.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chiplog_broker.groups.batches import (
    group_record,
    reset_record,
    retention_record,
    tombstones,
)
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.groups.keys import (
    DoneResetKey,
    GroupMetadataKey,
    GroupRetentionKey,
    Key,
    OffsetCommitKey,
    encode_key,
)
from chiplog_broker.groups.offset_value import CommittedOffset, encode_offset_value
from chiplog_broker.groups.reset_value import DoneReset, MovedOffset
from chiplog_broker.storage.compaction.key_map import KeyMap
from chiplog_broker.storage.compaction.rewrite import RetentionRules, index_batch, rewrite_batch
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.stored import StoredGroup
from chiplog_wire.records.batch import iter_batches
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

GROUPS = ("g", "h")
OFFSET_KEYS = [
    OffsetCommitKey(group, TopicPartition(topic, index))
    for group in GROUPS
    for topic in ("t", "a-topic-with-a-long-name")
    for index in (0, 1)
]
RESET_KEYS = [DoneResetKey(group, name) for group in GROUPS for name in ("one", "two")]
PRODUCERS = (1, 2)


@dataclass
class Written:
    """One record of the log: `transaction` is None for a plain one."""

    offset: int
    key: Key
    value: CommittedOffset | StoredGroup | DoneReset | int | None
    transaction: int | None


@dataclass
class History:
    """Everything that was ever written, and how transactions ended."""

    records: list[Written] = field(default_factory=list)
    batches: list[bytearray] = field(default_factory=list)
    ended: dict[int, bool] = field(default_factory=dict)
    markers: dict[int, int] = field(default_factory=dict)
    """Where they stand: offset, and the transaction that ends there."""
    open: dict[int, int] = field(default_factory=dict)
    """By producer, its transaction: a number counted up."""
    end_offset: int = 0

    def write(self, rows: list[tuple[Key, Any]], producer_id: int | None) -> None:
        transaction = None
        options = BatchOptions(base_offset=self.end_offset)
        if producer_id is not None:
            transaction = self.open.setdefault(producer_id, self.end_offset)
            options = transactional(self.end_offset, producer_id)
        self.batches.append(build_batch([as_record(key, value) for key, value in rows], options))
        for key, value in rows:
            self.records.append(Written(self.end_offset, key, value, transaction))
            self.end_offset += 1

    def end(self, producer_id: int, *, commits: bool) -> None:
        transaction = self.open.pop(producer_id, None)
        if transaction is not None:
            self.ended[transaction] = commits
            self.markers[self.end_offset] = transaction
        self.batches.append(marker(self.end_offset, producer_id, commits=commits))
        self.end_offset += 1

    def counts(self, record: Written) -> bool:
        return record.transaction is None or self.ended.get(record.transaction, False)

    def latest(self, below: int | None = None) -> dict[Key, Written]:
        return {
            record.key: record
            for record in self.records
            if self.counts(record) and (below is None or record.offset < below)
        }

    def state(self) -> tuple[dict[Key, Written], set[Key]]:
        """What counts of each key, and what open transactions may commit."""
        found = {key: record for key, record in self.latest().items() if record.value is not None}
        deleted = {record.key: record.offset for record in self.records if record.value is None}
        open_transactions = set(self.open.values())
        pending = {
            record.key
            for record in self.records
            if record.transaction in open_transactions
            and record.offset > deleted.get(record.key, -1)
        }
        return found, pending


def as_record(key: Key, value: CommittedOffset | StoredGroup | DoneReset | int | None) -> NewRecord:
    match value:
        case None:
            return tombstones([key], 0)[0]
        case int():
            return retention_record(key.group, value, 0)
        case StoredGroup():
            return group_record(key.group, value, 0)
        case DoneReset():
            assert isinstance(key, DoneResetKey)
            return reset_record(*key, value, 0)
        case CommittedOffset():
            return NewRecord(encode_offset_value(value), encode_key(key), 0)


def transactional(base_offset: int, producer_id: int, *, control: bool = False) -> BatchOptions:
    return BatchOptions(
        base_offset=base_offset,
        producer=Producer(producer_id=producer_id, epoch=0, base_sequence=0),
        transactional=True,
        control=control,
    )


def marker(base_offset: int, producer_id: int, *, commits: bool) -> bytearray:
    record = NewRecord(struct.pack(">hi", 0, 0), struct.pack(">hh", 0, commits))
    return build_batch([record], transactional(base_offset, producer_id, control=True))


def of_state(state: GroupsState) -> object:
    """The state in the model's terms: only commits have a place in the log that it shows."""
    found: dict[Key, object] = {}
    for group in state.group_ids():
        if (stored := state.group(group)) is not None:
            found[GroupMetadataKey(group)] = stored
        for reset_id, done in state.resets(group).items():
            found[DoneResetKey(group, reset_id)] = done
        for partition, commit in state.offsets(group).items():
            found[OffsetCommitKey(group, partition)] = (commit, commit.record_offset)
    for group in state.retained():
        found[GroupRetentionKey(group)] = state.retention_ms(group)
    pending = {key for key in OFFSET_KEYS if state.has_pending(key.group, key.partition)}
    assert pending == {
        OffsetCommitKey(group, partition)
        for group in state.group_ids()
        for partition, _ in state.pending(group)
    }
    listed = [one for group in GROUPS for one in state.pending(group)]
    committed = sum(len(state.offsets(group)) for group in GROUPS)
    assert state.offset_count == committed + len(listed)
    return found, pending


def of_model(history: History) -> object:
    found, pending = history.state()
    return {
        key: record.value
        if isinstance(record.value, StoredGroup | DoneReset | int)
        else (record.value, record.offset)
        for key, record in found.items()
    }, pending


def folded(batches: list[Any]) -> object:
    state = GroupsState()
    state.apply(b"".join(batches))
    return of_state(state)


COMMITS = st.builds(
    CommittedOffset,
    offset=st.integers(0, 99),
    commit_timestamp_ms=st.just(0),
    topic_id=st.none() | st.uuids(version=4),
)
STORED = st.builds(
    StoredGroup,
    protocol_type=st.just("consumer"),
    generation=st.integers(0, 9),
    protocol=st.none(),
    leader=st.none(),
    current_state_timestamp_ms=st.just(0),
    members=st.just(()),
)
RESETS = st.builds(
    DoneReset,
    fingerprint=st.binary(min_size=16, max_size=16),
    done_ms=st.integers(0, 99),
    offsets=st.lists(
        st.builds(
            MovedOffset,
            st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 9)),
            st.integers(-1, 99),
            st.integers(0, 99),
        ),
        unique_by=lambda one: one.partition,
        max_size=4,
    ).map(lambda moved: tuple(sorted(moved))),
)
OFFSET_ROWS = st.tuples(st.sampled_from(OFFSET_KEYS), COMMITS)
PLAIN_ROWS = st.lists(
    OFFSET_ROWS
    | st.tuples(st.sampled_from(OFFSET_KEYS), st.none())
    | st.tuples(st.sampled_from(GROUPS).map(GroupMetadataKey), st.none() | STORED)
    | st.tuples(st.sampled_from(RESET_KEYS), st.none() | RESETS)
    | st.tuples(st.sampled_from(GROUPS).map(GroupRetentionKey), st.none() | st.integers(-1, 9)),
    min_size=1,
    max_size=4,
)
PLAIN_STEPS = st.tuples(st.just("write"), PLAIN_ROWS, st.none())
TRANSACTION_ROWS = st.lists(OFFSET_ROWS, min_size=1, max_size=3)
STEPS = (
    PLAIN_STEPS
    | st.tuples(st.just("write"), TRANSACTION_ROWS, st.sampled_from(PRODUCERS))
    | st.tuples(st.just("end"), st.booleans(), st.sampled_from(PRODUCERS))
)


def take(history: History, step: tuple[Any, ...]) -> None:
    what, argument, producer_id = step
    if what == "write":
        history.write(argument, producer_id)
    else:
        history.end(producer_id, commits=argument)


@given(st.lists(STEPS, max_size=30))
def test_after_every_step_the_fold_is_what_the_history_says(steps: list[Any]) -> None:
    history, state = History(), GroupsState()
    for step in steps:
        written = len(history.batches)
        take(history, step)
        state.apply(b"".join(history.batches[written:]))
        assert of_state(state) == of_model(history)
        assert state.end_offset == history.end_offset
    assert folded(history.batches) == of_model(history)


@given(st.lists(STEPS, max_size=30))
def test_a_marker_that_was_appended_is_the_same_as_one_that_was_read(steps: list[Any]) -> None:
    history, state = History(), GroupsState()
    for step in steps:
        written = len(history.batches)
        take(history, step)
        what, argument, producer_id = step
        if what == "end":
            state.marker_appended(producer_id, 0, history.end_offset, is_commit=argument)
        else:
            state.apply(b"".join(history.batches[written:]))
        assert of_state(state) == of_model(history)
        assert state.end_offset == history.end_offset


def compacted(history: History, up_to: int, *, drops_tombstones: bool) -> Iterator[bytearray]:
    """What Kafka's rules leave of the log below `up_to`; above, all of it.

    Of each key the last record that counts; nothing of aborted transactions; a marker for as long
    as any record of its transaction is there. Each record is its own batch, in its old place.
    """
    up_to = min([up_to, *history.open.values()])
    latest = history.latest(below=up_to)
    left: set[int | None] = set()
    kept: dict[int, bytearray] = {}
    producers = {}
    for batch in history.batches:
        for _, header in iter_batches(batch):
            for offset in range(header.base_offset, header.last_offset + 1):
                producers[offset] = header.producer_id
    for record in history.records:
        is_latest = latest.get(record.key) is record
        is_kept = is_latest and not (record.value is None and drops_tombstones)
        if record.offset >= up_to or is_kept:
            options = BatchOptions(base_offset=record.offset)
            if record.transaction is not None:
                options = transactional(record.offset, producers[record.offset])
            kept[record.offset] = build_batch([as_record(record.key, record.value)], options)
            left.add(record.transaction)
    for offset, transaction in history.markers.items():
        if offset >= up_to or transaction in left:
            commits = history.ended[transaction]
            kept[offset] = marker(offset, producers[offset], commits=commits)
    for offset in sorted(kept):
        yield kept[offset]


@given(st.lists(STEPS, max_size=30), st.integers(0, 60), st.booleans())
def test_compaction_changes_nothing(steps: list[Any], up_to: int, drops_tombstones: bool) -> None:
    history = History()
    for step in steps:
        take(history, step)
    short = list(compacted(history, up_to, drops_tombstones=drops_tombstones))
    assert folded(short) == of_model(history)


def cleaned(batches: list[bytearray], *, drops_tombstones: bool) -> Iterator[Any]:
    """The log after this broker's own cleaner; tombstones go at the second pass at once."""
    for now_ms in (0, 1) if drops_tombstones else (0,):
        keys = KeyMap(2**20)
        survival = RetentionRules(
            keys=keys, now_ms=now_ms, delete_retention_ms=0, remembered_batches=frozenset()
        )
        headers = [next(iter_batches(batch))[1] for batch in batches]
        end_offset = headers[-1].last_offset + 1 if headers else 0
        for batch, header in zip(batches, headers, strict=True):
            run(index_batch(keys, memoryview(batch), header, 0))
        rewritten = [
            run(rewrite_batch(survival, memoryview(batch), header, end_offset))
            for batch, header in zip(batches, headers, strict=True)
        ]
        batches = [bytearray(batch) for batch in rewritten if batch is not None]
    yield from batches


def run(work: Any) -> Any:
    try:
        while True:
            next(work)
    except StopIteration as done:
        return done.value


@given(st.lists(PLAIN_STEPS, max_size=30), st.booleans())
def test_this_brokers_cleaner_changes_nothing(steps: list[Any], drops_tombstones: bool) -> None:
    history = History()
    for step in steps:
        take(history, step)
    short = list(cleaned(history.batches, drops_tombstones=drops_tombstones))
    assert folded(short) == of_model(history)
    records = sum(header.record_count for batch in short for _, header in iter_batches(batch))
    assert records == sum(
        record.value is not None or not drops_tombstones for record in history.latest().values()
    )
