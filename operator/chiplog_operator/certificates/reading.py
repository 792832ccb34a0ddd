"""Reads the Secrets of a cluster with TLS, one by one and by name."""

from dataclasses import dataclass, field, replace

from cryptography.exceptions import UnsupportedAlgorithm

from chiplog_core.certificates.authority import Request
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.certificates import CertificateAndKey
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import (
    ApiError,
    Forbidden,
    KubeApi,
    Manifest,
    Unavailable,
    get_or_none,
)
from chiplog_operator.certificates.facts import is_for_both_ends, read_certificates
from chiplog_operator.certificates.issuing import key_id, read_key
from chiplog_operator.certificates.material import CaMaterial, LeafMaterial
from chiplog_operator.certificates.secrets import (
    CERTIFICATE_REQUESTS,
    KEY_REQUESTS,
    SERVER_REQUESTS,
    bytes_of,
    requests_of,
    secret_of,
    text_of,
)
from chiplog_operator.certificates.truststore import Truststore
from chiplog_operator.certificates.wishes import Wish, Wishes
from chiplog_operator.resources.certificate_entries import (
    CA_CERTIFICATE,
    CA_KEY,
    CA_PASSWORD,
    CA_TRUSTSTORE,
    OPERATOR_CERTIFICATE,
    OPERATOR_KEY,
    certificate_entry,
    key_entry,
)
from chiplog_operator.taken import check_ours


class Unusable(Exception):  # noqa: N818 - named for what it says
    """A Secret cannot be used. `str()` is for the user."""


@dataclass(slots=True, kw_only=True)
class Found:
    """What the Secrets of a cluster hold."""

    cluster_ca: CaMaterial | None = None
    clients_ca: CaMaterial | None = None
    servers: dict[BrokerId, LeafMaterial] = field(default_factory=dict)
    operator: LeafMaterial | None = None
    """What the operator shows to brokers."""
    servers_requests: frozenset[Request] = frozenset()
    """What annotations ask for of the brokers' certificates."""
    servers_fulfilled: frozenset[Request] = frozenset()
    """Requests that were carried out since the Secrets were read."""
    given_problems: tuple[str, ...] = ()
    """Why certificates of users cannot be mounted or used."""


class SecretsReader:
    """Reads for all clusters of one operator process."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def read(self, cluster: BrokerCluster, wishes: Wishes) -> Found:
        """What the Secrets hold now. Raises `Unusable`, `Taken` and `Unavailable`."""
        found = Found()
        if wishes.clients_ca is not None:
            found.clients_ca = await self._read_ca(cluster, wishes.clients_ca, needs_key=False)
        if wishes.cluster_ca is not None:
            found.cluster_ca = await self._read_ca(cluster, wishes.cluster_ca, needs_key=True)
            _check_usage(wishes.cluster_ca, found.cluster_ca)
            name = names.broker_certificates(cluster.metadata.name)
            secret = await self._get(cluster, name, is_ours=True)
            found.servers = _servers(secret, found.cluster_ca)
            found.operator = _leaf(secret, OPERATOR_CERTIFICATE, OPERATOR_KEY, found.cluster_ca)
            found.servers_requests = requests_of(secret, SERVER_REQUESTS)
        problems = [await self._problem_of(cluster, *one) for one in wishes.given]
        found.given_problems = tuple(filter(None, problems))
        return found

    async def _problem_of(
        self, cluster: BrokerCluster, listener: str, given: CertificateAndKey
    ) -> str:
        """Why brokers would not start with a user's certificate; empty if nothing is known: with
        `secretsOfClusters` the operator may not read it. Raises `Unavailable`."""
        namespace = cluster.metadata.namespace
        try:
            secret = await get_or_none(self._api, kinds.SECRETS, namespace, given.secret_name)
        except Forbidden:
            return ""
        data = (secret or {}).get("data") or {}
        lacking = [one for one in (given.certificate, given.key) if not data.get(one)]
        if secret is None:
            why = "does not exist"
        elif lacking:
            why = f"has no entry {' and no entry '.join(lacking)}"
        elif not _may_belong_together(secret, given):
            why = f"has a key in {given.key} that is not that of the certificate"
        else:
            return ""
        return (
            f"Secret {given.secret_name} {why}: correct it, or configuration.brokerCertChainAndKey "
            f"of listener {listener}; no broker restarts before"
        )

    async def read_clients_ca(self, cluster: BrokerCluster, wish: Wish) -> CaMaterial:
        """The clients CA with its key, to issue certificates of users. Raises `Unusable`, `Taken`
        and `Unavailable`."""
        return await self._read_ca(cluster, wish, needs_key=True)

    async def _read_ca(self, cluster: BrokerCluster, wish: Wish, *, needs_key: bool) -> CaMaterial:
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
            raise Unusable(
                f"The CA in the Secrets {wish.names.certificate_secret} and "
                f"{wish.names.key_secret} cannot be parsed ({error}): {remedy}"
            ) from error

    async def _get(self, cluster: BrokerCluster, name: str, *, is_ours: bool) -> Manifest | None:
        """A Secret; None if there is none. Raises `Taken` if it should be ours and is not."""
        try:
            found = await get_or_none(self._api, kinds.SECRETS, cluster.metadata.namespace, name)
        except Unavailable:
            raise
        except ApiError as error:
            raise Unusable(f"Secret {name} cannot be read: {error}") from error
        if is_ours and found is not None:
            check_ours(kinds.SECRETS, found, secret_of(cluster, name, {}))
        return found


def _servers(secret: Manifest | None, ca: CaMaterial) -> dict[BrokerId, LeafMaterial]:
    """The brokers' certificates. Broken ones are left out, so that they are issued again."""
    found = {}
    for entry in (secret or {}).get("data") or {}:
        number, _, suffix = entry.partition(".")
        if suffix != "crt" or not number.isdecimal():
            continue
        broker_id = BrokerId(int(number))
        server = _leaf(secret, certificate_entry(broker_id), key_entry(broker_id), ca)
        if server is not None:
            found[broker_id] = server
    return found


