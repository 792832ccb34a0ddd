"""Planted bugs of transactions: in their coordinator, their markers, and what readers get.

Each function replaces one of the coordinator's, of a partition's or of the group coordinator's.
"""

from dataclasses import replace
from typing import Any, Final

from chiplog_broker.coordinator.shard import Shard
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.verification import Verifications
from chiplog_broker.storage.errors import InvalidProducerEpochError
from chiplog_broker.storage.log_reader import LogReader
from chiplog_broker.storage.producers import ProducerStates
from chiplog_broker.storage.transactions import LogTransactions
from chiplog_broker.transaction_coordinator import marker_sending
from chiplog_broker.transaction_coordinator.marker_sending import MarkerSender
from chiplog_broker.transaction_coordinator.marker_writing import MarkerWriter
from chiplog_broker.transaction_coordinator.shard import TransactionShard
from chiplog_broker.transaction_coordinator.transaction_log import TransactionLog
from chiplog_core.config.broker_keys import OFFSETS_TOPIC_NUM_PARTITIONS
from chiplog_core.config.transaction_keys import TRANSACTION_ABORT_INTERVAL_MS
from chiplog_core.topic_name import CONSUMER_OFFSETS
from chiplog_core.transactions import adding, ending, initializing
from chiplog_core.transactions.answers import (
    Answer,
    Decision,
    Present,
    check_producer,
    refused,
)
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.producer import NO_PRODUCER_ID, Producer
from chiplog_core.transactions.states import TransactionEvent
from chiplog_core.transactions.stored import StoredTransaction
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.control import EndMarker
from e2e.sim.faults import Mix
from e2e.sim.mutants.mutant import Mutant, mix, plant
from e2e.sim.transactions.habits import TransactionHabits

WRONG: Final = frozenset(
    {"aborted-read", "lost-transaction", "torn-transaction", "unlike-final", "zombie-committed"}
)
"""Records are read that are not committed, or missed although they are."""
STUCK: Final = frozenset({"hanging-transaction", "transactor-unwell", "transactions-not-readable"})
FENCED: Final = frozenset({"fenced-for-nothing", "transaction-refused", "doubled-identity"})
"""A correct producer is refused, or two have the same identity."""
_sound_open = LogTransactions.__init__
_sound_write = MarkerWriter.write


def _transactions(
    *faults: str, replicas: int = 1, every_s: float = 3.0, faults_s: float = 15.0, **habits: Any
) -> Mix:
    """A mix with busy transactional producers and these faults, and few other clients."""
    given = {"pause_s": 0.15, "timeout_s": 6.0, "readers": 1, **habits}
    return replace(
        mix(replicas, every_s, *faults, faults_s=faults_s),
        producers=1,
        consumers=0,
        pause_s=10.0,
        transactions=TransactionHabits(**given),
    )


def _timing_out(fault: str = "transactor frozen", every_s: float = 2.5, **given: Any) -> Mix:
    """A mix with producers of the second generation whose transactions time out."""
    return replace(
        _transactions(fault, every_s=every_s, second_share=1.0, timeout_s=2.0, **given),
        cluster_config={TRANSACTION_ABORT_INTERVAL_MS.name: "300"},
    )


def _answer_at_once(
    shard: TransactionShard, transactional_id: str, decide: Any, respond: Any, **_: Any
) -> None:
    """Answer when the record is appended, before it is below the high watermark."""
    log = shard._log  # noqa: SLF001
    decision = decide(log.present(transactional_id))
    code = Code.NONE
    if decision.record is not None:
        code = log.append(transactional_id, decision.record)
    respond(decision.answer if code is Code.NONE else refused(code).answer)


def _complete_first(shard: TransactionShard, transactional_id: str, prepared: Any) -> None:
    """Store that the transaction is complete, and then have its markers written."""
    _sound_write_markers(shard, transactional_id, prepared)
    unwritten = shard._unwritten.get(transactional_id)  # noqa: SLF001
    if unwritten is not None and not unwritten.is_over:
        unwritten._then()  # noqa: SLF001
        unwritten._then = lambda: None  # noqa: SLF001


_sound_write_markers = TransactionShard._write_markers  # noqa: SLF001


async def _load_without_markers(shard: TransactionShard) -> None:
    """Load the transactions, and leave those that are decided as they are."""
    await shard._log.load()  # noqa: SLF001
    shard.is_loaded = True


def _any_epoch(stored: Any, producer: Producer) -> Code:
    """Accept every epoch of the producer id."""
    is_known = stored is not None and stored.producer_id == producer.producer_id
    return Code.NONE if is_known else Code.INVALID_PRODUCER_ID_MAPPING


