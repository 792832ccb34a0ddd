"""One budget for what connections hold: nobody is let over it, and nobody keeps others out."""

import asyncio
import struct
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.server import file_sending, memory
from chiplog_broker.server.memory import FREE_BYTES, PATIENCE_S, Account, MemoryBudget
from chiplog_core.broker_shares import MIB, memory_shares
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

HANG_GUARD_S = 5 * 0.5
"""Five times what a client may have to wait beside an attack."""
SMALL = {"chiplog_memory_bytes": str(32 * MIB)}
"""8 MiB for all clients together."""


class Peer:
    """A connection, as the budget sees it."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.frames_in = 0
        self.is_dropped = False
        self.was_granted = False
        self.account = Account(budget, self)

    def trim(self) -> None:
        """Nothing is kept for later."""

    def abort(self) -> None:
        self.is_dropped = True

    def asks(self, size_bytes: int) -> bool:
        return self.account.claim(FREE_BYTES + size_bytes, self.granted)

    def granted(self) -> None:
        self.was_granted = True


async def one_look(budget: MemoryBudget) -> None:
    """Until the budget has looked who is in the way."""
    timer = budget._timer
    assert timer is not None, "nobody waits"
    for _ in range(1000):
        if budget._timer is not timer:
            await asyncio.sleep(0)
            return
        await asyncio.sleep(PATIENCE_S / 10)
    pytest.fail("it does not look")


def test_who_holds_most_for_longest_has_to_go() -> None:
    async def scenario() -> None:
        budget = MemoryBudget(100)
        large, small, newcomer = (Peer(budget) for _ in range(3))
        assert large.asks(60)
        assert small.asks(30)
        assert not newcomer.asks(40)
        await one_look(budget)
        assert large.is_dropped
        assert newcomer.was_granted
        assert not small.is_dropped
        assert not newcomer.is_dropped
        assert budget.taken_bytes == 70
        assert budget.evictions == 1

    asyncio.run(scenario())


def test_who_gets_something_done_is_left_alone() -> None:
    async def scenario() -> None:
        budget = MemoryBudget(100)
        busy, stuck, newcomer = (Peer(budget) for _ in range(3))
        assert busy.asks(60)
        assert stuck.asks(40)
        assert not newcomer.asks(10)
        busy.frames_in += 1
        await one_look(budget)
        assert stuck.is_dropped
        assert newcomer.was_granted
        assert not busy.is_dropped

    asyncio.run(scenario())


def test_who_waits_is_served_in_order_as_soon_as_there_is_room() -> None:
    async def scenario() -> None:
        budget = MemoryBudget(100)
        first, second, third = (Peer(budget) for _ in range(3))
        assert first.asks(90)
        assert not second.asks(50)
        assert not third.asks(5), "there would be room, but others wait already"
        first.account.close()
        await asyncio.sleep(0)
        assert second.was_granted
        assert third.was_granted
        assert budget.taken_bytes == 55
        assert budget.evictions == 0

    asyncio.run(scenario())


def test_a_broker_neither_waits_nor_has_to_go() -> None:
    """Strangers before their login are what the internal listener's budget is for."""

    async def scenario() -> None:
        budget = MemoryBudget(100)
        broker, stranger, newcomer = (Peer(budget) for _ in range(3))
        broker.account.is_trusted = True
        assert broker.asks(1000)
        broker.account.holds(FREE_BYTES + 90)
        assert stranger.asks(10)
        assert not newcomer.asks(5)
        await one_look(budget)
        assert stranger.is_dropped
        assert newcomer.was_granted
        assert not broker.is_dropped

    asyncio.run(scenario())


def test_what_a_connection_held_is_given_back_when_it_is_gone() -> None:
    async def scenario() -> None:
        budget = MemoryBudget(MIB)
        peer = Peer(budget)
        assert peer.asks(1000)
        peer.account.answer_made(20_000)
        peer.account.unsent(30_000)
        assert budget.taken_bytes == 51_000
        peer.account.written()
        assert budget.taken_bytes == 31_000
        peer.account.close()
        peer.account.answer_made(20_000)
        peer.account.unsent(0)
        peer.account.holds(MIB)
        assert budget.taken_bytes == peer.account.held_bytes == 0

    asyncio.run(scenario())


def test_an_answer_that_was_ready_when_its_connection_went_is_given_back_once() -> None:
    async def scenario() -> None:
        budget = MemoryBudget(MIB)
        peer = Peer(budget)
        peer.account.answer_made(20_000)
        peer.account.close()
        # The answer's own callback comes after the end of its connection.
        peer.account.written()
        assert budget.taken_bytes == peer.account.held_bytes == 0
        assert not budget._holders

    asyncio.run(scenario())


@pytest.mark.parametrize("memory_mib", [128, 256, 1024, 24 * 1024])
def test_the_shares_together_leave_room_for_the_process_itself(memory_mib: int) -> None:
    found = memory_shares(memory_mib * MIB)
    connections_bytes = found.connections * (FREE_BYTES + 6 * 1024)
    sessions_bytes = found.session_partitions * 350
    together = (
        found.clients_bytes
        + found.brokers_bytes
        + connections_bytes
        + sessions_bytes
        + found.freed_bytes
    )
    assert together <= memory_mib * MIB * (0.62 if memory_mib >= 256 else 0.75)


async def half_a_frame(client: "Client", size_bytes: int) -> None:
    """All but the last kilobyte of a Produce, without waiting until it is taken."""
    header = struct.pack(">ihhih", size_bytes, ApiKey.PRODUCE, 9, 1, -1)
    client.writer.write(header + bytes(size_bytes - 1024))
    await asyncio.sleep(0)


