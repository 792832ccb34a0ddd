"""Several brokers in one process, real sockets and disks, maps written by the test."""

import asyncio
import contextlib
import os
import random
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from chiplog_broker.broker import Broker, Ports
from chiplog_broker.metadata.kubernetes import store
from chiplog_broker.metadata.kubernetes.membership import KubernetesMembership, MemberPorts
from chiplog_broker.metadata.kubernetes.process import Process, new_incarnation
from chiplog_broker.metadata.listeners import Listener, internal_listener
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.net import SystemNet
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_broker.security.credentials import Credentials, FixedCredentials, Keyring
from chiplog_core import names
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Broker as BrokerObject
from chiplog_core.model.broker_status import BrokerStatus
from chiplog_kube.api import KubeApi
from chiplog_kube.kinds import LEASES

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

    def __init__(self, member: "MemberKit", folder: Path) -> None:
        self.kit = member.kit
        self.api = member.api
        self.operator = member.operator
        self.folder = folder
        self.up: dict[int, Member] = {}
        self.epoch = 0
        self.unclean_epoch: int | None = None
        self.partitions = 1
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
        folder = self.folder / str(broker_id)
        data, metadata = SystemDisk(folder / "data"), SystemDisk(folder / "metadata")
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
        listeners = [
            Listener("plain", "127.0.0.1", 0, "127.0.0.1", 0),
            internal_listener("127.0.0.1", Keyring(SECRET, rng), host="127.0.0.1", port=0),
        ]
        dialer = Dialer(SystemNet().connect, rng, SECRET, f"broker-{broker_id}")
        broker = Broker(
            Ports(clock, rng, data, metadata), config, listeners, "data", membership, dialer
        )
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
        **spec: Any,
    ) -> None:
        """A new reign for every partition."""
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

    def tell_incarnation(self, incarnation: str) -> None:
        assert incarnation


def pieces_of(partition: Partition) -> Iterator[bytes]:
    """The bytes of a log, from its start to its end."""
    log = partition.log
    offset = log.log_start_offset
    while offset < log.end_offset:
        piece = log.read(offset, 1 << 20, log.end_offset)
        yield piece.read()
        offset = piece.next_offset


@pytest.fixture
def brokers(member: "MemberKit", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Brokers:
    monkeypatch.setattr(store, "DRAIN_S", 0.1)
    return Brokers(member, tmp_path)


def run(brokers: Brokers, scenario: Callable[[], Any], limit_s: float = 30) -> None:
    import uvloop  # noqa: PLC0415

    async def limited() -> None:
        try:
            async with asyncio.timeout(limit_s):
                await scenario()
        finally:
            await brokers.stop_all()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(limited())


@pytest.mark.parametrize("durability", ["Fsync", "PageCache"])
def test_records_appear_on_all_replicas(brokers: Brokers, durability: str) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1, minIsr=2, durability=durability)
        await brokers.settled(1)
        for number in range(20):
            base = await brokers.produce(1, b"a%d" % number, b"b%d" % number)
            assert base == number * 2
        # What acks=all acknowledged is on every in-sync replica now, not some time.
        assert set(brokers.ends().values()) == {40}
        await brokers.equal(40)
        await brokers.eventually(
            lambda: {one.replica().high_watermark for one in brokers.up.values()} == {40}
        )
        fetching = brokers.up[2].broker.fetching
        assert fetching is not None
        assert (fetching.leaders, fetching.max_lag) == (frozenset({1}), 0)

    run(brokers, scenario)


def test_a_follower_that_was_away_catches_up(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"before")
        await brokers.stop(3)
        brokers.fence(3)
        brokers.lead(1, isr=(1, 2))
        await brokers.settled(1)
        for _ in range(10):
            await brokers.produce(1, b"while away" * 100)
        await brokers.start(3)
        brokers.lead(1, isr=(1, 2))
        await brokers.settled(1)
        await brokers.equal(11)

    run(brokers, scenario)


def test_a_follower_without_any_data_gets_it_all(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"one", b"two")
        await brokers.stop(3)
        shutil.rmtree(brokers.folder / "3")
        brokers.fence(3)
        brokers._sessions[3] = 7
        brokers.lead(1, isr=(1, 2))
        await brokers.settled(1)
        await brokers.produce(1, b"three")
        await brokers.start(3)
        brokers.lead(1, isr=(1, 2))
        await brokers.settled(1)
        await brokers.equal(3)

    run(brokers, scenario)


