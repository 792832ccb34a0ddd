"""A client of the group APIs, in any version, and a broker whose groups do not wait for more."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from chiplog_broker.coordinator.shard import Shard
from chiplog_broker.metadata.view import TopicView
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.ports.clock import SystemClock
from chiplog_core.ids import LeaderEpoch, PartitionIndex
from chiplog_core.model.group_exchange import OffsetsPartition
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import NewRecord, build_batch

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

OK = ErrorCode.none
OFFSETS = "__consumer_offsets"
RANGE = "range"

NOBODY = ("", -1)
"""Who commits without being a member."""

SUBSCRIBED_TO_ORDERS = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"
"""The consumer protocol's subscription, version 0."""


def running(kit: "Kit", **config: str) -> "AbstractAsyncContextManager[Client]":
    """A broker whose first rebalances do not wait for members that may still come."""
    return kit.running(**{"group_initial_rebalance_delay_ms": "0", **config})


def shard_of(kit: "Kit", index: int = 0) -> Shard:
    return kit.broker._coordinator._shards[index]


def partition_of(kit: "Kit", index: int = 0) -> Partition:
    partition = kit.broker._replicas.get(OFFSETS, index)
    assert partition is not None
    return partition


def view_of(kit: "Kit") -> TopicView:
    view = kit.broker._cluster.topic(OFFSETS)
    assert view is not None
    return view


class _Ahead(SystemClock):
    """The machine's clock, and by how much each of its times is ahead of it."""

    def __init__(self, wall_ms: int, ticks_ms: int) -> None:
        self._wall_ms, self._ticks_ms = wall_ms, ticks_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._wall_ms

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._ticks_ms / 1000


@contextmanager
def time_ahead(kit: "Kit", *, wall_ms: int = 0, ticks_ms: int = 0) -> Iterator[None]:
    """As if so much time had gone by for the coordinator, or one of its clocks had jumped."""
    coordinator = kit.broker._coordinator
    clock, coordinator._clock = coordinator._clock, _Ahead(wall_ms, ticks_ms)
    yield
    coordinator._clock = clock


async def loaded(kit: "Kit") -> None:
    while not shard_of(kit).is_loaded:  # noqa: ASYNC110 - nobody is told of it
        await asyncio.sleep(0.001)


def all_led(kit: "Kit") -> tuple[OffsetsPartition, ...]:
    return tuple(
        OffsetsPartition(
            partition=PartitionIndex(one.name.partition), leader_epoch=LeaderEpoch(one.leader_epoch)
        )
        for one in kit.partitions(OFFSETS)
    )


def make(message: type[Any], **values: Any) -> Any:
    """A message of one version: of these values, those that it has fields for."""
    known = {one.name for one in fields(message)}
    return message(**{name: value for name, value in values.items() if name in known})


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


