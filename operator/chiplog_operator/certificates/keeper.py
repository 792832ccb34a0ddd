"""Keeps the Secrets of clusters with TLS.

Secrets are read by name and never listed or watched, so what users change in them, and what they
ask for with annotations, is seen within `READ_AGAIN_S`. Each time, and whenever the brokers or
their addresses change, it is decided what the Secrets should hold.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from chiplog_core.certificates.authority import Issued, Request
from chiplog_core.certificates.reports import Report, Reporters
from chiplog_core.certificates.servers import (
    Why,
    certified_hosts,
    hosts_of,
    may_issue,
    why_issued,
)
from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_CERTIFICATE_LENGTH, MAX_CERTIFICATES
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names
from chiplog_core.naming.peers import operator_host
from chiplog_core.observed.world import PodState
from chiplog_kube.api import KubeApi, Manifest
from chiplog_operator.caches import ClusterKey
from chiplog_operator.certificates import standing
from chiplog_operator.certificates.issued_to_users import IssuedToUsers
from chiplog_operator.certificates.issuing import Owner, Usage
from chiplog_operator.certificates.material import LeafMaterial, log_issue
from chiplog_operator.certificates.own import OwnCertificate, OwnCertificates
from chiplog_operator.certificates.reading import Found, SecretsReader, Unusable
from chiplog_operator.certificates.wishes import Wishes, needs_certificates
from chiplog_operator.certificates.written import secrets_of
from chiplog_operator.clock import Clock
from chiplog_operator.resources.certificate_entries import CA_CERTIFICATE

READ_AGAIN_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """What a cluster has of certificates."""

    secrets: tuple[Manifest, ...] = field(default=(), repr=False)
    """The Secrets that the operator writes."""
    problems: tuple[str, ...] = ()
    """What users must correct."""
    may_start: bool = True
    """Whether brokers find what they mount."""
    authorities: tuple[str, ...] = ()
    """The published certificates of the cluster CA, in PEM format."""
    replacements: tuple[str, ...] = ()
    """Where the replacement of each CA stands, in words, while one is being replaced."""
    expiries: Mapping[str, datetime] = field(default_factory=dict)
    """When each certificate expires, by the name that it has in metrics."""
    servers: Mapping[BrokerId, Issued] = field(default_factory=dict)
    """The certificate of each broker."""

    @property
    def planned_from(self) -> object:
        """What plans use of it."""
        return self.authorities, self.replacements, self.servers

    def hosts_shown(
        self, pods: Mapping[BrokerId, PodState], now: datetime
    ) -> Mapping[BrokerId, frozenset[str]]:
        """The hosts in each certificate, as far as its broker certainly shows it."""
        since = {broker_id: pod.running_since for broker_id, pod in pods.items()}
        return {
            broker_id: certified_hosts(issued, since.get(broker_id), now)
            for broker_id, issued in self.servers.items()
        }


NO_CERTIFICATES = Certified()


@dataclass(slots=True, kw_only=True)
class _Held:
    """What one cluster's Secrets hold, and what was decided since they were read."""

    wishes: Wishes
    read_at_s: float
    found: Found
    decided_for: object = None
    """The inputs of the last decision since the Secrets were read."""
    certified: Certified = NO_CERTIFICATES
    """The last decision."""


