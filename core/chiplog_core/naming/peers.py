"""The names in certificates by which the processes of a cluster know each other: its brokers, and
the operator that asks them.

All these certificates are from the cluster CA. The names are checked nevertheless: users may bring
a CA from which others have certificates, too.
"""

import re
from collections.abc import Iterable

from chiplog_core.ids import BrokerId
from chiplog_core.naming import names


def broker_host(cluster: str, namespace: str, broker_id: BrokerId) -> str:
    """The host of a broker's pod."""
    return f"{names.pod(cluster, broker_id)}.{_domain(cluster, namespace)}"


def operator_host(cluster: str, namespace: str) -> str:
    """The name of the operator. No broker's pod is called so."""
    return f"operator.{_domain(cluster, namespace)}"


def is_broker(hosts: Iterable[str], cluster: str, namespace: str) -> bool:
    """Whether a certificate with these names is that of a broker of the cluster."""
    pod = re.compile(rf"{re.escape(cluster)}-broker-[1-9][0-9]*-0")
    domain = f".{_domain(cluster, namespace)}"
    return any(host.endswith(domain) and pod.fullmatch(host.removesuffix(domain)) for host in hosts)


def is_operator(hosts: Iterable[str], cluster: str, namespace: str) -> bool:
    """Whether a certificate with these names is that of the operator, for this cluster."""
    return operator_host(cluster, namespace) in hosts


def _domain(cluster: str, namespace: str) -> str:
    return f"{names.brokers_service(cluster)}.{namespace}.svc"
