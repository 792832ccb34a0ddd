"""Each fault by itself does the harm that its name says: no cluster is needed to see it."""

import asyncio
import errno
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from chiplog_broker.storage.names import (
    EPOCH_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
)
from chiplog_broker.storage.partition_metadata import encode_partition_metadata
from chiplog_kube import kinds
from chiplog_kube.api import Gone, Manifest
from chiplog_kube.manifests import key_of
from chiplog_wire.records.batch import LENGTH_OVERHEAD_BYTES, set_place
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch
from e2e.sim.api_server import LATEST_S, ApiServer
from e2e.sim.api_store import ApiStore
from e2e.sim.disk import Disks, memory_disk
from e2e.sim.faults import DIRECTED, FAULT_NAMES, Mix, Stage, decay
from e2e.sim.faults.rot import stored_batches
from e2e.sim.logs import label_of
from e2e.sim.loop import PROCESS, Process, SimClock, SimLoop
from e2e.sim.network import Network

SECTOR_BYTES = 512


def run(work: Coroutine[Any, Any, None], loop: SimLoop | None = None) -> None:
    one = loop or SimLoop()
    one.run_until_complete(work)
    one.close()


def chance(seed: int = 1) -> random.Random:
    return random.Random(seed)  # noqa: S311 - not for secrets


def disks(seed: int = 1) -> Disks:
    return Disks(chance(seed), Counter())


# -- disks


@pytest.mark.parametrize("operation", ["read", "append"])
def test_a_failing_call_fails_once_and_is_counted(operation: str) -> None:
    faults: Counter[str] = Counter()
    one = Disks(chance(), faults)
    file = one.data.open("0.log", create=True)
    file.append(b"x")
    one.fail_next(operation, ".log", "failed")
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: file.read(0, 1),
        "append": lambda: file.append(b"y"),
    }
    with pytest.raises(OSError, match="injected") as raised:
        calls[operation]()
    assert raised.value.errno == errno.EIO
    assert faults["failed"] == 1
    calls[operation]()


def test_other_files_do_not_fail() -> None:
    one = disks()
    one.fail_next("append", ".log", "failed")
    one.data.open("0.index", create=True).append(b"x")


def test_a_power_cut_loses_and_reorders_what_was_not_synced() -> None:
    """Of two unsynced writes, each may be there without the other."""
    seen = set()
    for seed in range(200):
        one = disks(seed)
        file = one.data.open("0.log", create=True)
        run(_synced(one, file, b"." * 4))
        file.write_at(0, b"a")
        file.write_at(2, b"b")
        one.power_cut()
        seen.add(bytes(one.data.content("0.log")))
    assert seen == {b"....", b"a...", b"..b.", b"a.b."}


def test_a_power_cut_tears_writes_at_sectors() -> None:
    """Some sectors of a write are kept: those before one, or any."""
    kept = set()
    for seed in range(300):
        one = disks(seed)
        file = one.data.open("0.log", create=True)
        run(_synced(one, file, bytes(3 * SECTOR_BYTES)))
        file.write_at(0, b"x" * 3 * SECTOR_BYTES)
        one.power_cut()
        content = bytes(one.data.content("0.log"))
        sectors = [content[at : at + SECTOR_BYTES] for at in range(0, len(content), SECTOR_BYTES)]
        assert all(len(set(sector)) == 1 for sector in sectors)
        kept.add("".join("x" if sector[0] else "." for sector in sectors))
    assert {"...", "xxx", "x..", "xx.", ".x.", "..x", "x.x"} <= kept


def test_damage_is_there_for_the_next_process() -> None:
    one = disks()
    run(_synced(one, one.data.open("0.log", create=True), b"0123"))
    one.damage("0.log", 1, b"x")
    assert bytes(one.data.content("0.log")) == b"0x23"
    one.process_ended()
    one.power_cut()
    assert bytes(one.data.content("0.log")) == b"0x23"


@pytest.mark.parametrize(
    ("operation", "number", "is_wrong"),
    [
        ("append", errno.EIO, True),
        ("append", errno.ENOSPC, False),
        ("sync", errno.EIO, True),
        ("sync", errno.ENOSPC, True),
    ],
)
def test_a_full_disk_is_no_bad_one_but_for_what_a_sync_loses(
    operation: str, number: int, is_wrong: bool
) -> None:
    one = disks()
    file = one.data.open("0.log", create=True)
    one.fail_next(operation, ".log", "failed", number)

    async def both() -> None:
        with suppress(OSError):
            file.append(b"x")
        with suppress(OSError):
            await file.sync()

    assert one.error_count == 0
    run(both())
    assert bool(one.error_count) == is_wrong


