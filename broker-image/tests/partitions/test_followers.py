"""A leader's followers in random order of events: what may never happen to its high watermark.

The map is a list of states; proposals are judged as the operator does it: late, or refused.
"""

from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID

import pytest

from chiplog_broker.metadata.view import PartitionView, TopicView
from chiplog_broker.partitions.followers import (
    FIRST_PAUSE_S,
    LAST_PAUSE_S,
    Followers,
    newest_sessions,
)
from chiplog_broker.partitions.isr import NOTHING
from chiplog_broker.partitions.proposals import Proposals
from chiplog_core.config.effective import TopicConfig
from chiplog_core.ids import BrokerId, ReplicaRef, Session

TOPIC_ID = UUID("5b3f3d3e-8f43-4d5c-9c57-0123456789ab")
LAG_MAX_S = 10.0


def ref(broker_id: int, session: int = 1) -> ReplicaRef:
    return ReplicaRef(BrokerId(broker_id), Session(session))


L, A, B = ref(1), ref(2), ref(3)


def view(
    isr: tuple[ReplicaRef, ...] = (L, A, B), partition_epoch: int = 1, leader_epoch: int = 1
) -> PartitionView:
    return PartitionView(
        index=0,
        leader_id=1,
        leader_epoch=leader_epoch,
        replicas=(1, 2, 3),
        isr=tuple(one.broker_id for one in isr),
        partition_epoch=partition_epoch,
        leader_session=1,
        isr_refs=isr,
        live_refs=(L, A, B),
    )


def topic(one: PartitionView) -> TopicView:
    return TopicView("orders", TOPIC_ID, (one,), TopicConfig({}, {}))


@dataclass
class Leader:
    """A leadership, a clock, and the map that it goes by."""

    proposals: Proposals = field(default_factory=lambda: Proposals(lambda: None))
    now_s: float = 0.0
    end_offset: int = 10
    high_watermark: int = 0
    view: PartitionView = field(default_factory=view)

    def __post_init__(self) -> None:
        self.followers = Followers(TOPIC_ID, self.proposals)
        self.followers.begin(self.end_offset)
        self.followers.update(self.view, 2, self.now_s)

    def fetch(self, follower: ReplicaRef, offset: int) -> None:
        self.followers.fetched(follower, offset, self.end_offset, self.now_s)
        self.advance()

    def fetch_twice(self, follower: ReplicaRef, offset: int, log_start_offset: int = 0) -> None:
        """And so be answered in between."""
        for _ in range(2):
            self.followers.fetched(follower, offset, self.end_offset, self.now_s, log_start_offset)
        self.advance()

    def advance(self) -> None:
        safe = self.followers.safe_offset(self.end_offset)
        self.high_watermark = max(self.high_watermark, safe)

    def propose(self) -> bool:
        return self.followers.propose(self.high_watermark, self.now_s, LAG_MAX_S)

    def apply(self, one: PartitionView) -> None:
        self.view = one
        self.proposals.applied(topic(one))
        self.followers.update(one, 2, self.now_s)
        self.advance()

    @property
    def promised(self) -> tuple[ReplicaRef, ...] | None:
        standing = self.proposals.oldest(9)
        return standing[0].isr if standing else None


def test_nothing_is_safe_before_every_in_sync_replica_has_fetched() -> None:
    leader = Leader()
    leader.fetch(A, 10)
    assert leader.high_watermark == 0
    leader.fetch(B, 7)
    assert leader.high_watermark == 7
    # What a follower has it keeps: a fetch that was overtaken takes nothing back.
    leader.fetch(B, 5)
    assert leader.followers.safe_offset(leader.end_offset) == 7
    leader.fetch(B, 9)
    assert leader.high_watermark == 9


def test_an_offset_above_the_leaders_log_is_ignored() -> None:
    leader = Leader(view=view(isr=(L, A)))
    leader.fetch(A, 10)
    leader.fetch(B, 500)
    assert not leader.propose()
    leader.fetch(B, 2)
    assert not leader.propose()
    leader.fetch(A, 500)
    leader.end_offset = 600
    assert leader.followers.safe_offset(leader.end_offset) == 10


def test_a_restarted_member_of_the_isr_is_no_copy() -> None:
    restarted = ref(2, session=2)
    leader = Leader(view=replace(view(isr=(L, A)), live_refs=(L, restarted, B)))
    leader.fetch(restarted, 3)
    assert leader.high_watermark == 0, "it waits for the session in the ISR"
    assert not leader.followers.is_copying(restarted)
    assert leader.followers.is_copying(B)


