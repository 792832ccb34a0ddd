"""Pods log in with the token of their ServiceAccount, and have no Secret."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e import measured
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.long_form import LONG_FORM
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest, topic_manifest
from e2e.main.operator import Operator
from e2e.security.secured import AUDIENCE, PODS, PODS_REAUTH_S

pytestmark = [pytest.mark.security, pytest.mark.timeout(300)]

TOPIC, ACCOUNT, POD = "tokens", "orders-reader", "orders-reader"
SHORTEST_TOKEN_S = 600
"""Kubernetes issues none that expires earlier."""
WAIT_S = 60

# Produces and consumes a record every half a second, and prints what happened. Its token is read
# from the file whenever the client asks for one.
CLIENT = """
import json, sys, time
from base64 import urlsafe_b64decode
from confluent_kafka import Consumer, Producer
bootstrap, topic, directory, seconds, reads_s = sys.argv[1:]
found = {"consumed": 0, "errors": [], "logins": 0, "disconnects": 0, "tokens": [], "done": False}

def token(_):
    text = open(directory + "/token").read().strip()
    payload = text.split(".")[1]
    ends_s = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"]
    if ends_s not in found["tokens"]:
        found["tokens"].append(ends_s)
    # The kubelet replaces the file long before the token's end: look at it again soon.
    return text, min(ends_s, time.time() + float(reads_s))

def statistics(text):
    brokers = json.loads(text)["brokers"].values()
    found["disconnects"] = sum(one["disconnects"] for one in brokers)
    found["logins"] = sum(one["req"].get("SaslAuthenticate", 0) for one in brokers)

settings = {
    "bootstrap.servers": bootstrap,
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "OAUTHBEARER",
    "ssl.ca.location": directory + "/ca.crt",
    "oauth_cb": token,
    "error_cb": lambda error: found["errors"].append([error.name(), str(error)]),
    "log_level": 0,
}
producer = Producer(settings)
consumer = Consumer({
    **settings, "group.id": topic, "auto.offset.reset": "earliest",
    "statistics.interval.ms": 500, "stats_cb": statistics,
})
consumer.subscribe([topic])
ends_s = time.monotonic() + float(seconds)
while time.monotonic() < ends_s:
    producer.produce(topic, b"one")
    producer.poll(0)
    one = consumer.poll(0.5)
    if one is not None and one.error() is None:
        found["consumed"] += 1
