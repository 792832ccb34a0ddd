"""Power failures of all brokers just after the disk of one broker had a fault, under load.

The disks are file systems on loop devices. Either the loop device has no space left for written
blocks, so that the kernel drops them, or a stored bit changes. The broker with the fault is the
first to start again. It must not lead with records missing that the other brokers have.
"""

import random
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from chiplog_broker.storage.checkpoint_text import parse_offsets
from chiplog_broker.storage.names import LOG_SUFFIX, RECOVERY_POINTS
from chiplog_core.ids import BrokerId
from chiplog_core.naming.ports import HEALTH
from chiplog_wire.records.batch import BatchHeader, iter_batches
from chiplog_wire.records.errors import CorruptBatchError
from e2e.chaos.last_reader import read_everything
from e2e.chaos.ledger import Ledger
from e2e.chaos.power import PoweredCluster
from e2e.chaos.producers import LibrdkafkaProducer
from e2e.chaos.scene import HadNoEffect
from e2e.cluster.processes import wait_until
from e2e.disks.file_systems import KINDS, DroppingFileSystem
from e2e.kafka.members import POLL_S, missing
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.probe import metadata
from e2e.loopback.cluster import SIZE
from e2e.loopback.damage import flip_a_bit
from e2e.sim.checkers import Anomaly, check
from e2e.sim.history import History

LIMIT_S = 120
# How long, at most, the broker that had the fault runs without the others.
FIRST_FOR_S = 8
# Position in a batch from which on its checksum covers the bytes: after the checksum itself.
COVERED_FROM = 21

Cluster: TypeAlias = PoweredCluster[DroppingFileSystem]


def device(broker_id: int, directory: Path) -> DroppingFileSystem:
    """A disk for this broker: the kinds of file systems take turns over the broker ids."""
    return DroppingFileSystem(KINDS[broker_id % len(KINDS)], directory)


class Load:
    """One idempotent producer with acks=all; `anomalies` reads and judges what it wrote."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.bootstrap = bootstrap
        self.ledger = Ledger(topic, partitions)
        self.producer = LibrdkafkaProducer(bootstrap, self.ledger)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Produce while the block runs; at its end, wait for all answers."""
        self.producer.start()
        try:
            yield
        except BaseException:
            self.producer.abandon()
            raise
        self.producer.ask_to_stop()
        self.producer.wait_stopped()

    def has_given_up(self) -> bool:
        """Whether the producer's library has reported an error, like lost records, and stopped
        sending."""
        return bool(self.ledger.errors)

    def wait_acknowledged(self, more: int) -> None:
        """Wait until `more` further records are acknowledged, or the producer has given up."""
        enough = self.ledger.acknowledged() + more
        wait_until(
            f"{more} more records are acknowledged",
            lambda: self.ledger.acknowledged() >= enough or self.has_given_up(),
            LIMIT_S,
        )

    def anomalies(self) -> list[Anomaly]:
        """Read all that the brokers have now; returns the violations, like lost records."""
        history = History()
        read_everything(self.bootstrap, self.ledger, history)
        history.events = list(self.ledger.events)
        return check(history)


def device_fails(cluster: Cluster, broker_id: int) -> None:
    """Let the broker's device drop all writes until the broker reports its disk as offline.

    Then repair the device and restart the broker, as a kubelet would; returns when all replicas
    are in sync again.
    """
    disk = cluster.disks[broker_id]
    disk.fill()

    def is_noticed() -> bool:
        disk.stay_full()
        return is_offline(cluster, broker_id)

    wait_until(f"broker {broker_id} is offline", is_noticed, LIMIT_S)
    cluster.kill(broker_id)
    disk.make_room()
    cluster.start_again(broker_id)
    wait_all_whole(cluster)


def is_offline(cluster: Cluster, broker_id: int) -> bool:
    """Whether the broker's liveness probe fails because its disk is offline."""
    address = f"http://{cluster.addresses[BrokerId(broker_id)]}:{HEALTH}/livez"
    try:
        with urllib.request.urlopen(address, timeout=5):
            return False
    except urllib.error.HTTPError as failed:
        return b"offline" in failed.read()
    except OSError:
        return False


def wait_all_whole(cluster: Cluster) -> None:
    """Wait until all brokers run and all replicas are in sync; brokers that ended are restarted.

    A broker may end once more: the kernel reports an earlier write error only to the next sync.
    """

    def all_run() -> bool:
        for number, child in cluster.brokers.items():
            if not child.runs:
                cluster.kill(number)
                cluster.start_again(number)
        return not missing(cluster, SIZE, replicas=SIZE)

    wait_until("all brokers run and all replicas are in sync", all_run, 2 * LIMIT_S)


def bit_flips(cluster: Cluster, broker_id: int, topic: str, chance: random.Random) -> str:
    """Flip a bit in a random batch above the recovery point of one of a stopped broker's logs.

    The batch is in the first half of those, so that undamaged batches follow it. Returns the place
    as text for messages. Raises `HadNoEffect` if no log has four batches above its recovery point.
    """
    data = cluster.volume(broker_id) / "data"
    file = data / RECOVERY_POINTS
    rows = parse_offsets(file.read_bytes()) if file.exists() else []
    points = {f"{topic}-{partition}": int(offset) for topic, partition, offset in rows}
    logs = sorted(path for path in data.glob(f"{topic}-*/*{LOG_SUFFIX}"))
    chance.shuffle(logs)
    for path in logs:
        found = above(path, points.get(path.parent.name, 0))
        if len(found) >= 4:
            position, header = chance.choice(found[: len(found) // 2])
            covered = range(position + COVERED_FROM, position + header.size_bytes)
            at = flip_a_bit(path, chance, covered)
            return f"byte {at} of {path.relative_to(data)}, offset {header.base_offset}"
    raise HadNoEffect("no log has four batches above its recovery point: no bit was flipped")


def above(path: Path, recovery_point: int) -> list[tuple[int, BatchHeader]]:
    """(position, header) of the batches of a segment from the recovery point on.

    These are the batches that the broker verifies when it starts.
    """
    found = []
    with suppress(CorruptBatchError):  # an incomplete last batch, which was not synced
        for position, header in iter_batches(path.read_bytes()):
            if header.base_offset >= recovery_point:
                found.append((position, header))
    return found


def back_first(cluster: Cluster, broker_id: int, topic: str) -> bool:
    """Start this broker first, and the others once it leads the topic, or after `FIRST_FOR_S`.

    Returns whether it led all partitions without the others. It may have to wait for them, since
    they may have acknowledged records that it does not have.
    """
    cluster.power_of_one(broker_id)
    until_s = time.monotonic() + FIRST_FOR_S
    while not (led := leads_all(cluster, broker_id, topic)) and time.monotonic() < until_s:
        time.sleep(POLL_S)
    cluster.power_of_the_others()
    wait_all_whole(cluster)
    return led


def leads_all(cluster: Cluster, broker_id: int, topic: str) -> bool:
    """Whether, by its own Metadata response, the broker leads every partition of the topic."""
    try:
        found = metadata(LOOPBACK, cluster.node_ports[broker_id])
    except OSError:
        return False
    return set(found.leaders.get(topic, {}).values()) == {broker_id}
