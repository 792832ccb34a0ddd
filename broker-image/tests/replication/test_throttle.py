"""A throttled copy takes as long as the limit says, and nothing waits that producers wait for."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.handlers.replica_fetch import ReplicaReading
from chiplog_broker.metadata.view import ClusterView, PartitionView, TopicView
from chiplog_broker.partitions.follow_steps import FetchPosition
from chiplog_broker.partitions.following import Following
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.throttle import LONGEST_HOLD_S, ReplicationThrottle
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.replication.plan import FetchLimits, FetchPlan
from chiplog_core.config.effective import TopicConfig
from chiplog_core.ids import BrokerId, ReplicaRef, Session
from chiplog_core.throttle.copying import Copying, copying_of
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import iter_batches

if TYPE_CHECKING:
    from tests.conftest import Kit

LEADER, FOLLOWER = ReplicaRef(BrokerId(1), Session(1)), ReplicaRef(BrokerId(2), Session(1))
LIMITS = FetchLimits(wait_ms=500, max_bytes=10_000_000, partition_max_bytes=1_000_000)
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
MOVES_RATE = "chiplog.moves.throttled.rate"
LISTED = {LEADERS: "0:1", FOLLOWERS: "0:2"}
BATCHES, BATCH_BYTES = 60, 2_000
RATE = 20_000


class FakeClock(SystemClock):
    """A clock that a test moves."""

    now_s = 1_000.0

    def monotonic_s(self) -> float:
        return self.now_s


@dataclass(eq=False)
class Followed:
    """A `Following` as a plan sees it."""

    key: tuple[bytes, int]
    copying: Copying
    offset: int = 0
    lag: int = 1
    is_confirmed: bool = False
    is_syncing: bool = False
    is_over: bool = False

    def position(self) -> FetchPosition:
        return FetchPosition(self.offset, -1, 9, 0)


@dataclass
class Copy:
    """A replica that broker 2 copies from broker 1, both on one clock of the test."""

    partition: Partition
    own_config: Mapping[str, str]
    config: dict[str, str]
    """The configuration of both brokers."""
    is_added: bool = False
    is_in_sync: bool = False
    clock: FakeClock = field(default_factory=FakeClock)
    requests: int = 0

    def __post_init__(self) -> None:
        isr = (LEADER, FOLLOWER) if self.is_in_sync else (LEADER,)
        self.view = PartitionView(
            index=0,
            leader_id=1,
            leader_epoch=9,
            replicas=(1, 2),
            isr=tuple(one.broker_id for one in isr),
            leader_session=1,
            isr_refs=isr,
            live_refs=(LEADER, FOLLOWER),
            adding=(2,) if self.is_added else (),
        )
        self.partition.lead(self.view, 1)
        topic_id = self.partition.log.topic_id
        self.cluster = ClusterView("cluster", 1)
        self.cluster.put(
            TopicView("orders", topic_id, (self.view,), TopicConfig(self.own_config, {}))
        )
        copying = copying_of(self.own_config, 0, leader=1, follower=2, adding=self.view.adding)
        self.followed = Followed((topic_id.bytes, 0), copying)
        self.leader = ReplicationThrottle(self.clock, self.config)
        self.follower = ReplicationThrottle(self.clock, self.config)
        self.plan = FetchPlan(LIMITS, lambda: 1.0)
        self.plan.put(cast("Following", self.followed))

    def get(self, *_: Any) -> Partition:
        """Find the partition, as `Leaders` does."""
        return self.partition

    def use_up(self) -> None:
        """The leader has sent all that `MOVES_RATE` allows for a while."""
        is_added = Copying(is_added=True)
        assert self.leader.leader_bytes(is_added)
        self.leader.leader_sent(1_000_000)
        assert self.leader.leader_bytes(is_added) == 0

    def run(self) -> float:
        """Copy until there is nothing more; returns the seconds that it takes."""
        began_s = self.clock.now_s
        while self.followed.offset < self.partition.log.end_offset:
            self.step()
            assert self.requests < 1_000
        return self.clock.now_s - began_s

    def step(self) -> None:
        """One request, or one wait."""
        clock, followed = self.clock, self.followed
        share = None
        if followed.copying and not self.is_in_sync:
            share = self.follower.follower_share(clock.now_s)
        planned = self.plan.next_request(2, 1, clock.now_s, share)
        if planned is None:
            wakes_at_s = self.plan.wakes_at_s(clock.now_s)
            assert wakes_at_s is not None
            assert 0 < wakes_at_s - clock.now_s <= LONGEST_HOLD_S
            clock.now_s = wakes_at_s
            return
        self.requests += 1
        message = planned.message
        reading = ReplicaReading(
            message, message.max_bytes, self.cluster, cast("Leaders", self), self.leader
        )
        response = reading.attempt()
        if not reading.is_enough:
            clock.now_s += message.max_wait_ms / 1000
            response = reading.attempt()
        assert self.plan.answered(planned, reading.sent(response))
        (answer,) = response.topics[0].partitions
        assert answer.error_code == 0
        records = bytes(cast("Any", answer.records).read()) if answer.records else b""
        if not self.is_in_sync:
            self.follower.follower_received(followed.copying, len(records))
        followed.offset += sum(1 for _ in iter_batches(records))
        followed.is_confirmed = True
        followed.lag = self.partition.log.end_offset - followed.offset


def copies(kit: "Kit", test: Any) -> None:
    """Run a test with a partition that has `BATCHES` batches."""

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            for _ in range(BATCHES):
                await client.produce("orders", kit.batch(bytes(BATCH_BYTES)))
            (partition,) = kit.partitions("orders")
            test(partition)

    kit.run(scenario)


@pytest.mark.parametrize(
    ("own", "config", "is_added"),
    [
        pytest.param(LISTED, {LEADER_RATE: RATE}, False, id="the leader's limit"),
        pytest.param(LISTED, {FOLLOWER_RATE: RATE}, False, id="the follower's limit"),
        pytest.param(LISTED, {LEADER_RATE: RATE, FOLLOWER_RATE: RATE}, False, id="both"),
        pytest.param({}, {MOVES_RATE: RATE}, True, id="that of moves"),
        pytest.param({LEADERS: "*"}, {LEADER_RATE: RATE, FOLLOWER_RATE: 1}, False, id="all"),
        pytest.param(LISTED, {LEADER_RATE: RATE, MOVES_RATE: 1}, True, id="a client's counts"),
        pytest.param({}, {MOVES_RATE: BATCH_BYTES // 2}, True, id="below a batch"),
    ],
)
def test_a_copy_takes_as_long_as_the_limit_says(
    kit: "Kit", own: dict[str, str], config: dict[str, int], is_added: bool
) -> None:
    texts = {key: str(value) for key, value in config.items()}
    if LEADER_RATE in config and MOVES_RATE in config:
        texts[FOLLOWER_RATE] = str(RATE)
    rate = config.get(LEADER_RATE) or config.get(FOLLOWER_RATE) or config[MOVES_RATE]

    def test(partition: Partition) -> None:
        size_bytes = partition.log.size_bytes
        one = Copy(partition, own, texts, is_added=is_added)
        took_s = one.run()
        batch_bytes = size_bytes / BATCHES
        assert took_s >= (size_bytes - batch_bytes) / rate - 1
        assert took_s <= 1.1 * size_bytes / rate + 1
        assert one.requests <= 12 * took_s + BATCHES
        leader_rate, follower_rate = one.leader.leader_byte_rate, one.follower.follower_byte_rate
        assert max(leader_rate, follower_rate) == pytest.approx(rate, rel=0.5)

    copies(kit, test)


@pytest.mark.parametrize(
    ("own", "config", "is_added"),
    [
        ({}, {LEADER_RATE: "1", FOLLOWER_RATE: "1"}, True),
        (LISTED, {MOVES_RATE: "1"}, False),
        ({LEADERS: "0:2", FOLLOWERS: "0:1"}, {LEADER_RATE: "1", FOLLOWER_RATE: "1"}, False),
        (LISTED, {}, True),
    ],
)
def test_other_copies_are_not_limited(
    kit: "Kit", own: dict[str, str], config: dict[str, str], is_added: bool
) -> None:
    def test(partition: Partition) -> None:
        one = Copy(partition, own, config, is_added=is_added)
        assert one.run() == 0
        assert one.leader.leader_byte_rate == one.follower.follower_byte_rate == 0

    copies(kit, test)


def test_a_member_of_the_isr_never_waits(kit: "Kit") -> None:
    def test(partition: Partition) -> None:
        own = {LEADERS: "*", FOLLOWERS: "*"}
        config = {LEADER_RATE: "1", FOLLOWER_RATE: "1", MOVES_RATE: "1"}
        one = Copy(partition, own, config, is_added=True, is_in_sync=True)
        assert one.run() == 0

    copies(kit, test)


def test_a_replica_that_has_caught_up_is_fetched_in_any_case(kit: "Kit") -> None:
    """Its leader may have proposed it for the ISR: then the high watermark waits for it."""

    def test(partition: Partition) -> None:
        one = Copy(partition, LISTED, {FOLLOWER_RATE: "1"})
        one.step()
        share = one.follower.follower_share(one.clock.now_s)
        assert share is not None
        assert not share.available_bytes
        assert one.plan.next_request(2, 1, one.clock.now_s, share) is None
        one.followed.lag = 0
        planned = one.plan.next_request(2, 1, one.clock.now_s, share)
        assert planned is not None
        assert planned.message.max_bytes == LIMITS.max_bytes

    copies(kit, test)


def test_a_proposed_member_is_not_held_back_by_its_leader(kit: "Kit") -> None:
    def test(partition: Partition) -> None:
        one = Copy(partition, LISTED, {LEADER_RATE: "1"})
        followers = partition.followers
        assert followers is not None
        assert followers.is_copying(FOLLOWER)
        partition.fetched_by(FOLLOWER, partition.log.end_offset)
        assert not followers.is_copying(FOLLOWER)
        assert one.run() == 0

    copies(kit, test)


@pytest.mark.parametrize("is_used_up", [False, True])
def test_a_fetch_beyond_the_leaders_log_does_not_count(kit: "Kit", *, is_used_up: bool) -> None:
    """The follower's log is empty, and begins where an earlier leader's log began."""

    def test(partition: Partition) -> None:
        one = Copy(partition, {}, {MOVES_RATE: "1000"}, is_added=True)
        followers = partition.followers
        assert followers is not None
        if is_used_up:
            one.use_up()
        one.followed.offset = partition.log.end_offset + 500
        planned = one.plan.next_request(2, 1, one.clock.now_s)
        assert planned is not None
        reading = ReplicaReading(
            planned.message, 10_000_000, one.cluster, cast("Leaders", one), one.leader
        )
        (answer,) = reading.attempt().topics[0].partitions
        assert answer.error_code == ErrorCode.offset_out_of_range
        assert reading.is_enough
        assert followers.added_ends() == [0]
        assert followers.is_copying(FOLLOWER)

    copies(kit, test)


def test_a_fetch_counts_while_the_limit_is_used_up(kit: "Kit") -> None:
    """The answer is as if there were no records yet, so that the leader does not answer at once."""

    def test(partition: Partition) -> None:
        one = Copy(partition, {}, {MOVES_RATE: "1000"}, is_added=True)
        followers = partition.followers
        assert followers is not None
        one.use_up()
        one.followed.offset = 3
        planned = one.plan.next_request(2, 1, one.clock.now_s)
        assert planned is not None
        reading = ReplicaReading(
            planned.message, 10_000_000, one.cluster, cast("Leaders", one), one.leader
        )
        (answer,) = reading.attempt().topics[0].partitions
        assert (answer.error_code, answer.records) == (0, b"")
        assert not reading.is_enough
        assert followers.added_ends() == [3]

    copies(kit, test)


def test_another_limit_takes_effect_at_once(kit: "Kit") -> None:
    def test(partition: Partition) -> None:
        one = Copy(partition, LISTED, {FOLLOWER_RATE: "1", LEADER_RATE: "1"})
        for _ in range(5):
            one.step()
        done = one.followed.offset
        one.config.clear()
        assert one.run() <= LONGEST_HOLD_S
        assert done < BATCHES / 2

    copies(kit, test)


def test_a_copy_that_is_listed_no_more_is_not_throttled(kit: "Kit") -> None:
    def test(partition: Partition) -> None:
        one = Copy(partition, LISTED, {LEADER_RATE: "1"})
        topic = one.cluster.topic("orders")
        assert topic is not None
        one.cluster.put(replace(topic, config=TopicConfig({}, {})))
        assert one.run() == 0

    copies(kit, test)
