"""Users ask for what cannot be, see it refused, and take it back; and for what is not built yet.

Nothing that runs may care: leaders are elected, and what was right before stays as it is.
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

TOPICS: Final[tuple[Spec, ...]] = (
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
    {"partitions": 3, "assignments": [{"partition": 1, "replicas": [1]}]},
)

CLUSTERS: Final[tuple[tuple[Spec, Spec], ...]] = (
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

GROUPS: Final[tuple[Spec, ...]] = (
    {},
    {"maxLag": {}},
    {"scale": {"min": 4, "max": 2, "target": {"kind": "Deployment", "name": "a"}}},
    {"reset": {"id": "a", "strategy": "Earliest", "offset": 4}},
    {"reset": {"id": "a", "strategy": "Offset"}},
    {"clusterRef": {"name": "no-such-cluster"}},
    {"groupID": "misspelt"},
)


async def ask_for_topic(stage: Stage) -> None:
    """A Topic that is refused, in the user's namespace or in one that the cluster takes none of."""
    spec = {"clusterRef": {"name": CLUSTER}, **stage.chance.choice(TOPICS)}
    await _for_a_while(stage, kinds.TOPICS, "Topic", spec)


async def ask_for_group(stage: Stage) -> None:
    spec = {"clusterRef": {"name": CLUSTER}, **stage.chance.choice(GROUPS)}
    await _for_a_while(stage, kinds.CONSUMER_GROUPS, "ConsumerGroup", spec)


async def _for_a_while(stage: Stage, kind: Kind, name: str, spec: Spec) -> None:
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
                # No mistake any more: while nobody else had it, it got the name it asked for.
                stage.world.give_up(taken)
            store.delete(kind, key)


async def ask_of_cluster(stage: Stage) -> None:
    """A spec that is refused, until its user sees it."""
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