class CertificateKeeper:
    """Keeps the certificates of all clusters of one operator process."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        issued_to_users: IssuedToUsers | None = None,
        own_certificates: OwnCertificates | None = None,
    ) -> None:
        """`issued_to_users` are the certificates that the clients CA issued; none if not set.
        `own_certificates` get those of the operator."""
        self._reader = SecretsReader(api)
        self._issued_to_users = issued_to_users or IssuedToUsers(are_known=True)
        self._own_certificates = own_certificates or OwnCertificates()
        self._clock = clock
        self._held: dict[ClusterKey, _Held] = {}
        self._last: dict[ClusterKey, Certified] = {}

    def forget(self, key: ClusterKey) -> None:
        """Read the cluster's Secrets again before the next decision."""
        self._held.pop(key, None)

    async def update(
        self,
        cluster: BrokerCluster,
        broker_ids: Sequence[BrokerId],
        brokers: Mapping[BrokerId, Broker],
        addresses: Mapping[str, str],
    ) -> Certified:
        """Decide what the cluster's Secrets should hold now. `addresses` are those of load
        balancers, by the names of their Services. Raises `Taken` if one of them is
        somebody else's, and `Unavailable`."""
        key = _key(cluster)
        if not needs_certificates(cluster):
            self._held.pop(key, None)
            self._last.pop(key, None)
            # Brokers that have not restarted without TLS yet are still asked with it.
            if not any(one.status.uses_tls_with_peers for one in brokers.values()):
                self._own_certificates.show(key, None)
            return NO_CERTIFICATES
        try:
            held = await self._current(key, cluster)
        except Unusable as why:
            # What brokers show is still what it was.
            last = self._last.get(key, NO_CERTIFICATES)
            return replace(last, secrets=(), problems=(str(why),), may_start=False)
        inputs = (
            cluster.metadata.uid,
            cluster.spec.listeners,
            tuple(broker_ids),
            [(one, *standing.reported_facts(it)) for one, it in brokers.items()],
            addresses,
        )
        if held.decided_for != inputs:
            held.decided_for = inputs
            reporters = Reporters.of(brokers, wanted=broker_ids)
            self._advance_authorities(held, cluster, reporters)
            hosts = {one: hosts_of(cluster, one, brokers, addresses) for one in broker_ids}
            self._issue(held, cluster, brokers, hosts, reporters)
            self._issue_own(held, cluster, reporters)
            held.certified = self._last[key] = self._certified(held, cluster, broker_ids, reporters)
        return held.certified

    async def _current(self, key: ClusterKey, cluster: BrokerCluster) -> _Held:
        """What the Secrets hold, read again if that is due."""
        now_s, wishes = self._clock.monotonic_s(), Wishes.of(cluster)
        held = self._held.get(key)
        if held is None or held.wishes != wishes or now_s - held.read_at_s >= READ_AGAIN_S:
            self._held.pop(key, None)
            found = await self._reader.read(cluster, wishes)
            held = _Held(wishes=wishes, read_at_s=now_s, found=found)
            self._held[key] = held
        return held

    def _advance_authorities(
        self, held: _Held, cluster: BrokerCluster, reporters: Reporters
    ) -> None:
        """Take the steps of CAs that are due."""
        now = self._clock.now()
        wish = held.wishes.clients_ca
        if wish is not None and held.found.clients_ca is not None and wish.is_generated:
            users = self._issued_to_users.of(_key(cluster))
            held.found.clients_ca = held.found.clients_ca.advanced(
                wish.names.common_name, users, wish.term, now, reporters
            )
        wish, ca = held.wishes.cluster_ca, held.found.cluster_ca
        if wish is None or ca is None:
            return
        if wish.is_generated:
            shown = standing.shown(held.found.servers, cluster, reporters)
            issued = standing.issued_by_cluster_ca(held.found, shown)
            held.found.cluster_ca = ca.advanced(
                wish.names.common_name, issued, wish.term, now, reporters.as_peers()
            )

    def _issue(
        self,
        held: _Held,
        cluster: BrokerCluster,
        brokers: Mapping[BrokerId, Broker],
        hosts_of_brokers: Mapping[BrokerId, frozenset[str]],
        reporters: Reporters,
    ) -> None:
        """Issue the certificates that are due of the brokers with these hosts."""
        now = self._clock.now()
        wish, ca = held.wishes.cluster_ca, held.found.cluster_ca
        if wish is None or ca is None:
            return
        servers = {
            one: held.found.servers[one]
            for one in _kept(held.found.servers, hosts_of_brokers, brokers)
        }
        checked_by = reporters.as_peers(are_with_clients=True)
        may_replace = may_issue(ca.facts, now, checked_by)
        asked = held.found.servers_requests if may_replace else frozenset()
        for broker_id, hosts in hosts_of_brokers.items():
            found = servers.get(broker_id)
            facts = None if found is None else found.facts
            why = why_issued(
                facts, hosts, ca.facts, wish.term, now, checked_by, needs_both_ends=True
            )
            if why is None and Request.RENEW in asked:
                why = Why.REQUESTED
            if why is not None:
                name = names.stateful_set(cluster.metadata.name, broker_id)
                log_issue(name, why)
                owner = Owner.process(name, hosts, Usage.BOTH)
                servers[broker_id] = LeafMaterial.issue(ca, owner, wish.term, now)
        held.found.servers = servers
        held.found.servers_requests -= asked
        held.found.servers_fulfilled |= asked

    def _issue_own(self, held: _Held, cluster: BrokerCluster, reporters: Reporters) -> None:
        """Issue the operator's certificate if that is due, and use it."""
        wish, ca, now = held.wishes.cluster_ca, held.found.cluster_ca, self._clock.now()
        if wish is None or ca is None:
            return
        host = operator_host(cluster.metadata.name, cluster.metadata.namespace)
        hosts, found = frozenset({host}), held.found.operator
        facts = None if found is None else found.facts
        why = why_issued(facts, hosts, ca.facts, wish.term, now, reporters.as_peers())
        if why is not None:
            name = f"{cluster.metadata.name}-operator"
            log_issue(name, why)
            owner = Owner.process(name, hosts, Usage.CLIENT)
            found = held.found.operator = LeafMaterial.issue(ca, owner, wish.term, now)
        if found is not None:
            self._own_certificates.show(_key(cluster), OwnCertificate.of(found, ca.pems))

    def _replacements(
        self,
        held: _Held,
        cluster: BrokerCluster,
        shown: Mapping[BrokerId, Report],
        reporters: Reporters,
    ) -> tuple[str, ...]:
        """Where the replacement of each CA stands, in words."""
        found = standing.replacements(
            held.found,
            held.wishes,
            shown,
            self._issued_to_users.of(_key(cluster)),
            reporters,
            self._clock.now(),
        )
        return tuple(filter(None, found))

    def _certified(
        self,
        held: _Held,
        cluster: BrokerCluster,
        broker_ids: Sequence[BrokerId],
        reporters: Reporters,
    ) -> Certified:
        """The decisions, as the rest of the operator needs them."""
        now = self._clock.now()
        shown = standing.shown(held.found.servers, cluster, reporters)
        problems = tuple(_problems(held, now))
        lacking = [one for one in broker_ids if one not in held.found.servers]
        is_issued = held.found.cluster_ca is None or not lacking or not problems
        has_clients_ca = held.found.clients_ca is None or bool(held.found.clients_ca.certificates)
        return Certified(
            secrets=tuple(secrets_of(held.wishes, held.found, cluster)),
            problems=(*problems, *held.found.given_problems),
            may_start=is_issued and has_clients_ca and not held.found.given_problems,
            authorities=()
            if held.found.cluster_ca is None
            else tuple(
                pem for pem in held.found.cluster_ca.pems if len(pem) <= MAX_CERTIFICATE_LENGTH
            )[:MAX_CERTIFICATES],
            expiries=_expiries(held, now),
            servers=standing.issued(held.found.servers, shown),
            replacements=self._replacements(held, cluster, shown, reporters),
        )


