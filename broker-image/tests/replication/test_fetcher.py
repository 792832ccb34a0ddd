"""The task that follows one leader, against a leader that the test plays."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import UUID

import pytest

from chiplog_broker.handlers.sasl import SaslHandlers
from chiplog_broker.handlers.table import api_versions
from chiplog_broker.metadata.listeners import internal_listener
from chiplog_broker.metadata.view import BrokerView, ClusterView
from chiplog_broker.partitions.follow_steps import FetchedPartition, FetchPosition
from chiplog_broker.partitions.following import Contact, Following, Taken, lane_of
from chiplog_broker.partitions.throttle import ReplicationThrottle
from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.ports.clock import Clock, SystemClock
from chiplog_broker.ports.net import SystemNet
from chiplog_broker.ports.rng import Rng, SystemRng
from chiplog_broker.replication.manager import ReplicaFetching
from chiplog_broker.security.audit import AuditLog
from chiplog_broker.security.credentials import Credentials, FixedCredentials, Keyring
from chiplog_broker.server.call import Answer, Call, Handler
from chiplog_broker.server.dispatch import Dispatcher
from chiplog_broker.server.limits import ConnectionLimits, ConnectionQuota
from chiplog_broker.server.listening import Acceptor
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.peer import Peer
from chiplog_core.throttle.copying import NO_COPYING, Copying
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)

LEADER = 2
TOPIC = UUID(int=7)
SECRET = FixedCredentials(Credentials("chiplog", "secret"))


class Followed:
    """A `Following` that takes everything."""

    def __init__(self, index: int, leader_id: int = LEADER) -> None:
        self.leader_id = leader_id
        self.key = (TOPIC.bytes, index)
        self.contact: Contact | None = None
        self.is_syncing = False
        self.is_over = False
        self.offset = 0
        self.lag = index
        self.took: list[bytes] = []
        self.stopped = False
        self.is_confirmed = False
        self.copying = NO_COPYING

    @property
    def lane(self) -> int:
        return lane_of(self.key[1], self.copying)

    def set_copying(self, copying: Copying) -> None:
        self.copying = copying
        assert self.contact is not None
        self.contact.has_movers = True
        self.contact.news.set()

    def use_contact(self, contact: Contact) -> None:
        self.contact = contact

    def position(self) -> FetchPosition | None:
        return None if self.is_syncing else FetchPosition(self.offset, -1, 1, 0)

    async def take(self, fetched: FetchedPartition) -> Taken:
        if fetched.answer.error_code:
            return Taken.FAILED
        records = bytes(cast("memoryview", fetched.answer.records))
        if not records:
            return Taken.NOTHING_NEW
        self.took.append(records)
        self.offset += 1
        return Taken.PROGRESS


class Leader:
    """Answers one byte for each partition asked for at `offset` below `end`."""

    def __init__(self) -> None:
        self.requests: list[FetchRequest] = []
        self.end = 0
        self.error_code = 0
        self.more = asyncio.Event()
        self.sessions: set[int] = set()
        self.next_session_id = 0
        """0: it keeps no sessions."""
        self.peers: list[Peer] = []
        """Of each request."""
        self._acceptor: Acceptor | None = None

    def fetch(self, call: Call[FetchRequest]) -> asyncio.Future[Answer]:
        ended = asyncio.Event()
        call.peer.end_wait = ended.set
        return asyncio.ensure_future(self._fetch(call, ended))

    async def _fetch(self, call: Call[FetchRequest], ended: asyncio.Event) -> Answer:
        return call.encode(await self._answer(call, ended))

    async def _answer(self, call: Call[FetchRequest], ended: asyncio.Event) -> FetchResponse:
        request = call.message
        self.requests.append(request)
        self.peers.append(call.peer)
        if request.session_epoch and request.session_id not in self.sessions:
            return FetchResponse([], error_code=ErrorCode.fetch_session_id_not_found)
        requested = [one for topic in request.topics for one in topic.partitions]
        if not self.error_code and not any(map(self._records, requested)):
            waits = [asyncio.ensure_future(one.wait()) for one in (self.more, ended)]
            wait_s = request.max_wait_ms / 1000
            await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            for one in waits:
                one.cancel()
        topics = [
            FetchTopicResponse(
                None,
                topic.topic_id,
                [
                    FetchPartitionResponse(one.partition, 0, self.end, records=self._records(one))
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        session_id = request.session_id
        if request.session_epoch == 0:
            session_id = self.next_session_id
            self.sessions.add(session_id)
        return FetchResponse(topics, error_code=self.error_code, session_id=session_id)

    def _records(self, requested: Any) -> bytes:
        return b"x" if requested.fetch_offset < self.end else b""

    async def start(self, port: int = 0) -> int:
        listener = internal_listener(
            "127.0.0.1", Keyring(SECRET, SystemRng()), host="127.0.0.1", port=port
        )
        sasl = SaslHandlers(SystemClock())
        handlers: dict[ApiKey, Handler] = {
            ApiKey.API_VERSIONS: api_versions,
            ApiKey.SASL_HANDSHAKE: sasl.handshake,
            ApiKey.SASL_AUTHENTICATE: sasl.authenticate,
            ApiKey.FETCH: self.fetch,
        }
        metrics = RequestMetrics()
        quota = ConnectionQuota(ConnectionLimits(9, 9, 2**20, 600.0))
        self._acceptor = Acceptor(
            listener,
            Dispatcher(handlers, metrics),
            quota,
            SystemClock(),
            metrics,
            AuditLog(SystemClock().monotonic_s),
        )
        bound = await self._acceptor.bind()
        await self._acceptor.accept()
        return bound.port

    async def stop(self) -> None:
        if self._acceptor is not None:
            await self._acceptor.close()
            self._acceptor = None


class Follower:
    """The follower side of broker 1."""

    def __init__(self, clock: Clock | None = None, rng: Rng | None = None, **config: str) -> None:
        clock, rng = clock or SystemClock(), rng or SystemRng()
        self.cluster = ClusterView("cluster", 1)
        self.cluster.session = 9
        dialer = Dialer(SystemNet().connect, SystemRng(), SECRET, "broker-1")
        self.settings = {key.replace("_", "."): value for key, value in config.items()}
        throttle = ReplicationThrottle(clock, self.settings)
        self.fetching = ReplicaFetching(self.cluster, dialer, clock, rng, self.settings, throttle)

    def knows(self, port: int) -> None:
        view = BrokerView(LEADER, None, {"internal": ("127.0.0.1", port)})
        self.cluster.brokers = {LEADER: view}

    def begin(self, one: Followed) -> Followed:
        self.fetching.begin(cast("Following", one))
        return one

    def end(self, one: Followed) -> None:
        self.fetching.end(cast("Following", one))


class SlowMachine(SystemClock):
    """So busy that some milliseconds pass between any two looks at the clock."""

    passed_s = 0.0

    def monotonic_s(self) -> float:
        self.passed_s += 0.007
        return self.passed_s


class ShortestRests(SystemRng):
    """Whoever rests after a failure rests for as short as it may: 10 ms at first."""

    def token(self, size_bytes: int) -> bytes:
        return bytes(size_bytes)


@asynccontextmanager
async def both(
    clock: Clock | None = None, rng: Rng | None = None, **config: str
) -> AsyncIterator[tuple[Leader, Follower]]:
    leader, follower = Leader(), Follower(clock, rng, **config)
    follower.knows(await leader.start())
    try:
        yield leader, follower
    finally:
        await follower.fetching.close()
        await leader.stop()


async def eventually(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - anything may make it true
            await asyncio.sleep(0.005)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(15):
            await scenario()
        left = [repr(task) for task in asyncio.all_tasks() if "LeaderFetcher" in repr(task)]
        assert not left, "something was left behind"

    asyncio.run(limited())


def test_one_request_for_everything_that_a_leader_has() -> None:
    async def scenario() -> None:
        async with both() as (leader, follower):
            leader.end = 3
            followed = [follower.begin(Followed(index)) for index in range(4)]
            await eventually(lambda: all(len(one.took) == 3 for one in followed))
            assert follower.fetching.leaders == {LEADER}
            assert follower.fetching.max_lag == 3
            request = leader.requests[0]
            assert (request.replica_id, request.replica_epoch) == (1, 9)
            assert sum(len(topic.partitions) for topic in request.topics) == 4

    run(scenario)


def test_nothing_to_follow_no_task() -> None:
    async def scenario() -> None:
        async with both() as (leader, follower):
            assert not follower.fetching.leaders
            one, other = follower.begin(Followed(0)), follower.begin(Followed(1))
            await eventually(lambda: leader.requests)
            follower.end(one)
            assert follower.fetching.leaders
            follower.end(other)
            assert not follower.fetching.leaders
            requested = len(leader.requests)
            await asyncio.sleep(0.1)
            assert len(leader.requests) <= requested + 1

    run(scenario)


def test_without_a_session_nothing_is_requested() -> None:
    async def scenario() -> None:
        async with both() as (leader, follower):
            follower.cluster.session = 0
            follower.begin(Followed(0))
            await asyncio.sleep(0.2)
            assert not leader.requests
            follower.cluster.session = 10
            await eventually(lambda: leader.requests)
            assert leader.requests[0].replica_epoch == 10

    run(scenario)


def test_a_new_partition_does_not_wait_for_the_records_of_others() -> None:
    async def scenario() -> None:
        async with both(replica_fetch_wait_max_ms="5000") as (leader, follower):
            follower.begin(Followed(0))
            await eventually(lambda: leader.requests)
            began_s = asyncio.get_running_loop().time()
            follower.begin(Followed(1))
            await eventually(lambda: len(leader.requests) == 2)
            assert asyncio.get_running_loop().time() - began_s < 1

    run(scenario)


def test_new_partitions_need_no_new_connection() -> None:
    """Until it is open, nothing that this leader leads would be replicated."""

    async def scenario() -> None:
        async with both(replica_fetch_wait_max_ms="60000") as (leader, follower):
            for count in range(1, 20):
                follower.begin(Followed(count))
                await eventually(lambda: has_asked_for(leader, count))  # noqa: B023
            assert len({id(one) for one in leader.peers}) == 1

    def has_asked_for(leader: Leader, count: int) -> bool:
        last = leader.requests[-1] if leader.requests else None
        return last is not None and sum(len(one.partitions) for one in last.topics) == count

    run(scenario)


def test_partitions_that_come_while_the_leader_is_dialled_go_with_the_first_request() -> None:
    async def scenario() -> None:
        async with both(replica_fetch_wait_max_ms="5000") as (leader, follower):
            for index in range(10):
                follower.begin(Followed(index))
                await asyncio.sleep(0)
            await eventually(lambda: leader.requests)
            assert sum(len(topic.partitions) for topic in leader.requests[0].topics) == 10

    run(scenario)


def test_a_rest_that_ends_while_it_is_inspected_is_over() -> None:
    """It is not taken for one without an end: nobody else would wake this follower."""

    class Failing(Followed):
        async def take(self, fetched: FetchedPartition) -> Taken:
            del fetched
            return Taken.FAILED

    async def scenario() -> None:
        async with both(SlowMachine(), ShortestRests()) as (leader, follower):
            leader.end = 1
            follower.begin(Failing(0))
            await eventually(lambda: len(leader.requests) > 3)

    run(scenario)


def test_a_new_partition_ends_the_rest_after_failures() -> None:
    async def scenario() -> None:
        async with both() as (leader, follower):
            await leader.stop()
            follower.begin(Followed(0))
            await asyncio.sleep(1.5)
            follower.knows(await leader.start())
            began_s = asyncio.get_running_loop().time()
            follower.begin(Followed(1))
            await eventually(lambda: leader.requests)
            assert asyncio.get_running_loop().time() - began_s < 0.4

    run(scenario)


def test_a_leader_that_comes_back_elsewhere_is_found() -> None:
    async def scenario() -> None:
        async with both(replica_fetch_wait_max_ms="50") as (leader, follower):
            one = follower.begin(Followed(0))
            await eventually(lambda: leader.requests)
            await leader.stop()
            leader.end = 1
            await asyncio.sleep(0.1)
            follower.knows(await leader.start())
            await eventually(lambda: one.took)

    run(scenario)


def test_a_leader_without_an_address_is_waited_for() -> None:
    async def scenario() -> None:
        async with both() as (leader, follower):
            known, follower.cluster.brokers = follower.cluster.brokers, {}
            leader.end = 1
            one = follower.begin(Followed(0))
            await asyncio.sleep(0.1)
            assert not leader.requests
            follower.cluster.brokers = known
            await eventually(lambda: one.took)

    run(scenario)


def test_errors_are_not_requested_again_at_once() -> None:
    async def scenario() -> None:
        async with both() as (leader, follower):
            leader.error_code = 77
            one = follower.begin(Followed(0))
            await asyncio.sleep(0.5)
            assert 2 <= len(leader.requests) <= 20
            leader.error_code, leader.end = 0, 1
            await eventually(lambda: one.took)

    run(scenario)


def test_a_sync_is_waited_for_and_does_not_hold_up_others() -> None:
    async def scenario() -> None:
        async with both(replica_fetch_wait_max_ms="5000") as (leader, follower):
            slow, other = follower.begin(Followed(0)), follower.begin(Followed(1))
            await eventually(lambda: leader.requests)
            slow.is_syncing = True
            leader.end = 1
            leader.more.set()
            await eventually(lambda: len(leader.requests) >= 3)
            leader.more.clear()
            assert [one.partition for one in leader.requests[-1].topics[0].partitions] == [1]
            assert leader.requests[-1].max_wait_ms <= 50
            slow.is_syncing = False
            assert slow.contact is not None
            slow.contact.news.set()
            await eventually(lambda: slow.took and other.took)

    run(scenario)


def test_a_session_that_the_leader_forgot_is_started_again_at_once() -> None:
    async def scenario() -> None:
        async with both(replica_fetch_wait_max_ms="20") as (leader, follower):
            leader.next_session_id = 5
            followed = [follower.begin(Followed(index)) for index in range(3)]
            await eventually(lambda: len(leader.requests) > 3)
            epochs = [one.session_epoch for one in leader.requests[-3:]]
            assert epochs == sorted(set(epochs))
            assert not leader.requests[-1].topics
            leader.sessions.clear()
            leader.next_session_id = 6
            requested = len(leader.requests)
            await eventually(lambda: 6 in leader.sessions)
            full = next(one for one in leader.requests[requested:] if one.session_epoch == 0)
            assert full.session_id == 0
            assert sum(len(topic.partitions) for topic in full.topics) == 3
            # What is on its way is not waited for: nothing was wrong with the connection.
            followed[0].offset, leader.end = 1, 2
            leader.sessions.clear()
            await eventually(lambda: followed[0].took)

    run(scenario)


COPY = Copying(follower_is_listed=True)


def fetched_together(leader: Leader) -> set[frozenset[int]]:
    """The partitions of each request."""
    return {
        frozenset(one.partition for topic in request.topics for one in topic.partitions)
        for request in leader.requests
    }


def test_a_copy_has_a_connection_of_its_own_until_it_is_in_sync() -> None:
    async def scenario() -> None:
        async with both() as (leader, follower):
            leader.end = 2
            member, copy = follower.begin(Followed(0)), Followed(1)
            copy.copying = COPY
            follower.begin(copy)
            await eventually(lambda: len(member.took) == len(copy.took) == 2)
            assert fetched_together(leader) == {frozenset({0}), frozenset({1})}
            assert follower.fetching.leaders == {LEADER}
            assert {one.key[1] for one in follower.fetching} == {0, 1}
            leader.requests.clear()
            copy.set_copying(NO_COPYING)
            leader.end = 4
            leader.more.set()
            await eventually(lambda: frozenset({0, 1}) in fetched_together(leader))
            await eventually(lambda: len(copy.took) == 4)
            follower.end(copy)
            follower.end(member)
            assert not follower.fetching.leaders

    run(scenario)


class SlowDisk(Followed):
    """A replica whose first sync does not end."""

    async def take(self, fetched: FetchedPartition) -> Taken:
        taken = await super().take(fetched)
        self.is_syncing = bool(self.took)
        return taken


@pytest.mark.parametrize(
    ("copying", "is_confirmed"), [(NO_COPYING, False), (COPY, False), (COPY, True)]
)
def test_copies_are_fetched_while_others_sync(
    copying: Copying, is_confirmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producers may wait for what a member of the ISR syncs, or a copy that has caught up and is
    proposed for it. So the next request waits for the sync."""
    monkeypatch.setattr("chiplog_broker.replication.fetcher.SYNC_PATIENCE_S", 60)

    async def scenario() -> None:
        async with both() as (leader, follower):
            leader.end = 3
            syncing, other = SlowDisk(0), Followed(2)
            syncing.copying = other.copying = copying
            syncing.is_confirmed = is_confirmed
            follower.begin(syncing)
            follower.begin(other)
            await eventually(lambda: syncing.took and other.took)
            if copying and not is_confirmed:
                await eventually(lambda: len(other.took) == 3)
                assert len(syncing.took) == 1
            else:
                await asyncio.sleep(0.05)
                assert len(other.took) == 1

    run(scenario)


