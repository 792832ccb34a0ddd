"""ConsumerGroup objects as users apply and read them, and the groups' committed offsets."""

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from e2e.clients.by_librdkafka import QUIET, must_arrive, place
from e2e.cluster.kubectl import Kubectl, eventually

LIMIT_S = 30


@dataclass(frozen=True, slots=True)
class GroupUnderTest:
    """A ConsumerGroup object, whose group id is its name."""

    kubectl: Kubectl
    cluster: str
    name: str

    def apply(self, **spec: object) -> None:
        manifest = {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": self.name},
            "spec": {"clusterRef": {"name": self.cluster}, **spec},
        }
        self.kubectl.apply(json.dumps(manifest))

    def delete(self) -> None:
        self.kubectl("delete", "ccg", self.name, "--ignore-not-found", timeout_s=60)

    def status(self) -> dict[str, Any]:
        """The status. Raises `AssertionError` if it is not of the newest spec."""
        found = self.kubectl.get("ccg", self.name)
        status: dict[str, Any] = found.get("status", {})
        assert status.get("observedGeneration") == found["metadata"]["generation"], status
        return status

    def wait_reset(self, state: str, reset_id: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
        """Wait until the reset with this id is in this state; returns `status.reset`."""
        seen: dict[str, Any] = {}

        def reached() -> bool:
            seen.update(self.status().get("reset") or {})
            assert (seen.get("id"), seen.get("state")) == (reset_id, state), seen
            return True

        eventually(f"reset {reset_id} is {state}", reached, limit_s)
        return seen

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Status, reason and message of a condition; three empty strings if there is none."""
        for one in self.status().get("conditions", ()):
            if one["type"] == kind:
                return one["status"], one["reason"], one.get("message", "")
        return "", "", ""


def produce(
    bootstrap: str, topic: str, partitions: int, count: int, timestamp_ms: int | None = None
) -> None:
    """Produce `count` records to each partition, with this timestamp or the current time."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **QUIET})
    for number in range(count):
        for partition in range(partitions):
            producer.produce(
                topic,
                b"%d" % number,
                partition=partition,
                on_delivery=must_arrive,
                timestamp=timestamp_ms or 0,  # 0 means now
            )
        producer.poll(0)
    assert producer.flush(LIMIT_S) == 0, f"records not acknowledged within {LIMIT_S} s"


def read_all(bootstrap: str, group_id: str, topic: str, silence_s: float = 5) -> Counter[int]:
    """Read with a member of the group until no record comes for `silence_s`, commit, and leave.

    Returns partition -> number of records.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **QUIET,
        }
    )
    consumer.subscribe([topic])
    found: Counter[int] = Counter()
    until_s = time.monotonic() + 2 * LIMIT_S
    quiet_since_s: float | None = None
    try:
        while time.monotonic() < until_s:
            for one in consumer.consume(500, timeout=0.5):
                must_arrive(one.error(), one)
                found[place(one)[0]] += 1
                quiet_since_s = None
            # Before the member has partitions, silence means nothing.
            if quiet_since_s is None and consumer.assignment():
                quiet_since_s = time.monotonic()
            if quiet_since_s is not None and time.monotonic() - quiet_since_s > silence_s:
                break
        if found:
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def committed(bootstrap: str, group_id: str) -> Mapping[tuple[str, int], int]:
    """(topic, partition) -> committed offset, for all partitions with a commit of the group."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    wanted = [ConsumerGroupTopicPartitions(group_id)]
    answer = admin.list_consumer_group_offsets(wanted)[group_id].result(LIMIT_S)
    found: Sequence[TopicPartition] = answer.topic_partitions
    return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}
