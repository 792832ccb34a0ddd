"""Through which listener of a BrokerCluster to connect, and how."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from chiplog_cli.errors import CannotDo
from chiplog_cli.security import ClientCertificate, Login, Reached, Security, Tls, TokenLogin
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.certificates import AuthenticationType
from chiplog_core.model.listener import Listener, ListenerStatus, ListenerType

Credentials = Login | ClientCertificate | None
"""What a client can show: a password, a certificate, or nothing."""

_FOR_TOKENS: Final = (
    "a token: use --config FILE with sasl.mechanism=OAUTHBEARER and "
    "sasl.oauthbearer.token.endpoint.url"
)
_NEEDS: Final[Mapping[AuthenticationType | None, str]] = {
    None: "no credentials",
    AuthenticationType.TLS: "a certificate: use --user NAME of a User with authentication.type "
    "tls, or --config FILE with ssl.keystore.location",
    AuthenticationType.SCRAM_SHA_512: "a password: use --user NAME of a User with "
    "authentication.type scram-sha-512, or --config FILE with sasl.jaas.config",
    AuthenticationType.OAUTH: _FOR_TOKENS,
    AuthenticationType.KUBERNETES_TOKEN: _FOR_TOKENS,
}


def by_credentials(
    cluster: BrokerCluster, listener: str | None, credentials: Credentials, *, in_cluster: bool
) -> Reached:
    """How to connect with these credentials. The CAs are those of the listener's status. Raises
    `CannotDo`.

    Without `listener`, the first that asks for just these credentials and can be reached from here:
    of type internal inside of Kubernetes, of another type outside (`in_cluster` is false). If there
    is none, the first that asks for them.
    """
    wanted = _type_of(credentials)
    chosen, status = _chosen(
        cluster, listener, lambda one: one.authentication_type is wanted, in_cluster=in_cluster
    )
    certificate = credentials if isinstance(credentials, ClientCertificate) else None
    security = Security(
        tls=Tls(authorities=_authorities(status), certificate=certificate) if chosen.tls else None,
        login=credentials if isinstance(credentials, Login) else None,
    )
    return Reached(bootstrap_servers=status.bootstrap_servers, security=security)


def by_config(
    cluster: BrokerCluster, listener: str | None, given: Security, *, in_cluster: bool
) -> Reached:
    """How to connect as a configuration says, through a listener that fits it. If it has no
    truststore, the CAs are those of the listener's status. Raises `CannotDo`."""

    def fits(one: Listener) -> bool:
        has_certificate = given.tls is not None and given.tls.certificate is not None
        if listener is None and one.asks_for_certificates is not has_certificate:
            return False  # who has a certificate wants to be known by it
        return (
            one.tls is given.protocol.has_tls
            and one.asks_for_passwords is isinstance(given.login, Login)
            and one.asks_for_tokens is isinstance(given.login, TokenLogin)
            and (has_certificate or not one.asks_for_certificates)
        )

    _, status = _chosen(cluster, listener, fits, in_cluster=in_cluster, protocol=given.protocol)
    security = given
    if given.tls is not None and given.tls.authorities is None:
        security = replace(given, tls=replace(given.tls, authorities=_authorities(status)))
    return Reached(bootstrap_servers=status.bootstrap_servers, security=security)


def _chosen(
    cluster: BrokerCluster,
    named: str | None,
    fits: Callable[[Listener], bool],
    *,
    in_cluster: bool,
    protocol: str = "",
) -> tuple[Listener, ListenerStatus]:
    """The listener to use. `protocol` is the one that --config asks for, for errors. Raises
    `CannotDo`."""
    name = cluster.metadata.name
    found = {one.name: one for one in cluster.status.listeners}
    known = [one for one in cluster.listeners if one.name in found]
    if not known:
        raise CannotDo(
            f"BrokerCluster '{name}' has no listener yet",
            f"`chiplog status --cluster {name}` shows what it waits for",
        )
    if named is not None and named not in {one.name for one in known}:
        names = ", ".join(sorted(one.name for one in known))
        raise CannotDo(f"BrokerCluster '{name}' has no listener '{named}'", f"use one of {names}")
    considered = [one for one in known if named in (None, one.name)]
    fitting = [one for one in considered if fits(one)]
    if not fitting:
        what = "; ".join(_described(one) for one in considered)
        asked = f" that fits security.protocol {protocol} of --config" if protocol else ""
        raise CannotDo(f"BrokerCluster '{name}' has no listener for this client{asked}", what)
    reachable = [one for one in fitting if (one.type is ListenerType.INTERNAL) is in_cluster]
    chosen = (reachable or fitting)[0]
    return chosen, found[chosen.name]


def _described(listener: Listener) -> str:
    """What clients of a listener need."""
    transport = "TLS and " if listener.tls else ""
    return f"listener '{listener.name}' needs {transport}{_NEEDS[listener.authentication_type]}"


def _type_of(credentials: Credentials) -> AuthenticationType | None:
    """How listeners ask for these credentials."""
    match credentials:
        case Login():
            return AuthenticationType.SCRAM_SHA_512
        case ClientCertificate():
            return AuthenticationType.TLS
        case None:
            return None


def _authorities(status: ListenerStatus) -> str | None:
    """The CAs to trust; None, for those of the operating system, if the listener has a certificate
    of somebody else."""
    return "".join(f"{one.strip()}\n" for one in status.certificates) or None