def test_a_copy_that_ends_before_it_has_moved() -> None:
    async def scenario() -> None:
        async with both() as (leader, follower):
            copy = Followed(0)
            copy.copying = COPY
            follower.begin(copy)
            await eventually(lambda: leader.requests)
            copy.set_copying(NO_COPYING)
            follower.end(copy)
            assert not follower.fetching.leaders

    run(scenario)


def test_a_copy_that_moves_while_the_leader_is_dialled_is_fetched_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        dialled, may_connect, dial = asyncio.Event(), asyncio.Event(), Dialer.dial

        async def slowly(dialer: Dialer, *given: Any, **more: Any) -> PeerConnection:
            dialled.set()
            await may_connect.wait()
            return await dial(dialer, *given, **more)

        monkeypatch.setattr(Dialer, "dial", slowly)
        async with both(replica_fetch_wait_max_ms="5000") as (leader, follower):
            moving, other = Followed(0), Followed(1)
            moving.copying = other.copying = COPY
            other.is_syncing = True  # so that nothing else can be fetched
            follower.begin(moving)
            follower.begin(other)
            await dialled.wait()
            moving.set_copying(NO_COPYING)
            may_connect.set()
            await eventually(lambda: leader.requests)
            await asyncio.sleep(0.2)
            assert len(leader.requests) == 1
            assert fetched_together(leader) == {frozenset({0})}
            other.is_syncing = False
            assert other.contact is not None
            other.contact.news.set()
            await eventually(lambda: frozenset({1}) in fetched_together(leader))

    run(scenario)


def test_a_throttled_copy_holds_nothing_back() -> None:
    async def scenario() -> None:
        async with both(follower_replication_throttled_rate="1") as (leader, follower):
            leader.end = 100
            member, copy = follower.begin(Followed(0)), Followed(1)
            copy.copying = COPY
            follower.begin(copy)
            await eventually(lambda: len(member.took) == 100)
            assert len(copy.took) < 10
            follower.settings.clear()
            await eventually(lambda: len(copy.took) == 100)

    run(scenario)
