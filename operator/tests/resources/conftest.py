"""A cluster that asks for everything, the least one, and what they become."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_kube.api import Manifest
from chiplog_operator.resources.build import manifests
from chiplog_operator.resources.settings import BuildSettings

CHECKOUT = Path(__file__).resolve().parents[3]

ClusterWith: TypeAlias = Callable[..., BrokerCluster]
Made: TypeAlias = dict[tuple[str, str], Manifest]
"""Manifests by kind and name."""
Make: TypeAlias = Callable[..., Made]


@pytest.fixture
def settings() -> BuildSettings:
    return BuildSettings(
        broker_image="chiplog/broker:1",
        internal_password="a secret word",  # noqa: S106 - of this test
        operator_namespace="chiplog-system",
    )


@pytest.fixture
def cluster_with() -> ClusterWith:
    """Makes the least cluster, with fields of the spec as given."""

    def make(name: str = "demo", **spec: Any) -> BrokerCluster:
        return BrokerCluster.from_manifest(
            {
                "apiVersion": "chiplog.dev/v1alpha1",
                "kind": "BrokerCluster",
                "metadata": {"name": name, "namespace": "team", "uid": "1f3c"},
                "spec": {"replicas": 3, "storage": {"size": "10Gi"}, **spec},
            }
        )

    return make


@pytest.fixture
def full_cluster(cluster_with: ClusterWith) -> BrokerCluster:
    """Uses every field of the examples that shows in a manifest."""
    example = CHECKOUT / "crds" / "examples" / "brokercluster-full.yaml"
    spec = yaml.safe_load(example.read_text())["spec"]
    return cluster_with("payments", **spec)


@pytest.fixture
def make(settings: BuildSettings) -> Make:
    """Builds a cluster's manifests and files them by kind and name."""

    def made(cluster: BrokerCluster, *ids: int, using: BuildSettings = settings) -> Made:
        built = manifests(cluster, [BrokerId(one) for one in ids or (1, 2, 3)], using)
        filed = {(one["kind"], one["metadata"]["name"]): one for one in built}
        assert len(filed) == len(built), "an object is there twice"
        return filed

    return made
