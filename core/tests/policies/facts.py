"""Clusters with policies and topics in them, as the tests of policies write them."""

from collections.abc import Mapping
from typing import Any

from chiplog_core.config.effective import TopicConfig
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming.api import API_VERSION
from chiplog_core.policies.rules import TopicFacts

HOME = "home"


def cluster(config: Mapping[str, object] | None = None, **policies: Any) -> BrokerCluster:
    return BrokerCluster.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "BrokerCluster",
            "metadata": {"name": "prod", "namespace": HOME},
            "spec": {
                "replicas": 3,
                "storage": {"size": "1Gi"},
                "config": dict(config or {}),
                "topicPolicies": policies,
            },
        }
    )


def facts(
    name: str = "orders",
    *,
    namespace: str = HOME,
    partitions: int = 1,
    replicas: int = 1,
    inherited: Mapping[str, str] | None = None,
    **config: object,
) -> TopicFacts:
    """A topic; its configuration with `_` for `.`."""
    own = {key.replace("_", "."): str(value) for key, value in config.items()}
    return TopicFacts(
        name=name,
        namespace=namespace,
        partitions=partitions,
        replicas=replicas,
        config=TopicConfig(own, inherited or {}),
    )
