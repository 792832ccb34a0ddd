"""Members of many groups that own their partitions and only send heartbeats.

`python -m e2e.bench.idle_members HOST PORT STEM TOPIC GROUPS MEMBERS INTERVAL_MS`, a process of
its own. All members start at the same time, each with its own connection, and behave as Kafka's
consumers do (the classic protocol, KIP-394): they get a member id, join, the leader assigns, and
a member whose heartbeat is answered with a rebalance joins again. Groups are called STEM-0 and so
on.

It prints the seconds until every group has all its members in one generation. From then on they
only send heartbeats. When its standard input is closed, it prints how many heartbeats were
answered, and the members leave. Requests are encoded with kio: thousands of real clients would need
too much memory.
"""

import asyncio
import io
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeVar

from kio.schema.consumer_protocol_assignment.v1 import data as assignments
from kio.schema.consumer_protocol_subscription.v1 import data as subscriptions
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.join_group.v9.response import JoinGroupResponse
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v5.response import LeaveGroupResponse
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.sync_group.v5.response import SyncGroupResponse
from kio.schema.types import GroupId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta

PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
PROTOCOL_VERSION: Final = struct.pack(">h", 1)
SESSION: Final = i32Timedelta.parse(timedelta(seconds=45))
REBALANCE: Final = i32Timedelta.parse(timedelta(minutes=5))
JOINED_LIMIT_S: Final = 300
"""A hang guard."""
READY_LIMIT_S: Final = 60
AGAIN_S: Final = 0.1
CONNECTING: Final = 40
"""Connections that are opened at the same time. Kafka's socket.listen.backlog.size is 50: more than
that would wait a second until the kernel tries again."""
# api key, version, correlation id, no client id, no tagged fields
HEADER = struct.Struct(">hhihb")
NOBODY = -1
# correlation id, no tagged fields
ANSWER_BYTES: Final = 5
# A heartbeat's answer after that header: throttle time, error code.
HEARTBEAT = struct.Struct(">ih")

# Errors that pass: the request is sent again after a pause.
PASSING: Final = {
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
}
# Errors that make a member join again at once.
REJOIN: Final = {ErrorCode.rebalance_in_progress}

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Group:
    """A group, and the generations of its members' assignments."""

    name: str
    size: int
    generations: dict[str, int] = field(default_factory=dict)
    """Member id -> generation of its latest assignment."""

    @property
    def is_whole(self) -> bool:
        """Whether all members have an assignment of the same generation."""
        found = self.generations.values()
        return len(found) == self.size and len(set(found)) == 1


def frame(request: Any) -> bytes:
    """A request of a flexible version, with its header and length."""
    body = io.BytesIO()
    entity_writer(type(request))(body, request)
    header = HEADER.pack(request.__api_key__, request.__version__, 1, NOBODY, 0)
    return struct.pack(">i", HEADER.size + len(body.getbuffer())) + header + body.getvalue()


def subscription(topic: str) -> bytes:
    """A member's metadata in JoinGroup: it subscribes to `topic` and owns no partitions."""
    return _versioned(
        subscriptions.ConsumerProtocolSubscription(
            topics=(topic,), user_data=None, owned_partitions=()
        )
    )


def shares(topic: str, member_ids: Sequence[str]) -> dict[str, bytes]:
    """Member id -> its encoded assignment; member number N gets partition N alone."""
    return {
        member_id: _versioned(
            assignments.ConsumerProtocolAssignment(
                assigned_partitions=(
                    assignments.TopicPartition(topic=TopicName(topic), partitions=(i32(number),)),
                ),
                user_data=None,
            )
        )
        for number, member_id in enumerate(sorted(member_ids))
    }


def _versioned(message: Any) -> bytes:
    """A message of the consumer protocol, encoded behind its version."""
    body = io.BytesIO()
    entity_writer(type(message))(body, message)
    return PROTOCOL_VERSION + body.getvalue()


class Connection:
    """A connection that sends a request when the one before is answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def exchange(self, framed: bytes) -> bytes:
        """Send a request; returns the answer without its header."""
        self.writer.write(framed)
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return (await self.reader.readexactly(size))[ANSWER_BYTES:]

    async def ask(self, request: Any, answer: type[Answer]) -> Answer:
        """Send a request; `answer` is kio's class of the response."""
        data = await self.exchange(frame(request))
        found: Answer = entity_reader(answer)(memoryview(data), 0)[0]  # type: ignore[type-var]
        return found


