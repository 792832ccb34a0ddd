"""What ConsumerGroups of other namespaces may change of a cluster's groups: what is theirs."""

from typing import Any

import pytest

from chiplog_core.model.group_status import GroupState
from tests.group_watch.cluster import HOME, Cluster, Group, brokers_cluster, group_object

AWAY = "team-a"
RESET = {"id": "r", "strategy": "to-earliest", "dryRun": False}


@pytest.fixture
def it() -> Cluster:
    prefixes = [{"namespace": "team-b", "prefix": "payments"}]
    cluster = brokers_cluster(
        allowedTopicNamespaces=["*"], consumerGroups={"namespacePrefixes": prefixes}
    )
    made = Cluster(cluster=cluster)
    for name in ("billing", "team-a.readers", "team-ab", "payments-1"):
        made.groups[name] = Group(members=0, state=GroupState.EMPTY, retention_ms=77)
        made.commit(name, 1, 5)
    return made


@pytest.mark.parametrize(
    ("namespace", "group_id", "may"),
    [
        (HOME, "billing", True),
        (AWAY, "team-a.readers", True),
        (AWAY, "billing", False),
        (AWAY, "team-ab", False),
        ("team-b", "payments-1", True),
        ("team-b", "billing", False),
        ("team-b", "team-b.readers", False),
    ],
)
def test_a_namespace_changes_the_groups_that_begin_as_its_groups_do(
    it: Cluster, namespace: str, group_id: str, may: bool
) -> None:
    it.groups.setdefault(group_id, Group(state=GroupState.EMPTY, retention_ms=77))
    spec: dict[str, Any] = {"groupId": group_id, "reset": RESET, "offsetRetention": "1h"}
    it.add(group_object("mine", namespace, **spec))
    it.live(3)

    (observed,) = it.watch.observed()
    assert observed.may_change is may
    assert it.groups[group_id].retention_ms == (3_600_000 if may else 77)
    ready = it.condition("Ready", "mine", namespace)
    assert ready == (("True", "Ready") if may else ("False", "NotAllowed"))
    if not may:
        message = it.status("mine", namespace).conditions[0].message
        assert "spec.reset would change group" in message
        assert "spec.offsetRetention would change group" in message
        assert "spec.consumerGroups.namespacePrefixes" in message


def test_who_may_only_look_sees_and_changes_nothing(it: Cluster) -> None:
    it.add(group_object("look", AWAY, groupId="billing"))
    it.live(3)

    assert it.condition("Ready", "look", AWAY) == ("True", "Ready")
    assert it.status("look", AWAY).total_lag == 4
    assert it.groups["billing"].retention_ms == 77, "nor set back to the cluster's"
    assert it.retention_writes == 0


def test_who_may_only_look_keeps_nobody_from_the_group(it: Cluster) -> None:
    older = {"creationTimestamp": "2020-01-01T00:00:00Z"}
    younger = {"creationTimestamp": "2025-01-01T00:00:00Z"}
    it.add(group_object("first", AWAY, older, groupId="billing"))
    it.add(group_object("billing", HOME, younger, reset=RESET))
    it.live(3)

    (observed,) = it.watch.observed()
    assert observed.group.metadata.namespace == HOME
    assert it.condition("Ready", "first", AWAY) == ("False", "ResourceConflict")


def test_of_a_cluster_that_does_not_read_nobody_elsewhere_changes_anything(it: Cluster) -> None:
    scene = it.cluster
    it.add(group_object("away", AWAY, groupId="team-a.readers", reset=RESET))
    it.add(group_object("billing", HOME, reset=RESET))
    it.cluster = None
    it.live(3)
    assert {one.group.metadata.name: one.may_change for one in it.watch.observed()} == {
        "away": False,
        "billing": True,
    }
    it.cluster = scene
    it.live(3)
    assert all(one.may_change for one in it.watch.observed())
