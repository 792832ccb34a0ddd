"""Users apply invalid specs, or fields that are not supported, and revert them after a while.

They must not disturb the rest of the cluster: leaders are elected, and valid objects stay as they
are.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from chiplog_kube import kinds
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import ObjectKey
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.faults.users import MISTAKE
from e2e.sim.kubelet import CLUSTER, NAMESPACE
from e2e.sim.maps import owned_name

LONGEST_S: Final = 12.0
ELSEWHERE: Final = "elsewhere"
"""A namespace that no operator watches."""
Spec = Mapping[str, Any]

TOPICS: Final[tuple[Spec, ...]] = (  # fields of invalid Topics
    {"partitions": 1, "replicas": 9},
    {"partitions": 1, "config": {"no.such.key": "1"}},
    {"partitions": 1, "config": {"retention.ms": "soon", "cleanup.policy": "burn"}},
    {"partitions": 1, "replicas": 1, "config": {"min.insync.replicas": 2}},
    {"partitions": 1, "config": {"min.insync.replicas": 7}},
    {"partitions": "three"},
    {"partitions": 10**7},
    {"partitons": 3},
    {"partitions": 1, "topicName": "orders"},
    {"partitions": 1, "topicName": "__cluster_metadata"},
    {"partitions": 1, "topicName": ".."},
    {"partitions": 1, "clusterRef": {"name": "no-such-cluster"}},
    {"partitions": 1, "trashTTL": "1h"},
    {"partitions": 1, "deletionPolicy": "Trash"},
    {"partitions": 1, "growth": {"strategy": "Append", "maxReplay": 5}},
    {"partitions": 1, "growth": {"strategy": "Repartition"}},
    {"partitions": 3, "assignments": [{"partition": 3, "replicas": [1]}]},
)

CLUSTERS: Final[
    tuple[tuple[Spec, Spec], ...]
] = (  # invalid fields, and the patch that reverts them
    ({"config": {"no.such.key": 1}}, {"config": {"no.such.key": None}}),
    (
        {"config": {"default.replication.factor": 9, "num.partitions": "some"}},
        {"config": {"default.replication.factor": None, "num.partitions": None}},
    ),
    ({"storage": {"size": "1Mi"}}, {"storage": {"size": "1Gi"}}),
    ({"storage": {"size": "0"}}, {"storage": {"size": "1Gi"}}),
    ({"storage": {"class": "another"}}, {"storage": {"class": None}}),
    ({"hibernate": True}, {"hibernate": None}),
    (
        {"topicPolicies": {"namePattern": "(", "minReplicas": 9, "minRetention": "9h"}},
        {"topicPolicies": None},
    ),
    ({"nonsense": 1}, {"nonsense": None}),
    (
        {
            "listeners": [
                {"name": "internal", "port": 9091, "type": "internal", "advertisedHost": "a"},
                {"name": "one", "port": 9094, "type": "nodeport", "nodePortBase": 32767},
                {"name": "two", "port": 9094, "type": "nodeport", "nodePortBase": 32766},
                {"name": "three", "port": 9095, "type": "loadbalancer", "nodePortBase": 30000},
            ]
        },
        {"listeners": None},
    ),
)

GROUPS: Final[tuple[Spec, ...]] = (  # fields of invalid ConsumerGroups
    {},
    {"maxLag": {}},
    {"scale": {"min": 4, "max": 2, "target": {"kind": "Deployment", "name": "a"}}},
    {"reset": {"id": "a", "strategy": "Earliest", "offset": 4}},
    {"reset": {"id": "a", "strategy": "Offset"}},
    {"clusterRef": {"name": "no-such-cluster"}},
    {"groupID": "misspelt"},
)


async def ask_for_topic(stage: Stage) -> None:
    """Create an invalid Topic for a while, sometimes in a namespace that no operator watches."""
    spec = {"clusterRef": {"name": CLUSTER}, **stage.chance.choice(TOPICS)}
    await _create_for_a_while(stage, kinds.TOPICS, "Topic", spec)


async def ask_for_group(stage: Stage) -> None:
    """Create an invalid ConsumerGroup for a while."""
    spec = {"clusterRef": {"name": CLUSTER}, **stage.chance.choice(GROUPS)}
    await _create_for_a_while(stage, kinds.CONSUMER_GROUPS, "ConsumerGroup", spec)


async def _create_for_a_while(stage: Stage, kind: Kind, name: str, spec: Spec) -> None:
    """Create an object of the kind called `name`, and delete it after some seconds."""
    store, namespace = stage.world.store, stage.chance.choice((NAMESPACE, NAMESPACE, ELSEWHERE))
    key = ObjectKey(namespace, f"{MISTAKE}{store.version}")
    made = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": name,
        "metadata": {"namespace": key.namespace, "name": key.name},
        "spec": spec,
    }
    store.create(kind, made)
    try:
        await asyncio.sleep(stage.chance.uniform(0.5, LONGEST_S))
    finally:
        if (topic := store.peek(kind, *key)) is not None:
            if (taken := owned_name(store, topic)) is not None:
                # The Topic asked for a name that was in use, and got it when it became free.
                stage.world.expect_deletion(taken)
            store.delete(kind, key)


async def ask_of_cluster(stage: Stage) -> None:
    """Apply an invalid spec to the cluster for some seconds, then correct it."""
    store, key = stage.world.store, ObjectKey(NAMESPACE, CLUSTER)
    wrong, right = stage.chance.choice(CLUSTERS)
    store.patch(kinds.BROKER_CLUSTERS, key, {"spec": wrong})
    try:
        await asyncio.sleep(stage.chance.uniform(0.5, LONGEST_S))
    finally:
        store.patch(kinds.BROKER_CLUSTERS, key, {"spec": right})


ACTS: Final[dict[str, Act]] = {
    "topic refused": ask_for_topic,
    "group refused": ask_for_group,
    "cluster refused": ask_of_cluster,
}
