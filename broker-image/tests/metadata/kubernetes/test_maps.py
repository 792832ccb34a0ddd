"""Maps: kept before they are acted on, never gone back, and what only a tombstone may do."""

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.metadata.kubernetes.topic_views import uuid_of
from chiplog_broker.ports.checksum_line import without_checksum
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_core.ids import TopicId
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.metadata.kubernetes.conftest import MemberKit

TOPIC_ID = "BBBBBBBBBBBBBBBBBBBBBQ"
OTHER_ID = "CCCCCCCCCCCCCCCCCCCCCQ"


def kept(member: "MemberKit", topic: str = "orders") -> Any:
    """The map on disk."""
    path = member.directory / f"metadata/maps/{topic}.json"
    content = without_checksum(path.read_bytes())
    return json.loads(content)["spec"]


def tombstone(topic_id: str, **more: Any) -> dict[str, Any]:
    return {"topicId": topic_id, "brokers": [1], **more}


def leads(member: "MemberKit", topic: str = "orders", index: int = 0) -> bool:
    replica = member.broker._replicas.get(topic, index)
    return replica is not None and replica.is_leader


async def produced(member: "MemberKit", client: Any) -> ErrorCode:
    (answer,) = await client.produce("orders", member.kit.batch(b"a"))
    return ErrorCode(answer.error_code)


def test_a_map_is_on_disk_before_it_is_acted_on(
    member: "MemberKit", monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = SystemDisk.replace

    async def refuse(disk: SystemDisk, path: str, data: bytes) -> None:
        if path.startswith("maps/") and failing:
            raise OSError("no space left")
        await replace(disk, path, data)

    failing = ["yes"]
    monkeypatch.setattr(SystemDisk, "replace", refuse)

    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1):
            assert member.broker._cluster.topic("orders") is None
            assert not leads(member)
            failing.clear()
            await member.eventually(lambda: leads(member))
            assert kept(member)["generations"][0]["partitions"][0]["leader"] == "1@1"

    member.run(scenario)


def test_a_topic_whose_map_cannot_be_kept_is_expected(
    member: "MemberKit", monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = SystemDisk.replace

    async def refuse(disk: SystemDisk, path: str, data: bytes) -> None:
        if path.startswith("maps/orders"):
            raise OSError("no space left")
        await replace(disk, path, data)

    monkeypatch.setattr(SystemDisk, "replace", refuse)

    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1):
            cluster = member.broker._cluster
            topic_id = uuid_of(TopicId.from_text(TOPIC_ID))
            assert cluster.topic("orders") is None
            assert cluster.announced_topic_id("orders") == topic_id
            assert cluster.is_announced(topic_id)
            member.operator.remove_map("orders")
            await member.eventually(lambda: cluster.announced_topic_id("orders") is None)
            assert not cluster.is_announced(topic_id)

    member.run(scenario)


def test_what_is_known_is_expected_no_more(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1):
            cluster = member.broker._cluster
            await member.eventually(lambda: leads(member))
            assert cluster.announced_topic_id("orders") is None
            # Nor is it when its map changes, or one comes that knows less.
            member.operator.write_map("orders", [member.partition(1, 2)])
            await member.eventually(lambda: member.replica().leader_epoch == 2)
            member.operator.write_map("orders", [member.partition(1, 1)])
            await member.eventually(lambda: "orders" in member.store._maps.regressed)
            assert cluster.announced_topic_id("orders") is None
            member.operator.write_map("orders", None, tombstones=[tombstone(TOPIC_ID)])
            await member.eventually(lambda: cluster.topic("orders") is None)
            assert cluster.announced_topic_id("orders") is None

    member.run(scenario)


def test_a_replica_that_fails_does_not_hold_up_the_others_of_its_topic(
    member: "MemberKit",
) -> None:
    async def scenario() -> None:
        async with member.admitted(1) as client:
            in_the_way = member.directory / "data/orders-0"
            in_the_way.mkdir()
            member.operator.write_map("orders", [member.partition(1, 0, one) for one in range(3)])
            await member.eventually(lambda: leads(member, index=2))
            assert leads(member, index=1)
            assert not leads(member, index=0)
            (topic,) = (await client.metadata("orders")).topics
            assert (topic.error_code, len(topic.partitions)) == (ErrorCode.none, 3)
            assert await produced(member, client) is ErrorCode.not_leader_or_follower
            in_the_way.rmdir()
            await member.eventually(lambda: leads(member, index=0))
            assert await produced(member, client) is ErrorCode.none

    member.run(scenario)


