"""Consumers that name a rack read from the in-sync replica there (KIP-392)."""

import asyncio

import pytest

from chiplog_core.config.broker_keys import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, pieces_of, run
from tests.metadata.kubernetes.racks_kit import (
    NOBODY,
    RACK_AWARE,
    RackConsumer,
    consumer,
    preferred,
    start,
    started,
    until_sent,
)

OK = ErrorCode.none
ELSEWHERE = ErrorCode.not_leader_or_follower
FOR_EVER = 100_000
"""How long fetches wait that a test ends by something else, in milliseconds."""
SOON_S = 20.0


def test_the_leader_sends_consumers_to_the_follower_in_their_rack(brokers: Brokers) -> None:
    async def scenario() -> None:
        await started(brokers)
        await brokers.produce(1, b"one", b"two")
        await until_sent(brokers, 2, rack="zone-b", to=2)
        reader = await consumer(brokers, 1)
        # At once, however long it would wait for records, and wherever in the log it is.
        for offset in (0, 1, 2):
            async with asyncio.timeout(SOON_S):
                found = await reader.fetch(offset, "zone-b", wait_ms=FOR_EVER, min_bytes=10**6)
            assert (found.error_code, found.preferred_read_replica) == (OK, 2)
            assert not found.records
            assert (found.high_watermark, found.last_stable_offset) == (2, 2)
            assert found.log_start_offset == 0
        assert await preferred(reader, 0, "zone-c") == 3
        assert brokers.up[1].replica().counters.sent_to_followers >= 4

    run(brokers, scenario)


def test_who_is_sent_nowhere(brokers: Brokers) -> None:
    async def scenario() -> None:
        await started(brokers)
        await brokers.produce(1, b"one")
        await until_sent(brokers, 1, rack="zone-b", to=2)
        reader = await consumer(brokers, 1)
        # No rack, the leader's own rack, a rack without a broker.
        for rack in ("", "zone-a", "zone-x"):
            found = await reader.fetch(0, rack)
            assert found.preferred_read_replica == NOBODY, rack
            assert found.records, rack
        assert (await reader.old_fetch(0)).records
        # Nobody has what is beyond the end; what the leader says counts.
        found = await reader.fetch(2, "zone-b")
        assert found.error_code == ErrorCode.offset_out_of_range
        found = await reader.fetch(0, "zone-b", epoch=brokers.epoch + 1)
        assert found.error_code == ErrorCode.unknown_leader_epoch

    run(brokers, scenario)


def test_without_the_setting_the_leader_answers_itself(brokers: Brokers) -> None:
    async def scenario() -> None:
        await started(brokers, replica_fetch_wait_max_ms="500")
        await brokers.produce(1, b"one")
        await brokers.equal(1)
        reader = await consumer(brokers, 1)
        found = await reader.fetch(0, "zone-b")
        assert found.preferred_read_replica == NOBODY
        assert found.records
        # It takes effect without a restart, and stops as it began.
        brokers.operator.write_broker(
            1, config={"replica.selector.class": RACK_AWARE["replica_selector_class"]}
        )
        await until_sent(brokers, 0, rack="zone-b", to=2)
        brokers.operator.write_broker(1, config={"replica.selector.class": None})
        await until_sent(brokers, 0, rack="zone-b", to=NOBODY)

    run(brokers, scenario)


async def current(reader: RackConsumer, offset: int = 0, end: int = 1) -> None:
    """Until this follower serves all records before `end`."""
    found = await reader.fetch(offset, "zone-b")
    while found.error_code != OK or found.high_watermark < end:
        found = await reader.fetch(offset, "zone-b")


