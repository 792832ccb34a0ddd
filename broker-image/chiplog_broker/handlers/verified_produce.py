"""The transactions that the batches of one Produce request begin in partitions.

The coordinator is asked about all partitions of the request together, and its answers count until
the batches are appended. Most requests of transactional producers need none of this: their
transactions are open in the partitions already.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.partitions.errors import REFUSALS, PartitionError
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.verification import Verification
from chiplog_broker.transaction_coordinator.verified_codes import (
    PRODUCE_ADDS_FROM_VERSION,
    produce_code,
)
from chiplog_broker.transaction_coordinator.verifying import Question, TransactionVerifier
from chiplog_core.groups.at import At
from chiplog_core.transactions.producer import Producer
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import ProducePartition
from chiplog_wire.records.batch import read_header

MAX_QUESTIONS: Final = 3
"""How often the coordinator is asked about one batch: a marker may arrive after each question."""
MAX_LATER: Final = 1_000
"""Batches behind one that is verified which are looked at for the same question."""


class _Asked:
    """What the coordinator was asked about one producer in one partition."""

    __slots__ = ("code", "count", "partition", "verification")

    def __init__(self, partition: Partition, producer_id: int, count: int) -> None:
        self.partition = partition
        self.verification = partition.verifications.begin(producer_id)
        self.count = count
        self.code = ErrorCode.none
        """The coordinator's answer."""

    @property
    def is_outdated(self) -> bool:
        """Whether a marker came after the question, so that the answer is worth nothing."""
        return self.code is ErrorCode.none and not self.verification.is_valid

    @property
    def may_be_repeated(self) -> bool:
        """Whether another question about it makes sense."""
        return self.is_outdated and self.count < MAX_QUESTIONS


class VerifiedProduce:
    """What the coordinator has said about the batches of one request. `end` must be called when
    they are appended or refused."""

    def __init__(
        self,
        leaders: Leaders,
        verifier: TransactionVerifier,
        transactional_id: str | None,
        version: int,
    ) -> None:
        """`version` is that of the Produce request."""
        self._leaders = leaders
        self._verifier = verifier
        self._transactional_id = transactional_id
        self._version = version
        self._producer: Producer | None = None
        """That of the first batch that was verified."""
        self._asked: dict[At, _Asked] = {}

    async def verify(
        self, topic: str, partition: ProducePartition, later: Iterable[tuple[str, ProducePartition]]
    ) -> Verification:
        """The verification of a batch that cannot be appended without one. The coordinator is also
        asked about those of the `later` batches of the request that will need one.

        Raises `PartitionError` with the code that the client gets if the batch is refused.
        """
        producer, at = transaction_of(partition), At(topic, partition.partition)
        if producer is None or not self._transactional_id:
            # As in Kafka, also without an authorizer.
            raise PartitionError(
                ErrorCode.transactional_id_authorization_failed,
                "a batch of a transaction needs a transactional id in its request",
            )
        if self._producer not in (None, producer):
            raise PartitionError(
                ErrorCode.invalid_producer_id_mapping,
                "the request begins transactions of more than one producer",
            )
        self._producer = producer
        asked = self._asked.get(at)
        if asked is None or asked.may_be_repeated:
            wanted = {at, *self._with(producer, islice(later, MAX_LATER))}
            await self._ask(self._transactional_id, producer, wanted)
            asked = self._asked[at]
        code = asked.code
        if asked.is_outdated and asked.count >= MAX_QUESTIONS:
            code = ErrorCode.concurrent_transactions
        if code is not ErrorCode.none:
            raise PartitionError(
                produce_code(code, self._version),
                f"the transaction coordinator has not verified the transaction: {code.name}",
            )
        return asked.verification

    async def _ask(self, transactional_id: str, producer: Producer, wanted: Iterable[At]) -> None:
        """Ask about these partitions, and keep the answers. Raises `PartitionError` if one is not
        led here any more."""
        partitions = {at: self._leaders.changeable(*at) for at in wanted}
        for at, partition in partitions.items():
            before = self._asked.get(at)
            count = 1 if before is None else before.count + 1
            self._asked[at] = _Asked(partition, producer.producer_id, count)
        question = Question(
            transactional_id,
            producer,
            frozenset(partitions),
            adds=self._version >= PRODUCE_ADDS_FROM_VERSION,
        )
        for at, code in (await self._verifier.ask(question)).items():
            self._asked[at].code = code

    def _with(
        self, producer: Producer, later: Iterable[tuple[str, ProducePartition]]
    ) -> Iterable[At]:
        """The partitions in which `later` batches of this producer begin a transaction, unless the
        coordinator was asked about them and the answer is worth something."""
        for topic, partition in later:
            at = At(topic, partition.partition)
            asked = self._asked.get(at)
            if asked is not None and not asked.may_be_repeated:
                continue
            if transaction_of(partition) != producer:
                continue
            try:
                found = self._leaders.changeable(*at)
            except PartitionError:
                continue
            if not found.log.has_open_transaction(*producer):
                yield at

    def end(self) -> None:
        """The verifications are not used any more."""
        for asked in self._asked.values():
            asked.partition.verifications.end(asked.verification)


def transaction_of(partition: ProducePartition) -> Producer | None:
    """The producer of the batch for a partition if it is part of a transaction, else None; also
    None for what is not a batch."""
    try:
        header = read_header(partition.records or memoryview(b""))
    except REFUSALS:
        return None
    if header.producer_id < 0 or not header.is_transactional:
        return None
    return Producer(header.producer_id, header.producer_epoch)
