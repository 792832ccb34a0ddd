"""Compaction beside Apache Kafka's: the same records, and the time until all are compacted.

Both brokers get a topic of 100-byte records, which is filled before it is compacted. Then its
cleanup policy is changed, and the time is taken until the cleaner has reached the newest segment.
"""

import os
import sys
import time
from functools import partial
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from e2e.bench import lines
from e2e.bench.paired import FEW, Numbers, Sides
from e2e.bench.rig import Rig, delete_topic, spent
from e2e.clients.by_librdkafka import QUIET
from e2e.clients.topics import create_topic
from e2e.cluster.shell import run
from e2e.kafka.process import BrokerProcess

RECORD_BYTES: Final = 100
KEYS: Final = 100_000
RECORDS: Final = int(os.environ.get("COMPACTION_RECORDS", "2000000"))
"""About 200 MB; 10,000,000 make a GB."""
SEGMENT_BYTES: Final = 64 * 2**20
LIMIT_S: Final = 600
MB: Final = 1e6
GB: Final = 1e9
QUICKLY: Final = {"log.cleaner.backoff.ms": "100"}
FILLED: Final = {
    "segment.bytes": str(SEGMENT_BYTES),
    "retention.ms": "-1",
    "min.cleanable.dirty.ratio": "0.01",
}


def compaction(rig: Rig) -> Sides:
    """Two brokers for this experiment only: the log cleaner's settings are per broker."""
    ours, kafka = rig.new_ours(), rig.new_kafka()
    for broker in (ours, kafka):
        broker.settings |= QUICKLY
        rig.start(broker)
    return Sides(partial(compact, rig, ours), partial(compact, rig, kafka), FEW)


def compact(rig: Rig, broker: BrokerProcess) -> Numbers:
    """Fill a topic and compact it; only the compaction is measured."""
    topic = f"compacted-{next(rig.numbers)}"
    create_topic(broker.bootstrap, topic, 1, FILLED)
    fill(broker.bootstrap, topic, rig.effort.scaled(RECORDS))
    directory = broker.logs / f"{topic}-0"
    size_bytes = sum(one.stat().st_size for one in directory.glob("*.log"))
    with spent(broker) as cost:
        began_s = time.monotonic()
        set_policy(broker.bootstrap, topic, "compact")
        await_clean(broker, topic)
        took_s = time.monotonic() - began_s
    found = {
        lines.COMPACTION: size_bytes / MB / took_s,
        lines.COMPACTION_CPU: cost.cpu_s / (size_bytes / GB),
        lines.COMPACTION_MEMORY: broker.usage().rss_bytes / MB,
    }
    delete_topic(broker.bootstrap, topic)
    return found


def fill(bootstrap: str, topic: str, records: int) -> None:
    """Fill the topic from a process of its own, whose memory is free again when it has ended."""
    program = (sys.executable, "-m", "e2e.bench.keyed_load")
    run(*program, bootstrap, topic, str(records), str(RECORD_BYTES), str(KEYS))


def set_policy(bootstrap: str, topic: str, policy: str) -> None:
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.incremental_alter_configs([resource])[resource].result(20)


def await_clean(broker: BrokerProcess, topic: str) -> None:
    """Wait until the cleaner has compacted every segment but the newest, which is never compacted.

    The cleaner's checkpoint has lines "topic partition offset"; all below the offset is compacted.
    """
    checkpoint = broker.logs / "cleaner-offset-checkpoint"
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        newest = max(int(one.stem) for one in (broker.logs / f"{topic}-0").glob("*.log"))
        if checkpoint.exists() and f"{topic} 0 {newest}\n" in checkpoint.read_text():
            return
        time.sleep(0.02)
    raise TimeoutError(
        f"{broker.title} did not compact {topic} in {LIMIT_S} s:\n{broker.output_tail()}"
    )