def test_a_follower_serves_what_is_acknowledged(brokers: Brokers) -> None:
    async def scenario() -> None:
        await started(brokers)
        for number in range(3):
            await brokers.produce(1, b"%d" % number)
        reader = await consumer(brokers, 2)
        await brokers.eventually(lambda: brokers.up[2].replica().high_watermark == 3)
        await current(reader)
        found = await reader.fetch(0, "zone-b", epoch=brokers.epoch)
        assert bytes(found.records) == b"".join(pieces_of(brokers.up[1].replica()))
        assert (found.high_watermark, found.last_stable_offset) == (3, 3)
        assert found.preferred_read_replica == NOBODY
        counters = brokers.up[2].replica().counters
        assert counters.follower_bytes_out >= len(found.records)
        exposed = (await brokers.up[2].broker.exposition().text()).decode()
        told = f'_follower_bytesout_total{{topic="orders"}} {counters.follower_bytes_out}\n'
        assert f"\nchiplog_broker{told}" in exposed
        # A reign that is over, and one that this broker has not heard of.
        found = await reader.fetch(0, "zone-b", epoch=brokers.epoch - 1)
        assert found.error_code == ErrorCode.fenced_leader_epoch
        found = await reader.fetch(0, "zone-b", epoch=brokers.epoch + 1)
        assert found.error_code == ErrorCode.unknown_leader_epoch
        # Whoever names no rack was not sent here.
        assert (await reader.fetch(0, "")).error_code == ELSEWHERE
        assert (await reader.old_fetch(0)).error_code == ELSEWHERE

    run(brokers, scenario)


def test_a_follower_shows_nothing_above_its_high_watermark(brokers: Brokers) -> None:
    async def scenario() -> None:
        await started(brokers)
        await brokers.produce(1, b"safe")
        await brokers.eventually(lambda: brokers.up[2].replica().high_watermark == 1)
        # Broker 3 is listed and away: nothing becomes safe.
        await brokers.stop(3)
        await brokers.produce(1, b"not safe", acks=1)
        await brokers.eventually(lambda: brokers.up[2].replica().log.end_offset == 2)
        reader = await consumer(brokers, 2)
        found = await reader.fetch(0, "zone-b")
        assert (found.error_code, found.high_watermark) == (OK, 1)
        assert b"not safe" not in found.records
        # As at a leader (and at Kafka's followers): there may be records soon.
        for offset in (1, 2):
            found = await reader.fetch(offset, "zone-b")
            assert (found.error_code, bytes(found.records or b"")) == (OK, b"")
        # What the leader may have and this broker not is no reason to start anew somewhere.
        found = await reader.fetch(3, "zone-b", wait_ms=FOR_EVER)
        assert found.error_code == ErrorCode.offset_not_available
        found = await reader.fetch(-5, "zone-b", wait_ms=FOR_EVER)
        assert found.error_code == ErrorCode.offset_out_of_range

    run(brokers, scenario)


def test_below_the_log_start_a_follower_says_out_of_range(brokers: Brokers) -> None:
    async def scenario() -> None:
        await started(brokers)
        for number in range(3):
            await brokers.produce(1, b"%d" % number)
        client = await brokers.client(1)
        await brokers.eventually(lambda: brokers.up[1].replica().high_watermark == 3)
        assert await client.delete_records("orders", 2) == (OK, 2)
        await brokers.eventually(lambda: brokers.up[2].replica().log.log_start_offset == 2)
        reader = await consumer(brokers, 2)
        await current(reader, 2)
        assert (await reader.fetch(1, "zone-b")).error_code == ErrorCode.offset_out_of_range
        found = await reader.fetch(2, "zone-b")
        assert (found.error_code, found.log_start_offset) == (OK, 2)
        # And nobody is sent to where that offset is not any more.
        found = await (await consumer(brokers, 1)).fetch(1, "zone-b")
        assert found.error_code == ErrorCode.offset_out_of_range

    run(brokers, scenario)


def test_a_fetch_that_waits_on_a_follower_is_woken(brokers: Brokers) -> None:
    """As soon as records are safe: followers' own fetches would wait for minutes."""

    async def scenario() -> None:
        await started(brokers, **RACK_AWARE, replica_fetch_wait_max_ms=str(FOR_EVER))
        await brokers.produce(1, b"0")
        readers = [await consumer(brokers, broker_id) for broker_id in (2, 3)]
        for reader in readers:
            await current(reader, 1)
        for offset in range(1, 6):
            for reader in readers:
                await reader.send(offset, "zone-b", wait_ms=FOR_EVER, epoch=brokers.epoch)
            assert await brokers.produce(1, b"%d" % offset) == offset
            for reader in readers:
                async with asyncio.timeout(SOON_S):
                    found = await reader.receive()
                assert (found.error_code, found.high_watermark) == (OK, offset + 1)
                assert found.records

    run(brokers, scenario)