def plant(brokers: Brokers, broker_id: int, epoch: int, *values: bytes) -> None:
    """Records that this broker has alone."""
    log = brokers.up[broker_id].replica().log
    log.append_as_leader(memoryview(bytearray(brokers.kit.batch(*values))), epoch, 1)


def test_a_follower_cuts_off_what_its_leader_never_had(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"one", b"two")
        await brokers.equal(2)
        brokers.lead(None)
        await brokers.eventually(
            lambda: all(m.replica().following is None for m in brokers.up.values())
        )
        plant(brokers, 3, 1, b"never", b"acknowledged", b"anywhere")
        assert brokers.ends() == {1: 2, 2: 2, 3: 5}
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"three")
        await brokers.equal(3)
        assert [m.replica().log.last_epoch for m in brokers.up.values()] == [3, 3, 3]

    run(brokers, scenario)


def test_histories_that_part_more_than_once(brokers: Brokers) -> None:
    """Two unclean reigns on one side, one on the other: found in steps (KIP-279)."""

    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"one", b"two")
        await brokers.equal(2)
        brokers.lead(None)
        await brokers.eventually(
            lambda: all(m.replica().following is None for m in brokers.up.values())
        )
        plant(brokers, 1, 3, b"a")
        plant(brokers, 1, 6, b"b")
        plant(brokers, 3, 4, b"x", b"y", b"z")
        plant(brokers, 3, 5, b"v", b"w")
        plant(brokers, 2, 2, b"q")
        brokers.epoch = 6
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"c")
        await brokers.equal(5)
        assert {m.replica().log.last_epoch for m in brokers.up.values()} == {7}

    run(brokers, scenario)


def test_nothing_is_cut_off_below_the_high_watermark(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader that lacks acknowledged records must not make others lose them too."""

    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"one", b"two")
        await brokers.equal(2)
        await brokers.eventually(
            lambda: {one.replica().high_watermark for one in brokers.up.values()} == {2}
        )
        brokers.lead(None)
        await brokers.eventually(
            lambda: all(m.replica().following is None for m in brokers.up.values())
        )
        faulty = brokers.up[1].replica()
        await faulty.log.truncate_to(0, 1)
        faulty.high_watermark = 0
        brokers.lead(1, isr=(1,))
        await brokers.settled(1)
        following = brokers.up[3].replica().following
        assert following is not None
        await brokers.eventually(lambda: following.is_over)
        assert brokers.ends()[3] == 2
        assert "epoch" in following.why_over
        await brokers.eventually(lambda: brokers.status(3).halted_replicas)
        (told,) = brokers.status(3).halted_replicas
        assert (told.leader_epoch, told.log_end_offset, told.high_watermark) == (3, 2, 2)
        # The right leader ends it.
        await brokers.stop(1)
        brokers.fence(1)
        brokers.lead(2, isr=(2, 3))
        await brokers.settled(2)
        await brokers.produce(2, b"three")
        await brokers.equal(3)
        await brokers.eventually(lambda: not brokers.status(3).halted_replicas)

    run(brokers, scenario)
    assert any(record.message == "follower_halted" for record in caplog.records)


def test_an_accepted_loss_is_cut_off_everywhere(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where a replica was away while it was accepted, and led by others since."""

    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"one", b"two")
        await brokers.equal(2)
        await brokers.eventually(
            lambda: {one.replica().high_watermark for one in brokers.up.values()} == {2}
        )
        await brokers.stop(3)
        brokers.fence(3)
        brokers.lead(None)
        await brokers.eventually(
            lambda: all(m.replica().following is None for m in brokers.up.values())
        )
        left = brokers.up[1].replica()
        await left.log.truncate_to(0, 1)
        left.high_watermark = 0
        brokers.lead(1, isr=(1,), unclean=True)
        await brokers.settled(1)
        await brokers.produce(1, b"three")
        await brokers.equal(1)
        brokers.lead(2, isr=(1, 2))
        await brokers.start(3)
        brokers.lead(2, isr=(1, 2))
        await brokers.settled(2)
        await brokers.equal(1)
        assert not any(brokers.status(one).halted_replicas for one in ALL)

    run(brokers, scenario)
    cut = [one for one in caplog.records if one.message == "acknowledged_records_cut_off"]
    assert len(cut) == 2


async def damaged(brokers: Brokers, broker_id: int) -> None:
    """Stop a broker whose disk then loses a bit of what was durable."""
    data = brokers.folder / str(broker_id) / "data"
    directory = brokers.up[broker_id].broker._directory
    await directory.logs["orders", 0].flush()  # type: ignore[index]
    await directory.checkpoint(brokers.up[broker_id].broker._replicas.high_watermarks())
    await brokers.stop(broker_id)
    brokers.fence(broker_id)
    (data / ".kafka_cleanshutdown").unlink()
    log = data / "orders-0" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)


