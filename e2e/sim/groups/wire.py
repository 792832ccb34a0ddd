"""Requests about consumer groups, in the versions that a client uses, and their answers."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.offset_messages import IDS_FROM_VERSION
from e2e.sim.groups.assignments import Place
from e2e.sim.wire import LATEST, TIMEOUT_S, TopicPartition, Wire

NEWEST: Final = {
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.OFFSET_DELETE: 0,
}
KNOW_INSTANCES: Final = {
    ApiKey.JOIN_GROUP: 5,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.HEARTBEAT: 3,
    ApiKey.LEAVE_GROUP: 3,
    ApiKey.OFFSET_COMMIT: 7,
}
"""The first versions with a `group.instance.id`, which static members need."""
PROTOCOL_TYPE: Final = "consumer"
ASSIGNOR: Final = "range"


class Identity(NamedTuple):
    """A member's identity in requests to the coordinator."""

    member_id: str = ""
    instance: str | None = None
    generation: int = -1


class GroupWire:
    """One client's requests about one group. All of them raise one of `UNREACHED`.

    `at` is the address of the broker that is asked.
    """

    def __init__(
        self,
        group: str,
        bootstrap: Sequence[str],
        chance: random.Random,
        name: str,
        *,
        is_static: bool,
        is_of_any_age: bool,
    ) -> None:
        self.group = group
        self.wire = Wire(bootstrap, chance, name)
        self._versions = dict(NEWEST)
        if is_of_any_age:
            oldest = KNOW_INSTANCES if is_static else {}
            self._versions = {
                key: chance.randint(oldest.get(key, APIS[key].min_served), APIS[key].max_version)
                for key in NEWEST
            }

    @property
    def asks_by_id(self) -> bool:
        """Whether this client's OffsetFetch requests contain topic ids instead of names."""
        return self._versions[ApiKey.OFFSET_FETCH] >= IDS_FROM_VERSION

    @property
    def commits_by_id(self) -> bool:
        """Whether this client's OffsetCommit requests contain topic ids instead of names."""
        return self._versions[ApiKey.OFFSET_COMMIT] >= IDS_FROM_VERSION

    def ask_by_id(self) -> None:
        """Use topic ids in OffsetFetch requests from now on."""
        self._versions[ApiKey.OFFSET_FETCH] = IDS_FROM_VERSION

    async def _send(
        self, at: tuple[str, int], key: ApiKey, values: Mapping[str, Any], more_s: float = 0.0
    ) -> Any:
        """Send a request in this client's version of it; wait `more_s` longer than usual."""
        return await self.wire.say(at, key, self._versions[key], values, TIMEOUT_S + more_s)

    async def coordinator(self) -> tuple[int, tuple[str, int]]:
        """Find the group's coordinator through any broker: (error code, its address)."""
        values = {"key": self.group, "coordinator_keys": [self.group], "key_type": 0}
        answer = await self._send(self.wire.anybody(), ApiKey.FIND_COORDINATOR, values)
        found = answer.coordinators[0] if hasattr(answer, "coordinators") else answer
        return int(found.error_code), (str(found.host), int(found.port))

    async def join(
        self,
        at: tuple[str, int],
        who: Identity,
        subscription: bytes,
        session_s: float,
        rebalance_s: float,
    ) -> Any:
        """Send a JoinGroup; returns the response, which may take until the rebalance ends."""
        values = {
            "group_id": self.group,
            "session_timeout": round(session_s * 1000),
            "rebalance_timeout": round(rebalance_s * 1000),
            "member_id": who.member_id,
            "group_instance_id": who.instance,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": ASSIGNOR, "metadata": subscription}],
            "reason": None,
        }
        # Version 0 has no rebalance timeout: the coordinator waits for the session timeout then.
        longest_s = max(session_s, rebalance_s)
        return await self._send(at, ApiKey.JOIN_GROUP, values, longest_s)

    async def sync(
        self,
        at: tuple[str, int],
        who: Identity,
        assignments: Mapping[str, bytes],
        rebalance_s: float,
    ) -> tuple[int, bytes]:
        """Send a SyncGroup; returns (error code, this member's encoded assignment).

        `assignments` are those of all members if this one is the leader, else empty.
        """
        values = {
            "group_id": self.group,
            "generation_id": who.generation,
            "member_id": who.member_id,
            "group_instance_id": who.instance,
            "protocol_type": PROTOCOL_TYPE,
            "protocol_name": ASSIGNOR,
            "assignments": [
                {"member_id": one, "assignment": given} for one, given in assignments.items()
            ],
        }
        answer = await self._send(at, ApiKey.SYNC_GROUP, values, rebalance_s)
        return int(answer.error_code), bytes(answer.assignment)

    async def heartbeat(self, at: tuple[str, int], who: Identity) -> int:
        """Send a Heartbeat; returns its error code."""
        values = {
            "group_id": self.group,
            "generation_id": who.generation,
            "member_id": who.member_id,
            "group_instance_id": who.instance,
        }
        return int((await self._send(at, ApiKey.HEARTBEAT, values)).error_code)

    async def leave(self, at: tuple[str, int], who: Identity) -> int:
        """Send a LeaveGroup; returns the error code of the request, else that of the member."""
        one = {"member_id": who.member_id, "group_instance_id": who.instance, "reason": None}
        values = {"group_id": self.group, "member_id": who.member_id, "members": [one]}
        answer = await self._send(at, ApiKey.LEAVE_GROUP, values)
        found = getattr(answer, "members", ())
        return int(answer.error_code) or (int(found[0].error_code) if found else 0)

    async def commit(
        self,
        at: tuple[str, int],
        who: Identity,
        offsets: Mapping[TopicPartition, int],
        mark: str,
    ) -> dict[TopicPartition, int]:
        """Commit offsets with `mark` as their metadata; returns each partition's error code."""
        values = {
            "group_id": self.group,
            "generation_id_or_member_epoch": who.generation,
            "member_id": who.member_id,
            "group_instance_id": who.instance,
            "topics": [
                {
                    "name": topic,
                    "topic_id": topic_id,
                    "partitions": [
                        {
                            "partition_index": one.number,
                            "committed_offset": offset,
                            "committed_metadata": mark,
                        }
                        for one, offset in offsets.items()
                        if (one.topic, one.topic_id) == (topic, topic_id)
                    ],
                }
                for topic, topic_id in sorted({(one.topic, one.topic_id) for one in offsets})
            ],
        }
        answer = await self._send(at, ApiKey.OFFSET_COMMIT, values)
        known = _by_name_and_id(offsets)
        return {
            known[_name_or_id(topic), int(one.partition_index)]: int(one.error_code)
            for topic in answer.topics
            for one in topic.partitions
        }

    async def committed(
        self, at: tuple[str, int], partitions: Iterable[TopicPartition]
    ) -> tuple[int, dict[TopicPartition, tuple[int, str]]]:
        """Fetch committed offsets: (first error code, partition -> (offset, mark)).

        The offset is -1 if nothing is committed.
        """
        wanted = sorted(partitions)
        topics = [
            {
                "name": topic,
                "topic_id": topic_id,
                "partition_indexes": [
                    one.number for one in wanted if (one.topic, one.topic_id) == (topic, topic_id)
                ],
            }
            for topic, topic_id in sorted({(one.topic, one.topic_id) for one in wanted})
        ]
        one_group = {"group_id": self.group, "topics": topics}
        answer = await self._send(at, ApiKey.OFFSET_FETCH, one_group | {"groups": [one_group]})
        one_answer = answer.groups[0] if hasattr(answer, "groups") else answer
        known, found = _by_name_and_id(wanted), {}
        error = int(getattr(one_answer, "error_code", 0))
        for topic in one_answer.topics:
            for one in topic.partitions:
                error = error or int(one.error_code)
                place = known[_name_or_id(topic), int(one.partition_index)]
                found[place] = int(one.committed_offset), str(one.metadata or "")
        return error, found

    async def describe(self, at: tuple[str, int]) -> Any:
        """The group's part of a DescribeGroups response."""
        answer = await self._send(at, ApiKey.DESCRIBE_GROUPS, {"groups": [self.group]})
        return answer.groups[0]

    async def delete(self, at: tuple[str, int]) -> int:
        answer = await self._send(at, ApiKey.DELETE_GROUPS, {"groups_names": [self.group]})
        return int(answer.results[0].error_code)

    async def forget(self, at: tuple[str, int], place: Place) -> int:
        """Delete the committed offset of one partition (OffsetDelete); returns the error code."""
        topic = {"name": place[0], "partitions": [{"partition_index": place[1]}]}
        values = {"group_id": self.group, "topics": [topic]}
        answer = await self._send(at, ApiKey.OFFSET_DELETE, values)
        return int(answer.error_code) or int(answer.topics[0].partitions[0].error_code)

    async def ends(
        self, at: tuple[str, int], partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """High watermarks of these partitions from one leader, without those with an error."""
        found = {}
        for one in partitions:
            error, end = await self.wire.offset(at, one, LATEST)
            if not error:
                found[one] = end
        return found


def _name_or_id(topic: Any) -> str | UUID | None:
    """The topic's id in an answer with ids, else its name."""
    if hasattr(topic, "topic_id"):
        topic_id: UUID | None = topic.topic_id
        return topic_id
    return str(topic.name)


def _by_name_and_id(
    partitions: Iterable[TopicPartition],
) -> dict[tuple[str | UUID | None, int], TopicPartition]:
    """The partitions by (topic name, number) and by (topic id, number)."""
    found: dict[tuple[str | UUID | None, int], TopicPartition] = {}
    for one in partitions:
        found[one.topic, one.number] = found[one.topic_id, one.number] = one
    return found
