"""The attacked broker, with the limits of a small pod: standalone or a member of a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from chiplog_core.ids import BrokerId
from chiplog_core.naming import names
from chiplog_core.naming.ports import HEALTH
from e2e.clients.background import Background
from e2e.clients.standalone import StandaloneBroker
from e2e.clients.topics import create_topic
from e2e.hostile.attacks import Port
from e2e.hostile.resources import TOPIC as SLEEPERS
from e2e.kafka.members import leader_of, wait_for
from e2e.kafka.ports import LOOPBACK
from e2e.loopback.cluster import NAME, NAMESPACE, LoopbackCluster

MIB = 2**20
POD_BYTES = 256 * MIB
"""How much memory each broker may use."""
POD_FILES = 1024
"""The usual limit of open files; pods often have more."""
SETTINGS = {"chiplog.memory.bytes": str(POD_BYTES)}
LIMITED = ("prlimit", f"--nofile={POD_FILES}:{POD_FILES}")
BESIDE = "beside"
"""The topic that the well-behaved client writes and reads during an attack."""
POLL_S = 0.1


class Scene(Protocol):
    """The attacked broker, and what an attack and its measurement need of it."""

    partition: int
    """A partition of the topic `BESIDE` that the attacked broker leads."""

    def address(self, port: Port) -> tuple[str, int]:
        """Host and port number of one of the attacked broker's ports."""

    @property
    def pid(self) -> int | None:
        """The broker's process id; None where it has ended."""

    def watch(self) -> "LeaseWatch | None":
        """A watch of the broker's Lease, not yet started; None for a standalone broker."""


class SmallBroker(StandaloneBroker):
    """A broker with the limits of a small pod."""

    def command(self) -> list[str]:
        return [*LIMITED, *super().command()]


class Alone:
    """A standalone broker under attack; as a context manager, it runs inside."""

    partition = 0

    def __init__(self, directory: Path) -> None:
        self.broker = SmallBroker(directory, settings=SETTINGS)

    def __enter__(self) -> "Alone":
        self.broker.start()
        for topic in (BESIDE, SLEEPERS):
            create_topic(self.broker.bootstrap, topic, 1)
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.kill()

    @property
    def pid(self) -> int | None:
        return None if self.broker.exit_status() is not None else self.broker.pid

    def address(self, port: Port) -> tuple[str, int]:
        """See `Scene.address`."""
        probes, metrics = self.broker.side_ports
        ports = {Port.CLIENTS: self.broker.port, Port.METRICS: metrics, Port.PROBES: probes}
        return LOOPBACK, ports[port]

    def watch(self) -> None:
        return None


class SmallCluster(LoopbackCluster):
    """A cluster with the limits of small pods."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, SETTINGS)

    def around(self, _broker_id: int) -> Sequence[str | Path]:
        """The command that each broker's own command is prefixed with."""
        return LIMITED


class Member:
    """A cluster of three brokers, one of which is attacked; as a context manager, it runs inside.

    The attacked broker is the leader of the `SLEEPERS` topic, which the attacks fetch from.
    """

    def __init__(self, directory: Path) -> None:
        self.cluster = SmallCluster(directory)
        self.broker_id = BrokerId(0)
        self.partition = 0

    def __enter__(self) -> "Member":
        cluster = self.cluster.__enter__()
        create_topic(cluster.bootstrap, SLEEPERS, 1)
        create_topic(cluster.bootstrap, BESIDE, len(cluster.brokers), replicas=3)
        wait_for("the topics have leaders", self._is_led)
        return self

    def _is_led(self) -> bool:
        """Choose the attacked broker and a partition of `BESIDE` that it leads.

        Returns False if it leads none, as while the topics are still being created.
        """
        self.broker_id = BrokerId(leader_of(self.cluster, SLEEPERS, 0))
        led = [
            partition
            for partition in range(len(self.cluster.brokers))  # BESIDE has one for each broker
            if leader_of(self.cluster, BESIDE, partition) == self.broker_id
        ]
        self.partition = led[0] if led else 0
        return bool(led)

    def __exit__(self, *ended: object) -> None:
        self.cluster.__exit__(*ended)

    @property
    def pid(self) -> int | None:
        child = self.cluster.brokers[self.broker_id]
        return child.process.pid if child.runs and child.process is not None else None

    def address(self, port: Port) -> tuple[str, int]:
        """See `Scene.address`."""
        match port:
            case Port.CLIENTS:
                return LOOPBACK, self.cluster.node_ports[self.broker_id]
            case Port.METRICS:
                return LOOPBACK, self.cluster.metrics_ports[self.broker_id]
            case Port.PROBES:
                return self.cluster.addresses[self.broker_id], HEALTH

    @property
    def lease_path(self) -> str:
        lease = names.broker_lease(NAME, self.broker_id)
        return f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{lease}"

    def watch(self) -> "LeaseWatch":
        return LeaseWatch(self)


@dataclass
class LeaseWatch(Background):
    """Polls the attacked broker's Lease in a thread: its greatest age and all its holders."""

    member: Member
    oldest_s: float = field(default=0.0, init=False)
    duration_s: float = field(default=0.0, init=False)
    holders: set[str] = field(default_factory=set, init=False)

    @property
    def is_kept(self) -> bool:
        """Whether the Lease never expired and no other process took it."""
        return self.oldest_s < self.duration_s and len(self.holders) == 1

    def run(self) -> None:
        """Read the Lease every `POLL_S` seconds until the watch ends."""
        while not self.ending.wait(POLL_S):
            spec = self.member.cluster.server.ask("GET", self.member.lease_path)["spec"]
            renewed = datetime.fromisoformat(spec["renewTime"])
            age_s = (datetime.now(UTC) - renewed).total_seconds()
            self.oldest_s = max(self.oldest_s, age_s)
            self.duration_s = float(spec["leaseDurationSeconds"])
            self.holders.add(str(spec["holderIdentity"]))


def forget_peak(pid: int) -> None:
    """Reset the kernel's record of the most memory that a process had resident."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # 5 resets VmHWM: proc(5)


def peak_bytes(pid: int) -> int:
    """The most memory that a process had resident since `forget_peak`, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(one.split()[1]) for one in lines if one.startswith("VmHWM"))