def told_of(brokers: Brokers, broker_id: int) -> list[tuple[int, bool]]:
    """The damaged replicas in its status, and whether they are fetched anew."""
    (directory,) = brokers.status(broker_id).directories
    return [(one.partition, one.refetching) for one in directory.damaged]


def test_what_was_damaged_is_fetched_anew(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1)
        await brokers.settled(1)
        for number in range(5):
            await brokers.produce(1, b"%d" % number)
        await brokers.equal(5)
        await damaged(brokers, 3)
        # Nobody else leads: what it has may be all there is.
        brokers.lead(None)
        await brokers.start(3)
        assert told_of(brokers, 3) == [(0, False)]
        assert brokers.replicas(3) == [None]
        brokers.lead(3, isr=(1, 2, 3))
        brokers.lead(1, isr=(1, 2))
        await brokers.settled(1)
        await brokers.equal(5)
        await brokers.eventually(lambda: told_of(brokers, 3) == [(0, True)])
        stray = [one.name for one in (brokers.folder / "3/data").glob("orders-0.*-stray")]
        assert len(stray) == 1
        # It is whole, but that is for its leader to say; no map makes it lead before.
        await brokers.stop(3)
        await brokers.start(3)
        assert told_of(brokers, 3) == [(0, True)]
        brokers.lead(3, isr=(1, 2))
        await brokers.eventually(lambda: brokers.replicas(3)[0].following is None)  # type: ignore[union-attr]
        assert not brokers.leads(3)
        brokers.lead(1, isr=(1, 2, 3))
        await brokers.eventually(lambda: told_of(brokers, 3) == [])
        brokers.lead(3, isr=(1, 2, 3))
        await brokers.settled(3)
        await brokers.produce(3, b"5")
        await brokers.equal(6)

    run(brokers, scenario)


def test_another_leader_by_a_new_map(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        offset = 0
        for leader in (1, 2, 3, 1, 3, 2):
            brokers.lead(leader)
            await brokers.settled(leader)
            for _ in range(3):
                assert await brokers.produce(leader, b"%d" % offset) == offset
                offset += 1
            await brokers.equal(offset)
            fetching = brokers.up[leader].broker.fetching
            assert fetching is not None
            assert not fetching.leaders, "a leader copies from nobody"

    run(brokers, scenario)


async def keep_producing(
    brokers: Brokers, acknowledged: dict[int, bytes], enough: asyncio.Event
) -> None:
    """As fast as acks=all goes, to whoever leads; what was acknowledged goes into the dict."""
    number = 0
    while not enough.is_set():
        leader = next((one for one in brokers.up if brokers.leads(one)), None)
        if leader is None:
            await asyncio.sleep(0.002)
            continue
        value = b"%08d" % number
        number += 1
        client = await brokers.client(leader)
        try:
            batch = brokers.kit.batch(value)
            (one,) = await client.produce("orders", batch, acks=-1, timeout_ms=1000)
        finally:
            client.writer.close()
        if one.error_code == ErrorCode.none:
            assert one.base_offset not in acknowledged, "an offset was given out twice"
            acknowledged[one.base_offset] = value


def test_leaders_that_change_under_load_lose_nothing_acknowledged(brokers: Brokers) -> None:
    chance = random.Random(5)  # noqa: S311 - reproducible, not secret

    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1, minIsr=2)
        await brokers.settled(1)
        acknowledged: dict[int, bytes] = {}
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_producing(brokers, acknowledged, enough))
            for number in range(24):
                brokers.lead(chance.choice(ALL), minIsr=2)
                await asyncio.sleep(chance.random() * 0.1)
                had = len(acknowledged)
                while number % 2 and len(acknowledged) == had:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            enough.set()
        brokers.lead(1)
        await brokers.settled(1)
        end_offset = await brokers.produce(1, b"last") + 1
        await brokers.equal(end_offset)
        assert len(acknowledged) >= 12
        written = b"".join(pieces_of(brokers.up[1].replica()))
        assert [value for value in acknowledged.values() if value not in written] == []
        halted = [one.replica().following for one in brokers.up.values()]
        assert not any(one is not None and one.is_halted for one in halted)

    run(brokers, scenario)


