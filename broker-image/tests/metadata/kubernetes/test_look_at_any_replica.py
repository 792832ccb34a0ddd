"""Consumers that say replica id -2 look at the very replica that they ask, whatever its part is."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from chiplog_broker.handlers.leaders import DEBUGGING_CONSUMER_ID
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, pieces_of, run
from tests.metadata.kubernetes.racks_kit import consumer

if TYPE_CHECKING:
    from tests.conftest import Client

OK = ErrorCode.none
ELSEWHERE = ErrorCode.not_leader_or_follower
CONSUMER_ID = -1
LATEST, EARLIEST = -1, -2


class Looker:
    """A client of one broker that says who it is."""

    def __init__(self, client: "Client", topic_id: UUID, replica_id: int) -> None:
        self.client = client
        self.topic_id = topic_id
        self.replica_id = replica_id

    async def fetch(self, offset: int, *, epoch: int = -1, version: int = 16) -> Any:
        """What the broker has from there on, by the newest version or an older one."""
        if version < 12:
            return await self._old_fetch(offset, version)
        request = self.client.fetch_request(self.topic_id, (0, offset))
        state = type(request.replica_state)(replica_id=self.replica_id)
        (topic,) = request.topics
        (one,) = topic.partitions
        topic = replace(topic, partitions=(replace(one, current_leader_epoch=epoch),))
        request = replace(request, replica_state=state, topics=(topic,))
        answer = await self.client.ask(ApiKey.FETCH, request)
        return answer.responses[0].partitions[0]

    async def _old_fetch(self, offset: int, version: int) -> Any:
        newest = self.client.fetch_request(self.topic_id, (0, offset))
        types = self.client.types(ApiKey.FETCH, version)
        values = {
            "replica_id": self.replica_id,
            "max_wait": newest.max_wait,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "forgotten_topics_data": (),
        }
        if version >= 11:
            values["rack_id"] = ""
        partition = types.FetchPartition(
            partition=0,
            current_leader_epoch=-1,
            fetch_offset=offset,
            log_start_offset=-1,
            partition_max_bytes=1 << 20,
        )
        topic = types.FetchTopic(topic="orders", partitions=(partition,))
        request = types.FetchRequest(topics=(topic,), **values)
        answer = await self.client.ask(ApiKey.FETCH, request, version)
        return answer.responses[0].partitions[0]

    async def listed(self, place: int) -> tuple[int, int]:
        """(code, offset) of a place or time."""
        types = self.client.types(ApiKey.LIST_OFFSETS)
        partition = types.ListOffsetsPartition(
            partition_index=0, current_leader_epoch=-1, timestamp=place
        )
        topic = types.ListOffsetsTopic(name="orders", partitions=(partition,))
        request = types.ListOffsetsRequest(
            replica_id=self.replica_id,
            isolation_level=0,
            topics=(topic,),
            timeout=self.client.fetch_request(self.topic_id, (0, 0)).max_wait,
        )
        answer = await self.client.ask(ApiKey.LIST_OFFSETS, request)
        found = answer.topics[0].partitions[0]
        return found.error_code, found.offset


async def looker(brokers: Brokers, broker_id: int, replica_id: int = -2) -> Looker:
    client = await brokers.client(broker_id)
    return Looker(client, await client.topic_id("orders"), replica_id)


async def started(brokers: Brokers) -> None:
    """Three brokers of which the first one leads; nobody is rack-aware."""
    await brokers.start(*ALL)
    brokers.lead(1, minIsr=2)
    await brokers.settled(1)


async def filled(brokers: Brokers, count: int) -> None:
    """Records that all three know to be safe."""
    await started(brokers)
    for number in range(count):
        await brokers.produce(1, b"%d" % number)
    await brokers.eventually(
        lambda: all(up.replica().high_watermark == count for up in brokers.up.values())
    )


def test_every_replica_answers_with_the_same_bytes(brokers: Brokers) -> None:
    async def scenario() -> None:
        await filled(brokers, 3)
        expected = b"".join(pieces_of(brokers.up[1].replica()))
        for broker_id in ALL:
            reader = await looker(brokers, broker_id)
            found = await reader.fetch(0, epoch=brokers.epoch)
            assert (found.error_code, found.high_watermark) == (OK, 3)
            assert bytes(found.records) == expected
            assert await reader.listed(LATEST) == (OK, 3)
            assert await reader.listed(EARLIEST) == (OK, 0)
            # What it believes is compared as anybody's.
            found = await reader.fetch(0, epoch=brokers.epoch - 1)
            assert found.error_code == ErrorCode.fenced_leader_epoch
            found = await reader.fetch(0, epoch=brokers.epoch + 1)
            assert found.error_code == ErrorCode.unknown_leader_epoch

    run(brokers, scenario)


@pytest.mark.parametrize(("version", "code"), [(10, ELSEWHERE), (11, OK), (16, OK)])
def test_followers_serve_it_from_the_version_that_kafkas_do(
    brokers: Brokers, version: int, code: ErrorCode
) -> None:
    async def scenario() -> None:
        await filled(brokers, 1)
        assert (await (await looker(brokers, 2)).fetch(0, version=version)).error_code == code
        assert (await (await looker(brokers, 1)).fetch(0, version=version)).error_code == OK

    run(brokers, scenario)


def test_an_ordinary_consumer_is_still_sent_to_the_leader(brokers: Brokers) -> None:
    async def scenario() -> None:
        await filled(brokers, 1)
        ordinary = await looker(brokers, 2, CONSUMER_ID)
        assert (await ordinary.fetch(0)).error_code == ELSEWHERE
        assert await ordinary.listed(LATEST) == (ELSEWHERE, -1)
        assert (await (await consumer(brokers, 2)).fetch(0, "")).error_code == ELSEWHERE

    run(brokers, scenario)


def test_nothing_above_the_high_watermark_is_shown(brokers: Brokers) -> None:
    async def scenario() -> None:
        await filled(brokers, 1)
        # Broker 3 is listed and away: nothing becomes safe.
        await brokers.stop(3)
        await brokers.produce(1, b"not safe", acks=1)
        await brokers.eventually(lambda: brokers.up[2].replica().log.end_offset == 2)
        for broker_id in (1, 2):
            reader = await looker(brokers, broker_id)
            found = await reader.fetch(0)
            assert (found.error_code, found.high_watermark) == (OK, 1)
            assert b"not safe" not in found.records
            found = await reader.fetch(1)
            assert (found.error_code, bytes(found.records or b"")) == (OK, b"")
            assert await reader.listed(LATEST) == (OK, 1)

    run(brokers, scenario)


def test_a_replica_that_serves_no_clients_can_be_inspected(brokers: Brokers) -> None:
    """One that halted, one behind its leader, one without a leader, one that is fenced."""

    async def scenario() -> None:
        await filled(brokers, 2)
        halted, behind = (brokers.up[one].replica().following for one in (2, 3))
        assert halted is not None
        assert behind is not None
        behind.leader_high_watermark = 99
        halted._end_following("halted, says this test")
        readers = [await looker(brokers, one) for one in (2, 3)]
        for reader in readers:
            found = await reader.fetch(0)
            assert (found.error_code, found.high_watermark) == (OK, 2)
            assert found.records
        brokers.fence(3)
        brokers.up[2].replica().resign()
        await brokers.up[2].replica().stop_following()
        for reader in readers:
            assert (await reader.fetch(0, epoch=brokers.epoch)).records

    run(brokers, scenario)


def test_what_is_not_here_or_not_readable_is_said(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1, replicas=(1, 2), isr=(1, 2), minIsr=1)
        await brokers.eventually(lambda: brokers.up[1].broker._cluster.topic("orders") is not None)
        await brokers.produce(1, b"x")
        stranger = await looker(brokers, 3)
        assert (await stranger.fetch(0)).error_code == ELSEWHERE
        assert await stranger.listed(LATEST) == (ELSEWHERE, -1)
        holder = await looker(brokers, 2)
        while not (await holder.fetch(0)).records:  # the scenario has a limit
            pass
        # What the leader may have and this replica not is no reason to start anew somewhere.
        assert (await holder.fetch(9)).error_code == ErrorCode.offset_not_available
        assert (await holder.fetch(-1)).error_code == ErrorCode.offset_out_of_range
        brokers.up[2].replica().go_offline("no disk, says this test")
        assert (await holder.fetch(0)).error_code == ErrorCode.kafka_storage_error

    run(brokers, scenario)


def test_the_number_is_kafkas() -> None:
    assert DEBUGGING_CONSUMER_ID == -2