def test_a_map_that_knows_less_is_reported_and_not_applied(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 5)])
        async with member.admitted(1) as client:
            assert await produced(member, client) is ErrorCode.none
            member.operator.write_map("orders", [member.partition(1, 4)])
            await member.eventually(lambda: member.operator.status.replica_reports)
            (report,) = member.operator.status.replica_reports
            assert (report.leader_epoch, report.partition_epoch) == (5, 5)
            assert (report.log_end_offset, report.log_leader_epoch) == (1, 5)
            assert str(report.topic_id) == TOPIC_ID
            assert kept(member)["generations"][0]["partitions"][0]["leaderEpoch"] == 5
            assert await produced(member, client) is ErrorCode.none
            member.operator.write_map("orders", [member.partition(1, 6)])
            await member.eventually(lambda: not member.operator.status.replica_reports)
            assert await produced(member, client) is ErrorCode.none

    member.run(scenario)


def test_a_missing_map_changes_nothing_and_is_reported(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1) as client:
            member.operator.remove_map("orders")
            await member.eventually(lambda: member.operator.status.replica_reports)
            assert await produced(member, client) is ErrorCode.none
        # Nor does it after a restart, where a list is all that can tell.
        async with member.admitted(2):
            await member.eventually(lambda: member.operator.status.replica_reports)
            (report,) = member.operator.status.replica_reports
            assert (report.log_end_offset, str(report.isr[0])) == (1, "1@1")
            assert member.broker._cluster.topic("orders") is not None
            assert (member.directory / "data/orders-0").exists()

    member.run(scenario)


def test_a_topic_without_a_replica_here_whose_map_is_missing_may_come_back(
    member: "MemberKit",
) -> None:
    """Only a tombstone shows that a topic was deleted."""

    async def scenario() -> None:
        elsewhere = member.partition(1, 0, replicas=[2], isr=["2@1"], leader="2@1")
        for topic, topic_id in (("orders", TOPIC_ID), ("deleted", OTHER_ID)):
            member.operator.write_map(topic, [elsewhere], topic_id=topic_id)
        async with member.admitted(1):
            cluster = member.broker._cluster
            await member.eventually(lambda: len(cluster) == 2)
            assert not cluster.is_lost("orders")
            member.operator.remove_map("orders")
            await member.eventually(lambda: cluster.topic("orders") is None)
            assert cluster.is_lost("orders")
            deleted = tombstone(OTHER_ID, brokers=[2])
            member.operator.write_map("deleted", None, tombstones=[deleted])
            await member.eventually(lambda: cluster.topic("deleted") is None)
            member.operator.remove_map("deleted")
            kept_map = member.directory / "metadata/maps/deleted.json"
            await member.eventually(lambda: not kept_map.exists())
            await asyncio.sleep(0.05)
            assert not cluster.is_lost("deleted")

    member.run(scenario)


def test_reports_that_a_map_requests(member: "MemberKit") -> None:
    async def scenario() -> None:
        offline = member.partition(1, 3, leader=None, reportsWanted=True)
        member.operator.write_map("orders", [offline, member.partition(1, 3, index=1)])
        async with member.admitted(1):
            await member.eventually(lambda: member.operator.status.replica_reports)
            (report,) = member.operator.status.replica_reports
            assert (report.partition, report.log_end_offset) == (0, 0)
            assert report.log_leader_epoch is None

    member.run(scenario)


def test_a_tombstone_deletes_exactly_its_topic_id(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1):
            await member.eventually(lambda: leads(member))
            member.operator.write_map(
                "orders", [member.partition(1, 0)], tombstones=[tombstone(OTHER_ID)]
            )
            await member.eventually(lambda: member.operator.status.confirmed_tombstones)
            assert member.operator.status.confirmed_tombstones == (TopicId.from_text(OTHER_ID),)
            assert (member.directory / "data/orders-0").exists()
            member.operator.write_map("orders", None, tombstones=[tombstone(TOPIC_ID)])
            await member.eventually(
                lambda: (
                    member.operator.status.confirmed_tombstones == (TopicId.from_text(TOPIC_ID),)
                )
            )
            assert not (member.directory / "data/orders-0").exists()
            assert member.broker._cluster.topic("orders") is None
            # The map goes last: nothing of it is left, neither here nor in the status.
            member.operator.remove_map("orders")
            await member.eventually(lambda: not member.operator.status.confirmed_tombstones)
            assert not (member.directory / "metadata/maps/orders.json").exists()

    member.run(scenario)


