"""How a Spark job connects to the brokers: through which listener, and as whom.

A job is a client like any other. Without `spec.spark.user` it is nobody, and needs a listener that
asks for no credentials. With it, the job's pods mount the Secret of that User. They exist only in
the namespace of the cluster, so jobs in other namespaces are nobody there.
"""

from dataclasses import dataclass, replace
from typing import Final

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import Listener, ListenerType
from chiplog_core.model.user import User, UserAuthenticationType
from chiplog_core.naming import names
from chiplog_core.spark.application import Volume, VolumeKind
from chiplog_core.spark.requests import Connection, ScramLogin
from chiplog_core.spark.topic_choice import WaitReason

USER_FOLDER: Final = "/etc/chiplog/user"
"""Where the Secret of the User is mounted."""
CLUSTER_CA_FOLDER: Final = "/etc/chiplog/cluster-ca"
"""Where the certificates of the cluster CA are mounted."""

USER_FIELD: Final = "spec.spark.user"
NO_LISTENER: Final = "NoListener"
NO_USER: Final = "UserNotReady"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAccess:
    """How a job connects, and what its pods mount for that."""

    bootstrap: str
    """`bootstrap.servers` of the listener."""
    connection: Connection | None = None
    """The request's field; None for plain text without a login."""
    volumes: tuple[Volume, ...] = ()


NO_ACCESS: Final = BrokerAccess(bootstrap="")
"""For objects that run no job."""


def user_of_jobs(cluster: BrokerCluster, namespace: str) -> str | None:
    """The name of the User as which jobs of this namespace connect; None for nobody."""
    spark = cluster.spec.spark
    if spark is None or namespace != cluster.metadata.namespace:
        return None
    return spark.user


def broker_access(
    cluster: BrokerCluster, namespace: str, user: User | None
) -> BrokerAccess | WaitReason:
    """How jobs of this namespace connect, or why they cannot. `user` is the User that
    `user_of_jobs` names, None if there is no such User of this cluster."""
    name = user_of_jobs(cluster, namespace)
    if name is None:
        return _as_nobody(cluster, is_own=namespace == cluster.metadata.namespace)
    if user is None or user.status.secret is None or user.status.username is None:
        return WaitReason(
            NO_USER,
            f"{USER_FIELD} of BrokerCluster {cluster.metadata.name} is {name}, but no User of this "
            "name has a Secret with credentials: create it with authentication.type tls or "
            "scram-sha-512, or correct the field",
        )
    return _as_user(cluster, user, user.status.username)


def _as_nobody(cluster: BrokerCluster, *, is_own: bool) -> BrokerAccess | WaitReason:
    """Access through a listener that asks for no credentials, in plain text if there is one.
    `is_own` says whether the job is in the cluster's namespace, where the Secret with the cluster
    CA is."""
    inside = [one for one in _inside(cluster) if one.authentication is None]
    usable = [one for one in inside if not one.tls or not one.is_issued or is_own]
    if usable:
        return _through(cluster, min(usable, key=lambda one: one.tls), None, ())
    if is_own:
        remedy = (
            f"set {USER_FIELD} to a User of the cluster whose rules let it read, or add such a "
            "listener"
        )
    else:
        remedy = (
            "create this object in the namespace of the cluster, where jobs have its CA and the "
            f"credentials of {USER_FIELD}, or add such a listener without TLS"
        )
    return WaitReason(
        NO_LISTENER,
        f"BrokerCluster {cluster.metadata.name} has no listener of type internal that this job can "
        f"use without credentials: {remedy}",
    )


def _as_user(cluster: BrokerCluster, user: User, username: str) -> BrokerAccess | WaitReason:
    """Access through a listener that asks for the credentials that this User has, with TLS if there
    is one. Its Secret has the User's name: those who may write statuses do not choose it."""
    volume = Volume(
        name="chiplog-user", kind=VolumeKind.SECRET, source=user.metadata.name, path=USER_FOLDER
    )
    has_password = user.spec.authentication_type is UserAuthenticationType.SCRAM_SHA_512
    for listener in sorted(_inside(cluster), key=lambda one: not one.tls):
        if listener.asks_for_passwords and has_password:
            login = ScramLogin(username=username, password_file=f"{USER_FOLDER}/password")
            return _through(cluster, listener, Connection(login=login), (volume,))
        if listener.asks_for_certificates and not has_password:
            shown = Connection(
                certificate_file=f"{USER_FOLDER}/user.crt", key_file=f"{USER_FOLDER}/user.key"
            )
            return _through(cluster, listener, shown, (volume,))
    wanted = "scram-sha-512" if has_password else "tls"
    return WaitReason(
        NO_LISTENER,
        f"BrokerCluster {cluster.metadata.name} has no listener of type internal with "
        f"authentication.type {wanted} for User {user.metadata.name} of {USER_FIELD}: add one, or "
        "choose another User",
    )


def _inside(cluster: BrokerCluster) -> list[Listener]:
    """The listeners that pods reach by the Services inside the Kubernetes cluster."""
    return [one for one in cluster.listeners if one.type is ListenerType.INTERNAL]


def _through(
    cluster: BrokerCluster,
    listener: Listener,
    credentials: Connection | None,
    volumes: tuple[Volume, ...],
) -> BrokerAccess:
    """Access through this listener. Its CA is mounted, so that jobs also trust a new one that is
    published while they run; a certificate that somebody else issued is checked with the CAs of
    the image."""
    meta = cluster.metadata
    bootstrap = f"{names.bootstrap_service(meta.name)}.{meta.namespace}.svc:{listener.port}"
    if not listener.tls:
        return BrokerAccess(bootstrap=bootstrap, connection=credentials, volumes=volumes)
    connection = replace(credentials or Connection(), tls=True)
    if listener.is_issued:
        connection = replace(connection, ca_file=f"{CLUSTER_CA_FOLDER}/ca.crt")
        authorities = Volume(
            name="chiplog-cluster-ca",
            kind=VolumeKind.SECRET,
            source=names.cluster_ca_certificate(meta.name),
            path=CLUSTER_CA_FOLDER,
        )
        volumes = (*volumes, authorities)
    return BrokerAccess(bootstrap=bootstrap, connection=connection, volumes=volumes)
