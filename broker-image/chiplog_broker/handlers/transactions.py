"""Requests of transactional producers: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn.

An AddPartitionsToTxn may name very many partitions: then it is handled in slices, between which
other requests run, and its answer is made in another thread.
"""

import asyncio
from collections.abc import Callable, Container, Coroutine, Iterable, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.handlers.named import check_count
from chiplog_broker.handlers.producers import Waiting, known_code, submit
from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.server.call import Call, SlowRequest
from chiplog_broker.server.dispatch import is_large
from chiplog_broker.transaction_coordinator.coordinator import TransactionCoordinator
from chiplog_broker.transaction_coordinator.errors import TransactionError
from chiplog_broker.transaction_coordinator.verifying import BATCHES_FROM_VERSION
from chiplog_core.groups.at import At
from chiplog_core.topic_name import CONSUMER_OFFSETS, is_internal
from chiplog_core.transactions.producer import NO_PRODUCER, Producer
from chiplog_core.transactions.requests import Add, End
from chiplog_core.transactions.stored import FIRST_GENERATION, SECOND_GENERATION
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.steps import Steps, run_steps

Codes: TypeAlias = Mapping[At, ErrorCode]

ABORTABLE_FROM_VERSION = 5
"""From here on the answer to a verification may be TRANSACTION_ABORTABLE."""
FENCED_FROM_VERSION = 2
"""From here on a client knows PRODUCER_FENCED (KIP-588)."""
SECOND_GENERATION_FROM_VERSION = 5
"""The first version of EndTxn in which every transaction raises the epoch (KIP-890)."""
MAX_NAMED: Final = 100_000
"""Partitions in one AddPartitionsToTxn. A cluster has fewer; each takes some hundred bytes of
memory."""
PARTITIONS_PER_STEP: Final = 100


class _Wanted(NamedTuple):
    """One transaction of an AddPartitionsToTxn."""

    transaction: Any
    partitions: frozenset[At]
    refusal: Codes
    """The codes of all partitions if one of them cannot be added; else empty."""


class TransactionHandlers:
    """Passes requests to the shard of their transactional id."""

    def __init__(
        self,
        cluster: ClusterView,
        coordinator: TransactionCoordinator,
        groups: Coordinator,
        long_work: LongWork,
    ) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._groups = groups
        self._long_work = long_work

    def add_partitions_to_txn(
        self, call: Call[Any]
    ) -> Waiting | SlowRequest | Coroutine[Any, Any, object]:
        """Add partitions to transactions, or verify that they are part of them. Raises
        `ProtocolViolation` for more than `MAX_NAMED`."""
        check_named(call.message)
        if is_large(call.message):
            work = self._add_in_slices(call)
            # An EndTxn of the same client must not overtake it. Brokers ask about many producers.
            return SlowRequest(work) if call.header.version < BATCHES_FROM_VERSION else work
        wanted = run_steps(self._read(call))
        waiting: Waiting = asyncio.get_running_loop().create_future()
        results: dict[str, Codes] = {}

        def respond(transactional_id: str, codes: Codes) -> None:
            results[transactional_id] = codes
            if len(results) == len(wanted):
                call.answer(waiting, lambda: added_response(results))

        for one in wanted:
            self._add(call, one, respond)
        if not wanted:
            call.answer(waiting, lambda: added_response(results))
        return waiting

    async def _add_in_slices(self, call: Call[Any]) -> object:
        """Handle a request that names many partitions."""
        slices, answered = self._long_work.slices(), asyncio.Event()
        wanted = await self._long_work.run(self._read(call), slices)
        results: dict[str, Codes] = {}

        def respond(transactional_id: str, codes: Codes) -> None:
            results[transactional_id] = codes
            if len(results) == len(wanted):
                answered.set()

        for one in wanted:
            self._add(call, one, respond)
            await slices.pause()
        await answered.wait()
        return await asyncio.get_running_loop().run_in_executor(None, added_response, results)

    def _read(self, call: Call[Any]) -> Steps[list[_Wanted]]:
        """The transactions of an AddPartitionsToTxn. Of two elements about the same id, the last
        one counts."""
        of_client = call.header.version < BATCHES_FROM_VERSION
        wanted: dict[str, _Wanted] = {}
        for transaction in call.message.transactions:
            names = {topic.name for topic in transaction.topics} if of_client else set()
            denied = {name for name in names if is_internal(name)}
            codes = yield from codes_if_refused(self._cluster, transaction, denied)
            is_refused = set(codes.values()) - {ErrorCode.operation_not_attempted}
            wanted[transaction.transactional_id] = _Wanted(
                transaction, frozenset(codes), codes if is_refused else {}
            )
        return list(wanted.values())

    def _add(self, call: Call[Any], wanted: _Wanted, respond: Callable[[str, Codes], None]) -> None:
        """Add the partitions of one transaction, or verify them, and call `respond` once."""
        transaction, partitions, refusal = wanted
        version, transactional_id = call.header.version, transaction.transactional_id

        def answer(codes: Codes) -> None:
            known = {at: self._known(code, version) for at, code in codes.items()}
            respond(transactional_id, known)

        if not transactional_id:
            answer(dict.fromkeys(partitions, ErrorCode.invalid_request))
            return
        try:
            shard = self._coordinator.shard(transactional_id)
        except TransactionError as problem:
            answer(dict.fromkeys(partitions, problem.code))
            return
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        if refusal:
            answer(refusal)
            return
        if transaction.verify_only:
            shard.verify(
                transactional_id,
                producer,
                partitions,
                lambda verified: answer({at: ErrorCode(code) for at, code in verified.items()}),
            )
            return
        is_first = version < BATCHES_FROM_VERSION
        request = Add(
            producer=producer,
            partitions=partitions,
            transaction_version=FIRST_GENERATION if is_first else SECOND_GENERATION,
        )
        shard.add(
            transactional_id,
            request,
            lambda added: answer(dict.fromkeys(partitions, ErrorCode(added.code))),
        )

    def _known(self, code: ErrorCode, version: int) -> ErrorCode:
        """The code of AddPartitionsToTxn in the words of this version."""
        if code is ErrorCode.transaction_abortable and version < ABORTABLE_FROM_VERSION:
            return ErrorCode.invalid_txn_state
        return known_code(code, version, FENCED_FROM_VERSION)

    def add_offsets_to_txn(self, call: Call[Any]) -> Waiting | object:
        """Add the partition of `__consumer_offsets` that has the group's offsets."""
        request = call.message
        if not request.transactional_id:
            return offsets_added_response(ErrorCode.invalid_request)
        if not request.group_id:
            return offsets_added_response(ErrorCode.invalid_group_id)
        try:
            at = At(CONSUMER_OFFSETS, self._groups.partition_of(request.group_id))
        except GroupError as problem:
            return offsets_added_response(problem.code)
        add = Add(
            producer=Producer(request.producer_id, request.producer_epoch),
            partitions=frozenset({at}),
            transaction_version=FIRST_GENERATION,
        )
        return submit(
            self._coordinator,
            call,
            lambda shard, respond: shard.add(request.transactional_id, add, respond),
            lambda code, _: offsets_added_response(code),
            FENCED_FROM_VERSION,
        )

    def end_txn(self, call: Call[Any]) -> Waiting | object:
        """Commit or abort a transaction."""
        request = call.message
        if not request.transactional_id:
            return ended_response(ErrorCode.invalid_request, NO_PRODUCER)
        is_second = call.header.version >= SECOND_GENERATION_FROM_VERSION
        end = End(
            producer=Producer(request.producer_id, request.producer_epoch),
            is_commit=request.committed,
            transaction_version=SECOND_GENERATION if is_second else FIRST_GENERATION,
        )
        return submit(
            self._coordinator,
            call,
            lambda shard, respond: shard.end(request.transactional_id, end, respond),
            ended_response,
            FENCED_FROM_VERSION,
        )


