"""Rules for clusters."""

import re
from collections.abc import Iterator

from chiplog_core.config.broker_keys import DEFAULT_REPLICATION_FACTOR
from chiplog_core.config.given import given_broker_config
from chiplog_core.config.topic_keys import MIN_INSYNC_REPLICAS
from chiplog_core.durations import Duration, duration_ms
from chiplog_core.ids import MAX_INT64
from chiplog_core.model.auto_rebalance import AutoRebalanceMode
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.certificates import AuthenticationType, CertificateAuthority
from chiplog_core.model.listener import INTERNAL_LISTENER_NAME, Listener, ListenerType
from chiplog_core.model.name_pattern import read_pattern
from chiplog_core.model.network_policy import NetworkPolicyPeer
from chiplog_core.model.roll_policy import UTC
from chiplog_core.model.storage import MIN_VOLUME_SIZE
from chiplog_core.model.topic_policies import TopicPolicies
from chiplog_core.naming import ports
from chiplog_core.naming.names import (
    CLUSTER_NAME_MEANING,
    CLUSTER_NAME_PATTERN,
    MAX_CLUSTER_NAME_LENGTH,
)
from chiplog_core.problems import Problem, Reason
from chiplog_core.quantities import quantity_value
from chiplog_core.validate.listener_authentication import check_authentication
from chiplog_core.validate.outside import check_outside, check_proxies
from chiplog_core.validate.pod_template import check_pod_template
from chiplog_core.validate.roll_policy import check_roll_policy
from chiplog_core.validate.spark_conf import check_spark
from chiplog_core.validate.unbuilt import Feature, unless_built
from chiplog_core.validate.windows import check_windows


def check_cluster(cluster: BrokerCluster) -> tuple[Problem, ...]:
    """Problems with a BrokerCluster itself, because of which its brokers cannot run as
    specified."""
    return tuple(
        problem
        for rule in (
            _name,
            _storage,
            _listeners,
            _authorities,
            _config,
            _policies,
            _template,
            _rolls,
            _auto_rebalance,
            _unbuilt,
        )
        for problem in rule(cluster)
    )


def _auto_rebalance(cluster: BrokerCluster) -> Iterator[Problem]:
    """Problems with automatic Rebalances."""
    for index, settings in enumerate(cluster.spec.auto_rebalance):
        field, mode = f"spec.autoRebalance[{index}]", settings.mode
        if settings.threshold is not None and mode is not AutoRebalanceMode.IMBALANCE:
            yield Problem(f"{field}.threshold", "is only for mode imbalance", "remove it")
        if settings.uneven_for is not None and mode is not AutoRebalanceMode.IMBALANCE:
            yield Problem(f"{field}.unevenFor", "is only for mode imbalance", "remove it")
        if settings.windows and mode is AutoRebalanceMode.REMOVE_BROKERS:
            message = "is set, but removed brokers are emptied at any time"
            yield Problem(f"{field}.windows", message, "remove it")
        yield from check_windows(field, settings.windows, settings.time_zone or UTC)
        if settings.template is not None and mode is AutoRebalanceMode.REMOVE_BROKERS:
            message = "is set, but removed brokers are emptied without a Rebalance"
            yield Problem(f"{field}.template", message, "remove it")


def check_jobs(cluster: BrokerCluster) -> tuple[Problem, ...]:
    """Problems with the settings for Spark jobs. Brokers do not depend on them."""
    return () if cluster.spec.spark is None else check_spark(cluster.spec.spark)


def check_cluster_change(before: BrokerCluster, after: BrokerCluster) -> tuple[Problem, ...]:
    """Problems with changing a BrokerCluster from `before` to `after`.

    A size that was raised may be lowered again as far as the volumes have not grown yet.
    """
    problems = []
    old, new = before.spec.storage, after.spec.storage
    reached = before.status.volume_size or old.size
    smallest = min(old.size, reached, key=quantity_value)
    if quantity_value(new.size) < quantity_value(smallest):
        message = f"is {new.size}, but volumes of {smallest} cannot shrink"
        problems.append(Problem("spec.storage.size", message, f"set it to {smallest} or more"))
    if new.class_ != old.class_:
        problems.append(
            Problem(
                "spec.storage.class",
                "cannot be changed",
                f"set it back to {old.class_}" if old.class_ else "remove it",
                Reason.NOT_SUPPORTED,
            )
        )
    return tuple(problems)


def _name(cluster: BrokerCluster) -> Iterator[Problem]:
    """Problems with the name of the cluster."""
    name = cluster.metadata.name
    if len(name) > MAX_CLUSTER_NAME_LENGTH:
        message = f"has {len(name)} characters, too many for the names of Services made from it"
        yield Problem("metadata.name", message, f"use at most {MAX_CLUSTER_NAME_LENGTH} characters")
    if not re.fullmatch(CLUSTER_NAME_PATTERN, name):
        yield Problem("metadata.name", f"is {name!r}", f"choose {CLUSTER_NAME_MEANING}")