def test_a_restarted_follower_that_was_proposed_is_no_copy() -> None:
    leader = Leader(view=view(isr=(L, A)))
    leader.fetch(A, 10)
    leader.fetch(B, 10)
    assert leader.propose()
    restarted = ref(3, session=2)
    leader.apply(replace(leader.view, live_refs=(L, A, restarted)))
    assert not leader.followers.is_copying(restarted)


def test_the_ends_of_added_replicas_are_known_until_they_are_in_sync() -> None:
    leader = Leader(view=replace(view(isr=(L, A)), adding=(3, 4), replicas=(1, 2, 3, 4)))
    leader.fetch(A, 4)
    assert leader.followers.added_ends() == [0, 0]  # one has not fetched, one is not there
    leader.fetch(B, 7)
    assert leader.followers.added_ends() == [7, 0]
    leader.apply(replace(leader.view, isr_refs=(L, A, B), isr=(1, 2, 3), partition_epoch=2))
    assert leader.followers.added_ends() == [0]
    leader.apply(replace(leader.view, adding=(), replicas=(1, 2, 3), partition_epoch=3))
    assert leader.followers.added_ends() == []


def test_a_fetch_counts_in_its_session_only() -> None:
    leader = Leader()
    old, new = B, ref(3, 2)
    leader.apply(replace(view(partition_epoch=2), live_refs=(L, A, new)))
    assert not leader.followers.admits(old)
    assert leader.followers.admits(new)
    leader.fetch(A, 10)
    leader.fetch(new, 10)
    # The listed process never said how far it was, and nobody can say it for it.
    assert leader.high_watermark == 0
    leader.propose()
    assert leader.promised == (L, A, new)
    assert leader.high_watermark == 0
    leader.apply(replace(view((L, A, new), 3), live_refs=(L, A, new)))
    assert leader.high_watermark == 10


def test_a_fetch_in_another_leader_epoch_does_not_count() -> None:
    leader = Leader()
    leader.fetch(A, 10)
    leader.fetch(B, 10)
    leader.end_offset = 20
    leader.followers.begin(20)
    leader.apply(view(partition_epoch=2, leader_epoch=2))
    assert leader.followers.safe_offset(20) == NOTHING
    leader.fetch(A, 20)
    leader.fetch(B, 4)
    assert leader.followers.safe_offset(20) == 4


def test_a_session_that_the_map_knows_first_counts_too() -> None:
    newer = ref(3, 2)
    assert newest_sessions(view((L, A, newer)))[3] == newer
    assert newest_sessions(replace(view((L, A)), live_refs=(L, A)))[2] == A
    assert 3 not in newest_sessions(replace(view((L, A)), live_refs=(L, A)))


def test_a_follower_that_joins_holds_back_the_high_watermark_before_it_is_in_the_map() -> None:
    leader = Leader(view=view((L, A)))
    leader.fetch(A, 10)
    leader.fetch(B, 9)
    assert not leader.propose(), "below the leader's log end when its leadership began"
    leader.fetch(B, 10)
    assert leader.propose()
    assert leader.promised == (L, A, B)
    leader.end_offset = 20
    leader.fetch(A, 20)
    assert leader.high_watermark == 10
    leader.fetch(B, 15)
    assert leader.high_watermark == 15


def test_a_follower_that_is_proposed_out_holds_back_the_high_watermark_until_the_answer() -> None:
    leader = Leader()
    leader.fetch(A, 10)
    leader.fetch(B, 8)
    leader.now_s, leader.end_offset = 11.0, 30
    leader.fetch(A, 30)
    assert leader.propose()
    assert leader.promised == (L, A)
    assert leader.high_watermark == 8
    # Another view of the same entry is no answer.
    leader.apply(view())
    assert leader.promised == (L, A)
    assert leader.high_watermark == 8
    leader.apply(view((L, A), 2))
    assert not leader.proposals.oldest(9)
    assert leader.high_watermark == 30


def test_after_each_refusal_the_leader_waits_for_longer() -> None:
    leader = Leader(view=view((L, A)))
    leader.fetch(A, 10)
    leader.fetch(B, 10)
    for number in range(1, 9):
        assert leader.propose()
        leader.apply(view((L, A), number + 1))
        pause_s = min(FIRST_PAUSE_S * 2 ** (number - 1), LAST_PAUSE_S)
        leader.now_s += pause_s - 0.01
        leader.fetch(A, 10)
        leader.fetch(B, 10)
        assert not leader.propose()
        leader.now_s += 0.02
    assert leader.propose()
    (again,) = leader.proposals.oldest(9)
    assert again.base_partition_epoch == 9
    leader.apply(view((L, A, B), 10))
    leader.now_s += 11
    leader.fetch(A, 10)
    assert leader.propose(), "what was accepted ends the pauses"


