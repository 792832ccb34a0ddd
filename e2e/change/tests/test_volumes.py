"""Volumes that go: a new one for a broker, a drained node, and a broker that is removed."""

import json

import pytest

from chiplog_core.naming import labels
from e2e import measured
from e2e.change.gaps import check_gaps
from e2e.change.moved import wait_pods, wait_quiesced
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest
from e2e.main.replicas import places, pod_of, wait_in_sync
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.change, pytest.mark.timeout(400)]

PARTITIONS = 6
REBUILT = 2
LIMIT_S = 120
OPERATOR_ACCOUNT = "system:serviceaccount:chiplog-system:chiplog-operator"


def condition(cluster: BrokerClusterUnderTest, type_: str) -> Manifest:
    """The condition of the BrokerCluster; empty if there is none."""
    found = cluster.kubectl.get("cbc", cluster.name)["status"]["conditions"]
    return next((one for one in found if one["type"] == type_), {})


def leaders(cluster: BrokerClusterUnderTest, topic: str) -> set[int | None]:
    return {place.leader for place in places(cluster, topic)}


def test_an_annotated_pod_gets_a_new_volume(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("rebuilt", PARTITIONS, replicas=3, config={"min.insync.replicas": 2})
    wait_in_sync(cluster)
    pod = pod_of(cluster, REBUILT)
    claim, before = f"data-{pod}", (cluster.uids("pvc"), cluster.uids("pod"))

    single = new_topic("single", 3, replicas=1)
    cluster.kubectl("annotate", "pod", pod, f"{labels.DELETE_POD_AND_PVC}=true")

    def is_refused() -> bool:
        refused = condition(cluster, "RebuildRefused")
        assert refused.get("reason") == "LastInSyncReplica", refused
        assert single in refused["message"], refused
        return True

    eventually("the only replica is kept", is_refused, LIMIT_S, every_s=0.2)
    assert cluster.uids("pvc") == before[0]

    def is_another() -> bool:
        claims, pods = cluster.uids("pvc"), cluster.uids("pod")
        assert claims.get(claim, before[0][claim]) != before[0][claim]
        assert pods.get(pod, before[1][pod]) != before[1][pod]
        others = [{**found, name: ""} for found, name in ((claims, claim), (before[0], claim))]
        assert others[0] == others[1]
        return True

    with Traffic(cluster.bootstrap, topic, PARTITIONS) as traffic:
        cluster.kubectl("delete", "ct", single)
        took_s = eventually("pod and claim are others", is_another, LIMIT_S, every_s=0.2)
        took_s += cluster.wait_cluster_ready()
        took_s += wait_in_sync(cluster)
    measured.note(f"a broker with a new volume is in every ISR again after {took_s:.1f} s")
    check_gaps(traffic, "pod and volume of a broker made again")
    assert not condition(cluster, "RebuildRefused")


def test_a_drained_node_costs_no_gap(cluster: BrokerClusterUnderTest, new_topic: NewTopic) -> None:
    topic = new_topic("drained", PARTITIONS, replicas=3, config={"min.insync.replicas": 2})
    wait_in_sync(cluster)
    node = cluster.kubectl.get("pod", pod_of(cluster, REBUILT))["spec"]["nodeName"]
    there = {
        number
        for number in (1, 2, 3)
        if cluster.kubectl.get("pod", pod_of(cluster, number))["spec"]["nodeName"] == node
    }

    def leads_nothing() -> bool:
        assert not leaders(cluster, topic) & there, leaders(cluster, topic)
        return True

    def is_reported() -> bool:
        message = condition(cluster, "Ready")["message"]
        assert f"kubectl uncordon {node}" in message, message
        return True

    with Traffic(cluster.bootstrap, topic, PARTITIONS) as traffic:
        try:
            cluster.kubectl("cordon", node)
            took_s = eventually("other brokers lead", leads_nothing, LIMIT_S, every_s=0.05)
            measured.note(f"a broker on a cordoned node leads nothing after {took_s:.2f} s")
            selector = f"{labels.CLUSTER}={cluster.name},{labels.BROKER_ID}={REBUILT}"
            cluster.kubectl("drain", node, f"--pod-selector={selector}", "--delete-emptydir-data")
            eventually("the pod waits for its node", is_reported, LIMIT_S, every_s=0.5)
        finally:
            cluster.kubectl("uncordon", node)
        cluster.wait_cluster_ready()
        wait_in_sync(cluster)
    check_gaps(traffic, "a node drained and uncordoned")
    spec = cluster.kubectl.get("brk", f"{cluster.name}-{REBUILT}")["spec"]
    assert spec["intent"] == "Serve"


def test_the_volume_of_a_removed_broker_is_deleted(cluster: BrokerClusterUnderTest) -> None:
    def configure(**spec: object) -> None:
        patch = json.dumps({"spec": spec})
        cluster.kubectl("patch", "cbc", cluster.name, "--type=merge", "-p", patch)

    kept_names = {f"data-{pod_of(cluster, number)}" for number in (1, 2, 3)}
    before = cluster.uids("pvc")  # other tests may have removed brokers, and left their claims
    kept = {name: uid for name, uid in before.items() if name in kept_names}
    configure(replicas=4)
    cluster.wait_cluster_ready(180)
    (added,) = cluster.uids("pvc").keys() - before.keys()

    def is_deleted() -> bool:
        assert cluster.uids("pvc") == kept
        return True

    try:
        configure(replicas=3, storage={"deleteClaim": True})
        took_s = wait_quiesced(cluster, 180)
        took_s += wait_pods(cluster, 1, 2, 3)
        took_s += eventually("the claim is deleted", is_deleted, LIMIT_S, every_s=0.5)
    finally:
        configure(replicas=3, storage={"deleteClaim": False})
    measured.note(f"a broker is removed, and its claim {added} deleted, after {took_s:.1f} s")

    def is_released() -> bool:
        owned = [one for one in cluster.own("pvc") if one["metadata"].get("ownerReferences")]
        assert not owned, owned
        return True

    eventually("the cluster owns no claim", is_released, LIMIT_S, every_s=0.5)
    assert cluster.uids("pvc") == kept


def test_the_operator_may_delete_no_other_claims(cluster: BrokerClusterUnderTest) -> None:
    meta = {"name": f"data-{cluster.name}-broker-9-0", "labels": {labels.CLUSTER: cluster.name}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}
    cluster.kubectl.apply(json.dumps(claim))
    delete = ("delete", "pvc", str(meta["name"]))
    refused = cluster.kubectl.fails(*delete, f"--as={OPERATOR_ACCOUNT}")
    assert "may delete only the PersistentVolumeClaims of brokers" in refused
    cluster.kubectl("label", "pvc", str(meta["name"]), f"{labels.BROKER_ID}=9")
    cluster.kubectl(*delete, f"--as={OPERATOR_ACCOUNT}")