class Member:
    """One member of a group."""

    def __init__(self, group: Group, topic: str, connection: Connection) -> None:
        self.group, self.topic, self.connection = group, topic, connection
        self.member_id = ""
        self.heartbeats = 0
        self._heartbeat = b""

    async def join_and_heartbeat(self, interval_s: float, entered: "asyncio.Queue[Group]") -> None:
        """Join, send heartbeats, and join again after a rebalance, until the task is cancelled.

        Each time the member gets an assignment, it puts its group into `entered`. Raises
        `RuntimeError` for an error code that no repetition resolves.
        """
        while True:
            while not await self._enter():
                pass
            entered.put_nowait(self.group)
            while await self._is_still_there(interval_s):
                self.heartbeats += 1

    async def _enter(self) -> bool:
        """Join and get an assignment; False where the broker wants the member to join again."""
        joined = await self.connection.ask(self._join_request(), JoinGroupResponse)
        self.member_id = joined.member_id or self.member_id
        if joined.error_code in {ErrorCode.member_id_required, *REJOIN}:
            return False
        if joined.error_code in PASSING:
            await asyncio.sleep(AGAIN_S)
            return False
        self._must_be_none("JoinGroup", joined.error_code)
        # The broker lists the members for the group's leader only: for others this is empty.
        assigned = shares(self.topic, [one.member_id for one in joined.members])
        request = SyncGroupRequest(
            group_id=GroupId(self.group.name),
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assigned.items()
            ),
        )
        synced = await self.connection.ask(request, SyncGroupResponse)
        if synced.error_code in REJOIN:
            return False
        self._must_be_none("SyncGroup", synced.error_code)
        self.group.generations[self.member_id] = joined.generation_id
        self._heartbeat = frame(
            HeartbeatRequest(
                group_id=GroupId(self.group.name),
                generation_id=joined.generation_id,
                member_id=self.member_id,
            )
        )
        return True

    async def _is_still_there(self, interval_s: float) -> bool:
        """Wait `interval_s` and send a heartbeat; False where the group rebalances."""
        await asyncio.sleep(interval_s)
        _, number = HEARTBEAT.unpack_from(await self.connection.exchange(self._heartbeat))
        code = ErrorCode(number)
        if code in REJOIN:
            return False
        self._must_be_none("Heartbeat", code)
        return True

    def _join_request(self) -> JoinGroupRequest:
        protocol = JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription(self.topic))
        return JoinGroupRequest(
            group_id=GroupId(self.group.name),
            session_timeout=SESSION,
            rebalance_timeout=REBALANCE,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=(protocol,),
        )

    def _must_be_none(self, api: str, code: ErrorCode) -> None:
        if code is not ErrorCode.none:
            raise RuntimeError(f"{api} of group {self.group.name} failed: {code.name}")


async def connect(host: str, port: int, gate: asyncio.Semaphore) -> Connection:
    """Open a connection; `gate` limits how many are opened at the same time."""
    async with gate:
        return Connection(*await asyncio.open_connection(host, port))


async def await_coordinator(connection: Connection, group: str) -> None:
    """Wait until the broker coordinates groups.

    Kafka creates `__consumer_offsets` only when the first group asks for its coordinator.
    """
    request = FindCoordinatorRequest(key=group)
    async with asyncio.timeout(READY_LIMIT_S):
        while True:
            found = await connection.ask(request, FindCoordinatorResponse)
            if found.error_code not in PASSING:
                return
            await asyncio.sleep(AGAIN_S)


async def leave(connection: Connection, groups: Sequence[Group]) -> None:
    """Remove all members of the groups, over one connection."""
    for group in groups:
        members = tuple(MemberIdentity(member_id=one) for one in group.generations)
        request = LeaveGroupRequest(group_id=GroupId(group.name), members=members)
        await connection.ask(request, LeaveGroupResponse)


async def run(host: str, port: int, groups: Sequence[Group], topic: str, interval_s: float) -> int:
    """Run all members until standard input is closed; returns how many heartbeats were answered.

    Prints the seconds until all groups were whole. Raises `RuntimeError` where a member fails, or a
    group is not whole in time or at the end.
    """
    gate = asyncio.Semaphore(CONNECTING)
    own = await connect(host, port, gate)
    await await_coordinator(own, groups[0].name)
    entered: asyncio.Queue[Group] = asyncio.Queue()

    async def begin(group: Group) -> Member:
        return Member(group, topic, await connect(host, port, gate))

    began_s = time.monotonic()
    places = [group for group in groups for _ in range(group.size)]
    members = await asyncio.gather(*map(begin, places))
    heartbeating = asyncio.gather(*(one.join_and_heartbeat(interval_s, entered) for one in members))

    async def all_whole() -> float:
        """Wait until each group was whole once; returns the seconds since `began_s`."""
        missing = {one.name for one in groups}
        while missing:
            group = await entered.get()
            if group.is_whole:
                missing.discard(group.name)
        return time.monotonic() - began_s

    joined = asyncio.create_task(all_whole())
    awaited: set[asyncio.Future[Any]] = {joined, heartbeating}
    await asyncio.wait(awaited, timeout=JOINED_LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
    if heartbeating.done():  # members run until they are cancelled, so one of them has failed
        heartbeating.result()
    if not joined.done():
        whole = sum(one.is_whole for one in groups)
        raise RuntimeError(f"only {whole} of {len(groups)} groups have all members")
    for one in members:
        one.heartbeats = 0
    print(f"{joined.result():.6f}", flush=True)
    ending = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    awaited = {ending, heartbeating}
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
    count = sum(one.heartbeats for one in members)
    if heartbeating.done():
        heartbeating.result()
    heartbeating.cancel()
    with suppress(asyncio.CancelledError):
        await heartbeating
    await leave(own, groups)
    if broken := [one.name for one in groups if not one.is_whole]:
        raise RuntimeError(f"{len(broken)} groups lost members, such as {broken[0]}")
    return count


if __name__ == "__main__":
    host, stem, topic = sys.argv[1], sys.argv[3], sys.argv[4]
    port, count, size, interval_ms = map(int, (sys.argv[2], *sys.argv[5:8]))
    made = [Group(f"{stem}-{number}", size) for number in range(count)]
    print(asyncio.run(run(host, port, made, topic, interval_ms / 1000)))
