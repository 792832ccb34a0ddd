"""Keeps the Secrets of clusters with TLS.

Secrets are read by name and never listed or watched, so what users change in them, and what they
ask for with annotations, is seen within `READ_AGAIN_S`. Each time, and whenever the brokers or
their addresses change, it is decided what the Secrets should hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from chiplog_core.certificates.authority import Term
from chiplog_core.certificates.servers import hosts_of, why_issued
from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_CERTIFICATE_LENGTH, MAX_CERTIFICATES
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.certificates import CertificateAuthority
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, KubeApi, Manifest, NotFound, Unavailable
from chiplog_operator.caches import ClusterKey
from chiplog_operator.certificates.material import CaMaterial, ServerMaterial, log_issue
from chiplog_operator.certificates.secrets import (
    CERTIFICATE_REQUESTS,
    KEY_REQUESTS,
    AuthorityNames,
    bytes_of,
    requests_of,
    secret_of,
    text_of,
)
from chiplog_operator.certificates.truststore import Truststore
from chiplog_operator.clock import Clock
from chiplog_operator.resources.certificate_entries import (
    CA_CERTIFICATE,
    CA_KEY,
    CA_PASSWORD,
    CA_TRUSTSTORE,
    certificate_entry,
    key_entry,
)
from chiplog_operator.taken import check_ours

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
    expiries: Mapping[str, datetime] = field(default_factory=dict)
    """When each certificate expires, by the name that it has in metrics."""


NO_CERTIFICATES = Certified()


class _Unusable(Exception):  # noqa: N818 - named for what it says
    """A Secret cannot be used. `str()` is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """A CA that a cluster needs."""

    names: AuthorityNames
    settings: CertificateAuthority

    @property
    def is_generated(self) -> bool:
        return self.settings.generate_certificate_authority

    @property
    def term(self) -> Term:
        return Term.of(self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wishes:
    """What a cluster needs, by its spec."""

    cluster_ca: _Wish | None
    clients_ca: _Wish | None

    @classmethod
    def of(cls, cluster: BrokerCluster) -> "_Wishes":
        name, spec = cluster.metadata.name, cluster.spec
        default = CertificateAuthority()
        return cls(
            cluster_ca=_Wish(
                names=AuthorityNames.of_cluster_ca(name), settings=spec.cluster_ca or default
            )
            if any(listener.is_issued for listener in spec.listeners)
            else None,
            clients_ca=_Wish(
                names=AuthorityNames.of_clients_ca(name), settings=spec.clients_ca or default
            )
            if any(listener.asks_for_certificates for listener in spec.listeners)
            else None,
        )


def needs_certificates(cluster: BrokerCluster) -> bool:
    """Whether the cluster has CAs. Listeners for which a user provides the certificate need none,
    unless their clients authenticate with TLS."""
    return _Wishes.of(cluster) != _Wishes(cluster_ca=None, clients_ca=None)


@dataclass(slots=True, kw_only=True)
class _Held:
    """What one cluster's Secrets hold, and what was decided since they were read."""

    wishes: _Wishes
    read_at_s: float
    cluster_ca: CaMaterial | None = None
    clients_ca: CaMaterial | None = None
    servers: dict[BrokerId, ServerMaterial] = field(default_factory=dict)
    decided_for: object = None
    """The inputs of the last decision since the Secrets were read."""
    certified: Certified = NO_CERTIFICATES
    """The last decision."""


class CertificateKeeper:
    """Keeps the certificates of all clusters of one operator process."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
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
    ) -> Certified:
        """Decide what the cluster's Secrets should hold now. Raises `Taken` if one of them is
        somebody else's, and `Unavailable`."""
        key = ClusterKey(cluster.metadata.namespace, cluster.metadata.name)
        if not needs_certificates(cluster):
            self._held.pop(key, None)
            self._last.pop(key, None)
            return NO_CERTIFICATES
        try:
            held = await self._current(key, cluster)
        except _Unusable as why:
            # What brokers show is still what it was.
            last = self._last.get(key, NO_CERTIFICATES)
            return replace(last, secrets=(), problems=(str(why),), may_start=False)
        inputs = (
            cluster.metadata.uid,
            cluster.spec.listeners,
            tuple(broker_ids),
            [(one, it.spec.endpoints, it.spec.retired) for one, it in brokers.items()],
        )
        if held.decided_for != inputs:
            held.decided_for = inputs
            self._advance(held, cluster, broker_ids, brokers)
            held.certified = self._last[key] = self._certified(held, cluster, broker_ids)
        return held.certified

    # ---- reading ----

    async def _current(self, key: ClusterKey, cluster: BrokerCluster) -> _Held:
        """What the Secrets hold, read again if that is due."""
        now_s, wishes = self._clock.monotonic_s(), _Wishes.of(cluster)
        held = self._held.get(key)
        if held is None or held.wishes != wishes or now_s - held.read_at_s >= READ_AGAIN_S:
            self._held.pop(key, None)
            held = await self._read(cluster, wishes, now_s)
            self._held[key] = held
        return held

    async def _read(self, cluster: BrokerCluster, wishes: _Wishes, now_s: float) -> _Held:
        """What the Secrets hold now. Raises `_Unusable`, `Taken` and `Unavailable`."""
        held = _Held(wishes=wishes, read_at_s=now_s)
        if wishes.clients_ca is not None:
            held.clients_ca = await self._read_ca(cluster, wishes.clients_ca, needs_key=False)
        if wishes.cluster_ca is not None:
            held.cluster_ca = await self._read_ca(cluster, wishes.cluster_ca, needs_key=True)
            held.servers = await self._read_servers(cluster, held.cluster_ca)
        return held

    async def _read_ca(self, cluster: BrokerCluster, wish: _Wish, *, needs_key: bool) -> CaMaterial:
        """A CA. Its owner is the operator, or else the user, who must provide it."""
        ours = wish.is_generated
        published = await self._get(cluster, wish.names.certificate_secret, is_ours=ours)
        private = None
        if ours or needs_key:
            private = await self._get(cluster, wish.names.key_secret, is_ours=ours)
        if not ours:
            _check_given(wish, published, CA_CERTIFICATE, wish.names.certificate_secret)
            if needs_key:
                _check_given(wish, private, CA_KEY, wish.names.key_secret)
        try:
            ca = CaMaterial.read(
                text_of(published, CA_CERTIFICATE),
                text_of(private, CA_KEY),
                requests_of(published, CERTIFICATE_REQUESTS) | requests_of(private, KEY_REQUESTS)
                if ours
                else frozenset(),
            )
            return replace(ca, truststore=_truststore(published)) if ours else ca
        except ValueError as error:
            remedy = (
                f"delete the broken one of these Secrets, and the operator makes it again "
                f"({wish.names.field})"
                if ours
                else "correct them"
            )
            raise _Unusable(
                f"The CA in the Secrets {wish.names.certificate_secret} and "
                f"{wish.names.key_secret} cannot be parsed ({error}): {remedy}"
            ) from error

    async def _read_servers(
        self, cluster: BrokerCluster, ca: CaMaterial
    ) -> dict[BrokerId, ServerMaterial]:
        """The brokers' certificates. Broken ones are left out, so that they are issued again."""
        name = names.broker_certificates(cluster.metadata.name)
        secret = await self._get(cluster, name, is_ours=True)
        found = {}
        for entry in (secret or {}).get("data") or {}:
            number, _, suffix = entry.partition(".")
            if suffix != "crt" or not number.isdecimal():
                continue
            broker_id = BrokerId(int(number))
            try:
                certificate = text_of(secret, certificate_entry(broker_id))
                key = text_of(secret, key_entry(broker_id))
            except ValueError:
                continue
            server = ServerMaterial.read(certificate, key, ca.certificates)
            if server is not None:
                found[broker_id] = server
        return found

    async def _get(self, cluster: BrokerCluster, name: str, *, is_ours: bool) -> Manifest | None:
        """A Secret; None if there is none. Raises `Taken` if it should be ours and is not."""
        try:
            found = await self._api.get(kinds.SECRETS, cluster.metadata.namespace, name)
        except NotFound:
            return None
        except Unavailable:
            raise
        except ApiError as error:
            raise _Unusable(f"Secret {name} cannot be read: {error}") from error
        if is_ours:
            check_ours(kinds.SECRETS, found, secret_of(cluster, name, {}))
        return found

    # ---- deciding ----

    def _advance(
        self,
        held: _Held,
        cluster: BrokerCluster,
        broker_ids: Sequence[BrokerId],
        brokers: Mapping[BrokerId, Broker],
    ) -> None:
        """Take the steps that are due."""
        now = self._clock.now()
        wish = held.wishes.clients_ca
        if wish is not None and held.clients_ca is not None and wish.is_generated:
            held.clients_ca = held.clients_ca.advanced(wish.names.common_name, (), wish.term, now)
        wish, ca = held.wishes.cluster_ca, held.cluster_ca
        if wish is None or ca is None:
            return
        if wish.is_generated:
            issued = [server.facts for server in held.servers.values()]
            ca = held.cluster_ca = ca.advanced(wish.names.common_name, issued, wish.term, now)
        servers = {one: held.servers[one] for one in _kept(held.servers, broker_ids, brokers)}
        for broker_id in broker_ids:
            hosts = hosts_of(cluster, broker_id, brokers)
            found = servers.get(broker_id)
            facts = None if found is None else found.facts
            why = why_issued(facts, hosts, ca.facts, wish.term, now)
            if why is not None:
                name = names.stateful_set(cluster.metadata.name, broker_id)
                log_issue(name, why)
                servers[broker_id] = ServerMaterial.issue(ca, name, hosts, wish.term, now)
        held.servers = servers

    def _certified(
        self, held: _Held, cluster: BrokerCluster, broker_ids: Sequence[BrokerId]
    ) -> Certified:
        """The decisions, as the rest of the operator needs them."""
        now = self._clock.now()
        problems = tuple(_problems(held, now))
        lacking = [one for one in broker_ids if one not in held.servers]
        is_issued = held.cluster_ca is None or not lacking or not problems
        has_clients_ca = held.clients_ca is None or bool(held.clients_ca.certificates)
        return Certified(
            secrets=tuple(_secrets(held, cluster)),
            problems=problems,
            may_start=is_issued and has_clients_ca,
            authorities=()
            if held.cluster_ca is None
            else tuple(pem for pem in held.cluster_ca.pems if len(pem) <= MAX_CERTIFICATE_LENGTH)[
                :MAX_CERTIFICATES
            ],
            expiries=_expiries(held, now),
        )


def _truststore(secret: Manifest | None) -> Truststore:
    """The truststore in a Secret; an empty one if it cannot be read, which is then made again."""
    try:
        data, password = bytes_of(secret, CA_TRUSTSTORE), text_of(secret, CA_PASSWORD)
    except ValueError:
        return Truststore()
    return Truststore(data=data, password=password)


def _check_given(wish: _Wish, secret: Manifest | None, entry: str, name: str) -> None:
    """Check that a user's Secret has an entry. Raises `_Unusable`."""
    if not ((secret or {}).get("data") or {}).get(entry):
        what = "does not exist" if secret is None else f"has no entry {entry}"
        raise _Unusable(
            f"Secret {name} {what}: create it with {entry} in PEM format, or set "
            f"{wish.names.field}.generateCertificateAuthority to true"
        )


def _kept(
    held: Iterable[BrokerId], broker_ids: Sequence[BrokerId], brokers: Mapping[BrokerId, Broker]
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
    wish, ca = held.wishes.cluster_ca, held.cluster_ca
    if wish is not None and ca is not None and ca.facts.current(now) is None:
        yield (
            f"Secret {wish.names.certificate_secret} has no valid CA certificate for the key in "
            f"Secret {wish.names.key_secret}: put one into {CA_CERTIFICATE}, beside those that "
            "clients still need"
        )
    wish, ca = held.wishes.clients_ca, held.clients_ca
    if wish is not None and ca is not None and not ca.facts.trusted_keys(now):
        yield (
            f"Secret {wish.names.certificate_secret} has no valid CA certificate, so no client "
            f"can authenticate: put one into {CA_CERTIFICATE}"
        )


def _expiries(held: _Held, now: datetime) -> dict[str, datetime]:
    """When the certificates expire."""
    found = {}
    for wish, ca in (
        (held.wishes.cluster_ca, held.cluster_ca),
        (held.wishes.clients_ca, held.clients_ca),
    ):
        if wish is not None and ca is not None and ca.facts.certificates:
            newest = ca.facts.current(now)
            latest = max(one.not_after for one in ca.facts.certificates)
            found[wish.names.metric] = latest if newest is None else newest.not_after
    for broker_id, server in held.servers.items():
        found[f"broker-{broker_id}"] = server.facts.not_after
    return found


def _secrets(held: _Held, cluster: BrokerCluster) -> Iterable[Manifest]:
    """The Secrets of generated CAs, and the one of the brokers' certificates."""
    for wish, ca in (
        (held.wishes.cluster_ca, held.cluster_ca),
        (held.wishes.clients_ca, held.clients_ca),
    ):
        if wish is not None and ca is not None and wish.is_generated:
            done = ca.fulfilled
            yield secret_of(cluster, wish.names.key_secret, {CA_KEY: ca.key}, done & KEY_REQUESTS)
            yield secret_of(
                cluster,
                wish.names.certificate_secret,
                {
                    CA_CERTIFICATE: "".join(ca.pems),
                    CA_TRUSTSTORE: ca.truststore.data,
                    CA_PASSWORD: ca.truststore.password,
                },
                done & CERTIFICATE_REQUESTS,
            )
    if held.cluster_ca is not None:
        entries = {}
        for broker_id, server in sorted(held.servers.items()):
            entries[certificate_entry(broker_id)] = server.certificate
            entries[key_entry(broker_id)] = server.key
        name = names.broker_certificates(cluster.metadata.name)
        yield secret_of(cluster, name, entries)