def test_a_tombstone_that_was_seen_while_the_logs_were_closed(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1):
            pass
        member.operator.write_map("orders", None, tombstones=[tombstone(TOPIC_ID)])
        async with member.admitted(2):
            await member.eventually(lambda: member.operator.status.confirmed_tombstones)
            assert not (member.directory / "data/orders-0").exists()

    member.run(scenario)


def test_a_deleted_topic_id_does_not_come_back(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", None, tombstones=[tombstone(TOPIC_ID)])
        async with member.admitted(1):
            await member.eventually(lambda: member.operator.status.confirmed_tombstones)
            member.operator.write_map("orders", [member.partition(1, 0)])
            await member.eventually(lambda: "orders" in member.store._maps.regressed)
            assert member.broker._cluster.topic("orders") is None

    member.run(scenario)


def test_a_name_without_a_generation_keeps_its_data(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1) as client:
            assert await produced(member, client) is ErrorCode.none
            member.operator.write_map("orders", [member.partition(1, 1)], current=None)
            await member.eventually(lambda: member.broker._cluster.topic("orders") is None)
            assert await produced(member, client) is ErrorCode.unknown_topic_or_partition
            member.operator.write_map("orders", [member.partition(1, 2)])
            await member.eventually(lambda: leads(member))
            assert member.replica().log.end_offset == 1

    member.run(scenario)


def test_acks_all_is_refused_below_min_isr(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.add_broker(2, session=4, admittedIncarnation="2" * 32)
        both = member.partition(1, 0, replicas=[1, 2], isr=["1@1", "2@4"])
        member.operator.write_map("orders", [both], minIsr=2)
        async with member.admitted(1) as client:
            replica = member.replica()
            assert replica.has_min_isr
            # Broker 2 is dead, but stays listed: the map is at its floor.
            member.operator.write_broker(2, fenced=True)
            await member.eventually(lambda: not replica.has_min_isr)
            (refused,) = await client.produce("orders", member.kit.batch(b"a"))
            assert refused.error_code == ErrorCode.not_enough_replicas
            assert replica.log.end_offset == 0, "refused before the append"
            (taken,) = await client.produce("orders", member.kit.batch(b"a"), acks=1)
            assert taken.error_code == ErrorCode.none
            (topic,) = (await client.metadata("orders")).topics
            assert list(topic.partitions[0].isr_nodes) == [1]

    member.run(scenario)


def test_configuration_and_durability_take_effect_at_once(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)], durability="PageCache")
        async with member.admitted(1) as client:
            assert await produced(member, client) is ErrorCode.none
            log = member.replica().log
            member.operator.write_map(
                "orders",
                [member.partition(1, 0)],
                config={"retention.ms": "5000"},
                durability="Fsync",
                durabilitySwitch=1,
                unflushed=[1],
            )
            await member.eventually(lambda: member.operator.status.flushed_topics)
            (flushed,) = member.operator.status.flushed_topics
            assert (str(flushed.topic_id), flushed.durability_switch) == (TOPIC_ID, 1)
            assert log.config.retention_ms == 5000
            assert log.recovery_point == 1
            member.operator.write_map("orders", [member.partition(1, 0)], durabilitySwitch=1)
            await member.eventually(lambda: not member.operator.status.flushed_topics)

    member.run(scenario)


def test_clients_see_the_live_brokers(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.add_broker(2, session=4, rack="b")
        member.operator.add_broker(3, session=4, fenced=True)
        member.operator.add_broker(4, session=4, retired=True)
        member.operator.add_broker(5)
        async with member.admitted(1) as client:
            brokers = (await client.metadata()).brokers
            assert [(one.node_id, one.host, one.rack) for one in brokers] == [
                (1, "b1", None),
                (2, "b2", "b"),
            ]

    member.run(scenario)
