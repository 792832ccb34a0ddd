"""A whole cluster is deleted: `storage.deleteClaim` says whether its volumes go with it."""

import json

import pytest

from e2e import measured
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest

pytestmark = [pytest.mark.change, pytest.mark.timeout(300)]

LIMIT_S = 60


def small(cluster: BrokerClusterUnderTest, name: str, *, delete_claim: bool) -> Manifest:
    """The manifest of a cluster of one broker."""
    storage = {"size": "1Gi", "deleteClaim": delete_claim}
    spec = {"replicas": 1, "storage": storage, "config": {"offsets.topic.replication.factor": 1}}
    meta = {"name": name, "namespace": cluster.kubectl.namespace}
    return {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "BrokerCluster",
        "metadata": meta,
        "spec": spec,
    }


def test_the_claims_go_with_the_cluster_only_if_its_spec_says_so(
    cluster: BrokerClusterUnderTest,
) -> None:
    goes, stays = (
        BrokerClusterUnderTest(cluster.kubectl, name) for name in ("claims-go", "claims-stay")
    )
    for one in (goes, stays):
        cluster.kubectl.apply(json.dumps(small(cluster, one.name, delete_claim=one is goes)))
    for one in (goes, stays):
        one.wait_cluster_ready()
    kept = stays.uids("pvc")
    assert len(kept) == len(goes.uids("pvc")) == 1

    def is_owned() -> bool:
        (claim,) = goes.own("pvc")
        assert [one["kind"] for one in claim["metadata"].get("ownerReferences", ())] == [
            "BrokerCluster"
        ]
        return True

    def are_gone() -> bool:
        assert not goes.broker_pods()
        assert not stays.broker_pods()
        assert not goes.uids("pvc")
        return True

    eventually("the cluster owns its claim", is_owned, LIMIT_S, every_s=0.5)
    cluster.kubectl("delete", "cbc", goes.name, stays.name, "--wait=false")
    took_s = eventually("pods and claims are gone", are_gone, LIMIT_S, every_s=0.5)
    measured.note(f"a deleted cluster's pods and claims are gone after {took_s:.1f} s")
    assert stays.uids("pvc") == kept
    (claim,) = stays.own("pvc")
    assert "deletionTimestamp" not in claim["metadata"]
    cluster.kubectl("delete", "pvc", *kept)