def test_only_what_the_recovery_point_covers_is_stored() -> None:
    """Two batches, of which one is below it; and a log that nothing is known of."""
    one = disks()
    batch = bytes(build_batch([NewRecord(b"value", timestamp_ms=1)], BatchOptions()))
    second = bytearray(batch)
    set_place(memoryview(second), 1, len(batch) - LENGTH_OVERHEAD_BYTES, 0)
    for directory in ("a-0", "b-0"):
        one.data.make_directory(directory)
        file = one.data.open(f"{directory}/{0:020d}.log", create=True)
        run(_synced(one, file, batch + second))
    assert list(stored_batches(one)) == []
    run(one.data.replace("recovery-point-offset-checkpoint", b"0\n1\na 0 1\n"))
    assert list(stored_batches(one)) == [(f"a-0/{0:020d}.log", 0, len(batch))]


async def failing(work: Coroutine[Any, Any, None], error_number: int) -> None:
    with pytest.raises(OSError, match="injected") as raised:
        await work
    assert raised.value.errno == error_number


def with_a_record(one: Disks) -> Any:
    """Durable data and metadata, and data that is not."""
    file = one.data.open("0.log", create=True)
    run(_synced(one, file, b"durable"))
    run(one.metadata.replace("session.json", b"1"))
    file.append(b" dirty")
    return file


def test_a_volume_is_put_back_with_its_metadata() -> None:
    one = disks()
    file = with_a_record(one)
    copy = one.copied()
    run(_synced(one, file, b" later"))
    run(one.metadata.replace("session.json", b"2"))
    for _ in range(2):  # the copy is as good as new
        one.put_back(copy)
        assert bytes(one.data.content("0.log")) == b"durable dirty"
        assert bytes(one.metadata.content("session.json")) == b"1"
        one.data.open("0.log").append(b"more")


def test_a_lost_volume_is_empty() -> None:
    one = disks()
    file = with_a_record(one)
    one.lose_volume()
    assert one.data.names("") == one.metadata.names("") == []
    with pytest.raises(memory_disk().PowerCutError):
        file.size()


def test_a_volume_that_is_mounted_again_has_what_was_dirty_and_not_what_a_sync_lost() -> None:
    one = disks()
    file = with_a_record(one)
    one.mount_again()
    assert bytes(one.data.content("0.log")) == b"durable dirty"
    left = set()
    for seed in range(40):
        one = disks(seed)
        file = with_a_record(one)
        one.fails_next_sync = True
        run(failing(file.sync(), errno.EIO))
        one.mount_again()
        left.add(bytes(one.data.content("0.log")))
    assert left == {b"durable", b"durable" + bytes(6), b"durable dirty"}


def test_the_device_of_a_new_volume_fails_as_well() -> None:
    one = disks()
    one.lose_volume()
    one.fail_next("replace", "session.json", "sync failed", errno.ENOSPC)
    run(failing(one.metadata.replace("session.json", b"1"), errno.ENOSPC))


def test_whose_a_log_is_stays_known_though_its_file_rots() -> None:
    one = disks()
    one.data.make_directory("a-0")
    path = f"a-0/{PARTITION_METADATA}"
    run(one.data.replace(path, encode_partition_metadata(UUID(int=7))))
    label = label_of(one.data, "a-0")
    assert label.startswith("a-0/")
    for at in (0, 20):
        one.damage(path, at, b"!")
        assert label_of(one.data, "a-0") != label
        assert label_of(one.data, "a-0", one.before_damage) == label


@dataclass
class OneNode:
    """As much of a node as a disk's faults use."""

    disks: Disks
    has_power: bool = True

    def kill(self) -> None:
        self.disks.process_ended()


def decaying(one: Disks, replicas: int = 3, seed: int = 1) -> Stage:
    """A stage with this disk as the bad one."""
    world: Any = SimpleNamespace(bad_disk=1, nodes={1: OneNode(one)}, faults=Counter())
    return Stage(world, Mix(replicas=replicas), chance(seed))


def everything_on(one: Disks) -> dict[str, bytes]:
    found = {}
    for disk, directories in ((one.data, ("", "a-0")), (one.metadata, ("", "maps"))):
        for directory in directories:
            for name in disk.names(directory):
                path = f"{directory}/{name}".lstrip("/")
                if path not in {"a-0", "maps"}:
                    found[path] = bytes(disk.content(path))
    return found