@dataclass
class Group:
    """One client's view of a group.

    `version` is spoken where an API has it, else the nearest. With 9 all name topics by name.
    """

    client: "Client"
    group_id: str = "g"
    version: int = 9

    def _version(self, key: ApiKey) -> int:
        return max(min(self.version, APIS[key].max_version), APIS[key].min_served)

    async def send(self, key: ApiKey, name: str, **values: Any) -> None:
        version = self._version(key)
        types = self.client.types(key, version)
        values = {"group_id": self.group_id, **values}
        await self.client.send(key, make(getattr(types, name), **values), version)

    async def ask(self, key: ApiKey, name: str, **values: Any) -> Any:
        await self.send(key, name, **values)
        return await self.client.receive()

    # -- members

    async def send_join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 10_000,
        metadata: bytes = SUBSCRIBED_TO_ORDERS,
        protocol_type: str = "consumer",
    ) -> None:
        types = self.client.types(ApiKey.JOIN_GROUP, self._version(ApiKey.JOIN_GROUP))
        await self.send(
            ApiKey.JOIN_GROUP,
            "JoinGroupRequest",
            session_timeout=ms(session_ms),
            rebalance_timeout=ms(rebalance_ms),
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=(types.JoinGroupRequestProtocol(name=RANGE, metadata=metadata),),
            reason=None,
        )

    async def join(self, member_id: str = "", **options: Any) -> Any:
        """With an id of its own, as newer versions ask for it."""
        await self.send_join(member_id, **options)
        answer = await self.client.receive()
        if answer.error_code == ErrorCode.member_id_required:
            return await self.join(answer.member_id, **options)
        return answer

    async def sync(self, joined: Any, assignments: dict[str, bytes] | None = None) -> Any:
        await self.send_sync(joined, assignments)
        return await self.client.receive()

    async def send_sync(
        self, joined: Any, assignments: dict[str, bytes] | None = None, **instead: Any
    ) -> None:
        types = self.client.types(ApiKey.SYNC_GROUP, self._version(ApiKey.SYNC_GROUP))
        values: dict[str, Any] = {
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": RANGE,
            "assignments": tuple(
                types.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ),
        }
        await self.send(ApiKey.SYNC_GROUP, "SyncGroupRequest", **(values | instead))

    async def be_alone(self, **options: Any) -> Any:
        """The only member of a stable group; what its join was answered."""
        joined = await self.join(**options)
        assert joined.error_code == OK, joined
        synced = await self.sync(joined, {joined.member_id: b"all"})
        assert (synced.error_code, synced.assignment) == (OK, b"all")
        return joined

    async def heartbeat(self, member: Any) -> ErrorCode:
        await self.send_heartbeat(member)
        return ErrorCode((await self.client.receive()).error_code)

    async def send_heartbeat(self, member: Any) -> None:
        await self.send(
            ApiKey.HEARTBEAT,
            "HeartbeatRequest",
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=None,
        )

    async def leave(self, *member_ids: str) -> Any:
        version = self._version(ApiKey.LEAVE_GROUP)
        types = self.client.types(ApiKey.LEAVE_GROUP, version)
        if version < 3:
            (member_id,) = member_ids
            return await self.ask(ApiKey.LEAVE_GROUP, "LeaveGroupRequest", member_id=member_id)
        members = tuple(
            make(types.MemberIdentity, member_id=one, group_instance_id=None, reason=None)
            for one in member_ids
        )
        return await self.ask(ApiKey.LEAVE_GROUP, "LeaveGroupRequest", members=members)

    # -- offsets

    async def send_commit(
        self,
        topic: str | UUID,
        *commits: tuple[Any, ...],
        member: tuple[str, int] = NOBODY,
        retention_ms: int = -1,
    ) -> None:
        """Each of `commits` is (partition, offset) or (partition, offset, metadata)."""
        types = self.client.types(ApiKey.OFFSET_COMMIT, self._version(ApiKey.OFFSET_COMMIT))
        partitions = tuple(
            make(
                types.OffsetCommitRequestPartition,
                partition_index=index,
                committed_offset=offset,
                committed_leader_epoch=7,
                committed_metadata=metadata[0] if metadata else None,
            )
            for index, offset, *metadata in commits
        )
        of_topic = make(
            types.OffsetCommitRequestTopic, name=topic, topic_id=topic, partitions=partitions
        )
        await self.send(
            ApiKey.OFFSET_COMMIT,
            "OffsetCommitRequest",
            generation_id_or_member_epoch=member[1],
            member_id=member[0],
            group_instance_id=None,
            retention_time=ms(retention_ms),
            topics=(of_topic,) if commits else (),
        )

    async def commit(
        self, topic: str | UUID, *commits: tuple[Any, ...], **options: Any
    ) -> list[ErrorCode]:
        await self.send_commit(topic, *commits, **options)
        answer = await self.client.receive()
        return [ErrorCode(p.error_code) for topic in answer.topics for p in topic.partitions]

    async def fetched(self, *topics: tuple[str | UUID, tuple[int, ...]] | None) -> Any:
        """The answer: of a group, or of the only one that was asked for."""
        version = self._version(ApiKey.OFFSET_FETCH)
        types = self.client.types(ApiKey.OFFSET_FETCH, version)
        kind = "OffsetFetchRequestTopic" + ("s" if version >= 8 else "")
        wanted = tuple(
            make(getattr(types, kind), name=one[0], topic_id=one[0], partition_indexes=one[1])
            for one in topics
            if one is not None
        )
        asked = {"topics": wanted if topics else None, "require_stable": False}
        if version < 8:
            return await self.ask(ApiKey.OFFSET_FETCH, "OffsetFetchRequest", **asked)
        group = make(
            types.OffsetFetchRequestGroup,
            group_id=self.group_id,
            member_id=None,
            member_epoch=-1,
            topics=asked["topics"],
        )
        answer = await self.ask(
            ApiKey.OFFSET_FETCH, "OffsetFetchRequest", groups=(group,), require_stable=False
        )
        (found,) = answer.groups
        return found

    async def offsets(
        self, *topics: tuple[str | UUID, tuple[int, ...]]
    ) -> dict[tuple[Any, int], tuple[Any, ...]]:
        """(topic, partition) -> offset, metadata, code; without topics all there are."""
        answer = await self.fetched(*topics)
        assert getattr(answer, "error_code", 0) == 0, answer
        return {
            (getattr(topic, "name", None) or topic.topic_id, one.partition_index): (
                one.committed_offset,
                one.metadata,
                ErrorCode(one.error_code),
            )
            for topic in answer.topics
            for one in topic.partitions
        }

    # -- from the outside

    async def described(self) -> Any:
        version = self._version(ApiKey.DESCRIBE_GROUPS)
        types = self.client.types(ApiKey.DESCRIBE_GROUPS, version)
        request = make(
            types.DescribeGroupsRequest,
            groups=(self.group_id,),
            include_authorized_operations=False,
        )
        (found,) = (await self.client.ask(ApiKey.DESCRIBE_GROUPS, request, version)).groups
        return found

    async def state(self) -> str:
        return str((await self.described()).group_state)

    async def delete(self) -> ErrorCode:
        types = self.client.types(ApiKey.DELETE_GROUPS)
        request = types.DeleteGroupsRequest(groups_names=(self.group_id,))
        (result,) = (await self.client.ask(ApiKey.DELETE_GROUPS, request)).results
        return ErrorCode(result.error_code)

    async def delete_offsets(
        self, topic: str, *partitions: int
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """The code of all, and that of each."""
        types = self.client.types(ApiKey.OFFSET_DELETE)
        request = types.OffsetDeleteRequest(
            group_id=self.group_id,
            topics=(
                types.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=tuple(
                        types.OffsetDeleteRequestPartition(partition_index=one)
                        for one in partitions
                    ),
                ),
            ),
        )
        answer = await self.client.ask(ApiKey.OFFSET_DELETE, request)
        codes = [ErrorCode(one.error_code) for of in answer.topics for one in of.partitions]
        return ErrorCode(answer.error_code), codes