@pytest.mark.parametrize(("selector", "fetches"), [(LEADER_SELECTOR, 1), (RACK_AWARE_SELECTOR, 2)])
def test_what_it_costs_that_followers_hear_what_is_safe(
    brokers: Brokers, selector: str, fetches: int
) -> None:
    """One fetch of each follower for a batch; one more at most, where they have readers."""

    async def scenario() -> None:
        config = {"replica_selector_class": selector, "replica_fetch_wait_max_ms": str(FOR_EVER)}
        await start(brokers, *ALL, **config)
        brokers.lead(1, minIsr=2, durability="PageCache")
        await brokers.settled(1)
        for number in range(3):
            await brokers.produce(1, b"%d" % number)
        counted = brokers.up[1].broker.requests.apis[ApiKey.FETCH].latency
        before, batches = counted.total, 20
        for number in range(batches):
            await brokers.produce(1, b"%d" % number)
        # Two followers, each with what was under way when the counting began.
        assert counted.total - before <= 2 * (fetches * batches + 1)

    run(brokers, scenario)


def high_watermark(brokers: Brokers, broker_id: int) -> int:
    return brokers.up[broker_id].replica().high_watermark


def test_sessions_say_where_to_read_and_continue_there(brokers: Brokers) -> None:
    async def scenario() -> None:
        await started(brokers)
        await brokers.produce(1, b"0")
        await until_sent(brokers, 1, rack="zone-b", to=2)
        at_leader, at_follower = [await consumer(brokers, one) for one in (1, 2)]
        # A session that began before anybody was sent away.
        at_leader.session = at_follower.session = (0, 0)
        found = await at_leader.fetch(1, "")
        assert (found.preferred_read_replica, found.high_watermark) == (NOBODY, 1)
        for _ in range(2):
            found = await at_leader.fetch(1, "zone-b", wait_ms=FOR_EVER)
            assert (found.preferred_read_replica, found.high_watermark) == (2, 1)
        at_follower.session = (0, -1)
        await current(at_follower)
        at_follower.session = (0, 0)
        found = await at_follower.fetch(0, "zone-b", epoch=brokers.epoch)
        assert found.records
        assert await at_follower.fetch(1, "zone-b", epoch=brokers.epoch) is None
        for offset in range(1, 4):
            # Nothing but the session's own change of position.
            await at_follower.send(offset, "zone-b", wait_ms=FOR_EVER, epoch=brokers.epoch)
            await brokers.produce(1, b"%d" % offset)
            async with asyncio.timeout(SOON_S):
                found = await at_follower.receive()
            assert (found.error_code, found.high_watermark) == (OK, offset + 1)
            assert found.records
        # It is told of a new reign, too.
        await at_follower.send(4, "zone-b", wait_ms=FOR_EVER)
        brokers.lead(3, minIsr=2)
        async with asyncio.timeout(SOON_S):
            found = await at_follower.receive()
        assert found.error_code in (ErrorCode.fenced_leader_epoch, ELSEWHERE)

    run(brokers, scenario)


async def reading_in_zone_c(brokers: Brokers) -> RackConsumer:
    """One that its leader has sent to broker 3, and that has read there."""
    await started(brokers)
    await brokers.produce(1, b"0")
    await until_sent(brokers, 1, rack="zone-c", to=3)
    reader = await consumer(brokers, 3)
    await current(reader)
    return reader


def test_a_replica_that_is_not_in_sync_is_not_read_from(brokers: Brokers) -> None:
    async def scenario() -> None:
        reader = await reading_in_zone_c(brokers)
        brokers.lead(1, isr=(1, 2), minIsr=2)
        await brokers.settled(1)
        assert await preferred(await consumer(brokers, 1), 0, "zone-c") == NOBODY
        # Whoever reads there already may go on while it has all that is acknowledged.
        await current(reader)
        following = brokers.up[3].replica().following
        assert following is not None
        following.leader_high_watermark = 2
        assert (await reader.fetch(0, "zone-c")).error_code == ELSEWHERE
        brokers.lead(1, minIsr=2)
        await brokers.settled(1)
        await until_sent(brokers, 1, rack="zone-c", to=3)
        await current(reader)

    run(brokers, scenario)