def _storage(cluster: BrokerCluster) -> Iterator[Problem]:
    """Problems with the size of volumes."""
    size = cluster.spec.storage.size
    if quantity_value(size) < quantity_value(MIN_VOLUME_SIZE):
        has_no_unit = re.fullmatch("[1-9][0-9]*", size) is not None
        unit = " bytes" if has_no_unit else ""
        message = f"is {size}{unit}, below the minimum of {MIN_VOLUME_SIZE}"
        remedy = f"write a unit, like {size}Gi" if has_no_unit else "set it to more, like 100Gi"
        yield Problem("spec.storage.size", message, remedy)


def _listeners(cluster: BrokerCluster) -> Iterator[Problem]:
    """Problems with the listeners."""
    listeners = cluster.spec.listeners
    for index, listener in enumerate(listeners):
        field = f"spec.listeners[{index}]"
        yield from _listener(listener, field)
        if any(other.port == listener.port for other in listeners[:index]):
            message = f"is {listener.port}, which another listener has"
            yield Problem(f"{field}.port", message, "choose another port")
        base = listener.node_port_base
        if base is not None and base + cluster.spec.replicas > ports.MAX_NODE_PORT:
            message = f"is {base}, which leaves too few ports for {cluster.spec.replicas} brokers"
            remedy = f"set it to at most {ports.MAX_NODE_PORT - cluster.spec.replicas}"
            yield Problem(f"{field}.nodePortBase", message, remedy)
    yield from _node_ports(cluster)
    yield from check_proxies(listeners)


def _authorities(cluster: BrokerCluster) -> Iterator[Problem]:
    """Problems with the certificate authorities."""
    for name, given in (
        ("clusterCa", cluster.spec.cluster_ca),
        ("clientsCa", cluster.spec.clients_ca),
    ):
        authority = given or CertificateAuthority()
        if authority.renewal_days >= authority.validity_days:
            message = f"is {authority.renewal_days}, not less than validityDays"
            remedy = f"set it to less than {authority.validity_days}, or raise validityDays"
            yield Problem(f"spec.{name}.renewalDays", message, remedy)


def _node_ports(cluster: BrokerCluster) -> Iterator[Problem]:
    """Problems with node ports that overlap. A listener uses its base for the bootstrap address,
    and one more port for each broker."""
    taken: list[tuple[str, int]] = []  # (field, nodePortBase) of the listeners before
    last = cluster.spec.replicas  # a listener uses the ports base to base + last
    for index, listener in enumerate(cluster.spec.listeners):
        base = listener.node_port_base
        if base is None or listener.type is not ListenerType.NODE_PORT:
            continue
        field = f"spec.listeners[{index}].nodePortBase"
        for other, start in taken:
            if abs(base - start) <= last:
                message = (
                    f"is {base}, so its node ports {base} to {base + last} overlap {start} to "
                    f"{start + last}, those of {other}"
                )
                remedy = f"set one of the two at least {last + 1} away from the other"
                yield Problem(field, message, remedy)
        taken.append((field, base))


def _listener(listener: Listener, field: str) -> Iterator[Problem]:
    """Problems with one listener."""
    if listener.name == INTERNAL_LISTENER_NAME:
        message = f"is {listener.name}, the name of the brokers' own listener"
        yield Problem(f"{field}.name", message, "choose another name, like plain")
    if listener.port in ports.RESERVED:
        message = f"is {listener.port}, which brokers use themselves"
        yield Problem(f"{field}.port", message, f"choose another port, like {ports.PLAIN}")
    if listener.type is ListenerType.INTERNAL and listener.advertised_host is not None:
        message = "is set, but a listener of type internal advertises the brokers' pods"
        yield Problem(f"{field}.advertisedHost", message, "remove it")
    elif listener.type is not ListenerType.NODE_PORT and listener.advertised_host is not None:
        message = f"is set, but brokers behind {listener.type} need a host each"
        remedy = "set configuration.advertisedHostTemplate instead"
        yield Problem(f"{field}.advertisedHost", message, remedy)
    if listener.type is not ListenerType.NODE_PORT and listener.node_port_base is not None:
        message = "is set, but only type nodeport uses it"
        yield Problem(f"{field}.nodePortBase", message, "remove it")
    yield from _tls(listener, field)
    yield from check_outside(listener, field)
    if listener.authentication is not None:
        yield from check_authentication(listener.authentication, f"{field}.authentication")
    for place, peer in enumerate(listener.network_policy_peers):
        yield from _peer(peer, f"{field}.networkPolicyPeers[{place}]")


