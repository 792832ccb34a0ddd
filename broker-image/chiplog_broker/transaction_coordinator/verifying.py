"""Asks the coordinators of transactions, for the leaders on this broker, before a first append.

For clients of the second generation the question adds the partition to the transaction, for those
of the first it only verifies that it was added (KIP-890). The questions to one broker that arise
together share one request.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.peers.errors import PeerError
from chiplog_broker.peers.kept import KeptConnections
from chiplog_broker.transaction_coordinator.coordinator import TransactionCoordinator
from chiplog_broker.transaction_coordinator.errors import TransactionError
from chiplog_core.groups.at import At, by_topic
from chiplog_core.topic_name import TRANSACTION_STATE
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.producer import Producer
from chiplog_core.transactions.requests import Add
from chiplog_core.transactions.stored import SECOND_GENERATION
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

MAX_TRANSACTIONS: Final = 500
"""Transactions in one request."""
MAX_IN_FLIGHT: Final = 4
"""Requests to one broker at the same time. A coordinator answers when the added partitions are
below the high watermark of its log; others need not wait for that."""
ANSWER_TIMEOUT_S: Final = 10.0
"""Less than clients wait for an answer to a Produce (30 s), so that they get an error."""
BATCHES_FROM_VERSION: Final = 4
"""From here on AddPartitionsToTxn is for brokers, with many transactions, and may only verify."""

Codes: TypeAlias = Mapping[At, ErrorCode]


class Question(NamedTuple):
    """What is asked about one transaction."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[At]
    adds: bool
    """Whether the partitions are added; else they must have been added already."""


class _Asked(NamedTuple):
    """A question to another broker, and the future of its answer."""

    question: Question
    codes: asyncio.Future[Codes]


