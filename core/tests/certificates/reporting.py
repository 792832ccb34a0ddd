"""Brokers that report what they show and whom they trust, as the operator reads it."""

from collections.abc import Iterable
from typing import Any

from chiplog_core.ids import BrokerId, Incarnation, Session
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec
from chiplog_core.model.broker_status import BrokerStatus
from chiplog_core.model.listener_certificate import ListenerCertificate, as_reported
from chiplog_core.model.metadata import Metadata

LISTENER = "tls"
PROCESS = Incarnation("a" * 32)


def fingerprint(text: str) -> str:
    """A text in the form of a fingerprint."""
    return text.encode().hex().ljust(64, "0")[:64]


def shows(
    certificate: str | None = "server",
    trusted: Iterable[str] = (),
    *,
    listener: str = LISTENER,
    problem: str = "",
) -> ListenerCertificate:
    """A report of one listener."""
    found, digest = as_reported(trusted)
    return ListenerCertificate(
        listener=listener,
        fingerprint=certificate,
        trusted=found,
        trusted_digest=digest,
        problem=problem,
    )


def broker(
    number: int, *reports: ListenerCertificate, fenced: bool = False, **status: Any
) -> Broker:
    """A broker of which the process that was admitted reports this."""
    known = {"incarnation": PROCESS, "session": Session(7), **status}
    return Broker(
        metadata=Metadata(name=f"demo-{number}", namespace="shop"),
        spec=BrokerSpec(
            cluster="demo",
            cluster_id="abc",
            broker_id=BrokerId(number),
            intent=BrokerIntent.SERVE,
            admitted_incarnation=PROCESS,
            session=Session(7),
            fenced=fenced,
        ),
        status=BrokerStatus(listener_certificates=reports, **known),
    )
