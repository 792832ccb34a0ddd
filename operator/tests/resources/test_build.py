"""What holds for all manifests: complete, deterministic, found and owned."""

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.ids import MAX_BROKER_ID, BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import labels
from chiplog_core.naming.names import MAX_CLUSTER_NAME_LENGTH
from chiplog_kube.api import Manifest
from chiplog_operator.resources.build import KINDS, manifests, revision, with_hash
from chiplog_operator.resources.settings import BuildSettings
from tests.resources.test_outside import ROUTED

Made = dict[tuple[str, str], Manifest]
Make = Callable[..., Made]
ClusterWith = Callable[..., BrokerCluster]

IDS = (BrokerId(1), BrokerId(2), BrokerId(3))


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every scalar and every empty container of a manifest, with its path."""
    children: list[tuple[object, object]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    if not children:
        yield path, value
    for name, child in children:
        yield from leaves(child, f"{path}.{name}")


def test_a_cluster_becomes_exactly_these_objects(cluster_with: ClusterWith, make: Make) -> None:
    external = {"name": "external", "type": "nodeport", "port": 9094}
    of_a_broker = {
        ("ServiceAccount", "demo-broker-{}"),
        ("Role", "demo-broker-{}"),
        ("RoleBinding", "demo-broker-{}"),
        ("Lease", "demo-{}"),
        ("StatefulSet", "demo-broker-{}"),
        ("Service", "demo-broker-{}-external"),
    }
    assert set(make(cluster_with(listeners=[external]), 1, 3)) == {
        ("Secret", "demo-internal"),
        ("ConfigMap", "demo-broker-config"),
        ("Service", "demo-kafka-brokers"),
        ("Service", "demo-kafka-bootstrap"),
        ("Service", "demo-kafka-external-bootstrap"),
        ("PodDisruptionBudget", "demo-brokers"),
        ("NetworkPolicy", "demo-brokers"),
        *((kind, name.format(broker)) for kind, name in of_a_broker for broker in (1, 3)),
    }


def test_kinds_names_every_kind_in_the_order_of_creation(
    cluster_with: ClusterWith, settings: BuildSettings
) -> None:
    cluster = cluster_with(listeners=[ROUTED])
    made = [(one["apiVersion"], one["kind"]) for one in manifests(cluster, IDS, settings)]
    assert list(dict.fromkeys(made)) == [(kind.api_version, kind.kind) for kind in KINDS]


def test_every_object_is_the_clusters_own_and_found_by_its_labels(
    full_cluster: BrokerCluster, make: Make
) -> None:
    for (kind, name), manifest in make(full_cluster).items():
        metadata = manifest["metadata"]
        assert metadata["namespace"] == "team"
        assert metadata["labels"].items() >= labels.of_cluster("payments").items()
        (owner,) = metadata["ownerReferences"]
        assert owner == {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "BrokerCluster",
            "name": "payments",
            "uid": "1f3c",
            "controller": True,
            "blockOwnerDeletion": True,
        }, (kind, name)
        broker = re.fullmatch(r"payments(?:-broker)?-(\d+)(?:-external)?", name)
        assert metadata["labels"].get(labels.BROKER_ID) == (broker[1] if broker else None)


def test_the_same_input_gives_the_same_bytes(
    full_cluster: BrokerCluster, settings: BuildSettings
) -> None:
    expected = json.dumps(manifests(full_cluster, IDS, settings))
    randomness = random.Random(7)  # noqa: S311 - to shuffle
    for _ in range(20):
        ids = randomness.sample((*IDS, *IDS), 6)
        shuffled = list(full_cluster.spec.config.items())
        randomness.shuffle(shuffled)
        same = replace(full_cluster, spec=replace(full_cluster.spec, config=dict(shuffled)))
        assert json.dumps(manifests(same, ids, settings)) == expected


def test_nothing_is_null_and_all_of_it_is_json(full_cluster: BrokerCluster, make: Make) -> None:
    """A null in an applied manifest takes a field away; an enum or a Quantity is no JSON."""
    for key, manifest in make(full_cluster).items():
        for path, value in leaves(manifest):
            empty_volume = path.endswith(".emptyDir") and value == {}
            assert empty_volume or type(value) in {str, int, bool}, (key, path, value)


def test_names_fit_for_the_longest_cluster_and_broker(
    cluster_with: ClusterWith, make: Make
) -> None:
    external = {"name": "elevenchars", "type": "nodeport", "port": 9094}
    balanced = {"name": "elevencharz", "type": "loadbalancer", "port": 9095}
    cluster = cluster_with("c" * MAX_CLUSTER_NAME_LENGTH, listeners=[external, balanced])
    for (kind, name), manifest in make(cluster, MAX_BROKER_ID).items():
        assert len(name) <= 63, (kind, name)
        all_labels = dict(manifest["metadata"]["labels"])
        if kind == "Service":
            assert re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", name)
        if kind == "StatefulSet":
            assert len(f"{name}-0") <= 63  # the host name of its pod
            assert len(f"{name}-0123456789") <= 63  # its label controller-revision-hash
            all_labels |= manifest["spec"]["template"]["metadata"]["labels"]
        assert all(len(value) <= 63 for value in all_labels.values())


def test_the_hash_says_whether_anything_changed(cluster_with: ClusterWith, make: Make) -> None:
    before, after = make(cluster_with()), make(cluster_with(config={"num.partitions": 3}))
    changed = {key for key in before if hash_of(before[key]) != hash_of(after[key])}
    assert changed == {
        ("ConfigMap", "demo-broker-config"),
        *(("StatefulSet", f"demo-broker-{broker}") for broker in (1, 2, 3)),
    }


def hash_of(manifest: Manifest) -> str:
    return str(manifest["metadata"]["annotations"][labels.MANIFEST_HASH])


def test_the_hash_is_of_the_manifest_and_not_of_itself(
    make: Make, cluster_with: ClusterWith
) -> None:
    for manifest in make(cluster_with()).values():
        assert with_hash(manifest) == manifest
        other = {**manifest, "metadata": {**manifest["metadata"], "name": "other"}}
        assert hash_of(with_hash(other)) != hash_of(manifest)
        bare = {
            **manifest,
            "metadata": {k: v for k, v in manifest["metadata"].items() if k != "annotations"},
        }
        assert with_hash(bare) == manifest


TLS = {"name": "tls", "type": "internal", "port": 9093, "tls": True}
RESTART: dict[str, dict[str, Any]] = {
    "a configuration that is read at start": {"config": {"num.partitions": 3}},
    "a listener": {"listeners": [{"name": "plain", "type": "internal", "port": 9192}]},
    "a listener with TLS": {"listeners": [TLS]},
    "the image": {"image": "elsewhere/broker:2"},
    "memory": {"resources": {"limits": {"memory": "2Gi"}}},
    "a label of the pods": {"template": {"labels": {"team": "payments"}}},
    "a toleration": {"template": {"tolerations": [{"key": "dedicated"}]}},
    "the grace period": {"terminationGracePeriodSeconds": 5},
    "the rack": {"rack": {"topologyKey": "zone"}},
}
NO_RESTART: dict[str, dict[str, Any]] = {
    "a configuration that topics inherit": {"config": {"log.retention.hours": 3}},
    "the number of brokers": {"replicas": 5},
    "the volume": {"storage": {"size": "20Gi", "class": "quick"}},
    "durability": {"durability": "PageCache"},
    "who may use it": {"allowedTopicNamespaces": ["*"]},
    "when it is restarted": {"rollPolicy": {"approval": "Manual"}},
    "maintenance": {"maintenance": {"brokers": [2]}},
    "how long certificates are valid": {"clusterCa": {"validityDays": 90}},
    "the same listener, named": {
        "listeners": [{"name": "plain", "type": "internal", "port": 9092}]
    },
}


@pytest.mark.parametrize("what", RESTART)
def test_the_revision_changes_with(
    what: str, cluster_with: ClusterWith, settings: BuildSettings
) -> None:
    changed = revision(cluster_with(**RESTART[what]), settings)
    assert changed != revision(cluster_with(), settings)


@pytest.mark.parametrize("what", NO_RESTART)
def test_the_revision_does_not_change_with(
    what: str, cluster_with: ClusterWith, settings: BuildSettings
) -> None:
    same = revision(cluster_with(**NO_RESTART[what]), settings)
    assert same == revision(cluster_with(), settings)


def test_how_a_config_value_is_written_restarts_nothing(
    cluster_with: ClusterWith, settings: BuildSettings
) -> None:
    number, text = (
        revision(cluster_with(config={"num.partitions": value}), settings) for value in (3, "3")
    )
    assert number == text


def test_the_operators_image_counts_where_the_cluster_names_none(
    cluster_with: ClusterWith, settings: BuildSettings
) -> None:
    newer = replace(settings, broker_image="chiplog/broker:2")
    follows, own = cluster_with(), cluster_with(image="mine/broker:1")
    assert revision(follows, newer) != revision(follows, settings)
    assert revision(own, newer) == revision(own, settings)


def test_another_version_of_the_operator_has_the_same_revisions(
    cluster_with: ClusterWith, settings: BuildSettings
) -> None:
    """Else all brokers of all clusters restart when the operator is updated. If that must be, write
    so into the changelog, and then the new values here."""
    much = cluster_with(
        rack={"topologyKey": "zone"},
        resources={"limits": {"memory": "2Gi"}},
        config={"num.partitions": 3},
        template={"labels": {"team": "payments"}, "tolerations": [{"key": "dedicated"}]},
    )
    assert [revision(one, settings) for one in (cluster_with(), much)] == [
        "9d13f79afe481196",
        "7b9cc62d9917c802",
    ]


def test_every_pod_has_the_revision(
    cluster_with: ClusterWith, settings: BuildSettings, make: Make
) -> None:
    made = make(cluster_with())
    for broker in (1, 2, 3):
        template = made["StatefulSet", f"demo-broker-{broker}"]["spec"]["template"]
        assert template["metadata"]["annotations"] == {
            labels.REVISION: revision(cluster_with(), settings)
        }


def test_the_password_is_in_the_secret_and_nowhere_else(
    cluster_with: ClusterWith, settings: BuildSettings, make: Make
) -> None:
    assert settings.internal_password not in repr(settings)
    encoded = make(cluster_with()).pop(("Secret", "demo-internal"))["data"]["password"]
    others = [m for key, m in make(cluster_with()).items() if key[0] != "Secret"]
    assert settings.internal_password not in json.dumps(others)
    assert encoded not in json.dumps(others)