class TransactionVerifier:
    """Asks the coordinator on this broker directly, and those on others by requests."""

    def __init__(
        self, cluster: ClusterView, coordinator: TransactionCoordinator, dialer: Dialer | None
    ) -> None:
        """Without a `dialer` all transactions are coordinated here."""
        self._cluster = cluster
        self._coordinator = coordinator
        self._connections = None if dialer is None else KeptConnections(cluster, dialer)
        self._queues: dict[int, deque[_Asked]] = {}
        """Broker id -> the questions that are sent to it next."""
        self._sending: dict[int, set[asyncio.Task[None]]] = {}
        """Broker id -> the tasks that send its queue; only while there is something to send."""
        self._is_closed = False

    async def ask(self, question: Question) -> Codes:
        """The coordinator's code for each partition: `none` if it is part of the open transaction
        of this producer now. Codes of the coordinator that other brokers could not reach, or that
        has moved, are COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR."""
        try:
            leader_id = self._leader_of(question.transactional_id)
            if leader_id == self._cluster.broker_id:
                return await self._ask_here(question)
        except TransactionError as problem:
            return all_with(question, problem.code)
        if self._is_closed or self._connections is None or leader_id < 0:
            return all_with(question, ErrorCode.coordinator_not_available)
        asked = _Asked(question, asyncio.get_running_loop().create_future())
        self._queues.setdefault(leader_id, deque()).append(asked)
        sending = self._sending.setdefault(leader_id, set())
        if len(sending) < MAX_IN_FLIGHT:
            task = asyncio.get_running_loop().create_task(self._send_queue(leader_id))
            sending.add(task)
            task.add_done_callback(sending.discard)
        return await asked.codes

    async def close(self) -> None:
        """Ask nothing more; what waits gets an error. May be called twice."""
        self._is_closed = True
        tasks = [task for sending in self._sending.values() for task in sending]
        for task in tasks:
            task.cancel()
        if self._connections is not None:
            self._connections.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        for queue in self._queues.values():
            for asked in queue:
                _answer(asked, {})
            queue.clear()

    def _leader_of(self, transactional_id: str) -> int:
        """The broker id of the coordinator; -1 if there is none now. Raises `TransactionError`."""
        index = self._coordinator.partition_of(transactional_id)
        topic = self._cluster.topic(TRANSACTION_STATE)
        assert topic is not None, "it has this partition"
        return topic.partitions[index].leader_id

    async def _ask_here(self, question: Question) -> Codes:
        """Ask the coordinator on this broker. Raises `TransactionError`."""
        shard = self._coordinator.shard(question.transactional_id)
        answered: asyncio.Future[Mapping[At, Code]] = asyncio.get_running_loop().create_future()

        def respond(codes: Mapping[At, Code]) -> None:
            if not answered.done():
                answered.set_result(codes)

        transactional_id, producer, partitions, adds = question
        if adds:
            add = Add(
                producer=producer, partitions=partitions, transaction_version=SECOND_GENERATION
            )
            shard.add(
                transactional_id,
                add,
                lambda answer: respond(dict.fromkeys(partitions, answer.code)),
            )
        else:
            shard.verify(transactional_id, producer, partitions, respond)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                codes = await answered
        except TimeoutError:
            return all_with(question, ErrorCode.coordinator_not_available)
        return {at: ErrorCode(code) for at, code in codes.items()}

    async def _send_queue(self, broker_id: int) -> None:
        """Send what is queued for a broker, one request after the other."""
        while queue := self._queues.get(broker_id):
            await self._send(broker_id, taken_from(queue))

    async def _send(self, broker_id: int, asked: Sequence[_Asked]) -> None:
        """Send one request with these questions, and pass on its answers."""
        found: Mapping[str, Codes] = {}
        try:
            found = await self._request(broker_id, [one.question for one in asked])
        except PeerError as failed:
            extra = {"broker": broker_id, "transactions": len(asked), "reason": str(failed)}
            logger.debug("transactions_not_verified", extra=extra)
        except Exception:
            # After any error the clients get an answer with which they ask again.
            logger.exception("transactions_not_verified", extra={"broker": broker_id})
        finally:
            for one in asked:
                _answer(one, found.get(one.question.transactional_id, {}))

    async def _request(self, broker_id: int, questions: Sequence[Question]) -> Mapping[str, Codes]:
        """Ask this broker; the codes by transactional id. Raises `PeerError`."""
        assert self._connections is not None, "without a dialer nothing is queued"
        connection = await self._connections.to_broker(broker_id)
        version = connection.common_version(ApiKey.ADD_PARTITIONS_TO_TXN)
        if version < BATCHES_FROM_VERSION:
            raise PeerError(f"broker {broker_id} verifies no transactions")
        answer = await connection.send_request(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            verification_request(version, questions),
            ANSWER_TIMEOUT_S,
        )
        if answer.error_code != ErrorCode.none:
            raise PeerError(f"broker {broker_id} refused: {ErrorCode(answer.error_code).name}")
        return {
            result.transactional_id: {
                At(topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
                for topic in result.topic_results
                for partition in topic.results_by_partition
            }
            for result in answer.results_by_transaction
        }


def _answer(asked: _Asked, codes: Codes) -> None:
    """Answer a question, unless its asker has given up. Partitions without a code were not
    answered."""
    if not asked.codes.done():
        missing = ErrorCode.coordinator_not_available
        asked.codes.set_result({at: codes.get(at, missing) for at in asked.question.partitions})


def taken_from(queue: deque[_Asked]) -> list[_Asked]:
    """Remove and return the questions of the next request. It can have each transactional id once:
    later ones about the same id stay in the queue."""
    taken: dict[str, _Asked] = {}
    left: list[_Asked] = []
    while queue and len(taken) < MAX_TRANSACTIONS:
        asked = queue.popleft()
        if asked.question.transactional_id in taken:
            left.append(asked)
        else:
            taken[asked.question.transactional_id] = asked
    queue.extendleft(reversed(left))
    return list(taken.values())


def all_with(question: Question, code: ErrorCode) -> Codes:
    """The same code for all partitions of a question."""
    return dict.fromkeys(question.partitions, code)


def verification_request(version: int, questions: Sequence[Question]) -> Any:
    """An AddPartitionsToTxn request of a broker; one element for each transaction."""
    from chiplog_wire.protocol.codec import schema  # noqa: PLC0415 - slow to import

    request_class = schema.request_class(ApiKey.ADD_PARTITIONS_TO_TXN, version)
    transaction_class = schema.element(request_class, "transactions")
    topic_class = schema.element(transaction_class, "topics")
    return request_class(
        transactions=tuple(
            transaction_class(
                transactional_id=question.transactional_id,
                producer_id=question.producer.producer_id,
                producer_epoch=question.producer.epoch,
                verify_only=not question.adds,
                topics=tuple(
                    topic_class(name=topic, partitions=partitions)
                    for topic, partitions in by_topic(question.partitions)
                ),
            )
            for question in questions
        )
    )