def test_a_fenced_broker_serves_nobody(brokers: Brokers) -> None:
    async def scenario() -> None:
        reader = await reading_in_zone_c(brokers)
        brokers.fence(3)
        await until_sent(brokers, 1, rack="zone-c", to=NOBODY)
        while (await reader.fetch(0, "zone-c")).error_code != ELSEWHERE:
            pass

    run(brokers, scenario)


def test_a_follower_that_its_leader_does_not_answer_serves_nobody(brokers: Brokers) -> None:
    async def scenario() -> None:
        await started(brokers, **RACK_AWARE, replica_lag_time_max_ms="1500")
        await brokers.produce(1, b"0")
        await until_sent(brokers, 1, rack="zone-b", to=2)
        reader = await consumer(brokers, 2)
        await current(reader)
        # Also for one that goes on in a session, in which nothing changes.
        polling = await consumer(brokers, 2)
        polling.session = (0, 0)
        assert (await polling.fetch(0, "zone-b")).records
        assert await polling.fetch(1, "zone-b") is None
        await brokers.stop(1)
        while (await reader.fetch(0, "zone-b")).error_code != ELSEWHERE:
            pass
        assert (await polling.fetch(None, "zone-b")).error_code == ELSEWHERE

    run(brokers, scenario)


def test_a_follower_that_has_halted_or_lost_its_disk_serves_nobody(brokers: Brokers) -> None:
    async def scenario() -> None:
        await started(brokers)
        await brokers.produce(1, b"0")
        readers = {one: await consumer(brokers, one) for one in (2, 3)}
        for reader in readers.values():
            await current(reader)
        waits = {one: await consumer(brokers, one) for one in (2, 3)}
        await brokers.eventually(lambda: [high_watermark(brokers, one) for one in ALL] == [1, 1, 1])
        for waiting in waits.values():
            await waiting.send(1, "zone-b", wait_ms=FOR_EVER)
        following = brokers.up[2].replica().following
        assert following is not None
        following._end_following("halted, says this test")
        brokers.up[3].replica().go_offline("no disk, says this test")
        codes = {2: ELSEWHERE, 3: ErrorCode.kafka_storage_error}
        for one, code in codes.items():
            assert (await readers[one].fetch(0, "zone-b")).error_code == code
            async with asyncio.timeout(SOON_S):
                assert (await waits[one].receive()).error_code == code

    run(brokers, scenario)


def test_a_leader_that_cannot_know_yet_sends_nobody_away(brokers: Brokers) -> None:
    """Before its high watermark covers what the leader before acknowledged."""

    async def scenario() -> None:
        await started(brokers)
        await brokers.produce(1, b"safe")
        await until_sent(brokers, 1, rack="zone-b", to=2)
        await brokers.stop(3)
        await brokers.produce(1, b"not safe", acks=1)
        await brokers.eventually(lambda: brokers.up[2].replica().log.end_offset == 2)
        brokers.lead(2, minIsr=2)
        await brokers.settled(2)
        assert not brokers.up[2].replica().high_watermark_is_current
        reader = await consumer(brokers, 2)
        known = brokers.up[2].replica().followers
        assert known is not None
        await brokers.eventually(
            lambda: any(one.has_valid_high_watermark for one in known._followers.values())
        )
        assert await preferred(reader, 0, "zone-a") == NOBODY
        await start(brokers, 3, **RACK_AWARE)
        brokers.lead(2, minIsr=2)
        await brokers.settled(2)
        await until_sent(brokers, 2, rack="zone-a", to=1, leader=2)

    run(brokers, scenario)


def test_a_follower_that_becomes_leader_continues_serving(brokers: Brokers) -> None:
    async def scenario() -> None:
        await started(brokers)
        await brokers.produce(1, b"0")
        reader = await consumer(brokers, 2)
        await current(reader)
        await brokers.eventually(lambda: high_watermark(brokers, 2) == 1)
        await reader.send(1, "zone-b", wait_ms=FOR_EVER)
        brokers.lead(2, minIsr=2)
        await brokers.settled(2)
        await brokers.produce(2, b"1")
        async with asyncio.timeout(SOON_S):
            found = await reader.receive()
        assert found.error_code in (OK, ELSEWHERE)
        found = await reader.fetch(1, "zone-b")
        assert (found.error_code, found.preferred_read_replica) == (OK, NOBODY)
        assert found.records

    run(brokers, scenario)