def with_all_files(one: Disks) -> None:
    """A replica of two batches, of which one is below the recovery point, and its small files."""
    batch = bytes(build_batch([NewRecord(b"value", timestamp_ms=1)], BatchOptions()))
    second = bytearray(batch)
    set_place(memoryview(second), 1, len(batch) - LENGTH_OVERHEAD_BYTES, 0)
    one.data.make_directory("a-0")
    run(_synced(one, one.data.open(f"a-0/{0:020d}.log", create=True), batch + second))
    for name in (f"{0:020d}.index", f"{1:020d}.snapshot", EPOCH_CHECKPOINT, PARTITION_METADATA):
        run(one.data.replace(f"a-0/{name}", b"whatever"))
    run(one.data.replace(RECOVERY_POINTS, b"0\n1\na 0 1\n"))
    run(one.data.replace(META_PROPERTIES, b"whatever"))
    one.metadata.make_directory("maps")
    for name in ("session.json", "maps/a.json"):
        run(one.metadata.replace(name, b"whatever"))


ROTTING = {
    "tail rots": ".log",
    "batch header rots": ".log",
    "index rots": ".index",
    "snapshot rots": ".snapshot",
    "epochs rot": EPOCH_CHECKPOINT,
    "partition id rots": PARTITION_METADATA,
    "checkpoint rots": RECOVERY_POINTS,
    "identity rots": META_PROPERTIES,
    "session file rots": "session.json",
    "map rots": "maps/a.json",
}


@pytest.mark.parametrize("name", decay.ACTS)
def test_one_bit_of_the_named_file_rots(name: str) -> None:
    for seed in range(20):
        one = disks()
        with_all_files(one)
        before = everything_on(one)
        run(act(decaying(one, seed=seed), name))
        after = everything_on(one)
        (changed,) = [path for path in before if before[path] != after[path]]
        assert changed.endswith(ROTTING[name])
        bits = [a ^ b for a, b in zip(before[changed], after[changed], strict=True) if a != b]
        assert [one.bit_count() for one in bits] == [1]
        assert one.damaged == [changed]
        one.power_cut()
        assert everything_on(one)[changed] == after[changed]


@pytest.mark.parametrize("name", decay.ACTS)
def test_nothing_rots_that_has_no_copy(name: str) -> None:
    one = disks()
    with_all_files(one)
    before = everything_on(one)
    run(act(decaying(one, replicas=1), name))
    assert everything_on(one) == before


def test_the_tail_is_what_no_recovery_point_covers() -> None:
    """The second batch only: byte by byte, any of it that its checksum covers."""
    places = set()
    for seed in range(300):
        one = disks()
        with_all_files(one)
        before = everything_on(one)
        run(act(decaying(one, seed=seed), "tail rots"))
        path = f"a-0/{0:020d}.log"
        pairs = zip(before[path], everything_on(one)[path], strict=True)
        places |= {at for at, (old, new) in enumerate(pairs) if old != new}
    size_bytes = len(before[path]) // 2
    assert min(places) == size_bytes + 16
    assert max(places) == 2 * size_bytes - 1


