"""Topics under a cluster's policies, with what must be said to each.

The program judges them in `make check`, a real API server in the lane `cluster`: both by these
cases, so that they cannot come to say different things.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chiplog_core.config.effective import TopicConfig, topic_defaults
from chiplog_core.config.given import given_broker_config, given_topic_config
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.topic import Topic
from chiplog_core.naming.api import API_VERSION
from chiplog_core.policies.judge import judge
from chiplog_core.policies.rules import TopicFacts

Spec = Mapping[str, Any]
DAY_MS = 24 * 60 * 60 * 1000
OF = "of BrokerCluster {cluster}"
"""In a text, `{cluster}` and `{namespace}` stand for those of the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A Topic that is made or changed."""

    id: str
    policies: Spec
    text: str = ""
    """What is said when it is refused; empty: it is accepted."""
    name: str = "orders"
    spec: Spec = field(default_factory=dict)
    before: Spec | None = None
    """Its spec from before the policies; None: it is made."""
    config: Spec = field(default_factory=dict)
    """The cluster's."""

    def cluster(self, name: str, namespace: str) -> dict[str, Any]:
        return {
            "apiVersion": API_VERSION,
            "kind": "BrokerCluster",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": 3,
                "storage": {"size": "1Gi"},
                "config": dict(self.config),
                "topicPolicies": dict(self.policies),
            },
        }

    def topic(self, spec: Spec, cluster: str, namespace: str, home: str) -> dict[str, Any]:
        """The manifest, under an object name that no other case has."""
        reference = {"name": cluster, "namespace": home}
        return {
            "apiVersion": API_VERSION,
            "kind": "Topic",
            "metadata": {"name": self.id, "namespace": namespace},
            "spec": {"clusterRef": reference, "topicName": self.name, **spec},
        }


def refusals(cluster: Mapping[str, Any], topic: Spec, before: Spec | None) -> list[str]:
    """What the program says to a Topic of which nothing but the specs is known."""
    guarding = BrokerCluster.from_manifest(cluster)
    wanted = _facts(guarding, topic)
    was = None if before is None else _facts(guarding, before)
    return [str(problem) for problem in judge(guarding, wanted, was).refused]


def _facts(cluster: BrokerCluster, manifest: Spec) -> TopicFacts:
    topic = Topic.from_manifest(manifest)
    config = given_broker_config(cluster.spec.config).values
    return TopicFacts(
        name=topic.topic_name,
        namespace=topic.metadata.namespace,
        partitions=topic.spec.partitions or int(config.get("num.partitions", "1")),
        replicas=topic.spec.replicas or int(config.get("default.replication.factor", "1")),
        config=TopicConfig(given_topic_config(topic.spec.config).values, topic_defaults(config)),
    )