def test_stopped_in_the_middle_of_catching_up(brokers: Brokers) -> None:
    batch = brokers.kit.batch(*[os.urandom(10_000)] * 20)

    async def scenario() -> None:
        await brokers.start(1, 2)
        brokers.lead(1, isr=(1,), replicas=(1,))
        await brokers.eventually(lambda: brokers.leads(1))
        log = brokers.up[1].replica().log
        for _ in range(400):
            log.append_as_leader(memoryview(bytearray(batch)), 1, 1)
        brokers.lead(1, isr=(1,), replicas=(1, 2))
        await brokers.settled(1)
        await brokers.eventually(lambda: brokers.ends()[2] > 0)
        assert brokers.ends()[2] < 8000
        await brokers.stop(2)
        await brokers.start(2)
        brokers.lead(1, isr=(1,), replicas=(1, 2))
        await brokers.settled(1)
        directory = brokers.up[2].broker._directory
        assert [one.reason for one in directory.report.partitions] == [""]
        await brokers.equal(8000, within_s=20)

    run(brokers, scenario)


def test_what_the_leader_deleted_goes_everywhere(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1)
        await brokers.settled(1)
        for _ in range(6):
            await brokers.produce(1, b"x", b"y")
        await brokers.stop(3)
        brokers.fence(3)
        shutil.rmtree(brokers.folder / "3")
        brokers._sessions[3] = 7
        brokers.lead(1, isr=(1, 2))
        await brokers.settled(1)
        client = await brokers.client(1)
        # In the middle of a batch, which still comes whole.
        assert await client.delete_records("orders", 7) == (ErrorCode.none, 7)
        client.writer.close()
        await brokers.start(3)
        brokers.lead(1, isr=(1, 2))
        await brokers.settled(1)
        await brokers.produce(1, b"z")
        await brokers.eventually(lambda: set(brokers.ends().values()) == {13})
        await brokers.eventually(
            lambda: {m.replica().log.log_start_offset for m in brokers.up.values()} == {7}
        )

    run(brokers, scenario)


def test_no_partition_starves(brokers: Brokers) -> None:
    """Far more to copy than one answer holds, over many partitions."""

    async def scenario() -> None:
        await brokers.start(1, 2)
        brokers.lead(1, isr=(1,), replicas=(1,), partitions=8)
        await brokers.eventually(lambda: brokers.leads(1))
        batch = brokers.kit.batch(os.urandom(50_000))
        for index in range(8):
            log = brokers.up[1].replica(index).log
            for _ in range(40):
                log.append_as_leader(memoryview(bytearray(batch)), 1, 1)
        brokers.lead(1, isr=(1,), replicas=(1, 2), partitions=8)
        await brokers.settled(1)
        for index in range(8):
            await brokers.equal(40, index)

    run(brokers, scenario)


def test_one_replica_costs_no_task_and_no_connection(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(1, 2)
        brokers.lead(1, isr=(1,), replicas=(1,))
        await brokers.eventually(lambda: brokers.leads(1))
        await brokers.produce(1, b"x")
        for member in brokers.up.values():
            fetching = member.broker.fetching
            assert fetching is not None
            assert not fetching.leaders

    run(brokers, scenario)


def resident_bytes() -> int:
    """Of this process."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def watched_memory() -> AsyncIterator[list[int]]:
    """The process's resident bytes, again and again."""
    seen: list[int] = []

    async def watch() -> None:
        while True:
            seen.append(resident_bytes())
            await asyncio.sleep(0.01)

    watching = asyncio.get_running_loop().create_task(watch())
    try:
        yield seen
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching


@pytest.mark.parametrize("partitions", [1, 4])
def test_catching_up_takes_bounded_memory(brokers: Brokers, partitions: int) -> None:
    total_bytes = 200 * 2**20
    batch = brokers.kit.batch(*[os.urandom(10_000)] * 50)
    count = total_bytes // len(batch) // partitions

    async def scenario() -> None:
        await brokers.start(1, 2)
        brokers.lead(1, isr=(1,), replicas=(1,), partitions=partitions)
        await brokers.eventually(lambda: brokers.leads(1))
        for index in range(partitions):
            log = brokers.up[1].replica(index).log
            for _ in range(count):
                log.append_as_leader(memoryview(bytearray(batch)), 1, 1)
            await log.flush()
        async with watched_memory() as seen:
            await asyncio.sleep(0.05)
            brokers.lead(1, isr=(1,), replicas=(1, 2), partitions=partitions)
            await brokers.settled(1)
            for index in range(partitions):
                await brokers.equal(count * 50, index, within_s=60)
        assert max(seen) - seen[0] < 80 * 2**20

    run(brokers, scenario, limit_s=90)
