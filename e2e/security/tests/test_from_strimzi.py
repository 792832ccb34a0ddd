"""A user and a consumer that ran beside Strimzi run here: of the KafkaUser three things change, of
the Deployment nothing."""

from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer

from e2e.clients.by_librdkafka import must_arrive
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest, topic_manifest
from e2e.main.operator import Operator
from e2e.security.secured import Credentials, user

pytestmark = [pytest.mark.security, pytest.mark.timeout(300)]

STRIMZI = Path(__file__).parents[1] / "strimzi"
TOPIC, WRITER = "invoices", "invoice-writer"
VALUES = [f"invoice {number}" for number in range(5)]
LIMIT_S = 120


def ours(theirs: Manifest) -> Manifest:
    """The User of a KafkaUser."""
    found = deepcopy(theirs)
    found["apiVersion"] = "chiplog.dev/v1alpha1"
    found["kind"] = "User"
    found["spec"]["clusterRef"] = {"name": found["metadata"]["labels"].pop("strimzi.io/cluster")}
    return found


def test_a_kafka_user_and_an_unchanged_deployment_run(
    cluster: BrokerClusterUnderTest, operator: Operator, tmp_path: Path
) -> None:
    kubectl = cluster.kubectl
    theirs = yaml.safe_load((STRIMZI / "user.yaml").read_text())
    assert (theirs["apiVersion"], theirs["kind"]) == ("kafka.strimzi.io/v1", "KafkaUser")
    deployment = (STRIMZI / "deployment.yaml").read_text()
    name, labels = theirs["metadata"]["name"], theirs["metadata"]["labels"]
    writer = user(WRITER, "tls", ("topic", TOPIC, ["Write", "Describe"]))
    kubectl.apply(yaml.safe_dump_all([topic_manifest(TOPIC, 1, replicas=3), writer, ours(theirs)]))
    try:
        cluster.wait_ready("ct", TOPIC)
        for one in (WRITER, name):
            cluster.wait_ready("users.chiplog.dev", one)
        status = kubectl.get("users.chiplog.dev", name)["status"]
        assert [one["type"] for one in status["conditions"]] == ["Ready"], "and no warning"
        secret = kubectl.get("secret", name)
        assert secret["metadata"]["labels"]["app"] == labels["app"]
        wanted = theirs["spec"]["template"]["secret"]["metadata"]["annotations"]
        assert wanted.items() <= secret["metadata"]["annotations"].items()
        listed = kubectl.get("accesslists.chiplog.dev", "demo")["spec"]["users"]
        (quotas,) = [one["quotas"] for one in listed if one["principal"] == f"User:CN={name}"]
        assert quotas == theirs["spec"]["quotas"]

        producer = Producer(Credentials(cluster, WRITER, tmp_path / WRITER).librdkafka())
        for value in VALUES:
            producer.produce(TOPIC, value.encode(), on_delivery=must_arrive)
        assert producer.flush(30) == 0
        kubectl.apply(deployment.replace("IMAGE", operator.references["chiplog/cli"]))
        # It is ready when it has consumed.
        kubectl("rollout", "status", f"deployment/{name}", f"--timeout={LIMIT_S}s", timeout_s=150)
        eventually(
            "all are printed",
            lambda: kubectl("logs", f"deployment/{name}").splitlines() == VALUES,
            LIMIT_S,
        )
    finally:
        kubectl("delete", "deployment", name, "--ignore-not-found", "--cascade=foreground")
        kubectl("delete", "users.chiplog.dev", name, WRITER, "--ignore-not-found", "--wait=false")
        kubectl("delete", "ct", TOPIC, "--ignore-not-found", "--wait=false")
