"""The secret that an operator shares with each cluster's brokers."""

from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, KubeApi
from chiplog_operator.caches import ClusterKey
from chiplog_operator.certificates.own import OwnCertificates
from chiplog_operator.groups.port import Access, NoAnswer
from chiplog_operator.resources.secret import password_of


class Passwords:
    """The passwords of clusters: each is read once, and again after a broker refused it."""

    def __init__(self, api: KubeApi, own_certificates: OwnCertificates | None = None) -> None:
        """`own_certificates` are the operator's; none if not set."""
        self._api = api
        self._own_certificates = own_certificates or OwnCertificates()
        self._known: dict[ClusterKey, str] = {}

    async def access(self, cluster: ClusterKey) -> Access:
        """What requests to the cluster's brokers need. Raises `NoAnswer` if the password cannot be
        read."""
        secret = await self.of(cluster)
        return Access(cluster=cluster, secret=secret, tls=self._own_certificates.of(cluster))

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