def test_a_promise_survives_the_leader_that_resigns() -> None:
    leader = Leader(view=view((L, A)))
    leader.fetch(A, 10)
    leader.fetch(B, 10)
    leader.propose()
    # Its session was in doubt for a moment, the map has not changed: it leads on.
    again = Leader(leader.proposals, view=view((L, A)))
    again.end_offset = 20
    again.fetch(A, 20)
    assert again.high_watermark == 0
    assert not again.propose()
    again.fetch(B, 12)
    assert again.high_watermark == 12


def test_a_follower_under_load_is_caught_up_by_what_there_was_when_it_fetched_last() -> None:
    leader = Leader()
    for second in range(1, 31):
        leader.now_s = float(second)
        for one in (A, B):
            # Always one fetch behind, never at the log end.
            leader.fetch(one, leader.end_offset - (10 if second > 1 else 0))
        leader.end_offset += 10
        assert not leader.propose()


class History:
    """One leader, and everything that may happen around it, in random order."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311
        first = self.random.sample([A, B], self.random.randint(0, 2))
        self.leader = Leader(view=view((L, *first)))
        self.held: dict[ReplicaRef, int] = {}
        self.sessions = {2: 1, 3: 1}
        self.steps = (self.append, self.fetch, self.fetch, self.wait, self.answer, self.restart)

    def step(self) -> None:
        self.random.choice(self.steps)()

    def append(self) -> None:
        self.leader.end_offset += self.random.randint(1, 5)
        self.leader.advance()

    def fetch(self) -> None:
        """By a process that lives, or by one that does not know that it is over."""
        broker_id = self.random.choice([2, 3])
        one = ref(broker_id, self.random.randint(1, self.sessions[broker_id]))
        if self.leader.followers.admits(one):
            end_offset = self.leader.end_offset
            offset = self.random.choice([end_offset, self.random.randint(0, end_offset)])
            self.held[one] = max(self.held.get(one, 0), offset)
            self.leader.fetch(one, self.held[one])
            self.leader.propose()

    def wait(self) -> None:
        self.leader.now_s += self.random.choice([0.1, 1, 12])
        self.leader.propose()

    def restart(self) -> None:
        """A follower's process comes back in the next session."""
        self.sessions[self.random.choice([2, 3])] += self.random.random() < 0.3
        live = (L, *(ref(one, session) for one, session in self.sessions.items()))
        self.leader.apply(replace(self.leader.view, live_refs=live))

    def answer(self) -> None:
        """The operator accepts or refuses what it has seen, or changes something else."""
        one, sent = self.leader.view, self.leader.proposals.oldest(9)
        isr = one.isr_refs
        if sent and self.random.random() < 0.7:
            assert sent[0].base_partition_epoch == one.partition_epoch
            isr = sent[0].isr
        elif len(isr) > 2 and self.random.random() < 0.3:
            isr = tuple(member for member in isr if member != isr[-1] or member == L)
        self.leader.apply(replace(one, isr_refs=isr, partition_epoch=one.partition_epoch + 1))


@pytest.mark.parametrize("seed", range(300))
def test_random_histories(seed: int) -> None:
    """The rules of R4 and R5, whatever the order of fetches, appends, answers and restarts."""
    history = History(seed)
    leader = history.leader
    for _ in range(120):
        before, promised = leader.high_watermark, leader.promised
        listed, epoch = set(leader.view.isr_refs), leader.view.partition_epoch
        history.step()
        assert leader.high_watermark >= before
        if promised is not None and leader.view.partition_epoch == epoch:
            assert leader.promised == promised, "a promise is neither changed nor withdrawn"
        if leader.high_watermark > before:
            # Whoever may be in sync by now, as far as a map may have been written meanwhile.
            if leader.view.partition_epoch > epoch:
                listed = set(leader.view.isr_refs)
            for member in (listed | set(leader.promised or ())) - {L}:
                assert history.held.get(member, -1) >= leader.high_watermark


def test_random_histories_reach_what_they_are_for() -> None:
    advanced = promised = 0
    for seed in range(50):
        history = History(seed)
        for _ in range(120):
            before = history.leader.high_watermark, history.leader.promised
            history.step()
            advanced += history.leader.high_watermark > before[0]
            promised += before[1] is None and history.leader.promised is not None
    assert advanced > 100
    assert promised > 100


@dataclass
class Rest:
    """A partition in a follower's fetch session."""

    polled_s: float


def progress_of(leader: Leader, follower: ReplicaRef) -> tuple[int, float]:
    """How far it is and since when, as the next proposal would see it."""
    known = leader.followers._followers.get(follower)
    assert known is not None
    return known.progress.end_offset, known.progress.caught_up_s


