"""Power that fails everywhere just after one broker's device did wrong, under load.

The devices are real: file systems on loop devices that find no room for what they are given, so
that the kernel drops it, or whose bytes change. The broker that had the fault is the first that
has power again. It must not vouch for what it has not, nor be believed where others know more.
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
# How long the broker that had the fault is alone, at most.
FIRST_FOR_S = 8
# Beyond offset, length, epoch, magic and checksum: what the checksum covers.
COVERED_FROM = 21

Cluster: TypeAlias = PoweredCluster[DroppingFileSystem]


def device(broker_id: int, directory: Path) -> DroppingFileSystem:
    """The kinds in rotation."""
    return DroppingFileSystem(KINDS[broker_id % len(KINDS)], directory)


class Load:
    """One idempotent producer with acks=all, within a `with` block; then everything is read."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.bootstrap = bootstrap
        self.ledger = Ledger(topic, partitions)
        self.producer = LibrdkafkaProducer(bootstrap, self.ledger)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self.producer.start()
        try:
            yield
        except BaseException:
            self.producer.abandon()
            raise
        self.producer.ask_to_stop()
        self.producer.wait_stopped()

    def has_given_up(self) -> bool:
        """Whether the producer's library found that records are lost, and sends no more."""
        return bool(self.ledger.errors)

    def wait_acknowledged(self, more: int) -> None:
        enough = self.ledger.acknowledged() + more
        wait_until(
            f"{more} records more are acknowledged",
            lambda: self.ledger.acknowledged() >= enough or self.has_given_up(),
            LIMIT_S,
        )

    def anomalies(self) -> list[Anomaly]:
        """What is wrong with what the brokers hold now."""
        history = History()
        read_everything(self.bootstrap, self.ledger, history)
        history.events = list(self.ledger.events)
        return check(history)


def device_fails(cluster: Cluster, broker_id: int) -> None:
    """Its device drops what it is given until the broker says that its disk is gone.

    Then it is started again, as by a kubelet; returns when it is in sync again.
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
    """Whether its liveness probe fails."""
    address = f"http://{cluster.addresses[BrokerId(broker_id)]}:{HEALTH}/livez"
    try:
        with urllib.request.urlopen(address, timeout=5):
            return False
    except urllib.error.HTTPError as failed:
        return b"offline" in failed.read()
    except OSError:
        return False


def wait_all_whole(cluster: Cluster) -> None:
    """Start who has ended again: an error that nobody has seen is reported to the next sync."""

    def all_run() -> bool:
        for number, child in cluster.brokers.items():
            if not child.runs:
                cluster.kill(number)
                cluster.start_again(number)
        return not missing(cluster, SIZE, replicas=SIZE)

    wait_until("all is whole", all_run, 2 * LIMIT_S)


def bit_flips(cluster: Cluster, broker_id: int, topic: str, chance: random.Random) -> str:
    """In a batch above the recovery point of some log, none of the last; says where.

    The broker must be dead.
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
    raise HadNoEffect("no log has enough above its recovery point")


def above(path: Path, recovery_point: int) -> list[tuple[int, BatchHeader]]:
    """The batches of a segment that the next recovery has to read, with their positions."""
    found = []
    with suppress(CorruptBatchError):  # the end, which was not synced
        for position, header in iter_batches(path.read_bytes()):
            if header.base_offset >= recovery_point:
                found.append((position, header))
    return found


def back_first(cluster: Cluster, broker_id: int, topic: str) -> bool:
    """Power returns to one broker, and to the others when it leads, or after a while.

    Returns whether it led before. It need not, where it cannot know what the others have.
    """
    cluster.power_of_one(broker_id)
    until_s = time.monotonic() + FIRST_FOR_S
    while not (led := leads_all(cluster, broker_id, topic)) and time.monotonic() < until_s:
        time.sleep(POLL_S)
    cluster.power_of_the_others()
    wait_all_whole(cluster)
    return led


def leads_all(cluster: Cluster, broker_id: int, topic: str) -> bool:
    try:
        found = metadata(LOOPBACK, cluster.node_ports[broker_id])
    except OSError:
        return False
    return set(found.leaders.get(topic, {}).values()) == {broker_id}
