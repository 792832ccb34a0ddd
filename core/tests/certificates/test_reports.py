"""What brokers report of certificates, and what is unknown."""

from dataclasses import replace

import pytest

from chiplog_core.certificates.reports import Report, Reporters, are_so, counted, lacking
from chiplog_core.ids import BrokerId, Incarnation, Session
from chiplog_core.model.broker import Broker
from chiplog_core.model.listener_certificate import ListenerCertificate, as_reported, digest_of
from tests.certificates.reporting import broker, shows

ONE = BrokerId(1)
NEW, OLD = "n", "o"
MANY = [f"ca {number}" for number in range(17)]


def trust_of(found: Broker | None, published: object = frozenset({NEW, OLD})) -> Report:
    brokers = {} if found is None else {ONE: found}
    (report,) = Reporters.of(brokers, wanted=[ONE]).trusting(NEW, published)  # type: ignore[arg-type]
    return report


def test_a_broker_trusts_what_it_reports() -> None:
    assert trust_of(broker(1, shows(trusted=[OLD, NEW]))).is_so is True
    late = trust_of(broker(1, shows(trusted=[OLD])))
    assert (late.is_so, late.why_not) == (False, "does not trust it yet")


def test_every_listener_must_trust_it() -> None:
    mixed = broker(1, shows(trusted=[NEW]), shows(trusted=[OLD], listener="other"))
    assert trust_of(mixed).is_so is False
    # A listener whose clients need no certificate trusts nobody.
    assert trust_of(broker(1, shows(trusted=[NEW]), shows(listener="other"))).is_so is True


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "has no Broker object"),
        (broker(1, shows(trusted=[NEW]), fenced=True), "is down"),
        (broker(1, shows(None)), "is starting"),
        (broker(1, shows(trusted=[NEW]), session=Session(6)), "is starting"),
        (broker(1, shows(trusted=[NEW]), incarnation=Incarnation("b" * 32)), "is starting"),
    ],
)
def test_what_is_not_known_is_not_so(found: Broker | None, why: str) -> None:
    assert trust_of(found) == Report(broker="broker 1", is_so=False, why_not=why)


def test_a_broker_that_never_ran_is_not_so() -> None:
    found = broker(1)
    spec = replace(found.spec, admitted_incarnation=None, session=Session(0))
    assert trust_of(replace(found, spec=spec)).why_not == "has not been started yet"


def test_an_older_version_reports_nothing() -> None:
    report = trust_of(broker(1))
    assert report.is_so is None
    assert not are_so([report], is_time_over=False)
    assert are_so([report], is_time_over=True)


def test_retired_brokers_are_not_asked_and_unreadable_ones_hold() -> None:
    gone = broker(1, shows(trusted=[OLD]))
    gone = replace(gone, spec=replace(gone.spec, retired=True))
    assert Reporters.of({ONE: gone}, wanted=[]).trusting(NEW, frozenset()) == ()
    (report,) = Reporters.of({}, unreadable=["demo-2"]).trusting(NEW, frozenset())
    assert (report.broker, report.is_so) == ("Broker demo-2", False)


def test_many_cas_are_compared_by_their_digest() -> None:
    assert as_reported(MANY[:16])[1] is None
    assert as_reported([*MANY[:16], MANY[0]])[1] is None, "a certificate may be there twice"
    report = broker(1, shows(trusted=[*MANY, NEW]))
    assert report.status.listener_certificates[0].trusted == ()
    assert trust_of(report, frozenset({*MANY, NEW})).is_so is True
    assert trust_of(report, frozenset({*MANY, NEW, "another"})).is_so is False
    assert not Reporters.of({ONE: report}).trusting_others(frozenset({*MANY, NEW}))
    assert Reporters.of({ONE: report}).trusting_others(frozenset({NEW})) == ("broker 1",)


def test_digests_depend_on_the_set_only() -> None:
    assert digest_of(["a", "b"]) == digest_of(["b", "a", "a"]) != digest_of(["a"])
    nobody = ListenerCertificate(listener="tls")
    assert not nobody.trusts("a", frozenset({"a"}))
    assert not nobody.checks_clients


def test_what_a_broker_should_show() -> None:
    def shown(*reports: ListenerCertificate) -> Report:
        found = Reporters.of({ONE: broker(1, *reports)})
        return found.serving(ONE, "new", frozenset({"tls"}))

    assert shown(shows("new"), shows("of its own", listener="own")).is_so is True
    assert shown(shows("old")).why_not == "shows another certificate"
    broken = shown(shows("old", problem="bad end line"))
    assert broken.why_not == (
        "shows another certificate, because it cannot use the files of listener tls"
    )
    assert Reporters.of({}).serving(ONE, "new", frozenset({"tls"})).is_so is False


def test_cas_that_are_not_published_any_more() -> None:
    reporters = Reporters.of(
        {ONE: broker(1, shows(trusted=[NEW, OLD])), BrokerId(2): broker(2, shows(trusted=[NEW]))}
    )
    assert reporters.trusting_others(frozenset({NEW})) == ("broker 1",)
    assert reporters.trusting_others(frozenset({NEW, OLD})) == ()


def test_reports_in_words() -> None:
    reports = [
        Report(broker="broker 1", is_so=True),
        *(Report(broker=f"broker {one}", is_so=False, why_not="is down") for one in range(2, 9)),
        Report(broker="broker 9", is_so=None),
    ]
    assert counted(reports) == "1 of 9 brokers"
    assert counted(reports[:1]) == "1 of 1 broker"
    assert lacking(reports) == (
        "broker 2 is down, broker 3 is down, broker 4 is down, broker 5 is down, "
        "broker 6 is down and 2 more"
    )
    assert lacking(reports[:1]) == ""


def test_whom_brokers_trust_between_themselves_is_another_question() -> None:
    found = broker(1, shows(trusted=[OLD]), shows(trusted=[NEW], listener="internal"))
    reporters, published = Reporters.of({ONE: found}), frozenset({NEW})
    (of_users,) = reporters.trusting(NEW, published)
    (of_peers,) = reporters.as_peers().trusting(NEW, published)
    assert (of_users.is_so, of_peers.is_so) == (False, True)
    assert reporters.trusting_others(published) == ("broker 1",)
    assert reporters.as_peers().trusting_others(published) == ()


def test_a_broker_that_uses_plain_text_with_others_trusts_nobody_there() -> None:
    found = broker(1, shows(trusted=[OLD]))
    (report,) = Reporters.of({ONE: found}).as_peers().trusting(NEW, frozenset({NEW}))
    assert report.is_so is True
    assert not found.status.uses_tls_with_peers
    assert broker(1, shows(None, listener="internal")).status.uses_tls_with_peers