def test_requests_that_do_not_end_stay_within_the_budget_and_keep_nobody_out(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(**SMALL) as client:
            await client.create("orders")
            (budget, _) = kit.broker.requests.budgets
            others = [await kit.client() for _ in range(20)]
            for other in others:
                await half_a_frame(other, 3 * MIB)
            for _ in range(5):
                answer = client.produce("orders", kit.batch(b"x" * 500_000))
                await asyncio.wait_for(answer, HANG_GUARD_S)
                assert budget.taken_bytes <= budget.limit_bytes
            assert budget.evictions > 0
            assert not client.writer.is_closing()
            for other in others:
                other.writer.transport.abort()

    kit.run(scenario)


def test_a_request_that_never_fits_closes_its_connection(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(**SMALL):
            one = await kit.client()
            one.writer.write(struct.pack(">i", 5 * MIB))
            assert await one.is_closed()

    kit.run(scenario)


def test_sleepers_that_wake_together_stay_within_the_budget(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was told of the room that there was when it went to sleep."""
    monkeypatch.setattr(file_sending, "SENDFILE_FROM_BYTES", 2**40)

    async def scenario() -> None:
        async with kit.running(**SMALL) as client:
            await client.create("orders")
            value = kit.batch(b"x" * 500_000)
            for _ in range(8):
                await client.produce("orders", value)
            topic_id = await client.topic_id("orders")
            (budget, _) = kit.broker.requests.budgets
            deaf = [await kit.client() for _ in range(12)]
            for one in deaf:
                one.writer.transport.pause_reading()  # type: ignore[attr-defined]
                await one.send(
                    ApiKey.FETCH,
                    one.fetch_request(
                        topic_id,
                        (0, 0),
                        wait_ms=200,
                        min_bytes=2**30,
                        max_bytes=2**30,
                        partition_max_bytes=2**30,
                    ),
                )
            most = 0
            for _ in range(40):
                await asyncio.sleep(0.01)
                most = max(most, budget.taken_bytes)
            assert most <= budget.limit_bytes, f"{most / MIB:.1f} MiB"
            ((code, _),) = await asyncio.wait_for(
                client.fetch(topic_id, (0, 0), wait_ms=100), HANG_GUARD_S
            )
            assert code is ErrorCode.none
            for one in deaf:
                one.writer.transport.abort()

    kit.run(scenario)


def test_a_busy_connection_releases_memory_that_others_wait_for(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else those that come first keep their buffers, and the others get nothing done at all."""
    monkeypatch.setattr(memory, "PATIENCE_S", 600.0)  # nobody is made to leave

    async def scenario() -> None:
        async with kit.running(**SMALL) as client:
            await client.create("orders", 1, **{"max.message.bytes": str(8 * MIB)})
            (budget, _) = kit.broker.requests.budgets
            large = b"".join(produce_frame("orders", bytes(kit.batch(b"x" * 1_500_000))))
            small = b"".join(produce_frame("orders", bytes(kit.batch(b"x"))))
            busy = [await kit.client() for _ in range(5)]
            for one in busy:
                one.writer.write(large + small[:20])
                await answered(one)
            assert budget.taken_bytes > 5 * 1_400_000
            newcomer = await kit.client()
            newcomer.writer.write(large)
            while not budget._waiting:  # noqa: ASYNC110 - nobody is told of it
                await asyncio.sleep(0.001)
            for one in busy:
                one.writer.write(small[20:])
                await answered(one)
            await asyncio.wait_for(answered(newcomer), HANG_GUARD_S)

    kit.run(scenario)


async def answered(client: "Client") -> None:
    """Take an answer as it comes."""
    size = struct.unpack(">i", await client.reader.readexactly(4))[0]
    await client.reader.readexactly(size)


def test_a_slow_client_that_is_honest_gets_its_answer_beside_an_attack(kit: "Kit") -> None:
    """Its request takes ten times as long as the budget is patient."""

    async def scenario() -> None:
        async with kit.running(**SMALL) as client:
            await client.create("orders")
            (budget, _) = kit.broker.requests.budgets
            strangers = [await kit.client() for _ in range(20)]
            for stranger in strangers:
                await half_a_frame(stranger, 3 * MIB)
            slow = await kit.client()
            frame = b"".join(produce_frame("orders", bytes(kit.batch(b"x" * 100_000))))
            step = len(frame) // 10
            for at in range(0, len(frame), step):
                slow.writer.write(frame[at : at + step])
                await asyncio.sleep(PATIENCE_S)
            size = struct.unpack(">i", await slow.reader.readexactly(4))[0]
            assert await slow.reader.readexactly(size)
            assert budget.evictions > 0
            for stranger in strangers:
                stranger.writer.transport.abort()

    kit.run(scenario)


def produce_frame(topic: str, records: bytes) -> tuple[bytes, bytes]:
    """The length and the rest of a Produce in version 8, with acks=all."""
    name = topic.encode()
    body = (
        struct.pack(">hhih", ApiKey.PRODUCE, 8, 7, -1)
        + struct.pack(">hhi", -1, -1, 30_000)
        + struct.pack(">ih", 1, len(name))
        + name
        + struct.pack(">iii", 1, 0, len(records))
        + records
    )
    return struct.pack(">i", len(body)), body


def test_what_clients_hold_does_not_count_for_brokers(kit: "Kit") -> None:
    """Replication goes on while clients have used up their budget."""

    async def scenario() -> None:
        async with kit.running(**SMALL):
            clients, brokers = kit.broker.requests.budgets
            greedy = Peer(clients)
            assert greedy.asks(clients.limit_bytes)
            assert clients.available_bytes == 0
            follower = Peer(brokers)
            assert follower.asks(MIB)
            greedy.account.close()
            follower.account.close()

    kit.run(scenario)
