"""Transactions that are left open while a cluster changes, and end as their producers decide."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from chiplog_core.groups.placement import partition_of
from chiplog_core.topic_name import TRANSACTION_STATE
from e2e.clients.by_librdkafka import QUIET
from e2e.clients.topics import end_offsets, values_in
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import Place, places
from e2e.transactions.by_java import TransactionalJava
from e2e.transactions.by_librdkafka import TransactionalLibrdkafka
from e2e.transactions.client import LIMIT_S, Isolation, Producer, TransactionalClient

CLIENTS: tuple[type[TransactionalClient], ...] = (TransactionalLibrdkafka, TransactionalJava)
"""The first and the second generation of the protocol."""
TIMEOUT_MS = 900_000
"""Kafka's maximum: no transaction may end because a machine is slow."""
OFFSET, METADATA = 7, "a test"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two producers of a library, each with an open transaction in every partition of the topic:
    one will be committed, the other aborted."""

    name: str
    committed: Producer
    aborted: Producer

    @property
    def transactional_id(self) -> str:
        """That of the transaction which will be committed."""
        return f"{self.name}-committed"

    def values(self, part: str, *, is_committed: bool) -> list[bytes]:
        """What one of the two producers writes to each partition in a part of its transaction."""
        outcome = "committed" if is_committed else "aborted"
        return [f"{self.name} {outcome} {part} {number}".encode() for number in range(3)]


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """The open transactions of all libraries in one topic."""

    cluster: BrokerClusterUnderTest
    topic: str
    pairs: tuple[Pair, ...]

    @property
    def partitions(self) -> range:
        return range(len(places(self.cluster, self.topic)))

    def coordinated_by(self) -> Place:
        """The partition whose leader coordinates the transaction that Java's client will commit."""
        shards = places(self.cluster, TRANSACTION_STATE)
        return shards[partition_of(self.pairs[-1].transactional_id, len(shards))]

    def write(self, part: str) -> None:
        """Each producer writes to each partition, and waits for the acknowledgements."""
        for pair in self.pairs:
            for producer, is_committed in ((pair.committed, True), (pair.aborted, False)):
                for partition in self.partitions:
                    values = pair.values(part, is_committed=is_committed)
                    producer.send(self.topic, partition, values)
                producer.flush()

    def check_open(self) -> None:
        """Nothing of the transactions is stable: consumers of committed records read nothing."""
        assert set(self.ends(IsolationLevel.READ_COMMITTED)) == {0}

    def ends(self, isolation: IsolationLevel) -> list[int]:
        return end_offsets(self.cluster.bootstrap, self.topic, list(self.partitions), isolation)

    def end(self, *parts: str) -> None:
        """Commit and abort, and check what consumers read then; `parts` were written."""
        for pair in self.pairs:
            pair.aborted.abort()
            pair.committed.commit()
        expected = sorted(
            value
            for pair in self.pairs
            for part in parts
            for value in pair.values(part, is_committed=True)
        )
        for partition in self.partitions:
            where = self.cluster.bootstrap, self.topic, partition
            assert sorted(values_in(*where, Isolation.COMMITTED.value)) == expected
            everything = values_in(*where, Isolation.UNCOMMITTED.value)
            assert len(everything) == 2 * len(expected), "nothing was written twice"
        # No transaction hangs: the last stable offsets are at the ends of the logs.
        stable, ends = map(
            self.ends, (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        assert stable == ends
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, **QUIET})
        for pair in self.pairs:
            both = [TopicPartition(self.topic, partition) for partition in (0, 1)]
            group = ConsumerGroupTopicPartitions(pair.name, both)
            asked = admin.list_consumer_group_offsets([group], require_stable=True)
            offsets = [one.offset for one in asked[pair.name].result(LIMIT_S).topic_partitions]
            assert offsets == [OFFSET, OFFSET_INVALID], pair.name


@contextmanager
def opened(cluster: BrokerClusterUnderTest, topic: str, part: str) -> Iterator[OpenTransactions]:
    """Begin the transactions and write a first part of them."""
    with ExitStack() as stack:
        pairs = []
        for kind in CLIENTS:
            client, name = stack.enter_context(kind()), f"{topic}-{kind.name}"
            committed, aborted = (
                stack.enter_context(
                    client.producer(cluster.bootstrap, f"{name}-{outcome}", TIMEOUT_MS)
                )
                for outcome in ("committed", "aborted")
            )
            pairs.append(Pair(name, committed, aborted))
            committed.begin()
            aborted.begin()
        one = OpenTransactions(cluster, topic, tuple(pairs))
        one.write(part)
        for pair in pairs:
            pair.committed.send_offset(pair.name, topic, 0, OFFSET, METADATA)
            pair.aborted.send_offset(pair.name, topic, 1, OFFSET, METADATA)
        one.check_open()
        yield one