def _take_over(stored: Any, _request: Any, _new_producer_id: Any, now_ms: int) -> Decision:
    """Give the next producer the open transaction of the one before."""
    record = replace(
        stored, producer_epoch=stored.producer_epoch + 1, last_update_timestamp_ms=now_ms
    )
    return Decision(Answer(Code.NONE, record.producer), record)


def _forget_open(transactions: LogTransactions, *_: Any) -> None:
    """Begin without the open transactions of the snapshot."""
    _sound_open(transactions)


def _forgive(states: ProducerStates, producer: Any, marker: EndMarker, **_: Any) -> None:
    """Refuse every marker that does not raise the epoch further."""
    entry = states.get(producer.producer_id)
    if entry is not None and producer.epoch <= entry.epoch:
        raise InvalidProducerEpochError("an old epoch")


def _raise_twice(stored: StoredTransaction, event: TransactionEvent, *rest: Any) -> Any:
    """Raise the epoch a second time if the coordinator aborts by itself."""
    record = _sound_prepared(stored, event, *rest)
    if record is not None and event is TransactionEvent.TIMED_OUT:
        return replace(record, producer_epoch=record.producer_epoch + 1)
    return record


def _raise_twice_at_once(stored: StoredTransaction, event: TransactionEvent, *rest: Any) -> Any:
    """Raise the epoch a second time if a producer's InitProducerId aborts its transaction."""
    record = _sound_prepared(stored, event, *rest)
    if record is not None and event is TransactionEvent.RESTARTED:
        return replace(record, producer_epoch=record.producer_epoch + 1)
    return record


def _keep_last(stored: StoredTransaction, event: TransactionEvent, *rest: Any) -> Any:
    """Draw no new producer id if the coordinator aborts by itself."""
    record = _sound_prepared(stored, event, *rest)
    if record is not None and event is TransactionEvent.TIMED_OUT:
        return replace(record, next_producer_id=NO_PRODUCER_ID)
    return record


def _producer_first(present: Present, request: Any, *rest: Any) -> Decision:
    """Compare the producer before the markers of its last transaction are written."""
    code = check_producer(present.stored, request.producer)
    return _sound_add(present, request, *rest) if code is Code.NONE else refused(code)


def _raise_anyway(log: TransactionLog, transactional_id: str, record: Any) -> Code:
    """Keep the raised epoch in memory, although the record with it was not stored."""
    code = _sound_append(log, transactional_id, record)
    if code is not Code.NONE and record is not None:
        before = log.state.get(transactional_id)
        if before is not None:
            raised = record.producer_epoch
            log.state.put(transactional_id, replace(before, producer_epoch=raised))
    return code


_sound_prepared = ending.prepared
_sound_add = adding.add
_sound_append = TransactionLog.append


def _commit_offsets(writer: MarkerWriter, at: Any, marker: Any, then: Any) -> None:
    """Commit the offsets of aborted transactions, too."""
    if at.topic == CONSUMER_OFFSETS:
        marker = replace(marker, is_commit=True)
    _sound_write(writer, at, marker, then)


