"""The secret that the brokers and the operator of one cluster share, for the internal listener."""

import base64

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_operator.resources.objects import cluster_object

USERNAME_KEY = "username"
PASSWORD_KEY = "password"  # noqa: S105 - the name of a key
USERNAME = "chiplog"


def internal_secret(cluster: BrokerCluster, password: str) -> Manifest:
    """The Secret `<cluster>-internal`, with the user name and password of the listener that brokers
    use among themselves."""
    assert password, "the password is empty"
    name = names.internal_secret(cluster.metadata.name)
    data = {USERNAME_KEY: _encoded(USERNAME), PASSWORD_KEY: _encoded(password)}
    return cluster_object(kinds.SECRETS, name, cluster, {"type": "Opaque", "data": data})


def password_of(secret: Manifest) -> str | None:
    """The password in an existing Secret; None if it has none."""
    encoded = (secret.get("data") or {}).get(PASSWORD_KEY)
    return base64.b64decode(encoded).decode() if encoded else None


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
