"""A CA is made, renewed and replaced, and no client is left behind on the way."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_core.certificates.authority import (
    BACKDATED,
    PUBLISHED_FOR,
    Authority,
    CaCertificate,
    Issued,
    Request,
    Step,
    Term,
    kept,
    next_step,
)
from chiplog_core.certificates.reports import Reporters
from chiplog_core.certificates.servers import Why, may_issue, why_issued
from chiplog_core.ids import BrokerId
from chiplog_core.model.certificates import CertificateAuthority
from tests.certificates.reporting import broker, fingerprint, shows

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
TERM = Term(validity=40 * DAY, renewal=20 * DAY)
HOSTS = frozenset({"demo-kafka-bootstrap"})


def certificate(key: str = "a", *, at: datetime = NOW, **fields: object) -> CaCertificate:
    made = CaCertificate(
        fingerprint=f"{key}{at.isoformat()}",
        key_id=key,
        not_before=at - BACKDATED,
        not_after=at + TERM.validity,
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def authority(*certificates: CaCertificate, key: str = "a", asked: object = ()) -> Authority:
    return Authority(certificates=certificates, key_id=key, requests=frozenset(asked))  # type: ignore[call-overload]


def issued(issuer: str = "a", *, at: datetime = NOW) -> Issued:
    not_after = at + TERM.validity
    return Issued(issuer=issuer, not_before=at - BACKDATED, not_after=not_after, hosts=HOSTS)


def step_of(found: Authority, *leaves: Issued, at: datetime = NOW) -> Step:
    return next_step(found, leaves, TERM, at)[0]


def test_a_ca_is_made_in_two_steps_and_then_left_alone() -> None:
    assert step_of(Authority()) is Step.MAKE_KEY
    assert step_of(authority()) is Step.SIGN
    assert step_of(authority(certificate())) is Step.NOTHING


def test_a_ca_is_renewed_in_time_and_keeps_its_key() -> None:
    found = authority(certificate())
    due = NOW + TERM.validity - TERM.renewal
    assert step_of(found, at=due - timedelta(seconds=1)) is Step.NOTHING
    assert step_of(found, at=due) is Step.SIGN
    assert kept(found, Step.SIGN, due) == ()


def test_a_lost_key_is_replaced_and_what_it_signed_stays_trusted() -> None:
    old = certificate("lost")
    assert step_of(authority(old, key="")) is Step.MAKE_KEY
    assert step_of(authority(old)) is Step.SIGN
    assert kept(authority(old), Step.SIGN, NOW) == (old,)


def test_an_expired_ca_is_signed_again_and_expired_certificates_are_dropped() -> None:
    old, late = certificate("old"), NOW + TERM.validity
    assert step_of(authority(certificate()), at=late) is Step.SIGN
    found = authority(certificate(at=late), old)
    assert step_of(found, at=late) is Step.DROP_EXPIRED
    assert kept(found, Step.DROP_EXPIRED, late) == (certificate(at=late),)


def test_a_certificate_that_is_of_no_ca_is_not_issued_from() -> None:
    leaf = certificate(is_authority=False)
    assert authority(leaf).current(NOW) is None
    assert why_issued(None, HOSTS, authority(leaf), TERM, NOW) is None
    assert not may_issue(authority(leaf), NOW)


@pytest.mark.parametrize(
    ("request_", "step"), [(Request.RENEW, Step.SIGN), (Request.REPLACE, Step.MAKE_KEY)]
)
def test_users_ask_for_a_renewal_or_another_key(request_: Request, step: Step) -> None:
    found = authority(certificate(), asked={request_, Request.REMOVE_OLD})
    assert next_step(found, (), TERM, NOW) == (step, frozenset({request_}))


def test_the_old_ca_is_removed_on_request_when_nobody_needs_it() -> None:
    found = authority(certificate(), certificate("old"), asked={Request.REMOVE_OLD})
    used = NOW + PUBLISHED_FOR
    assert step_of(found, issued("old"), at=used) is Step.NOTHING
    assert step_of(found, issued("a"), issued("old"), at=used) is Step.NOTHING
    assert step_of(found, issued("a"), at=used - timedelta(seconds=1)) is Step.NOTHING
    done = frozenset({Request.REMOVE_OLD})
    assert next_step(found, [issued("a")], TERM, used) == (Step.REMOVE_OLD, done)
    assert kept(found, Step.REMOVE_OLD, used) == (certificate(),)


def test_the_old_clients_ca_stays_while_a_broker_does_not_trust_the_new_one() -> None:
    """Clients may have certificates that the operator did not issue."""
    new, old = (certificate(key, fingerprint=fingerprint(key)) for key in ("a", "old"))
    found = authority(new, old, asked={Request.REMOVE_OLD})
    for trusted, step in ((("old",), Step.NOTHING), (("a", "old"), Step.REMOVE_OLD)):
        report = shows(trusted=map(fingerprint, trusted))
        reporters = Reporters.of({BrokerId(1): broker(1, report)})
        assert next_step(found, (), TERM, NOW, reporters)[0] is step
    older = Reporters.of({BrokerId(1): broker(1)})
    assert next_step(found, (), TERM, NOW, older)[0] is Step.NOTHING
    assert next_step(found, (), TERM, NOW + PUBLISHED_FOR, older)[0] is Step.REMOVE_OLD


def test_who_has_no_valid_certificate_does_not_wait_for_brokers() -> None:
    new, old = (certificate(key, fingerprint=fingerprint(key)) for key in ("a", "old"))
    late = Reporters.of({BrokerId(1): broker(1, shows(trusted=[fingerprint("old")]))})
    found, known = authority(new, old), NOW + PUBLISHED_FOR

    def why(leaf: Issued | None, at: datetime) -> Why | None:
        return why_issued(leaf, frozenset(), found, TERM, at, late)

    assert why(None, NOW) is None
    assert why(None, known) is Why.MISSING
    assert why(issued("old"), known) is None
    assert why(replace(issued("old"), not_after=known), known) is Why.ISSUER
    assert why(issued(""), known) is Why.ISSUER


def test_a_certificate_of_the_present_key_is_renewed_though_brokers_do_not_report() -> None:
    """The old key may be wanted for months, in which a broker is down for days."""
    found = authority(certificate("b"), certificate("a"), key="b")
    down = Reporters.of({BrokerId(1): broker(1, shows(), fenced=True)})
    due = NOW + TERM.validity - TERM.renewal
    renewed = replace(found, certificates=(certificate("b", at=due - DAY), *found.certificates))
    assert why_issued(issued("b"), HOSTS, renewed, TERM, due, down) is Why.EXPIRES
    assert why_issued(issued("b"), HOSTS, renewed, TERM, due - DAY, down) is None
    assert why_issued(issued("a"), HOSTS, renewed, TERM, due, down) is None


def test_nothing_is_issued_from_a_ca_that_clients_may_not_know_yet() -> None:
    found = authority(certificate("a"), certificate("old", at=NOW - DAY))
    known = NOW + PUBLISHED_FOR
    for leaf in (None, issued("old")):
        assert why_issued(leaf, HOSTS, found, TERM, known - timedelta(seconds=1)) is None
    assert why_issued(None, HOSTS, found, TERM, known) is Why.MISSING
    assert why_issued(issued("old"), HOSTS, found, TERM, known) is Why.ISSUER


def test_why_a_certificate_is_issued() -> None:
    found = authority(certificate())
    due = NOW + TERM.validity - TERM.renewal
    renewed = authority(certificate(at=due))
    assert why_issued(None, HOSTS, found, TERM, NOW) is Why.MISSING
    assert why_issued(issued(), HOSTS, found, TERM, NOW) is None
    assert why_issued(issued(""), HOSTS, found, TERM, NOW) is Why.ISSUER
    assert why_issued(issued(), HOSTS | {"more"}, found, TERM, NOW) is Why.HOSTS
    assert why_issued(issued(), frozenset(), found, TERM, NOW) is None
    assert why_issued(issued(), HOSTS, renewed, TERM, due) is Why.EXPIRES
    # A certificate cannot outlive its CA, so another one would be no better.
    assert why_issued(issued(), HOSTS, found, TERM, due) is None


def test_a_broker_shows_its_certificate_at_both_ends() -> None:
    found, both = authority(certificate()), replace(issued(), is_for_both_ends=True)
    assert why_issued(issued(), HOSTS, found, TERM, NOW, needs_both_ends=True) is Why.USAGE
    assert why_issued(both, HOSTS, found, TERM, NOW, needs_both_ends=True) is None
    # One of the old key waits for clients, as for any other reason.
    replaced = authority(certificate("a"), certificate("old", at=NOW - DAY))
    assert why_issued(issued("old"), HOSTS, replaced, TERM, NOW, needs_both_ends=True) is None


def test_what_clients_and_brokers_check_waits_for_both() -> None:
    found = authority(certificate("a"), certificate("old", at=NOW - DAY))
    current = found.certificates[0].fingerprint
    known = NOW + PUBLISHED_FOR

    def may(*trusted: str, at: datetime) -> bool:
        one = broker(1, shows(trusted=trusted, listener="internal"))
        peers = Reporters.of({BrokerId(1): one}).as_peers(are_with_clients=True)
        return may_issue(found, at, peers)

    assert not may(current, at=known - timedelta(seconds=1)), "clients may not have read it"
    assert not may("old", at=known + DAY), "the broker does not trust it"
    assert may(current, at=known)


def test_the_term_is_that_of_the_spec() -> None:
    assert Term.of(CertificateAuthority()) == Term(validity=365 * DAY, renewal=30 * DAY)


@dataclass
class Cluster:
    """A CA, the certificate of a broker, and what they were at each moment."""

    now: datetime = NOW
    authority: Authority = field(default_factory=Authority)
    leaf: Issued | None = None
    keys: int = 0
    history: list[tuple[datetime, Authority, Issued | None]] = field(default_factory=list)

    def round(self) -> int:
        """The operator's round. Returns the number of steps that it took."""
        steps = 0
        for _ in range(10):
            leaves = () if self.leaf is None else (self.leaf,)
            step, done = next_step(self.authority, leaves, TERM, self.now)
            if step is Step.NOTHING:
                break
            steps += 1
            self._take(step)
            self.authority = replace(self.authority, requests=self.authority.requests - done)
        current = self.authority.current(self.now)
        if why_issued(self.leaf, HOSTS, self.authority, TERM, self.now):
            assert current is not None
            end = min(self.now + TERM.validity, current.not_after)
            self.leaf = replace(issued(current.key_id, at=self.now), not_after=end)
        self.history.append((self.now, self.authority, self.leaf))
        return steps

    def _take(self, step: Step) -> None:
        if step is Step.MAKE_KEY:
            self.keys += 1
            self.authority = replace(self.authority, key_id=f"key {self.keys}")
            return
        published = kept(self.authority, step, self.now)
        if step is Step.SIGN:
            published = (certificate(self.authority.key_id, at=self.now), *published)
        self.authority = replace(self.authority, certificates=published)

    def known(self) -> Iterator[tuple[Authority, Issued | None]]:
        """What a client or a broker may have read: everything since `PUBLISHED_FOR` ago, and what
        there was at that time."""
        since = self.now - PUBLISHED_FOR
        before = [entry for entry in self.history if entry[0] <= since][-1:]
        after = [entry for entry in self.history if entry[0] > since]
        for _, authority_, leaf in (*before, *after):
            yield authority_, leaf


