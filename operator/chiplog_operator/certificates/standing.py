"""How far brokers are with the certificates in a cluster's Secrets, by their own reports."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from chiplog_core.certificates.authority import Issued
from chiplog_core.certificates.progress import Replacement, progress
from chiplog_core.certificates.reports import Report, Reporters
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import INTERNAL_LISTENER_NAME
from chiplog_operator.certificates.material import LeafMaterial
from chiplog_operator.certificates.reading import Found
from chiplog_operator.certificates.wishes import Wishes


def reported_facts(broker: Broker) -> tuple[object, ...]:
    """What of a Broker the steps of a CA, and the brokers' certificates, depend on."""
    spec, status = broker.spec, broker.status
    return (
        spec.endpoints,
        spec.retired,
        spec.fenced,
        spec.admitted_incarnation,
        spec.session,
        status.incarnation,
        status.session,
        status.listener_certificates,
    )


def shown(
    servers: Mapping[BrokerId, LeafMaterial], cluster: BrokerCluster, reporters: Reporters
) -> dict[BrokerId, Report]:
    """Whether each broker shows the certificate that it should."""
    issued_for = (one.name for one in cluster.spec.listeners if one.is_issued)
    listeners = frozenset((INTERNAL_LISTENER_NAME, *issued_for))
    return {
        broker_id: reporters.serving(broker_id, server.facts.fingerprint, listeners)
        for broker_id, server in servers.items()
    }


def issued(
    servers: Mapping[BrokerId, LeafMaterial], reports: Mapping[BrokerId, Report]
) -> dict[BrokerId, Issued]:
    """The brokers' certificates, with what brokers report of them."""
    return {
        broker_id: replace(server.facts, is_shown=reports[broker_id].is_so)
        for broker_id, server in servers.items()
    }


def issued_by_cluster_ca(found: Found, reports: Mapping[BrokerId, Report]) -> tuple[Issued, ...]:
    """The brokers' certificates, with what brokers report of them, and the operator's, which it
    uses as soon as it is issued."""
    own = () if found.operator is None else (replace(found.operator.facts, is_shown=True),)
    return (*issued(found.servers, reports).values(), *own)


def replacements(
    found: Found,
    wishes: Wishes,
    reports: Mapping[BrokerId, Report],
    users: Sequence[Issued],
    reporters: Reporters,
    now: datetime,
) -> Iterator[str]:
    """Where the replacement of each CA stands, if one is being replaced."""
    wish, ca = wishes.cluster_ca, found.cluster_ca
    if wish is not None and ca is not None and wish.is_generated:
        yield progress(
            Replacement(
                name="cluster CA",
                owners="brokers",
                secret=wish.names.certificate_secret,
                authority=ca.facts,
                issued=tuple(issued(found.servers, reports).values()),
                shown=tuple(reports.values()),
                trust=ca.facts.trust(reporters.as_peers(), now),
                are_with_clients=True,
                trusting_others=reporters.as_peers().trusting_others(ca.facts.fingerprints),
            ),
            now,
        )
    wish, ca = wishes.clients_ca, found.clients_ca
    if wish is not None and ca is not None and wish.is_generated:
        yield progress(
            Replacement(
                name="clients CA",
                owners="users",
                secret=wish.names.certificate_secret,
                authority=ca.facts,
                issued=users,
                trust=ca.facts.trust(reporters, now),
                trusting_others=reporters.trusting_others(ca.facts.fingerprints),
            ),
            now,
        )
