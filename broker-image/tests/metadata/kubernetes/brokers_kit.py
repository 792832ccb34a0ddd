"""Several brokers in one process, real sockets and disks, maps written by the test."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from chiplog_broker.broker import Broker, Ports
from chiplog_broker.metadata.kubernetes.membership import KubernetesMembership, MemberPorts
from chiplog_broker.metadata.kubernetes.process import Process, new_incarnation
from chiplog_broker.metadata.listeners import Listener, internal_listener
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.net import SystemNet
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.security.credentials import Credentials, FixedCredentials, Keyring
from chiplog_broker.security.listener_security import TlsSettings
from chiplog_broker.security.tls import TlsFiles, client_context
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Broker as BrokerObject
from chiplog_core.model.broker_status import BrokerStatus
from chiplog_core.naming import names
from chiplog_kube.api import KubeApi
from chiplog_kube.kinds import LEASES
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Client
    from tests.metadata.kubernetes.conftest import MemberKit

NAMESPACE = "ns"
CLUSTER = "c1"
SECRET = FixedCredentials(Credentials("chiplog", "secret"))
ALL = (1, 2, 3)
# Machines that run many tests at once sync their disks when they come to it.
PRODUCE_TIMEOUT_MS = 20_000


@dataclass
class Member:
    """One process of one broker."""

    broker: Broker
    membership: KubernetesMembership
    disks: tuple[SystemDisk, SystemDisk]
    session: int

    @property
    def ref(self) -> str:
        return f"{self.broker._cluster.broker_id}@{self.session}"

    def replica(self, index: int = 0) -> Partition:
        found = self.broker._replicas.get("orders", index)
        assert found is not None
        return found


class Brokers:
    """A cluster whose operator is the test."""

    def __init__(self, member: "MemberKit", directory: Path) -> None:
        self.kit = member.kit
        self.api = member.api
        self.operator = member.operator
        self.directory = directory
        self.up: dict[int, Member] = {}
        self.epoch = 0
        self.unclean_epoch: int | None = None
        self.partitions = 1
        self.tls: dict[int, TlsSettings] = {}
        """How brokers that start from now on use TLS with each other; others use plain text."""
        self.wait_for_others = False
        """Whether clients that create topics wait for all brokers."""
        self._sessions: dict[int, int] = {}
        self.eventually = member.eventually
        for broker_id in ALL[1:]:
            self.operator.add_broker(broker_id)
            meta = {"name": names.broker_lease(CLUSTER, BrokerId(broker_id))}
            self.api.put(LEASES, {"metadata": meta | {"namespace": NAMESPACE}, "spec": {}})

    # -- processes

    async def start(self, *broker_ids: int, **config: str) -> None:
        for broker_id in broker_ids:
            await self._start(broker_id, {key.replace("_", "."): v for key, v in config.items()})

    async def _start(self, broker_id: int, config: dict[str, str]) -> None:
        directory = self.directory / str(broker_id)
        data, metadata = SystemDisk(directory / "data"), SystemDisk(directory / "metadata")
        clock, rng = SystemClock(), SystemRng()
        process = Process(
            cluster=CLUSTER,
            namespace=NAMESPACE,
            broker_id=BrokerId(broker_id),
            incarnation=new_incarnation(rng),
            version="1.2.3",
        )
        config = {"node.id": str(broker_id)} | config

        async def close_api() -> None:
            """Nothing to close."""

        membership = KubernetesMembership(
            process,
            MemberPorts(
                api=cast("KubeApi", self.api),
                clock=clock,
                rng=rng,
                metadata=metadata,
                data=data,
                machine=Machine(),
                close_api=close_api,
            ),
            config,
        )
        tls = self.tls.get(broker_id)
        listeners = [
            Listener("plain", "127.0.0.1", 0, "127.0.0.1", 0),
            internal_listener("127.0.0.1", Keyring(SECRET, rng), tls=tls, host="127.0.0.1", port=0),
        ]
        files = None if tls is None else TlsFiles(tls, clock, client_context)
        dialer = Dialer(SystemNet().connect, rng, SECRET, f"broker-{broker_id}", tls=files)
        broker = Broker(
            Ports(clock, rng, data, metadata), config, listeners, "data", membership, dialer
        )
        broker.waits_for_others = self.wait_for_others
        starting = asyncio.get_running_loop().create_task(broker.start())
        await self.eventually(lambda: self.status(broker_id).incarnation == process.incarnation)
        session = self._sessions[broker_id] = self._sessions.get(broker_id, 0) + 1
        self.operator.write_broker(
            broker_id, admittedIncarnation=process.incarnation, session=session, fenced=False
        )
        await starting
        host, port = broker.addresses["internal"]
        self.operator.write_broker(
            broker_id, endpoints=[{"listener": "internal", "host": host, "port": port}]
        )
        self.up[broker_id] = Member(broker, membership, (data, metadata), session)

    def status(self, broker_id: int) -> BrokerStatus:
        """As the operator reads it."""
        found = self.api.objects["brokers", f"{CLUSTER}-{broker_id}"]
        return BrokerObject.from_manifest(found).status

    async def stop(self, broker_id: int) -> None:
        """In order; its Broker object says that it lives until the test says otherwise."""
        member = self.up.pop(broker_id)
        await member.broker.stop()
        for disk in member.disks:
            disk.close()

    async def stop_all(self) -> None:
        for broker_id in list(self.up):
            await self.stop(broker_id)

    def fence(self, broker_id: int) -> None:
        self.operator.write_broker(broker_id, fenced=True)

    # -- what the operator says

    def refs(self, *broker_ids: int) -> list[str]:
        return [f"{one}@{self._sessions.get(one, 1)}" for one in broker_ids]

    def lead(
        self,
        leader: int | None,
        *,
        isr: tuple[int, ...] = ALL,
        replicas: tuple[int, ...] = ALL,
        partitions: int = 1,
        unclean: bool = False,
        state: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> None:
        """A new leader epoch for every partition; `state` has more fields of each."""
        self.epoch += 1
        if unclean:
            self.unclean_epoch = self.epoch
        self.partitions = partitions
        one: dict[str, Any] = {
            "replicas": list(replicas),
            "isr": self.refs(*isr),
            "leaderEpoch": self.epoch,
            "partitionEpoch": self.epoch,
        }
        one |= state or {}
        if self.unclean_epoch is not None:
            one["uncleanEpoch"] = self.unclean_epoch
        if leader is not None:
            one["leader"] = self.refs(leader)[0]
        self.operator.write_map(
            "orders", [{"partition": index} | one for index in range(partitions)], **spec
        )

    # -- what is there

    async def client(self, broker_id: int) -> "Client":
        self.kit.broker = self.up[broker_id].broker
        return await self.kit.client("plain")

    def ends(self, index: int = 0) -> dict[int, int]:
        return {one: member.replica(index).log.end_offset for one, member in self.up.items()}

    def leads(self, broker_id: int) -> bool:
        replicas = self.replicas(broker_id)
        return all(one is not None and one.leader_epoch == self.epoch for one in replicas)

    def follows(self, broker_id: int) -> bool:
        return all(
            one is not None
            and one.following is not None
            and one.following.leader_epoch == self.epoch
            for one in self.replicas(broker_id)
        )

    def replicas(self, broker_id: int) -> list[Partition | None]:
        held = self.up[broker_id].broker._replicas
        return [held.get("orders", index) for index in range(self.partitions)]

    async def begin_with(self, *values: bytes) -> None:
        """All brokers up, broker 1 leads, and everyone has these records."""
        await self.start(*ALL)
        self.lead(1)
        await self.settled(1)
        await self.produce(1, *values)
        await self.equal(len(values))

    async def part(self) -> None:
        """Nobody leads, so nobody follows."""
        self.lead(None)
        await self.eventually(lambda: all(m.replica().following is None for m in self.up.values()))

    async def all_know_high_watermark(self, offset: int) -> None:
        await self.eventually(
            lambda: {one.replica().high_watermark for one in self.up.values()} == {offset}
        )

    async def settled(self, leader: int) -> None:
        """Everybody has applied the newest map."""
        others = [one for one in self.up if one != leader]
        await self.eventually(
            lambda: self.leads(leader) and all(self.follows(one) for one in others)
        )

    async def equal(self, end_offset: int, index: int = 0, within_s: float = 20.0) -> None:
        """All replicas have the same bytes, up to this offset."""
        deadline_s = asyncio.get_running_loop().time() + within_s
        while set(self.ends(index).values()) != {end_offset}:
            assert asyncio.get_running_loop().time() < deadline_s, self.ends(index)
            await asyncio.sleep(0.01)
        first, *others = [member.replica(index) for member in self.up.values()]
        for other in others:
            for ours, theirs in zip(pieces_of(first), pieces_of(other), strict=True):
                assert ours == theirs, "different bytes"

    async def produce(self, broker_id: int, *values: bytes, acks: int = -1) -> int:
        """One batch; its base offset."""
        client = await self.client(broker_id)
        try:
            (one,) = await client.produce(
                "orders", self.kit.batch(*values), acks=acks, timeout_ms=PRODUCE_TIMEOUT_MS
            )
        finally:
            client.writer.close()
        assert one.error_code == ErrorCode.none, one
        return int(one.base_offset)


class Machine:
    """One whose kernel never starts anew."""

    def boot_id(self) -> str:
        return "boot-1"

    def leave(self, termination_message: str) -> None:
        assert termination_message


def pieces_of(partition: Partition) -> Iterator[bytes]:
    """The bytes of a log, from its start to its end."""
    log = partition.log
    offset = log.log_start_offset
    while offset < log.end_offset:
        piece = log.read(offset, 1 << 20, log.end_offset)
        yield piece.read()
        offset = piece.next_offset


def run(brokers: Brokers, scenario: Callable[[], Any], limit_s: float = 120) -> None:
    import uvloop  # noqa: PLC0415

    async def limited() -> None:
        try:
            async with asyncio.timeout(limit_s):
                await scenario()
        finally:
            brokers.kit.close_clients()
            await brokers.stop_all()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(limited())