MUTANTS: Final = (
    Mutant(
        "the end of a transaction is answered before it is safe",
        _transactions("transactions' coordinator cut off", replicas=3, abort_share=0.5),
        WRONG | FENCED | {"lost-offset"},
        plant(TransactionShard, "_carry_out", _answer_at_once),
    ),
    Mutant(
        "a marker that was refused counts as written",
        _transactions("broker killed", "transaction hit when decided", replicas=3),
        WRONG | STUCK,
        plant(
            MarkerSender, "_answered", lambda _sender, entry, _code: entry.markers.written(entry.at)
        ),
    ),
    Mutant(
        "a transaction is complete before its markers are written",
        _transactions(
            "transactions' connection slow",
            replicas=3,
            every_s=1.0,
            abort_share=0.5,
            second_share=0.0,
        ),
        WRONG | STUCK,
        plant(TransactionShard, "_write_markers", _complete_first),
    ),
    Mutant(
        "the next coordinator does not write the markers",
        _transactions("transaction hit at its end"),
        WRONG | STUCK,
        plant(TransactionShard, "load", _load_without_markers),
    ),
    Mutant(
        "a fenced producer may end a transaction",
        _transactions("transactor replaced"),
        WRONG | {"transaction-refused"},
        plant(ending, "check_producer", _any_epoch),
    ),
    Mutant(
        "a fenced producer may add partitions",
        _transactions("transactor replaced", every_s=1.0, partitions=6),
        WRONG | STUCK | {"transaction-refused"},
        plant(adding, "check_producer", _any_epoch),
    ),
    Mutant(
        "a late EndTxn ends the next transaction",
        # Every other request is an EndTxn.
        _transactions(
            "transactor's requests late",
            every_s=1.0,
            faults_s=40.0,
            second_share=1.0,
            partitions=1,
            producers=3,
            offsets_share=0.0,
        ),
        WRONG | FENCED,
        plant(ending, "check_producer", _any_epoch),
    ),
    Mutant(
        "a batch that begins a transaction is not verified",
        _transactions(
            "transactor's requests late",
            every_s=0.7,
            second_share=0.0,
            partitions=6,
            pause_s=0.8,
            abort_share=0.5,
        ),
        WRONG | STUCK,
        plant(ProducerStates, "check_begins_none", lambda *_: None),
    ),
    Mutant(
        "a marker does not end the verifications before it",
        _transactions(
            "transactions' connection slow",
            replicas=3,
            every_s=3.0,
            faults_s=40.0,
            second_share=0.0,
            producers=3,
            overtaking_share=0.3,
        ),
        WRONG | STUCK,
        plant(Verifications, "marker_appended", lambda *_: None),
    ),
    Mutant(
        "a marker that is written again is refused",
        _transactions("transactions' coordinator killed", "connections broken", replicas=3),
        STUCK,
        (
            *plant(ProducerStates, "check_marker", _forgive),
            *plant(marker_sending, "ENDED", frozenset({ErrorCode.none})),
        ),
    ),
    Mutant(
        "the next producer takes over the open transaction",
        _transactions("transactor killed"),
        WRONG,
        plant(initializing, "_fence", _take_over),
    ),
    Mutant(
        "an EndTxn that is repeated is refused",
        _transactions("transaction hit at its end", "connections broken", every_s=1.0),
        frozenset({"transaction-refused"}),
        plant(ending, "_is_repeated", lambda *_: False),
    ),
    Mutant(
        "a timeout raises the epoch twice",
        _timing_out(),
        frozenset({"fenced-for-nothing"}),
        plant(ending, "prepared", _raise_twice),
    ),
    Mutant(
        "an InitProducerId raises the epoch twice",
        _transactions(faults_s=8.0, second_share=0.0, overtaking_share=0.2, overtakes_offsets=True),
        frozenset({"fenced-for-nothing"}),
        plant(initializing, "prepared", _raise_twice_at_once),
    ),
    Mutant(
        "a timeout leaves a producer with its last epoch",
        _timing_out(last_epoch=2),
        FENCED | STUCK,
        plant(ending, "prepared", _keep_last),
    ),
    Mutant(
        "a producer is compared before the last transaction is complete",
        _transactions(replicas=3, faults_s=4.0, pause_s=0.02, second_share=1.0, last_epoch=1),
        FENCED,
        plant(adding, "add", _producer_first),
    ),
    Mutant(
        "an epoch that could not be stored counts",
        _timing_out(
            "transactions' coordinator left alone",
            every_s=10.0,
            replicas=3,
            faults_s=30.0,
            pause_s=0.6,
            producers=3,
        ),
        WRONG | STUCK | FENCED,
        plant(TransactionLog, "append", _raise_anyway),
    ),
    Mutant(
        "a batch of a transaction is stored twice",
        _transactions("connections broken", "slow network", every_s=0.7),
        frozenset({"doubled-record"}),
        plant(ProducerStates, "check", lambda *_, **_kw: None),
    ),
    Mutant(
        "aborted transactions are not listed",
        _transactions(faults_s=8.0),
        frozenset({"aborted-read"}),
        plant(LogReader, "aborted_transactions", lambda *_: []),
    ),
    Mutant(
        "records of open transactions are read",
        _transactions(faults_s=8.0),
        frozenset({"aborted-read", "unlike-final"}),
        plant(Partition, "last_stable_offset", property(lambda one: one.high_watermark)),
    ),
    Mutant(
        "open transactions are forgotten when a broker restarts",
        _transactions("pod deleted", "broker killed", pause_s=0.6, abort_share=0.6),
        WRONG,
        plant(LogTransactions, "__init__", _forget_open),
    ),
    Mutant(
        "offsets of aborted transactions count",
        _transactions(faults_s=8.0),
        frozenset({"aborted-offset"}),
        plant(MarkerWriter, "write", _commit_offsets),
    ),
    Mutant(
        "offsets that may still be committed are not unstable",
        replace(
            _transactions(
                "transactions' connection slow",
                replicas=3,
                every_s=1.0,
                asks_s=0.2,
                producers=3,
                offsets_share=1.0,
            ),
            # So that some groups have another coordinator than the transactions.
            cluster_config={OFFSETS_TOPIC_NUM_PARTITIONS.name: "3"},
        ),
        frozenset({"lost-offset"}),
        plant(Shard, "pending_offsets", lambda *_: []),
    ),
)