def _key(cluster: BrokerCluster) -> ClusterKey:
    return ClusterKey(cluster.metadata.namespace, cluster.metadata.name)


def _kept(
    held: Iterable[BrokerId], broker_ids: Container[BrokerId], brokers: Mapping[BrokerId, Broker]
) -> list[BrokerId]:
    """The brokers whose certificates stay: all but those that are retired. A Broker object that is
    missing takes no certificate away from a broker that runs."""
    return [
        one
        for one in held
        if one in broker_ids or one not in brokers or not brokers[one].spec.retired
    ]


def _problems(held: _Held, now: datetime) -> Iterable[str]:
    """What is wrong with a user's CA. The operator's own is always usable after its steps."""
    wish, ca = held.wishes.cluster_ca, held.found.cluster_ca
    if wish is not None and ca is not None and ca.facts.current(now) is None:
        yield (
            f"Secret {wish.names.certificate_secret} has no valid CA certificate for the key in "
            f"Secret {wish.names.key_secret}: put one into {CA_CERTIFICATE}, beside those that "
            "clients still need"
        )
    wish, ca = held.wishes.clients_ca, held.found.clients_ca
    if wish is not None and ca is not None and not ca.facts.trusted_keys(now):
        yield (
            f"Secret {wish.names.certificate_secret} has no valid CA certificate, so no client "
            f"can authenticate: put one into {CA_CERTIFICATE}"
        )


def _expiries(held: _Held, now: datetime) -> dict[str, datetime]:
    """When the certificates expire."""
    found = {}
    for wish, ca in (
        (held.wishes.cluster_ca, held.found.cluster_ca),
        (held.wishes.clients_ca, held.found.clients_ca),
    ):
        if wish is not None and ca is not None and ca.facts.certificates:
            newest = ca.facts.current(now)
            latest = max(one.not_after for one in ca.facts.certificates)
            found[wish.names.metric] = latest if newest is None else newest.not_after
    for broker_id, server in held.found.servers.items():
        found[f"broker-{broker_id}"] = server.facts.not_after
    if held.found.operator is not None:
        found["operator"] = held.found.operator.facts.not_after
    return found