def test_bytes_that_were_cut_do_not_rot_though_the_cut_is_not_durable() -> None:
    """As a follower's log is after a truncation: simulated seed 1001894."""
    one = disks()
    with_all_files(one)
    path = f"a-0/{0:020d}.log"
    size_bytes = len(one.data.content(path))
    one.data.open(path).truncate(size_bytes // 2)
    assert len(one.data.durable_content(path)) == size_bytes
    before = everything_on(one)
    run(act(decaying(one), "tail rots"))
    assert everything_on(one) == before


async def act(stage: Stage, name: str) -> None:
    await decay.ACTS[name](stage)


async def _synced(one: Disks, file: Any, data: bytes) -> None:
    file.append(data)
    await file.sync()
    await one.data.sync_directory("")


def test_every_change_of_a_disk_is_a_step() -> None:
    one = disks()
    seen: list[str] = []
    one.on_step = seen.append

    async def everything() -> None:
        one.data.make_directory("a")
        file = one.data.open("a/b", create=True)
        file.append(b"x")
        file.write_at(0, b"y")
        await file.sync()
        file.truncate(0)
        one.data.rename("a/b", "a/c")
        await one.data.sync_directory("a")
        await one.metadata.replace("d", b"")
        one.data.remove("a/c")

    run(everything())
    steps = "make_directory open append write_at sync truncate rename sync_directory replace remove"
    assert " ".join(seen) == steps


def test_who_dies_at_a_step_has_not_done_it() -> None:
    one = disks()
    file = one.data.open("0.log", create=True)
    file.append(b"before")
    one.on_step = lambda _: one.process_ended()
    with pytest.raises(memory_disk().PowerCutError):
        file.append(b"after")
    assert bytes(one.data.content("0.log")) == b"before"


# -- clocks


def test_a_clock_drifts_without_a_jump() -> None:
    async def drifting() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        clock = SimClock(loop, epoch_s=0.0)
        monotonic_s = clock.monotonic_s()
        await asyncio.sleep(10.0)
        clock.run_at(2.0, 1.25)
        assert clock.now_ms() == pytest.approx(10_000)
        await clock.sleep(12.5)  # ten true seconds
        assert clock.now_ms() == pytest.approx(30_000)
        clock.run_at(1.0, 1.0)
        await asyncio.sleep(10.0)
        assert clock.now_ms() == pytest.approx(40_000)
        assert clock.monotonic_s() - monotonic_s == pytest.approx(32.5)

    run(drifting())


# -- processes


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_process_ends_after_so_many_steps(steps: int) -> None:
    done: list[int] = []

    async def life() -> None:
        while True:
            done.append(1)
            await asyncio.sleep(0)

    async def world() -> None:
        process = Process("p", "h")

        def end() -> None:
            process.is_alive = False

        process.steps_left, process.on_last_step = steps, end
        task = process.spawn(life())
        await asyncio.sleep(1.0)
        assert len(done) == steps
        assert not process.is_alive
        process.is_alive = True
        asyncio.get_running_loop().resume(process)  # type: ignore[attr-defined]
        task.cancel()
        await asyncio.wait({task})

    run(world())


# -- connections


class Received(asyncio.Protocol):
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.data = b""
        self.is_lost = False
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


def test_a_hung_connection_says_nothing_and_another_one_works() -> None:
    async def world() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        network = Network(loop, chance())
        ends = await accepted_by_a_server(network)
        first, _ = await network.connect(Received, "s", 1)
        first.write(b"before")
        await asyncio.sleep(1.0)
        assert network.hang_some(1.0) > 0
        first.write(b"after")
        ends[0].transport.write(b"back")
        second, _ = await network.connect(Received, "s", 1)
        second.write(b"new")
        await asyncio.sleep(100.0)
        assert [one.data for one in ends] == [b"before", b"new"]
        assert not any(one.is_lost for one in ends)

    run(world())


async def with_a_broker(loop: SimLoop) -> tuple[Network, Process]:
    """A network with a process that listens at b:1; the caller is a client from now on."""
    network = Network(loop, chance())
    broker = Process("broker", "b")
    server = broker.context.run(network.listen, Received, 1)
    await server.start_serving()
    PROCESS.set(Process("client", "c"))
    return network, broker


def lose_power(network: Network, broker: Process) -> None:
    broker.is_alive = False
    network.ended(broker, silently=True)


def test_who_closes_a_connection_to_a_machine_that_lost_power_has_given_it_up() -> None:
    """Its client waited for an answer that could not come, also when the power was back already."""

    async def world() -> None:
        network, broker = await with_a_broker(loop)
        sound, _ = await network.connect(Received, "b", 1)
        sound.close()
        assert network.given_up == []
        stale, _ = await network.connect(Received, "b", 1)
        lose_power(network, broker)
        stale.write(b"unanswered")
        await asyncio.sleep(1.0)
        stale.abort()
        assert network.given_up == [("client", loop.time())]

    loop = SimLoop()
    run(world(), loop)


def test_after_a_reset_nobody_gives_up_any_more() -> None:
    async def world() -> None:
        network, broker = await with_a_broker(loop)
        stale, received = await network.connect(Received, "b", 1)
        lose_power(network, broker)
        await asyncio.sleep(60.0)
        assert received.is_lost
        stale.close()
        assert network.given_up == []

    loop = SimLoop()
    run(world(), loop)


def test_who_dials_a_machine_without_power_gives_up_after_a_while() -> None:
    async def world() -> None:
        network = Network(loop, chance())
        PROCESS.set(Process("client", "c"))
        with pytest.raises(ConnectionRefusedError):
            await network.connect(Received, "b", 1)
        assert network.given_up == []
        network.without_power.add("b")
        with pytest.raises(TimeoutError):
            await network.connect(Received, "b", 1)
        assert network.given_up == [("client", loop.time())]

    loop = SimLoop()
    run(world(), loop)


async def accepted_by_a_server(network: Network) -> list[Received]:
    """The server's ends of the connections to `s`, as they come; the caller is a client on `c`."""
    ends: list[Received] = []

    def accept() -> Received:
        ends.append(Received())
        return ends[-1]

    server = Process("server", "s").context.run(network.listen, accept, 1)
    await server.start_serving()
    PROCESS.set(Process("client", "c"))
    return ends


def test_on_a_slow_way_all_comes_later_and_none_after_healing() -> None:
    async def world() -> None:
        network = Network(loop, chance())
        ends = await accepted_by_a_server(network)
        one, _ = await network.connect(Received, "s", 1)
        network.slow_ways_s["c", "s"] = 10.0
        one.write(b"late")
        await asyncio.sleep(9.0)
        assert ends[0].data == b""
        await asyncio.sleep(2.0)
        assert ends[0].data == b"late"
        network.heal()
        one.write(b" soon")
        await asyncio.sleep(1.0)
        assert ends[0].data == b"late soon"

    loop = SimLoop()
    run(world(), loop)


def test_what_a_slow_connection_sends_is_overtaken_on_another() -> None:
    async def world() -> None:
        network = Network(loop, chance())
        ends = await accepted_by_a_server(network)
        slow, _ = await network.connect(Received, "s", 1)
        fast, _ = await network.connect(Received, "s", 1)
        assert network.ends_at("c", {"s"}) == [slow, fast]
        assert network.ends_at("c", {"x"}) == network.ends_at("x", {"s"}) == []
        network.slow_ends_s[slow] = 10.0
        slow.write(b"first")
        fast.write(b"second")
        await asyncio.sleep(9.0)
        assert [one.data for one in ends] == [b"", b"second"]
        await asyncio.sleep(2.0)
        assert [one.data for one in ends] == [b"first", b"second"]
        network.heal()
        slow.write(b" third")
        await asyncio.sleep(1.0)
        assert ends[0].data == b"first third"

    loop = SimLoop()
    run(world(), loop)


def test_no_seed_draws_what_is_directed() -> None:
    assert DIRECTED
    assert not set(DIRECTED) & set(FAULT_NAMES)


# -- etcd


def made(store: ApiStore, name: str) -> Manifest:
    return store.create(kinds.TOPICS, {"metadata": {"name": name}})


@pytest.mark.parametrize("bump", [0, 1000])
def test_a_restored_store_is_what_it_was(bump: int) -> None:
    store = ApiStore(now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    before = made(store, "kept")
    copy = store.backup()
    store.patch(kinds.TOPICS, key_of(before), {"spec": {"partitions": 2}})
    lost = made(store, "lost")
    version = store.version
    store.restore(copy, bump=bump)
    assert store.all_of(kinds.TOPICS) == [before]
    assert store.version == (version + bump if bump else copy.version)
    assert made(store, "new")["metadata"]["uid"] != lost["metadata"]["uid"]
    if bump:
        with pytest.raises(Gone):
            store.since(version)
    else:
        assert store.since(version) == [], "a watch from the future hears nothing"


def test_a_bump_leaves_no_object_ahead_of_the_store() -> None:
    """A copy of a time at which versions were higher than they are now."""
    store = ApiStore(now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    first = store.backup()
    for number in range(9):
        made(store, f"one-{number}")
    second = store.backup()
    store.restore(first)
    store.restore(second, bump=5)
    assert all(int(one["metadata"]["resourceVersion"]) < store.version for one in topics(store))


def topics(store: ApiStore) -> list[Manifest]:
    return store.all_of(kinds.TOPICS)


# -- the way to the API server


def test_a_late_write_is_carried_out_when_its_sender_has_given_up() -> None:
    loop = SimLoop()
    store = ApiStore(now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    server = ApiServer(loop, store, Network(loop, chance()), chance(), Counter())
    server.late_share = 1.0
    topic = {"metadata": {"name": "late"}}

    async def world() -> None:
        creating = server.client("somebody").create(kinds.TOPICS, topic, field_manager="me")
        sender = asyncio.ensure_future(creating)
        await asyncio.sleep(0.01)
        sender.cancel()
        assert store.all_of(kinds.TOPICS) == []
        await asyncio.sleep(LATEST_S)
        assert [one["metadata"]["name"] for one in store.all_of(kinds.TOPICS)] == ["late"]

    run(world(), loop)
