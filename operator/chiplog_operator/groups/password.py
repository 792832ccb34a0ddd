"""What an operator shows to each cluster's brokers: the secret that it shares with them, and its
certificate."""

from chiplog_core.naming import names
from chiplog_core.observed.processes import Identity
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, KubeApi
from chiplog_operator.caches import ClusterKey
from chiplog_operator.certificates.own import OwnCertificate, OwnCertificates
from chiplog_operator.certificates.secrets import text_of
from chiplog_operator.groups.port import Access, NoAnswer
from chiplog_operator.resources.certificate_entries import (
    CA_CERTIFICATE,
    OPERATOR_CERTIFICATE,
    OPERATOR_KEY,
)
from chiplog_operator.resources.secret import password_of


class Passwords:
    """The passwords of clusters: each is read once, and again after a broker refused it."""

    def __init__(self, api: KubeApi, own_certificates: OwnCertificates | None = None) -> None:
        """`own_certificates` are the operator's; none if not set."""
        self._api = api
        self._own_certificates = own_certificates
        self._known: dict[ClusterKey, str] = {}

    async def access(self, cluster: ClusterKey, process: Identity) -> Access:
        """What requests to this process of the cluster need. Raises `NoAnswer` if the password
        or the certificate cannot be read."""
        secret = await self.of(cluster)
        own, tls = self._own_certificates, None
        if process.uses_tls and own is not None:
            if own.of(cluster) is None:
                await self._read_own(cluster, own)
            tls = own.of(cluster)
        return Access(cluster=cluster, secret=secret, tls=tls)

    async def _read_own(self, cluster: ClusterKey, own: OwnCertificates) -> None:
        """Use the certificate that an earlier operator process has left, until certificates are
        kept: nobody does that while the cluster is paused or its spec is wrong. Raises
        `NoAnswer`."""
        issued = names.broker_certificates(cluster.name)
        trusted = names.cluster_ca_certificate(cluster.name)
        try:
            leaf = await self._api.get(kinds.SECRETS, cluster.namespace, issued)
            authority = await self._api.get(kinds.SECRETS, cluster.namespace, trusted)
            found = OwnCertificate(
                certificate=text_of(leaf, OPERATOR_CERTIFICATE),
                key=text_of(leaf, OPERATOR_KEY),
                authorities=(text_of(authority, CA_CERTIFICATE),),
            )
            if own.of(cluster) is None:
                own.show(cluster, found)
        except (ApiError, OSError, ValueError) as error:
            raise NoAnswer(
                f"the operator has no certificate of the cluster CA: Secret {issued} or {trusted} "
                f"cannot be used ({error})"
            ) from error

    async def of(self, cluster: ClusterKey) -> str:
        """The password of the cluster's internal listener. Raises `NoAnswer` if it cannot be
        read."""
        if cluster not in self._known:
            name = names.internal_secret(cluster.name)
            try:
                secret = await self._api.get(kinds.SECRETS, cluster.namespace, name)
            except ApiError as error:
                raise NoAnswer(f"the Secret {name} cannot be read: {error}") from error
            password = password_of(secret)
            if not password:
                raise NoAnswer(f"the Secret {name} holds no password")
            self._known[cluster] = password
        return self._known[cluster]

    def forget(self, cluster: ClusterKey) -> None:
        self._known.pop(cluster, None)
