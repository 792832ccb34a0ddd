"""Members of consumer groups in four libraries."""

import asyncio
import json
import subprocess
import threading
from typing import Any, ClassVar

from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    ConsumerRebalanceListener,
)
from confluent_kafka import Consumer, KafkaException

from e2e.clients.by_kafka_python import KafkaConsumer
from e2e.clients.by_librdkafka import QUIET, place
from e2e.clients.group_member import (
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    SETTLE_LIMIT_S,
    GroupMember,
)
from e2e.kafka.java import SHORT_LIVED, java
from e2e.kafka.process import DIE_WITH_US

POLL_MS = 200


class KafkaPythonMember(GroupMember):
    name: ClassVar[str] = "kafka-python"

    def run(self) -> None:
        """Read and commit as a member of the group; notes each record and the assignment."""
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        )
        try:
            while not self.ending.is_set():
                found = consumer.poll(timeout_ms=POLL_MS)
                owned = frozenset(one.partition for one in consumer.assignment())
                # Before the first assignment it also has none: then `assigned` stays None.
                self.assigned = owned if owned or self.assigned is not None else None
                for records in found.values():
                    self.read += [(one.partition, one.offset) for one in records]
                if found:
                    consumer.commit()
        finally:
            consumer.close()


class LibrdkafkaMember(GroupMember):
    name: ClassVar[str] = "librdkafka"
    strategy: ClassVar[str] = "range,roundrobin"

    def run(self) -> None:
        """Read and commit as a member of the group; notes each record and the assignment."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group_id,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": self.strategy,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
                **QUIET,
            }
        )

        def revoked(of: Consumer, _: Any) -> None:
            self.assigned = frozenset(one.partition for one in of.assignment())

        def assigned(of: Consumer, partitions: Any) -> None:
            # The new partitions are not part of `assignment()` yet.
            self.assigned = frozenset(one.partition for one in (*of.assignment(), *partitions))

        consumer.subscribe([self.topic], on_assign=assigned, on_revoke=revoked)
        try:
            while not self.ending.is_set():
                messages = consumer.consume(100, timeout=POLL_MS / 1000)
                for one in messages:
                    if (error := one.error()) is not None:
                        raise KafkaException(error)
                    self.read.append(place(one))
                if self.assigned is not None:
                    self.assigned = frozenset(one.partition for one in consumer.assignment())
                if messages:
                    consumer.commit(asynchronous=False)
        finally:
            consumer.close()


class CooperativeMember(LibrdkafkaMember):
    """Revokes only those partitions that another member gets (KIP-429)."""

    name: ClassVar[str] = "librdkafka, cooperative"
    strategy: ClassVar[str] = "cooperative-sticky"


class AiokafkaMember(GroupMember):
    name: ClassVar[str] = "aiokafka"

    def run(self) -> None:
        asyncio.run(self.work())

    async def work(self) -> None:
        """Read and commit as a member of the group; notes each record and the assignment."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        )
        member = self

        class RebalanceListener(ConsumerRebalanceListener):  # type: ignore[misc] # it has no types
            async def on_partitions_revoked(self, revoked: Any) -> None:
                pass

            async def on_partitions_assigned(self, assigned: Any) -> None:
                member.assigned = frozenset(one.partition for one in assigned)

        consumer.subscribe([self.topic], listener=RebalanceListener())
        async with consumer:
            while not self.ending.is_set():
                found = await consumer.getmany(timeout_ms=POLL_MS)
                for records in found.values():
                    self.read += [(one.partition, one.offset) for one in records]
                if found:
                    await consumer.commit()


class JavaMember(GroupMember):
    """Kafka's own VerifiableConsumer, which prints each event as a line of JSON."""

    name: ClassVar[str] = "java"

    def run(self) -> None:
        """Run VerifiableConsumer as a member of the group, and note what it prints."""
        command = [
            *java("org.apache.kafka.tools.VerifiableConsumer", (*SHORT_LIVED, "-Xmx96m")),
            *("--bootstrap-server", self.bootstrap, "--topic", self.topic),
            *("--group-id", self.group_id, "--reset-policy", "earliest"),
            *("--session-timeout", str(SESSION_TIMEOUT_MS), "--verbose"),
        ]
        with subprocess.Popen(
            [*DIE_WITH_US, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as child:
            self.watch(child)

    def watch(self, child: "subprocess.Popen[str]") -> None:
        """Handle the program's output until it ends; it is terminated once `ending` is set."""
        assert child.stdout is not None

        def stop() -> None:
            self.ending.wait()
            child.terminate()

        threading.Thread(target=stop, daemon=True).start()
        for line in child.stdout:
            self.take(json.loads(line))
        child.wait(SETTLE_LIMIT_S)

    def take(self, event: dict[str, Any]) -> None:
        """Handle one printed event."""
        match event["name"]:
            case "partitions_assigned":
                self.assigned = frozenset(one["partition"] for one in event["partitions"])
            case "record_data":
                self.read.append((int(event["partition"]), int(event["offset"])))
            case "offsets_committed" if not event["success"]:
                self.problems.append(str(event))
            case _:
                pass


MEMBERS: tuple[type[GroupMember], ...] = (
    KafkaPythonMember,
    LibrdkafkaMember,
    CooperativeMember,
    AiokafkaMember,
    JavaMember,
)