CASES = (
    Case(
        id="name-pattern",
        policies={"namePattern": r"[a-z]+(\.[a-z-]+)+"},
        text=r"spec.topicName is orders, which does not match [a-z]+(\.[a-z-]+)+, "
        f"spec.topicPolicies.namePattern {OF}: choose another name",
    ),
    Case(
        id="name-pattern-kept",
        policies={"namePattern": r"^[a-z]+(\.[a-z-]+)+$"},
        name="orders.new-ones",
    ),
    Case(
        id="name-pattern-not-in-part",
        policies={"namePattern": "a|orders"},
        name="orders2",
        text="spec.topicName is orders2, which does not match a|orders, "
        f"spec.topicPolicies.namePattern {OF}: choose another name",
    ),
    Case(
        id="named-prefix",
        policies={"namespacePrefixes": [{"namespace": "{namespace}", "prefix": "billing."}]},
        text=f"spec.topicName is orders, but spec.topicPolicies.namespacePrefixes {OF} requires "
        "that names of topics in namespace {namespace} start with billing.: choose a name with "
        "that prefix",
    ),
    Case(
        id="own-prefix",
        policies={"requireNamespacePrefix": True},
        text="spec.topicName is orders, but spec.topicPolicies.requireNamespacePrefix "
        f"{OF} requires that names of topics in namespace {{namespace}} start with {{namespace}}.: "
        "choose a name with that prefix",
    ),
    Case(
        id="own-prefix-kept", policies={"requireNamespacePrefix": True}, name="{namespace}.orders"
    ),
    Case(
        id="partitions",
        policies={"maxPartitions": 6},
        spec={"partitions": 7},
        text=f"spec.partitions is 7, above spec.topicPolicies.maxPartitions {OF}, 6: set it to at "
        "most 6",
    ),
    Case(
        id="partitions-by-default",
        policies={"maxPartitions": 6},
        config={"num.partitions": "7"},
        text=f"spec.partitions is 7, above spec.topicPolicies.maxPartitions {OF}, 6: set it to at "
        "most 6",
    ),
    Case(
        id="partitions-from-before",
        policies={"maxPartitions": 6},
        before={"partitions": 8},
        spec={"partitions": 8, "config": {"retention.ms": 1000}},
    ),
    Case(
        id="partitions-worse",
        policies={"maxPartitions": 6},
        before={"partitions": 8},
        spec={"partitions": 9},
        text=f"spec.partitions is 9, above spec.topicPolicies.maxPartitions {OF}, 6: set it to at "
        "most 6, or leave it as it is",
    ),
    Case(
        id="replicas",
        policies={"minReplicas": 2},
        text=f"spec.replicas is 1, below spec.topicPolicies.minReplicas {OF}, 2: set it to at "
        "least 2",
    ),
    Case(
        id="retention-too-short",
        policies={"minRetention": "1d"},
        spec={"config": {"retention.ms": "1000"}},
        text=f"spec.config[retention.ms] is 1000, below spec.topicPolicies.minRetention {OF}, 1d: "
        f"set it to at least {DAY_MS}",
    ),
    Case(
        id="retention-too-long",
        policies={"maxRetention": "30d"},
        spec={"config": {"retention.ms": -1}},
        text=f"spec.config[retention.ms] is -1, above spec.topicPolicies.maxRetention {OF}, 30d: "
        f"set it to at most {30 * DAY_MS}",
    ),
    Case(
        id="retention-too-long-by-default",
        policies={"maxRetention": "1h"},
        config={"log.retention.hours": 2},
        text=f"spec.config[retention.ms] is 7200000, above spec.topicPolicies.maxRetention {OF}, "
        "1h: set it to at most 3600000",
    ),
    Case(
        id="retention-shortened-not-enough",
        policies={"maxRetention": "1h"},
        before={"config": {"retention.ms": -1}},
        spec={"config": {"retention.ms": 7200000}},
    ),
    Case(
        id="retention-for-ever-by-compaction",
        policies={"maxRetention": "30d"},
        spec={"config": {"cleanup.policy": "compact"}},
        text="spec.config[cleanup.policy] is compact, which keeps records for ever, and "
        f"spec.topicPolicies.maxRetention {OF} forbids that: add delete to it",
    ),
    Case(
        id="bytes-without-limit",
        policies={"maxRetentionBytes": "1Gi"},
        text="spec.config[retention.bytes] is -1, above spec.topicPolicies.maxRetentionBytes "
        f"{OF}, 1Gi: set it to at most {1 << 30}",
    ),
    Case(
        id="bytes-without-limit-by-compaction",
        policies={"maxRetentionBytes": "1Gi"},
        spec={"config": {"cleanup.policy": "compact"}},
        text="spec.config[cleanup.policy] is compact, which keeps records for ever, and "
        f"spec.topicPolicies.maxRetentionBytes {OF} forbids that: add delete to it",
    ),
    Case(
        id="everything-kept",
        policies={
            "maxPartitions": 6,
            "minReplicas": 3,
            "minRetention": "1d",
            "maxRetention": "7d",
            "maxRetentionBytes": "1Gi",
        },
        spec={
            "partitions": 6,
            "replicas": 3,
            "config": {"retention.bytes": 1 << 30, "cleanup.policy": "compact,delete"},
        },
    ),
)


def filled(value: Any, cluster: str, namespace: str) -> Any:
    """A text, or a list or map of them, with the names of the test."""
    match value:
        case str():
            return value.replace("{cluster}", cluster).replace("{namespace}", namespace)
        case list():
            return [filled(one, cluster, namespace) for one in value]
        case Mapping():
            return {name: filled(one, cluster, namespace) for name, one in value.items()}
        case _:
            return value