def _leaf(
    secret: Manifest | None, certificate_entry: str, key_entry: str, ca: CaMaterial
) -> LeafMaterial | None:
    """A certificate with its key in two entries of a Secret; None if it cannot be used."""
    try:
        certificate, key = text_of(secret, certificate_entry), text_of(secret, key_entry)
    except ValueError:
        return None
    return LeafMaterial.read(certificate, key, ca.certificates)


def _may_belong_together(secret: Manifest, given: CertificateAndKey) -> bool:
    """Whether a key may be that of the certificate: a form that cannot be parsed here may be one
    that brokers can."""
    try:
        certificate = read_certificates(text_of(secret, given.certificate))[0].public_key()
        return key_id(read_key(text_of(secret, given.key)).public_key()) == key_id(certificate)
    except (ValueError, UnsupportedAlgorithm):
        return True


def _truststore(secret: Manifest | None) -> Truststore:
    """The truststore in a Secret; an empty one if it cannot be read, which is then made again."""
    try:
        data, password = bytes_of(secret, CA_TRUSTSTORE), text_of(secret, CA_PASSWORD)
    except ValueError:
        return Truststore()
    return Truststore(data=data, password=password)


def _check_given(wish: Wish, secret: Manifest | None, entry: str, name: str) -> None:
    """Check that a user's Secret has an entry. Raises `Unusable`."""
    if not ((secret or {}).get("data") or {}).get(entry):
        what = "does not exist" if secret is None else f"has no entry {entry}"
        raise Unusable(
            f"Secret {name} {what}: create it with {entry} in PEM format, or set "
            f"{wish.names.field}.generateCertificateAuthority to true"
        )


def _check_usage(wish: Wish, ca: CaMaterial) -> None:
    """Check that what the cluster CA issues may be shown by servers and by clients: with a CA for
    servers only, no broker could connect to another one. Raises `Unusable`."""
    issuing = (
        certificate
        for certificate, facts in zip(ca.certificates, ca.facts.certificates, strict=True)
        if facts.key_id == ca.facts.key_id
    )
    if not all(map(is_for_both_ends, issuing)):
        raise Unusable(
            f"The CA certificate in Secret {wish.names.certificate_secret} has an extended key "
            "usage without serverAuth or clientAuth, but brokers show its certificates as servers "
            "and as clients of each other: replace it by one for the same key with both, or "
            "without this extension"
        )
