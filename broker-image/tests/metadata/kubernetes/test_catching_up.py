"""Much to copy: after a stop in the middle, after damage, in turns and in bounded memory."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from chiplog_wire.protocol.errors import ErrorCode
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, run


async def damaged(brokers: Brokers, broker_id: int) -> None:
    """Stop a broker whose disk then loses a bit of what was durable."""
    data = brokers.directory / str(broker_id) / "data"
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


def test_what_was_damaged_is_fetched_again(brokers: Brokers) -> None:
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
        stray = [one.name for one in (brokers.directory / "3/data").glob("orders-0.*-stray")]
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
        shutil.rmtree(brokers.directory / "3")
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
