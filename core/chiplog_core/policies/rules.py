"""The rules of `spec.topicPolicies`, each as a function that yields the topic's violations.

`charts/chiplog-operator/policies/topics.yaml` has the same rules in CEL, for the API server, with
the same messages; tests compare them. Each change here must be made there, too.

In these functions, `of` is the end of messages: "of BrokerCluster" and its name.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.topic_keys import (
    CLEANUP_POLICY,
    DELETE,
    RETENTION_BYTES,
    RETENTION_MS,
)
from chiplog_core.durations import duration_ms
from chiplog_core.ids import MAX_INT64
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.name_pattern import name_matches
from chiplog_core.model.topic_policies import TopicPolicies
from chiplog_core.quantities import quantity_value

NO_LIMIT = MAX_INT64
"""The retention that a negative value stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """An existing or wanted topic, with all defaults filled in."""

    name: str
    namespace: str
    """Namespace of its Topic object; empty if it has none."""
    partitions: int
    replicas: int
    config: TopicConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One policy that a topic violates."""

    policy: str
    """Name of the policy's field in `spec.topicPolicies`."""
    field: str
    """The field of the Topic that violates it."""
    message: str
    remedy: str
    excess: int = 0
    """How bad the violation is: a larger number is worse. Only violations of the same policy can be
    compared."""


def violations(cluster: BrokerCluster, topic: TopicFacts) -> Iterator[Violation]:
    """Every policy of the cluster that the topic violates."""
    policies = cluster.spec.topic_policies
    if policies is None:
        return
    of = f"of BrokerCluster {cluster.metadata.name}"
    yield from _name(policies, topic, of)
    yield from _prefix(cluster, policies, topic, of)
    yield from _counts(policies, topic, of)
    yield from _unlimited_retention(policies, topic, of)
    if DELETE in topic.config[CLEANUP_POLICY]:
        yield from _retention_ms(policies, topic, of)
        yield from _retention_bytes(policies, topic, of)


def _name(policies: TopicPolicies, topic: TopicFacts, of: str) -> Iterator[Violation]:
    """The violation of namePattern."""
    pattern = policies.name_pattern
    if pattern is None:
        return
    remedy = "choose another name"
    try:
        if name_matches(pattern, topic.name):
            return
        message = (
            f"is {topic.name}, which does not match {pattern}, spec.topicPolicies.namePattern {of}"
        )
    except ValueError:
        # The BrokerCluster's own condition says what is wrong with the pattern. Until the pattern
        # is corrected, no name is accepted.
        message = f"cannot be checked: spec.topicPolicies.namePattern {of} cannot be parsed"
        remedy = "correct that field of the BrokerCluster"
    yield Violation(
        policy="namePattern",
        field="spec.topicName",
        message=message,
        remedy=remedy,
    )


def _prefix(
    cluster: BrokerCluster, policies: TopicPolicies, topic: TopicFacts, of: str
) -> Iterator[Violation]:
    """The violation of the prefix for names of topics in a namespace. Without an explicit prefix,
    requireNamespacePrefix demands the namespace's name, except in the cluster's own namespace."""
    if not topic.namespace:
        return
    prefixes = {rule.namespace: rule.prefix for rule in policies.namespace_prefixes}
    policy, prefix = "namespacePrefixes", prefixes.get(topic.namespace, "")
    is_cluster_namespace = topic.namespace == cluster.metadata.namespace
    if not prefix and policies.require_namespace_prefix and not is_cluster_namespace:
        policy, prefix = "requireNamespacePrefix", f"{topic.namespace}."
    if topic.name.startswith(prefix):
        return
    yield Violation(
        policy=policy,
        field="spec.topicName",
        message=f"is {topic.name}, but spec.topicPolicies.{policy} {of} requires that names of "
        f"topics in namespace {topic.namespace} start with {prefix}",
        remedy="choose a name with that prefix",
    )


def _counts(policies: TopicPolicies, topic: TopicFacts, of: str) -> Iterator[Violation]:
    """The violations of the bounds for partitions and replicas."""
    most, least = policies.max_partitions, policies.min_replicas
    if most is not None:
        yield from _above("maxPartitions", "spec.partitions", topic.partitions, most, str(most), of)
    if least is not None:
        yield from _below("minReplicas", "spec.replicas", topic.replicas, least, str(least), of)


def _unlimited_retention(
    policies: TopicPolicies, topic: TopicFacts, of: str
) -> Iterator[Violation]:
    """The violation of a topic that is only compacted, which would avoid every upper bound of
    retention."""
    cleanup_policies = topic.config[CLEANUP_POLICY]
    if DELETE in cleanup_policies:
        return
    bounds = (
        ("maxRetention", policies.max_retention),
        ("maxRetentionBytes", policies.max_retention_bytes),
    )
    for policy, bound in bounds:
        if bound is not None:
            yield Violation(
                policy=policy,
                field=f"spec.config[{CLEANUP_POLICY.name}]",
                message=f"is {','.join(cleanup_policies)}, which keeps records for ever, and "
                f"spec.topicPolicies.{policy} {of} forbids that",
                remedy=f"add {DELETE} to it",
                excess=NO_LIMIT,
            )


def _retention_ms(policies: TopicPolicies, topic: TopicFacts, of: str) -> Iterator[Violation]:
    """The violations of the bounds for the retention time."""
    field = f"spec.config[{RETENTION_MS.name}]"
    kept_ms = topic.config[RETENTION_MS]
    least, most = policies.min_retention, policies.max_retention
    if least is not None:
        yield from _below("minRetention", field, kept_ms, duration_ms(least), least, of)
    if most is not None:
        yield from _above("maxRetention", field, kept_ms, duration_ms(most), most, of)


def _retention_bytes(policies: TopicPolicies, topic: TopicFacts, of: str) -> Iterator[Violation]:
    """The violation of the bound for the retention size."""
    most = policies.max_retention_bytes
    if most is not None:
        field, kept_bytes = f"spec.config[{RETENTION_BYTES.name}]", topic.config[RETENTION_BYTES]
        limit_bytes = int(quantity_value(most))
        yield from _above("maxRetentionBytes", field, kept_bytes, limit_bytes, most, of)


def _above(
    policy: str, field: str, value: int, limit: int, shown: str, of: str
) -> Iterator[Violation]:
    """The violation of the upper bound `limit`, which messages show as `shown`. A negative value
    means no limit, which is above every bound."""
    amount = NO_LIMIT if value < 0 else value
    if amount > limit:
        yield Violation(
            policy=policy,
            field=field,
            message=f"is {value}, above spec.topicPolicies.{policy} {of}, {shown}",
            remedy=f"set it to at most {limit}",
            excess=amount,
        )


def _below(
    policy: str, field: str, value: int, limit: int, shown: str, of: str
) -> Iterator[Violation]:
    """The violation of the lower bound `limit`, which messages show as `shown`."""
    amount = NO_LIMIT if value < 0 else value
    if amount < limit:
        yield Violation(
            policy=policy,
            field=field,
            message=f"is {value}, below spec.topicPolicies.{policy} {of}, {shown}",
            remedy=f"set it to at least {limit}",
            excess=-amount,
        )
