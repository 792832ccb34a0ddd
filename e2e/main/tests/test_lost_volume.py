"""A broker's volume is broken: claim and pod are deleted as the guide says, under load."""

import json
import time
from collections import Counter

import pytest

from chiplog_core.naming import labels
from e2e import measured
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import stored
from e2e.cluster.kubectl import eventually
from e2e.main import shared
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest
from e2e.main.replicas import pod_of, wait_in_sync
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.main, pytest.mark.timeout(900)]

LOST = 2
PARTITIONS = 3
RECORDS = [Record(f"before {number:04}".encode()) for number in range(1_000)]
GONE_LIMIT_S = 300  # a hang guard: pods are made and start, on a busy machine


def test_a_lost_volume_is_filled_from_the_others(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("volume-lost", PARTITIONS, replicas=3, config={"min.insync.replicas": 2})
    Librdkafka().produce(cluster.bootstrap, topic, RECORDS)
    wait_in_sync(cluster)
    pod = pod_of(cluster, LOST)
    claim = f"data-{pod}"
    before, session = cluster.uids("pvc"), cluster.epochs()[f"broker {cluster.name}-{LOST}"][0]

    def is_another() -> bool:
        now = cluster.uids("pvc")
        assert now.get(claim, before[claim]) != before[claim], "the claim is still the first one"
        assert {name: now[name] for name in before if name != claim} == {
            name: uid for name, uid in before.items() if name != claim
        }
        return True

    with Traffic(cluster.bootstrap, topic, PARTITIONS) as traffic:
        began_s = time.monotonic()
        cluster.kubectl("delete", "pvc", claim, "--wait=false")
        cluster.kubectl("delete", "pod", pod)
        eventually("there is another claim", is_another, GONE_LIMIT_S)
        cluster.wait_cluster_ready()
        wait_in_sync(cluster)
        whole_s = time.monotonic() - began_s
    noticed = traffic.noticed
    measured.note(
        f"volume of broker {LOST} lost under load: in every ISR again {whole_s:.1f} s after "
        f"kubectl delete; {traffic.sent} records sent, {len(noticed.errors)} refused"
    )
    assert not noticed.errors, noticed.errors[:5]
    assert len(noticed.acknowledged) == traffic.sent
    found = [one for part in stored(cluster.bootstrap, topic, range(PARTITIONS)) for one in part]
    wanted = [*(one.value for one in RECORDS), *noticed.acknowledged]
    assert Counter(one.record.value for one in found) == Counter(wanted)
    assert int(str(cluster.epochs()[f"broker {cluster.name}-{LOST}"][0])) > int(str(session))
    for partition in range(PARTITIONS):
        sizes = [cluster.segments(pod_of(cluster, one), topic, partition) for one in (1, 2, 3)]
        assert sizes[0] == sizes[1] == sizes[2], "every replica holds the same bytes"


def test_a_pod_that_was_bound_by_the_lost_claim_is_made_again(
    cluster: BrokerClusterUnderTest,
) -> None:
    """The race on purpose: the pod has a node before its new claim was ever bound.

    The scheduler does so where it still has the old claim in its cache. Here the pod names its
    node itself, while the operator is paused and the StatefulSet is away.
    """
    wait_in_sync(cluster)
    pod = pod_of(cluster, LOST)
    claim = f"data-{pod}"
    made_of = cluster.kubectl.get("pod", pod), cluster.kubectl.get("pvc", claim)
    cluster.kubectl("annotate", "cbc", cluster.name, f"{labels.PAUSE}=true")
    eventually("the operator has paused", lambda: is_paused(cluster), GONE_LIMIT_S)
    cluster.kubectl("delete", "sts", pod.removesuffix("-0"), "--cascade=orphan")
    cluster.kubectl("delete", "pod", pod, "--grace-period=1")
    cluster.kubectl("delete", "pvc", claim)
    stuck, pending = map(as_new, made_of)
    cluster.kubectl.apply(json.dumps(pending))
    cluster.kubectl.apply(json.dumps(stuck))
    bound = cluster.kubectl.get("pod", pod)
    assert bound["spec"]["nodeName"], "the pod has its node"
    assert cluster.kubectl.get("pvc", claim)["status"]["phase"] == "Pending"

    began_s = time.monotonic()
    cluster.kubectl("annotate", "cbc", cluster.name, f"{labels.PAUSE}-")

    def is_made_again() -> bool:
        found = cluster.kubectl.get("pod", pod)["metadata"]["uid"]
        assert found != bound["metadata"]["uid"], "the pod is still the one without a volume"
        return True

    eventually("the pod is made again", is_made_again, GONE_LIMIT_S)
    cluster.wait_cluster_ready()
    wait_in_sync(cluster)
    whole_s = time.monotonic() - began_s
    measured.note(f"pod bound before its claim: in every ISR again after {whole_s:.1f} s")
    events = cluster.kubectl.get("events", "--field-selector", f"involvedObject.name={pod}")
    assert "VolumeNotBound" in {one["reason"] for one in events["items"]}


def test_a_shared_cluster_that_is_left_broken_is_repaired(
    cluster: BrokerClusterUnderTest,
) -> None:
    """As after a test that failed halfway: paused, and a broker's pod is gone for good."""
    cluster.kubectl("annotate", "cbc", cluster.name, f"{labels.PAUSE}=true")
    eventually("the operator has paused", lambda: is_paused(cluster), GONE_LIMIT_S)
    cluster.kubectl("delete", "sts", pod_of(cluster, LOST).removesuffix("-0"))
    with pytest.raises(TimeoutError, match="is Ready and not paused"):
        shared.wait_whole(cluster, 1)

    shared.repair(cluster)

    measured.note(f"repaired: whole after {shared.wait_whole(cluster, GONE_LIMIT_S):.1f} s")


def is_paused(cluster: BrokerClusterUnderTest) -> bool:
    conditions = cluster.kubectl.get("cbc", cluster.name)["status"]["conditions"]
    return any(one["type"] == shared.PAUSED for one in conditions)


def as_new(live: Manifest) -> Manifest:
    """A pod or claim as it was made, on the node where it was."""
    meta, spec = live["metadata"], dict(live["spec"])
    spec.pop("volumeName", None)
    kept = {name: meta[name] for name in ("name", "labels") if name in meta}
    revision = meta.get("annotations", {}).get(labels.REVISION)
    if revision is not None:
        kept["annotations"] = {labels.REVISION: revision}
    return {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": kept, "spec": spec}
