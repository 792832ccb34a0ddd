"""Files are the only hands: applied again they change nothing, and what hands did is seen."""

import json

import pytest

from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest
from e2e.main.setting_up import wait_for_metadata
from e2e.platform.files import Files, Values
from e2e.platform.tests.conftest import PARTITIONS, TOPIC

pytestmark = [pytest.mark.platform, pytest.mark.timeout(400)]

OURS = "cbc,ct,ccg"
MADE = "sts,svc,cm,pdb,sa,networkpolicy"
REPAIR_LIMIT_S = 60


def generations(cluster: BrokerClusterUnderTest, kinds: str) -> dict[str, int]:
    """How often each object's wish was changed."""
    return {
        f"{one['kind']}/{one['metadata']['name']}": one["metadata"].get("generation", 0)
        for one in cluster.kubectl.get(kinds)["items"]
    }


def test_files_applied_again_change_nothing(cluster: BrokerClusterUnderTest, files: Files) -> None:
    before, epochs = generations(cluster, OURS), cluster.epochs()
    assert files.diff() == ""
    files.apply()
    assert files.diff() == ""
    assert generations(cluster, OURS) == before
    assert cluster.epochs() == epochs


def test_a_change_in_a_file_is_carried_out(cluster: BrokerClusterUnderTest, files: Files) -> None:
    pods = cluster.broker_pods()

    def edit(values: Values) -> None:
        values["topics"][0]["spec"]["partitions"] = PARTITIONS + 1
        values["topics"].append({"name": "returns", "spec": {"partitions": 1, "replicas": 3}})

    files.change(edit)
    cluster.wait_ready("ct", TOPIC)
    wait_for_metadata(cluster, TOPIC, PARTITIONS + 1)
    wait_for_metadata(cluster, "dev.returns", 1)
    assert files.diff() == ""
    assert cluster.broker_pods() == pods


def test_what_hands_did_to_our_kinds_is_reported_and_taken_back(
    cluster: BrokerClusterUnderTest, files: Files
) -> None:
    change = json.dumps({"spec": {"config": {"retention.ms": 60_000}}})
    cluster.kubectl("patch", "ct", TOPIC, "--type=merge", "-p", change)
    found = files.diff()
    assert "-    retention.ms: 60000" in found, found
    assert "+    retention.ms: 3600000" in found, found
    files.apply()
    assert files.diff() == ""
    eventually(
        "the files' value is in force",
        lambda: cluster.map_of(TOPIC)["spec"]["config"]["retention.ms"] == "3600000",
    )


def essence(cluster: BrokerClusterUnderTest) -> dict[str, Manifest]:
    """The parts of everything the operator created that a user may have set."""
    return {
        f"{one['kind']}/{one['metadata']['name']}": {
            "labels": one["metadata"].get("labels"),
            "spec": {
                key: value
                for key, value in one.get("spec", {}).items()
                if key not in {"clusterIP", "clusterIPs"}
            },
            "data": one.get("data"),
        }
        for one in cluster.own(MADE)
    }


def test_what_hands_did_to_what_the_operator_made_is_reverted(
    cluster: BrokerClusterUnderTest,
) -> None:
    """Objects that are gone, or are not as they were made."""
    before, pods = essence(cluster), cluster.broker_pods()
    assert len(before) >= len(MADE.split(",")), sorted(before)
    bootstrap = f"{cluster.name}-kafka-bootstrap"
    away = json.dumps({"spec": {"selector": {"app": "another"}}})
    for arguments in (
        ("delete", "svc", bootstrap),
        ("delete", "pdb", "--all"),
        ("delete", "networkpolicy", "--all"),
        ("patch", "svc", f"{cluster.name}-kafka-brokers", "--type=merge", "-p", away),
    ):
        cluster.kubectl(*arguments)

    def is_reverted() -> bool:
        now = essence(cluster)
        assert now == before, {
            name for name in {*before, *now} if before.get(name) != now.get(name)
        }
        return True

    eventually("everything is as it was made", is_reverted, REPAIR_LIMIT_S)
    cluster.wait_cluster_ready()
    assert cluster.broker_pods() == pods, "no broker was restarted for it"
