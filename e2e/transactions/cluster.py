"""Three brokers that all tests of the folder share, and what is known of their transactions."""

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient

from chiplog_core.groups.placement import partition_of
from chiplog_core.topic_name import TRANSACTION_STATE
from chiplog_wire.protocol.apis import ApiKey
from e2e.clients.by_librdkafka import QUIET
from e2e.clients.topics import end_offsets, values_in
from e2e.kafka.cluster import KafkaCluster
from e2e.kafka.connection import Connection
from e2e.kafka.members import Members, ask, ask_all, missing, wait_for
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.running import Running
from e2e.loopback.cluster import SIZE, LoopbackCluster
from e2e.transactions.client import LIMIT_S, Isolation

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
DOWN_S = 1.0
"""How long a killed broker is down before it is started again."""


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

    def kill_in_turn(
        self,
        victims: Iterator[int],
        may_kill: Callable[[int], bool],
        whole_s: float,
        kills: int = 0,
    ) -> int:
        """Kill these brokers one after the other, each after the cluster was whole for `whole_s`,
        and start it again after `DOWN_S`. `kills` is how many were killed before. Returns how many
        there are when `may_kill`, which gets that number, does not allow another one."""
        while True:
            next_s = time.monotonic() + whole_s
            while may_kill(kills) and time.monotonic() < next_s:
                time.sleep(0.1)
            if not may_kill(kills):
                return kills
            with self.killed(next(victims)):
                time.sleep(DOWN_S)
            kills += 1

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

    def coordinator_with(self, prefix: str) -> int:
        """The id of a broker that coordinates a transactional id which begins with `prefix`.

        Raises `LookupError` if no producer with such an id has initialised.
        """
        for broker_id in self.members.ports():
            if any(name.startswith(prefix) for name in self._states_at(broker_id)):
                return broker_id
        raise LookupError(f"no transactional id begins with {prefix}")

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
        return self._states_at(self.coordinator_of(transactional_id))[transactional_id]

    def _states_at(self, broker_id: int) -> dict[str, str]:
        """Transactional id -> state, for those that this broker coordinates."""
        with Connection((LOOPBACK, self.members.ports()[broker_id]), ASK_LIMIT_S) as connection:
            answer = connection.ask(ApiKey.LIST_TRANSACTIONS, 0, {})
        return {
            one.transactional_id: str(one.transaction_state) for one in answer.transaction_states
        }

    def end(self, topic: str, partition: int, isolation: IsolationLevel) -> int:
        """Where a consumer with this isolation level would stand at the end of a partition."""
        (found,) = end_offsets(self.bootstrap, topic, [partition], isolation)
        return found

    def values(
        self, topic: str, partition: int, isolation: Isolation = Isolation.COMMITTED
    ) -> list[bytes]:
        """The values of all records that a consumer with this isolation level gets now.

        Raises `TimeoutError` if it does not reach the end.
        """
        return values_in(self.bootstrap, topic, partition, isolation.value)

    def committed_offsets(self, group: str, topic: str, partitions: Iterable[int]) -> list[int]:
        """The group's committed offset of each partition, once no transaction of it is open."""
        where = [TopicPartition(topic, partition) for partition in partitions]
        asked = self.admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, where)],
            require_stable=True,
            request_timeout=LIMIT_S,
        )
        found = asked[group].result(LIMIT_S).topic_partitions
        return [one.offset for one in found]
