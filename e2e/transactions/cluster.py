"""Three brokers that all tests of the folder share, and what is known of their transactions."""

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient

from chiplog_core.groups.placement import partition_of
from chiplog_core.topic_name import TRANSACTION_STATE
from chiplog_wire.protocol.apis import ApiKey
from e2e.clients.by_librdkafka import QUIET
from e2e.clients.topics import end_offsets
from e2e.kafka.cluster import KafkaCluster
from e2e.kafka.connection import Connection
from e2e.kafka.members import Members, ask, ask_all, missing, wait_for
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.running import Running
from e2e.loopback.cluster import SIZE, LoopbackCluster

SETTINGS: Mapping[str, str] = {
    "default.replication.factor": str(SIZE),
    "min.insync.replicas": "2",
    # By default 10 seconds: a test should not wait for that.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
SUBJECTS: dict[str, type[LoopbackCluster] | type[KafkaCluster]] = {
    "": LoopbackCluster,
    "kafka": KafkaCluster,
}
ASK_LIMIT_S = 20.0


def subject(directory: Path) -> Running:
    """The tested cluster, not started yet: Chiplog, or Apache Kafka with REFERENCE=kafka."""
    return SUBJECTS[os.environ.get("REFERENCE", "")](directory, SETTINGS)


class ThreeBrokers:
    """A running cluster, with what tests of transactions ask about it."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.admin = AdminClient({"bootstrap.servers": members.bootstrap, **QUIET})

    @property
    def bootstrap(self) -> str:
        return self.members.bootstrap

    def wait_whole(self, limit_s: float = 300) -> None:
        """Wait until all brokers know each other, and all replicas are in sync.

        Raises `TimeoutError` with what is missing.
        """
        problems: list[str] = []

        def is_whole() -> bool:
            problems[:] = missing(self.members, SIZE, replicas=1)
            problems.extend(self._behind())
            return not problems

        try:
            wait_for("all brokers and replicas", is_whole, limit_s)
        except TimeoutError as late:
            raise TimeoutError(f"{late}; {'; '.join(problems)}") from late

    def _behind(self) -> Iterator[str]:
        """The partitions whose replicas are not all in sync; those with one replica are."""
        for answer in ask_all(self.members):
            for topic, partitions in answer.in_sync.items():
                behind = [number for number, isr in partitions.items() if 1 < len(isr) < SIZE]
                if behind:
                    yield f"{topic} {behind}"

    def restart(self) -> None:
        """Start the brokers that do not run."""
        for broker_id in {1, 2, 3} - self.members.ports().keys():
            self.members.start_again(broker_id)

    @contextmanager
    def killed(self, broker_id: int) -> Iterator[None]:
        """kill -9 of a broker; it is started again, and the cluster whole, after the block."""
        self.members.kill(broker_id)
        try:
            yield
        finally:
            self.members.start_again(broker_id)
        self.wait_whole()

    def coordinator_of(self, transactional_id: str) -> int:
        """The id of the broker that coordinates this transactional id.

        Raises `KeyError` before the first producer of the cluster has initialised.
        """
        leaders = self._coordinators()
        return leaders[partition_of(transactional_id, len(leaders))]

    def other_coordinator(self, broker_id: int) -> int:
        """The id of a broker that coordinates transactional ids, other than this one."""
        return next(one for one in self._coordinators().values() if one != broker_id)

    def _coordinators(self) -> dict[int, int]:
        """Partition of `__transaction_state` -> its leader."""
        return ask(self.members).leaders[TRANSACTION_STATE]

    def ids_at(self, broker_id: int, prefix: str) -> Iterator[str]:
        """Transactional ids that begin with `prefix` and that this broker coordinates now.

        Raises `ValueError` if it coordinates none.
        """
        leaders = self._coordinators()
        if broker_id not in leaders.values():
            raise ValueError(f"broker {broker_id} coordinates no transactional id")
        for number in itertools.count():
            name = f"{prefix}-{number}"
            if leaders[partition_of(name, len(leaders))] == broker_id:
                yield name

    def state_of(self, transactional_id: str) -> str:
        """The state of the transactional id, by the name that its coordinator gives it.

        Raises `KeyError` if the coordinator does not have the id.
        """
        port = self.members.ports()[self.coordinator_of(transactional_id)]
        with Connection((LOOPBACK, port), ASK_LIMIT_S) as connection:
            answer = connection.ask(ApiKey.LIST_TRANSACTIONS, 0, {})
        states = {one.transactional_id: one.transaction_state for one in answer.transaction_states}
        return str(states[transactional_id])

    def end(self, topic: str, partition: int, isolation: IsolationLevel) -> int:
        """Where a consumer with this isolation level would stand at the end of a partition."""
        (found,) = end_offsets(self.bootstrap, topic, [partition], isolation)
        return found