producer.flush(5)
found["now"] = time.time()
found["done"] = True
print(json.dumps(found), flush=True)
time.sleep(3600)
"""

READER: Manifest = {
    "apiVersion": "chiplog.dev/v1alpha1",
    "kind": "User",
    "metadata": {"name": "pods"},
    "spec": {
        "clusterRef": {"name": "demo"},
        "username": f"system:serviceaccount:e2e-security:{ACCOUNT}",
        "authorization": {
            "type": "simple",
            "acls": [
                {
                    "resource": {"type": "topic", "name": TOPIC},
                    "operations": ["Read", "Write", "Describe"],
                },
                {"resource": {"type": "group", "name": TOPIC}, "operations": ["Read"]},
            ],
        },
    },
}


def pod(image: str, bootstrap: str, audience: str, seconds: int, reads_s: int) -> Manifest:
    """A pod within the restricted Pod Security Standard, whose only credential is a projected
    token."""
    sources = [
        {
            "serviceAccountToken": {
                "path": "token",
                "audience": audience,
                "expirationSeconds": SHORTEST_TOKEN_S,
            }
        },
        {
            "secret": {
                "name": "demo-cluster-ca-cert",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }
        },
    ]
    directory = "/var/run/kafka"
    container = {
        "name": "client",
        "image": image,
        "command": [
            *("python3", "-c", CLIENT, bootstrap, TOPIC, directory),
            *(str(seconds), str(reads_s)),
        ],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "kafka", "mountPath": directory, "readOnly": True}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD},
        "spec": {
            "serviceAccountName": ACCOUNT,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "kafka", "projected": {"sources": sources}}],
        },
    }


def inside(kubectl: Kubectl) -> str:
    """The bootstrap address of the listener for pods."""
    listeners = kubectl.get("cbc", "demo")["status"]["listeners"]
    (found,) = [one["bootstrapServers"] for one in listeners if one["name"] == PODS]
    return str(found)


@pytest.fixture
def user(cluster: BrokerClusterUnderTest) -> Iterator[Kubectl]:
    """A topic, and a User for the account of pods."""
    kubectl = cluster.kubectl
    kubectl.apply(yaml.safe_dump_all([topic_manifest(TOPIC, 1, replicas=3), READER]))
    kubectl("create", "serviceaccount", ACCOUNT)
    try:
        cluster.wait_ready("ct", TOPIC)
        cluster.wait_ready("users.chiplog.dev", "pods")
        yield kubectl
    finally:
        kubectl("delete", "pod", POD, "--ignore-not-found", "--grace-period=0", "--force")
        kubectl("delete", "serviceaccount", ACCOUNT)
        kubectl("delete", "users.chiplog.dev", "pods", "--wait=false")
        kubectl("delete", "ct", TOPIC, "--wait=false")


def outcome(kubectl: Kubectl, manifest: Manifest, limit_s: float) -> dict[str, Any]:
    """What the client in a pod printed."""
    kubectl.apply(json.dumps(manifest))
    found: dict[str, Any] = {}

    def has_printed() -> bool:
        lines = kubectl("logs", POD).strip().splitlines()
        if lines and lines[-1].startswith("{"):
            found.update(json.loads(lines[-1]))
        return bool(found)

    eventually("the client in the pod has printed", has_printed, limit_s, every_s=1)
    kubectl("delete", "pod", POD, "--grace-period=0", "--force")
    return found


def test_a_pod_with_only_a_token_logs_in_again_on_its_connection(
    user: Kubectl, operator: Operator
) -> None:
    """The broker has each client log in again after a few seconds, as at the end of a token."""
    image = operator.references["chiplog/cli"]
    seconds = 3 * PODS_REAUTH_S
    manifest = pod(image, inside(user), AUDIENCE, seconds, PODS_REAUTH_S)
    found = outcome(user, manifest, seconds + WAIT_S)
    assert found["consumed"] > 0
    assert found["disconnects"] == 0
    assert found["logins"] > 3, "it has logged in again"
    assert found["errors"] == []
    secrets = user.get("secrets")["items"]
    assert not [one for one in secrets if one["metadata"]["name"] in {"pods", ACCOUNT}]


def test_a_token_for_another_audience_fails_authentication(
    user: Kubectl, operator: Operator
) -> None:
    image = operator.references["chiplog/cli"]
    found = outcome(user, pod(image, inside(user), "another", 5, 60), WAIT_S)
    assert found["consumed"] == 0
    assert "_AUTHENTICATION" in {name for name, _ in found["errors"]}
    assert "invalid credentials" in " ".join(text for _, text in found["errors"])


@LONG_FORM
@pytest.mark.timeout(1_200)
def test_a_pod_consumes_past_the_end_of_its_token(user: Kubectl, operator: Operator) -> None:
    """Kubernetes issues no token for less than ten minutes, so this takes a little more."""
    image = operator.references["chiplog/cli"]
    seconds = SHORTEST_TOKEN_S + 60
    began_s = time.time()
    found = outcome(user, pod(image, inside(user), AUDIENCE, seconds, 60), seconds + WAIT_S)
    assert len(found["tokens"]) > 1
    first_end_s = min(found["tokens"])
    assert found["now"] > first_end_s, "the first token has expired meanwhile"
    assert found["consumed"] > SHORTEST_TOKEN_S
    assert found["disconnects"] == 0
    assert found["errors"] == []
    measured.note(
        f"a pod consumed {found['consumed']} records, until {found['now'] - first_end_s:.0f} s "
        f"after the end of its first token, {first_end_s - began_s:.0f} s after its start, with "
        f"{found['disconnects']} disconnections"
    )