MOMENTS = st.sampled_from(
    [timedelta(seconds=30), timedelta(minutes=1), PUBLISHED_FOR, DAY, 15 * DAY, 19 * DAY]
)
ASKED: st.SearchStrategy[set[Request]] = (
    st.just(set()) | st.just(set()) | st.sets(st.sampled_from(Request))
)
"""Mostly nothing, so that certificates grow old."""
LOST = st.sampled_from([False] * 7 + [True])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(MOMENTS, ASKED, LOST), max_size=25))
def test_clients_that_read_the_ca_in_time_trust_every_broker(
    walk: list[tuple[timedelta, set[Request], bool]],
) -> None:
    """Whatever users ask for and whenever, and if the private key is deleted in between."""
    cluster = Cluster()
    cluster.round()
    for passed, asked, key_is_lost in walk:
        cluster.now += passed
        _check(cluster)
        key = "" if key_is_lost else cluster.authority.key_id
        requests = cluster.authority.requests | asked
        cluster.authority = replace(cluster.authority, key_id=key, requests=requests)
        assert cluster.round() <= 4
        _check(cluster)
        # The operator looks every minute: it is never away for days just after a change.
        cluster.now += PUBLISHED_FOR
        cluster.round()
        _check(cluster)
        assert cluster.authority.requests <= {Request.REMOVE_OLD}
        published = [one.key_id for one in cluster.authority.certificates]
        assert len(published) == len(set(published))


def _check(cluster: Cluster) -> None:
    """Every client trusts every broker, whichever state each of them has read last."""
    for authority_, _ in cluster.known():
        for _, leaf in cluster.known():
            assert leaf is not None
            assert cluster.now < leaf.not_after
            assert leaf.issuer in authority_.trusted_keys(cluster.now)


def test_a_clock_that_was_ahead_for_a_while_leaves_nothing_that_is_not_valid_yet() -> None:
    ahead = certificate(at=NOW + 400 * DAY)
    found = authority(ahead, certificate("b"))
    assert found.current(NOW) is None
    assert step_of(found) is Step.SIGN
    assert kept(found, Step.SIGN, NOW) == (certificate("b"),)
    # One of another key stays: now the clock may be behind.
    other_key = authority(ahead, certificate("b"), key="b")
    assert step_of(other_key) is Step.NOTHING
    # A broker's certificate is issued again, too.
    now_valid = authority(certificate())
    assert why_issued(issued(at=NOW + 400 * DAY), HOSTS, now_valid, TERM, NOW) is Why.NOT_YET_VALID
    assert why_issued(issued(at=NOW + BACKDATED), HOSTS, now_valid, TERM, NOW) is None