def _tls(listener: Listener, field: str) -> Iterator[Problem]:
    """Problems with settings that a listener without TLS cannot have."""
    if listener.tls:
        return
    if listener.authentication_type is AuthenticationType.TLS or listener.asks_for_tokens:
        message = f"is {listener.authentication_type}, which needs TLS"
        yield Problem(f"{field}.authentication.type", message, "set tls to true")
    if listener.configured.broker_cert_chain_and_key is not None:
        message = "is set, but the listener has no TLS"
        remedy = "remove it, or set tls to true"
        yield Problem(f"{field}.configuration.brokerCertChainAndKey", message, remedy)


def _peer(peer: NetworkPolicyPeer, field: str) -> Iterator[Problem]:
    """Problems with a peer of a NetworkPolicy that the API server would refuse, and with it the
    whole policy."""
    has_selector = peer.pod_selector is not None or peer.namespace_selector is not None
    if peer.ip_block is None and not has_selector:
        remedy = "set podSelector, namespaceSelector or ipBlock; {} as a selector means all"
        yield Problem(field, "selects nobody", remedy)
    if peer.ip_block is not None and has_selector:
        message = (
            "is set together with a selector, but a peer is either an address block or "
            "selected by labels"
        )
        yield Problem(f"{field}.ipBlock", message, "make it a peer of its own")


def _config(cluster: BrokerCluster) -> Iterator[Problem]:
    """Problems with the broker configuration."""
    given = given_broker_config(cluster.spec.config)
    yield from given.problems
    for key in (DEFAULT_REPLICATION_FACTOR.name, MIN_INSYNC_REPLICAS.name):
        if int(given.values.get(key, "1")) > cluster.spec.replicas:
            message = f"is {given.values[key]}, but there are {cluster.spec.replicas} brokers"
            remedy = f"set it to at most {cluster.spec.replicas}, or raise spec.replicas"
            yield Problem(f"spec.config[{key}]", message, remedy)


def _policies(cluster: BrokerCluster) -> Iterator[Problem]:
    """Problems with the topic policies."""
    policies = cluster.spec.topic_policies
    if policies is None:
        return
    yield from _name_pattern(policies)
    yield from _max_retention_bytes(policies)
    if policies.min_replicas is not None and policies.min_replicas > cluster.spec.replicas:
        message = f"is {policies.min_replicas}, but there are {cluster.spec.replicas} brokers"
        yield Problem("spec.topicPolicies.minReplicas", message, "lower it, or raise spec.replicas")
    shortest = duration_ms(policies.min_retention or Duration("0s"))
    if policies.max_retention is not None and shortest > duration_ms(policies.max_retention):
        message = f"is {policies.min_retention}, longer than maxRetention, {policies.max_retention}"
        yield Problem("spec.topicPolicies.minRetention", message, "lower it, or raise maxRetention")


def _name_pattern(policies: TopicPolicies) -> Iterator[Problem]:
    """A problem if namePattern cannot be parsed."""
    if policies.name_pattern is None:
        return
    try:
        read_pattern(policies.name_pattern)
    except ValueError as why:
        message = f"cannot be used: {why}"
        remedy = "write one like payments\\.[a-z]+"
        yield Problem("spec.topicPolicies.namePattern", message, remedy)


def _max_retention_bytes(policies: TopicPolicies) -> Iterator[Problem]:
    """A problem if maxRetentionBytes is not a whole number of bytes."""
    limit = policies.max_retention_bytes
    if limit is None:
        return
    value = quantity_value(limit)
    if value < 1 or value.denominator > 1 or value > MAX_INT64:
        message = f"is {limit}, which is not a number of bytes"
        yield Problem("spec.topicPolicies.maxRetentionBytes", message, "set it to one, like 50Gi")


def _template(cluster: BrokerCluster) -> Iterator[Problem]:
    """Problems with the pod template."""
    if cluster.spec.template is not None:
        yield from check_pod_template(cluster.spec.template)


def _rolls(cluster: BrokerCluster) -> Iterator[Problem]:
    """Problems with the policy for restarts."""
    if cluster.spec.roll_policy is not None:
        has_racks = cluster.spec.rack is not None
        yield from check_roll_policy(cluster.spec.roll_policy, has_racks=has_racks)


def _unbuilt(cluster: BrokerCluster) -> Iterator[Problem]:
    """Problems with features that are not built yet."""
    spec = cluster.spec
    features = [
        (Feature.HIBERNATION, "spec.hibernate", spec.hibernate),
    ]
    for feature, field, is_asked in features:
        if is_asked:
            yield from unless_built(feature, field)