def unreadable() -> memoryview:
    """A batch whose record says that it is a commit, and not whose."""
    return memoryview(build_batch([NewRecord(b"value", key=b"\x00\x01", timestamp_ms=1)]))


async def listed(
    client: "Client", *, states: tuple[str, ...] = (), kinds: tuple[str, ...] = ()
) -> tuple[ErrorCode, dict[str, tuple[str, str]]]:
    """(code, group -> state and protocol type)."""
    types = client.types(ApiKey.LIST_GROUPS)
    request = types.ListGroupsRequest(states_filter=states, types_filter=kinds)
    answer = await client.ask(ApiKey.LIST_GROUPS, request)
    return ErrorCode(answer.error_code), {
        one.group_id: (one.group_state, one.protocol_type) for one in answer.groups
    }


async def find_coordinator(
    client: "Client", *keys: str, key_type: int = 0, version: int = 5
) -> list[tuple[ErrorCode, int]]:
    """(code, broker) of each."""
    types = client.types(ApiKey.FIND_COORDINATOR, version)
    request = make(
        types.FindCoordinatorRequest, key=keys[0], key_type=key_type, coordinator_keys=keys
    )
    answer = await client.ask(ApiKey.FIND_COORDINATOR, request, version)
    found = answer.coordinators if version >= 4 else [answer]
    return [(ErrorCode(one.error_code), one.node_id) for one in found]