def codes_if_refused(
    cluster: ClusterView, transaction: Any, denied: Container[str]
) -> Steps[dict[At, ErrorCode]]:
    """The codes of all partitions that a transaction of an AddPartitionsToTxn names, as they are if
    one of them cannot be added: then none is, as in Kafka, and the others have
    OPERATION_NOT_ATTEMPTED. `denied` are topics that may not be added; nor can partitions that do
    not exist as far as this broker knows."""
    codes: dict[At, ErrorCode] = {}
    for topic in transaction.topics:
        for index in topic.partitions:
            at = At(topic.name, index)
            codes[at] = _why_not_added(cluster, at, denied)
            if not len(codes) % PARTITIONS_PER_STEP:
                yield None
    yield None
    return codes


def _why_not_added(cluster: ClusterView, at: At, denied: Container[str]) -> ErrorCode:
    if at.topic in denied:
        return ErrorCode.topic_authorization_failed
    topic = cluster.topic(at.topic)
    if topic is None or not 0 <= at.partition < len(topic.partitions):
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.operation_not_attempted


def check_named(message: Any) -> None:
    """Raises `ProtocolViolation` if an AddPartitionsToTxn names more than `MAX_NAMED` transactions,
    topics or partitions."""
    check_count("an AddPartitionsToTxn", message.transactions, "partitions", MAX_NAMED)


def added_response(results: Mapping[str, Codes]) -> object:
    """The answer to AddPartitionsToTxn: by transactional id, the code of each partition."""
    types = answers(ApiKey.ADD_PARTITIONS_TO_TXN)
    return types.AddPartitionsToTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        results_by_transaction=tuple(
            types.AddPartitionsToTxnResult(
                transactional_id=transactional_id, topic_results=topic_results(codes.items())
            )
            for transactional_id, codes in results.items()
        ),
    )


def topic_results(codes: Iterable[tuple[At, ErrorCode]]) -> tuple[object, ...]:
    """The codes of partitions, by topic."""
    types = answers(ApiKey.ADD_PARTITIONS_TO_TXN)
    return tuple(
        types.AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=tuple(
                types.AddPartitionsToTxnPartitionResult(
                    partition_index=at.partition, partition_error_code=code
                )
                for at, code in partitions
            ),
        )
        for topic, partitions in groupby(sorted(codes), lambda one: one[0].topic)
    )


def offsets_added_response(code: ErrorCode) -> object:
    return answers(ApiKey.ADD_OFFSETS_TO_TXN).AddOffsetsToTxnResponse(
        throttle_time=NO_THROTTLE, error_code=code
    )


def ended_response(code: ErrorCode, producer: Producer) -> object:
    """The answer to EndTxn. Below version 5 the producer is left out."""
    given = producer if code is ErrorCode.none else NO_PRODUCER
    return answers(ApiKey.END_TXN).EndTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        producer_id=given.producer_id,
        producer_epoch=given.epoch,
    )