@pytest.mark.parametrize("seed", range(20))
def test_who_rests_in_a_session_counts_as_if_it_had_named_every_partition(seed: int) -> None:
    """One leader hears each fetch, the other only those of which there is something to say."""
    random = Random(seed)  # noqa: S311
    full, resting = Leader(), Leader()
    rest: Rest | None = None
    offset = 0
    for _ in range(300):
        for leader in (full, resting):
            leader.now_s += 0.5
        match random.choice(["poll", "poll", "catch up", "append", "leave"]):
            case "append":
                for leader in (full, resting):
                    leader.end_offset += 1
                    leader.followers.appended()
                rest = None
            case "catch up":
                offset = random.randint(offset, full.end_offset)
                rest = None
            case "leave":
                # The session goes on without it: it was asked for with the last poll.
                rest = None
            case _:
                full.fetch(A, offset)
                if rest is not None:
                    rest.polled_s = full.now_s
                else:
                    resting.fetch(A, offset)
                    if offset == resting.end_offset:
                        rest = Rest(resting.now_s)
                        resting.followers.mark_idle(A, rest)
                assert progress_of(full, A) == progress_of(resting, A)
        assert full.high_watermark == resting.high_watermark


def test_a_resting_follower_that_stops_fetching_lags_like_any_other() -> None:
    leader = Leader(high_watermark=10)
    rest = Rest(0)
    for follower in (A, B):
        leader.fetch(follower, 10)
        leader.followers.mark_idle(follower, rest if follower == A else Rest(0))
    leader.now_s = LAG_MAX_S * 5
    rest.polled_s = leader.now_s
    # With nothing to fetch nobody is behind, however long ago it was heard.
    leader.end_offset = 11
    leader.followers.appended()
    assert leader.propose()
    assert leader.promised == (L, A)


BOTH = {2, 3}


def test_readers_are_sent_to_a_replica_that_has_their_offset() -> None:
    leader = Leader()
    assert leader.followers.best_to_read(BOTH, 0) is None
    leader.fetch(A, 8)
    # It has asked and may not have been answered: it does not know what readers may see.
    assert leader.followers.best_to_read(BOTH, 0) is None
    leader.fetch(A, 8)
    for offset, best in ((0, 2), (8, 2), (9, None)):
        assert leader.followers.best_to_read(BOTH, offset) == best
    assert leader.followers.best_to_read({3}, 0) is None
    assert leader.followers.best_to_read({1}, 0) is None, "the leader is not sent to itself"
    leader.fetch_twice(A, 9, log_start_offset=5)
    for offset, best in ((4, None), (5, 2), (9, 2)):
        assert leader.followers.best_to_read(BOTH, offset) == best


def test_readers_are_sent_to_the_most_caught_up_then_always_to_the_same() -> None:
    leader = Leader()
    leader.fetch_twice(A, 9)
    leader.fetch_twice(B, 8)
    assert leader.followers.best_to_read(BOTH, 3) == 2, "the longer log"
    leader.now_s = 1.0
    leader.fetch_twice(B, 10)
    leader.now_s = 2.0
    leader.fetch_twice(A, 10)
    assert leader.followers.best_to_read(BOTH, 3) == 2, "had everything last"
    leader.fetch_twice(B, 10)
    assert leader.followers.best_to_read(BOTH, 3) == 3, "the larger id"


def test_readers_are_sent_to_live_replicas_in_sync_only() -> None:
    leader = Leader()
    leader.fetch_twice(A, 10)
    leader.fetch_twice(B, 10)
    leader.apply(replace(view(partition_epoch=2), live_refs=(L, A)))
    assert leader.followers.best_to_read(BOTH, 3) == 2
    leader.apply(view((L, B), 3))
    assert leader.followers.best_to_read(BOTH, 3) == 3
    # Another process of the same broker has said nothing yet.
    later = ref(3, 2)
    leader.apply(replace(view((L, later), 4), live_refs=(L, A, later)))
    assert leader.followers.best_to_read(BOTH, 3) is None
    leader.fetch_twice(later, 10)
    assert leader.followers.best_to_read(BOTH, 3) == 3
    # What it said holds in this leader epoch.
    leader.followers.begin(10)
    leader.followers.update(leader.view, 2, leader.now_s)
    assert leader.followers.best_to_read(BOTH, 3) is None


def test_readers_are_not_sent_to_a_replica_that_is_about_to_leave() -> None:
    leader = Leader()
    for follower in (A, B):
        leader.fetch_twice(follower, 10)
    leader.now_s = LAG_MAX_S
    leader.fetch(B, 10)
    leader.now_s = LAG_MAX_S + 1
    assert leader.propose()
    assert leader.promised == (L, B)
    assert leader.followers.best_to_read(BOTH, 3) == 3
    assert leader.followers.best_to_read({2}, 3) is None
