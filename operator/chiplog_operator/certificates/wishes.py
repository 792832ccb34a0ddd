"""What a cluster needs of CAs, by its spec."""

from dataclasses import dataclass

from chiplog_core.certificates.authority import Term
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.certificates import CertificateAndKey, CertificateAuthority
from chiplog_operator.certificates.secrets import AuthorityNames


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
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
class Wishes:
    """What a cluster needs, by its spec."""

    cluster_ca: Wish | None
    clients_ca: Wish | None
    given: tuple[tuple[str, CertificateAndKey], ...] = ()
    """The certificates of users: the name of each listener that shows one, and where it is."""

    @classmethod
    def of(cls, cluster: BrokerCluster) -> "Wishes":
        name, spec = cluster.metadata.name, cluster.spec
        default = CertificateAuthority()
        return cls(
            cluster_ca=Wish(
                names=AuthorityNames.of_cluster_ca(name), settings=spec.cluster_ca or default
            )
            if spec.has_tls
            else None,
            clients_ca=Wish(
                names=AuthorityNames.of_clients_ca(name), settings=spec.clients_ca or default
            )
            if any(listener.asks_for_certificates for listener in spec.listeners)
            else None,
            given=tuple(
                (listener.name, listener.own_certificate)
                for listener in spec.listeners
                if listener.own_certificate is not None
            ),
        )


def needs_certificates(cluster: BrokerCluster) -> bool:
    """Whether brokers mount certificates."""
    return Wishes.of(cluster) != Wishes(cluster_ca=None, clients_ca=None)
