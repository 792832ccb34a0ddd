"""When a Lease has expired, told second by second."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import BrokerId, Incarnation
from chiplog_core.observed.liveness import LEASE_MS, STALL_MS, LivenessJudge

STEP_MS = 500


def process(broker_id: int, number: int = 0) -> Incarnation:
    return Incarnation(f"{broker_id:016x}{number:016x}")


class Clockwork:
    """Lets time pass for a judge whose brokers renew every 1.5 s, as long as they live."""

    def __init__(self, brokers: Iterable[int] = (1, 2, 3)) -> None:
        self.judge = LivenessJudge()
        self.now_ms = 0
        self.living = set(brokers)
        self.written = dict.fromkeys(self.living, 0)
        self.lists = True
        self.judge.watching(0)
        self.deliver()

    def deliver(self) -> None:
        for broker_id, renewed in self.written.items():
            self.judge.renewed(BrokerId(broker_id), process(broker_id), str(renewed), self.now_ms)

    def run(self, duration_ms: int) -> set[str]:
        """Ask every half second, and list Leases before anything is believed."""
        until_ms = self.now_ms + duration_ms
        while self.now_ms < until_ms:
            self.now_ms += STEP_MS
            if self.now_ms % 1_500 == 0:
                self.written |= dict.fromkeys(self.living, self.now_ms)
                for broker_id in self.living:
                    self.judge.renewed(
                        BrokerId(broker_id), process(broker_id), str(self.now_ms), self.now_ms
                    )
            if self.judge.suspects(self.now_ms) and self.lists:
                self.deliver()
        return set(self.judge.ended(self.now_ms))


def test_brokers_that_renew_live_for_ever() -> None:
    clockwork = Clockwork()

    assert clockwork.run(60_000) == set()
    assert clockwork.judge.alive(clockwork.now_ms) == {process(1), process(2), process(3)}


def test_a_broker_that_stops_is_given_up_after_six_seconds() -> None:
    clockwork = Clockwork()
    clockwork.run(3_000)
    clockwork.living.discard(2)

    assert clockwork.run(LEASE_MS - STEP_MS) == set()
    assert clockwork.run(STEP_MS) == {process(2)}
    assert "6 s" in clockwork.judge.ended(clockwork.now_ms)[process(2)]


def test_whoever_holds_a_lease_may_be_running_until_it_is_known_to_have_ended() -> None:
    clockwork = Clockwork()
    clockwork.judge.terminated(process(1), "was killed")
    assert clockwork.judge.running(0) == {2, 3}
    clockwork.judge.renewed(BrokerId(1), process(1, 1), "after", 0)
    assert clockwork.judge.running(0) == {1, 2, 3}, "the next process has not even registered"
    clockwork.living.discard(2)
    clockwork.run(LEASE_MS)
    assert 2 not in clockwork.judge.running(clockwork.now_ms)


def test_for_how_long_nobody_has_renewed_a_lease() -> None:
    clockwork = Clockwork()
    brokers = [BrokerId(1), BrokerId(2), BrokerId(4)]
    clockwork.living.discard(2)
    clockwork.run(20_000)

    silent_ms = clockwork.judge.silent_ms(brokers, clockwork.now_ms)
    assert silent_ms.keys() == set(brokers)
    assert silent_ms[BrokerId(1)] <= 2_000
    assert 18_000 <= silent_ms[BrokerId(2)] <= 20_000
    assert silent_ms[BrokerId(4)] >= silent_ms[BrokerId(2)], "it never had a Lease"
    clockwork.judge.interrupted(clockwork.now_ms)
    assert clockwork.judge.silent_ms(brokers, clockwork.now_ms) == {}
    clockwork.judge.watching(clockwork.now_ms)
    assert set(clockwork.judge.silent_ms(brokers, clockwork.now_ms).values()) == {0}


def test_it_is_no_longer_ended_when_it_renews_again() -> None:
    clockwork = Clockwork()
    clockwork.living.discard(2)
    assert clockwork.run(10_000) == {process(2)}

    clockwork.living.add(2)

    assert clockwork.run(1_500) == set()
    assert process(2) in clockwork.judge.alive(clockwork.now_ms)


def test_nothing_is_believed_before_a_list_has_confirmed_it() -> None:
    clockwork = Clockwork()
    clockwork.living.discard(2)
    clockwork.lists = False
    assert clockwork.run(20_000) == set()

    clockwork.lists = True

    assert clockwork.run(STEP_MS) == {process(2)}


def test_a_list_that_shows_a_missed_renewal_acquits() -> None:
    clockwork = Clockwork()
    clockwork.living.discard(2)
    clockwork.run(LEASE_MS - STEP_MS)
    clockwork.written[2] = 5_000  # the watch has lost this one

    assert clockwork.run(STEP_MS) == set()
    assert clockwork.run(LEASE_MS - STEP_MS) == set()


def test_after_a_start_the_whole_time_has_to_pass() -> None:
    judge = LivenessJudge()
    judge.renewed(BrokerId(1), process(1), "long ago", 0)

    assert judge.next_check_ms(0) is None
    judge.watching(50_000)

    assert judge.suspects(50_000 + STEP_MS) == set()
    assert judge.next_check_ms(50_000 + STEP_MS) == 500


def test_after_a_reconnect_the_time_is_counted_anew() -> None:
    clockwork = Clockwork()
    clockwork.living.discard(2)
    clockwork.run(5_500)

    clockwork.judge.interrupted(clockwork.now_ms)
    assert clockwork.run(20_000) == set()
    clockwork.judge.watching(clockwork.now_ms)

    assert clockwork.run(LEASE_MS - STEP_MS) == set()
    assert clockwork.run(STEP_MS) == {process(2)}


def test_a_stall_of_the_operator_counts_as_one_check() -> None:
    clockwork = Clockwork()
    clockwork.living.discard(2)
    clockwork.run(LEASE_MS - 2 * STEP_MS)
    clockwork.now_ms += STALL_MS  # and half a second of the next step

    assert clockwork.run(STEP_MS) == set()
    assert clockwork.run(STEP_MS) == {process(2)}


def test_a_long_stall_is_no_fault_of_the_brokers() -> None:
    """They may have been stalled, too, as when the machine was paused."""
    clockwork = Clockwork()
    clockwork.run(3_000)
    clockwork.now_ms += 600_000

    assert clockwork.run(60_000) == set()


def test_leases_expire_although_the_operator_is_stalled_again_and_again() -> None:
    clockwork = Clockwork()
    clockwork.run(3_000)
    clockwork.living.discard(2)
    stalls = 0
    while not clockwork.run(STEP_MS):
        clockwork.now_ms += 3_000
        stalls += 1
        assert stalls < 20, "it is never given up"

    assert clockwork.run(STEP_MS) == {process(2)}


def test_when_most_expire_together_one_period_more_must_pass() -> None:
    clockwork = Clockwork()
    clockwork.living.clear()

    assert clockwork.run(2 * LEASE_MS - STEP_MS) == set()
    assert clockwork.run(STEP_MS) == {process(1), process(2), process(3)}


def test_one_of_two_is_not_most() -> None:
    clockwork = Clockwork((1, 2))
    clockwork.living.discard(1)

    assert clockwork.run(LEASE_MS) == {process(1)}


def test_a_terminated_process_stays_ended_whatever_its_lease_says() -> None:
    clockwork = Clockwork()

    clockwork.judge.terminated(process(2), "exit code 137")

    assert clockwork.run(3_000) == {process(2)}
    assert process(2) not in clockwork.judge.alive(clockwork.now_ms)
    assert clockwork.judge.ended(clockwork.now_ms)[process(2)] == "exit code 137"


def test_a_refused_process_has_ended_until_it_has_renewed_twice() -> None:
    clockwork = Clockwork()
    clockwork.run(3_000)
    clockwork.judge.refused(process(2), "refuses connections")

    assert clockwork.judge.ended(clockwork.now_ms) == {process(2): "refuses connections"}
    assert process(2) not in clockwork.judge.alive(clockwork.now_ms)
    assert 2 in clockwork.judge.running(clockwork.now_ms), "nobody knows for certain"
    assert clockwork.run(1_500) == {process(2)}, "this renewal may have been on its way"
    assert clockwork.run(1_500) == set()
    assert process(2) in clockwork.judge.alive(clockwork.now_ms)


def test_a_renewal_that_is_seen_again_is_no_sign_of_life() -> None:
    clockwork = Clockwork()
    clockwork.run(3_000)
    clockwork.judge.refused(process(2), "refuses connections")
    for _ in range(5):
        clockwork.deliver()

    assert clockwork.judge.ended(clockwork.now_ms).keys() == {process(2)}


def test_the_kubelets_word_stands_above_a_refusal_whichever_comes_first() -> None:
    clockwork = Clockwork()
    clockwork.judge.refused(process(1), "refuses connections")
    for broker_id in (1, 2):
        clockwork.judge.terminated(process(broker_id), "exit code 137")
    clockwork.judge.refused(process(2), "refuses connections")

    assert clockwork.run(6_000) == {process(1), process(2)}
    assert set(clockwork.judge.ended(clockwork.now_ms).values()) == {"exit code 137"}


def test_a_refused_process_that_stays_silent_expires_as_any_other() -> None:
    clockwork = Clockwork()
    clockwork.run(3_000)
    clockwork.living.discard(2)
    clockwork.judge.refused(process(2), "refuses connections")
    clockwork.run(LEASE_MS)

    assert 2 not in clockwork.judge.running(clockwork.now_ms)


def test_the_next_process_of_a_broker_starts_with_a_clean_slate() -> None:
    clockwork = Clockwork()
    clockwork.living.discard(2)
    clockwork.run(10_000)

    clockwork.judge.renewed(BrokerId(2), process(2, 1), "new", clockwork.now_ms)

    assert set(clockwork.judge.ended(clockwork.now_ms)) == set()
    assert process(2, 1) not in clockwork.judge.alive(clockwork.now_ms), "seen once is not alive"


def test_a_forgotten_broker_is_nobodys_business() -> None:
    clockwork = Clockwork((1,))
    clockwork.living.clear()
    clockwork.judge.forgotten(BrokerId(1), clockwork.now_ms)
    clockwork.written.clear()

    assert clockwork.run(30_000) == set()
    assert clockwork.judge.next_check_ms(clockwork.now_ms) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["renew", "watch", "break", "tick", "list"]),
            st.integers(0, 4_000),
            st.integers(1, 3),
        ),
        max_size=60,
    )
)
def test_no_process_is_given_up_within_six_seconds_of_a_renewal(
    events: list[tuple[str, int, int]],
) -> None:
    judge, now_ms = LivenessJudge(), 0
    renewed_ms: dict[int, int] = {}
    for kind, step_ms, broker_id in events:
        now_ms += step_ms
        if kind == "renew":
            renewed_ms[broker_id] = now_ms
            judge.renewed(BrokerId(broker_id), process(broker_id), str(now_ms), now_ms)
        elif kind == "watch":
            judge.watching(now_ms)
        elif kind == "break":
            judge.interrupted(now_ms)
        elif kind == "list" and judge.suspects(now_ms):
            for other, last_ms in renewed_ms.items():
                judge.renewed(BrokerId(other), process(other), str(last_ms), now_ms)
        for incarnation in judge.ended(now_ms):
            assert now_ms - renewed_ms[int(incarnation[:16], 16)] >= LEASE_MS
