"""When a broker's certificate is issued, and for which names."""

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address
from types import MappingProxyType

from chiplog_core.certificates.authority import PUBLISHED_FOR, Authority, Issued, Term
from chiplog_core.certificates.reports import Reporters, are_so
from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_NAME_LENGTH
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import Listener, ListenerType
from chiplog_core.naming import names

CLUSTER_DOMAIN = "cluster.local"
"""Kubernetes' default domain of Services."""

MAX_BOOTSTRAP_BROKERS = 20
"""How many brokers' external addresses are in the certificate of each broker. The certificates of
all brokers are in one Secret, which may have 1 MiB."""

IN_PODS_WITHIN = timedelta(minutes=2)
"""How long it takes at most until a kubelet has updated a Secret's files in a running pod: it looks
every minute to one and a half (`syncFrequency`)."""

_DNS_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?")


class Why(StrEnum):
    """Why a certificate is issued."""

    MISSING = "there is none"
    EXPIRES = "it expires"
    NOT_YET_VALID = "it is not valid yet, because the clock was ahead"
    HOSTS = "the broker has other names or addresses"
    USAGE = "brokers also show it as clients of each other"
    ISSUER = "the CA has another key"
    REQUESTED = "an annotation asks for it"


def why_issued(  # noqa: PLR0913 - the facts
    found: Issued | None,
    hosts: frozenset[str],
    authority: Authority,
    term: Term,
    now: datetime,
    checked_by: Reporters | None = None,
    *,
    needs_both_ends: bool = False,
) -> Why | None:
    """Why a certificate must be issued now; None if it need not, or must wait until those who check
    it know the new CA: `checked_by`, or clients if that is None. `needs_both_ends`: its owner is a
    server and a client.

    Names that a certificate has beyond `hosts` are no reason: a broker that moves between nodes
    would otherwise get a certificate each time.
    """
    current = authority.current(now)
    if current is None or not _may_issue_to(found, authority, now, checked_by):
        return None
    if found is None:
        return Why.MISSING
    if now < found.not_before:
        return Why.NOT_YET_VALID
    if found.issuer != current.key_id:
        return Why.ISSUER
    if why := _what_is_lacking(found, hosts, needs_both_ends=needs_both_ends):
        return why
    return Why.EXPIRES if term.is_due(found.not_after, now, current.not_after) else None


def _what_is_lacking(found: Issued, hosts: frozenset[str], *, needs_both_ends: bool) -> Why | None:
    """What a certificate is not valid for."""
    if not hosts <= found.hosts:
        return Why.HOSTS
    return Why.USAGE if needs_both_ends and not found.is_for_both_ends else None


def _may_issue_to(
    found: Issued | None, authority: Authority, now: datetime, checked_by: Reporters | None
) -> bool:
    """Whether the owner of a certificate loses nothing by another one. Who trusts one of the
    present key trusts the next one, too. Without one, after its end, or if its CA is published no
    more, there is nothing to lose, so a broker that is down does not keep new users waiting."""
    is_of_present_key = found is not None and found.issuer == authority.key_id
    if is_of_present_key or may_issue(authority, now, checked_by):
        return True
    has_nothing = found is None or now >= found.not_after or not found.issuer
    return has_nothing and may_issue(authority, now)


def may_issue(authority: Authority, now: datetime, checked_by: Reporters | None = None) -> bool:
    """Whether the current CA certificate is known to those who check what it issues: to all brokers
    in `checked_by`, by their reports; to clients, if that is None or if they check it, too, by the
    time for which it is published. Always if there is no other key, whose certificates could have
    been trusted before."""
    current = authority.current(now)
    if current is None:
        return False
    if authority.trusted_keys(now) == {current.key_id}:
        return True
    is_time_over = now >= current.issued_at + PUBLISHED_FOR
    if not is_time_over and (checked_by is None or checked_by.are_with_clients):
        return False
    return checked_by is None or are_so(authority.trust(checked_by, now), is_time_over=is_time_over)


def certified_hosts(
    issued: Issued, running_since: datetime | None, now: datetime
) -> frozenset[str]:
    """The hosts in a broker's certificate, if the broker certainly shows it: it reports so, or the
    certificate was issued for long enough, or before the broker's process started. `running_since`
    is None if no process runs: the next one finds the certificate."""
    is_found = running_since is None or issued.issued_at < running_since
    is_time_over = now >= issued.issued_at + IN_PODS_WITHIN
    return issued.hosts if issued.is_shown or is_found or is_time_over else frozenset()


def hosts_of(
    cluster: BrokerCluster,
    broker_id: BrokerId,
    brokers: Mapping[BrokerId, Broker],
    addresses: Mapping[str, str] = MappingProxyType({}),
) -> frozenset[str]:
    """The DNS names and addresses at which clients may reach a broker of the cluster through
    listeners whose certificates the cluster CA issues.

    `addresses` are those of load balancers, by the names of their Services: a certificate has them
    before the broker advertises them.

    The bootstrap addresses are among them, because they lead to every broker. So are the external
    addresses of the brokers with the lowest ids: every node forwards the node port of the bootstrap
    address, and the status names one of these nodes.
    """
    name, namespace = cluster.metadata.name, cluster.metadata.namespace
    headless = names.brokers_service(name)
    found = {
        *_service_names(names.bootstrap_service(name), namespace),
        *_service_names(headless, namespace),
        *_service_names(f"{names.pod(name, broker_id)}.{headless}", namespace),
    }
    issued = [listener for listener in cluster.spec.listeners if listener.is_issued]
    for listener in issued:
        found.update(_given_hosts(listener, broker_id))
        found.update(_balanced_hosts(name, listener, broker_id, addresses))
    outside = {one.name for one in issued if one.type is not ListenerType.INTERNAL}
    node_ports = {one.name for one in issued if one.type is ListenerType.NODE_PORT}
    active = sorted(one for one, broker in brokers.items() if not broker.spec.retired)
    for one in {broker_id, *active[:MAX_BOOTSTRAP_BROKERS]} & brokers.keys():
        found.update(_external_hosts(outside if one == broker_id else node_ports, brokers[one]))
    return frozenset(host for host in found if is_address(host) or _is_dns_name(host))


def is_address(host: str) -> bool:
    """Whether the host is an IP address, and not a DNS name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_dns_name(host: str) -> bool:
    return len(host) <= MAX_NAME_LENGTH and _DNS_NAME.fullmatch(host) is not None


def _service_names(service: str, namespace: str) -> Iterator[str]:
    """All forms of a Service's name, or of a name below it."""
    for suffix in ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.{CLUSTER_DOMAIN}"):
        yield f"{service}{suffix}"


def _given_hosts(listener: Listener, broker_id: BrokerId) -> Iterator[str]:
    """The hosts of a listener that are in the spec."""
    yield from listener.bootstrap.alternative_names
    yield listener.bootstrap.host or ""
    yield listener.given_host(broker_id) or ""
    yield listener.route_host(broker_id) or ""


def _balanced_hosts(
    cluster: str, listener: Listener, broker_id: BrokerId, addresses: Mapping[str, str]
) -> Iterator[str]:
    """The addresses of the load balancers that lead to the broker."""
    for one in (None, broker_id):
        yield addresses.get(names.listener_service(cluster, listener.name, one), "")


def _external_hosts(listeners: Collection[str], broker: Broker) -> Iterator[str]:
    """The hosts that the broker advertises at these listeners."""
    for endpoint in broker.spec.endpoints:
        if endpoint.listener in listeners:
            yield endpoint.host
