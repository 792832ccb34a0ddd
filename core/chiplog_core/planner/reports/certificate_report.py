"""What the status of a BrokerCluster says about certificates."""

from collections.abc import Iterator

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.conditions import ConditionType, Verdict
from chiplog_core.model.listener import INTERNAL_LISTENER_NAME, Listener
from chiplog_core.model.listener_certificate import ListenerCertificate
from chiplog_core.model.verdicts import holds
from chiplog_core.naming import names
from chiplog_core.observed.world import World

MAX_NAMED = 5


def certificate_verdicts(world: World) -> Iterator[Verdict]:
    """A condition while a CA is being replaced, and a warning about files that brokers cannot
    use."""
    if world.ca_replacements:
        message = "; ".join(world.ca_replacements)
        yield holds(ConditionType.CERTIFICATES_CHANGING, "KeyReplaced", message)
    if world.cluster is None:
        return
    found = [
        _unusable(world.cluster, broker_id, one)
        for broker_id, broker in sorted(world.brokers.items())
        if not broker.spec.retired
        for one in broker.status.listener_certificates
        if one.problem
    ]
    if found:
        more = f"; and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
        message = f"{'; '.join(found[:MAX_NAMED])}{more}: correct the Secret"
        yield holds(ConditionType.WARNING, "CertificateUnusable", message)


def _unusable(cluster: BrokerCluster, broker_id: BrokerId, one: ListenerCertificate) -> str:
    """The message about one listener of one broker."""
    listener = next((each for each in cluster.spec.listeners if each.name == one.listener), None)
    secrets = "" if listener is None else f", from Secret {_secrets(cluster, listener)}"
    if one.listener == INTERNAL_LISTENER_NAME:
        name = cluster.metadata.name
        own, ca = names.broker_certificates(name), names.cluster_ca_certificate(name)
        secrets = f", from Secret {own} or {ca}"
    until = (
        "" if one.not_after is None else f", which expires at {one.not_after:%Y-%m-%dT%H:%M:%SZ}"
    )
    return (
        f"broker {broker_id} cannot use the files of listener {one.listener}{secrets} "
        f"({one.problem}): it still uses the certificate that it had{until}"
    )


def _secrets(cluster: BrokerCluster, listener: Listener) -> str:
    """The Secrets that a listener's files are from."""
    own, name = listener.own_certificate, cluster.metadata.name
    shown = names.broker_certificates(name) if own is None else own.secret_name
    if not listener.asks_for_certificates:
        return shown
    return f"{shown} or {names.clients_ca_certificate(name)}"
