"""The kinds of the API: from manifest to value and back."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chiplog_core.manifest.shapes import (
    ListShape,
    MapShape,
    ObjectShape,
    Shape,
    object_shape,
)
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.model.resource import Resource
from chiplog_core.model.topic import Topic
from chiplog_core.naming.api import API_VERSION
from chiplog_core.problems import InvalidManifest

KINDS: list[type[Resource]] = [BrokerCluster, Topic, ConsumerGroup, Broker, PartitionMap]
ValuesOf = Callable[[type[Any]], st.SearchStrategy[Any]]


def topic_manifest(**parts: object) -> dict[str, object]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Topic",
        "metadata": {"name": "orders", "uid": "u-1", "managedFields": [{"manager": "kubectl"}]},
        "spec": {"clusterRef": {"name": "demo"}},
        **parts,
    }


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_was_written_reads_as_it_was(
    kind: type[Resource], data: st.DataObject, values_of: ValuesOf
) -> None:
    value = data.draw(values_of(kind))

    assert kind.from_manifest(value.to_manifest()) == value


def test_a_manifest_as_the_api_server_returns_it() -> None:
    topic = Topic.from_manifest(topic_manifest())

    assert topic.metadata.uid == "u-1"
    assert topic.topic_name == "orders"
    assert topic.to_manifest() == {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "Topic",
        "metadata": {"name": "orders", "uid": "u-1"},
        "spec": {"clusterRef": {"name": "demo"}},
    }


def test_another_kind_is_refused() -> None:
    with pytest.raises(InvalidManifest, match="kind is 'Topic': set it to ConsumerGroup"):
        ConsumerGroup.from_manifest(topic_manifest())
    with pytest.raises(InvalidManifest, match="apiVersion is 'v1': set it to"):
        Topic.from_manifest(topic_manifest(apiVersion="v1"))


def test_a_wish_of_a_user_is_never_ignored() -> None:
    spec = {"clusterRef": {"name": "demo"}, "growth": {"stratgy": "Append"}}

    with pytest.raises(
        InvalidManifest, match=r"spec\.growth\.stratgy is not a field .* strategy\?"
    ):
        Topic.from_manifest(topic_manifest(spec=spec))


def test_a_forged_status_of_a_users_object_counts_for_nothing() -> None:
    topic = Topic.from_manifest(topic_manifest(status={"partitions": "many"}))

    assert topic.status.partitions is None


def test_a_status_of_an_internal_object_that_does_not_read_is_an_error() -> None:
    broker = {
        "apiVersion": API_VERSION,
        "kind": "Broker",
        "metadata": {"name": "demo-1"},
        "spec": {"cluster": "demo", "clusterId": "x", "brokerId": 1, "intent": "Serve"},
    }

    assert Broker.from_manifest({**broker, "status": {"new": 1}}).status.incarnation is None
    with pytest.raises(InvalidManifest, match=r"status\.incarnation is 'x+'"):
        Broker.from_manifest({**broker, "status": {"incarnation": "x" * 32}})


def test_without_a_spec_every_required_field_is_named() -> None:
    with pytest.raises(InvalidManifest) as caught:
        BrokerCluster.from_manifest(
            {"apiVersion": API_VERSION, "kind": "BrokerCluster", "metadata": {}}
        )

    assert {problem.field for problem in caught.value.problems} == {
        "metadata.name",
        "spec.replicas",
        "spec.storage",
    }


def test_a_group_is_named_by_its_id_or_its_object() -> None:
    manifest = topic_manifest(kind="ConsumerGroup")

    assert ConsumerGroup.from_manifest(manifest).group_id == "orders"
    named = {**manifest, "spec": {"clusterRef": {"name": "demo"}, "groupId": "My Group"}}
    assert ConsumerGroup.from_manifest(named).group_id == "My Group"


@pytest.mark.parametrize(
    ("allowed", "namespace", "expected"),
    [
        ([], "home", True),
        ([], "away", False),
        (["away"], "away", True),
        (["away"], "further", False),
        (["*"], "further", True),
    ],
)
def test_which_namespaces_a_cluster_allows(
    allowed: list[str], namespace: str, expected: bool
) -> None:
    cluster = BrokerCluster.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "BrokerCluster",
            "metadata": {"name": "demo", "namespace": "home"},
            "spec": {
                "replicas": 1,
                "storage": {"size": "1Gi"},
                "allowedTopicNamespaces": allowed,
            },
        }
    )

    assert cluster.allows(namespace) is expected


def fields_of(shape: Shape, path: str) -> list[tuple[str, str]]:
    """Every field below a shape, with its description."""
    match shape:
        case ObjectShape():
            found = [(f"{path}.{field.name}", field.description) for field in shape.fields]
            for field in shape.fields:
                found += fields_of(field.shape, f"{path}.{field.name}")
            return found
        case ListShape():
            return fields_of(shape.item, f"{path}[]")
        case MapShape():
            return fields_of(shape.value, f"{path}[]")
        case _:
            return []


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described(kind: type[Resource]) -> None:
    shape = object_shape(kind)
    parts = [part for part in shape.fields if part.name != "metadata"]

    for part in parts:
        for path, description in fields_of(part.shape, part.name):
            assert description.endswith("."), path
            assert len(description) >= 10, path
    assert all(
        part.shape.description.endswith(".") for part in parts if hasattr(part.shape, "description")
    )
