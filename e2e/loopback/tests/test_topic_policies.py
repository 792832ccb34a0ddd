"""Topic policies on a Kubernetes API without nodes: kubectl, operator and real clients."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from e2e.clients.by_librdkafka import QUIET
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.layout import CHECKOUT
from e2e.loopback.cluster import NAME, NAMESPACE, LoopbackCluster

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

POLICY = CHECKOUT / "charts" / "chiplog-operator" / "policies" / "topics.yaml"
ADMISSION = "admissionregistration.k8s.io/v1"
LIMIT_S = 30
TOO_MANY = (
    "spec.partitions is 7, above spec.topicPolicies.maxPartitions of BrokerCluster loopback, 6: "
    "set it to at most 6"
)
TOO_LONG = (
    "spec.config[retention.ms] is -1, above spec.topicPolicies.maxRetention of BrokerCluster "
    "loopback, 7d: set it to at most 604800000"
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path / "cluster") as one:
        yield one


def set_policies(kubectl: Kubectl, **policies: object) -> None:
    patch = json.dumps({"spec": {"topicPolicies": policies}})
    kubectl("patch", "cbc", NAME, "--type=merge", "-p", patch)


def topic(name: str, partitions: int) -> str:
    spec = {"clusterRef": {"name": NAME}, "partitions": partitions}
    kind = {"apiVersion": "chiplog.dev/v1alpha1", "kind": "Topic"}
    return json.dumps({**kind, "metadata": {"name": name}, "spec": spec})


def condition(kubectl: Kubectl, name: str, type_: str) -> dict[str, Any]:
    conditions = kubectl.get("ct", name)["status"]["conditions"]
    return next((one for one in conditions if one["type"] == type_), {})


def refused(done: Future[object]) -> str:
    """The message that the client gets; its error must be POLICY_VIOLATION."""
    with pytest.raises(KafkaException) as failed:
        done.result(LIMIT_S)
    error: KafkaError = failed.value.args[0]
    assert error.code() == KafkaError.POLICY_VIOLATION, error
    return str(error.str())


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated:DeprecationWarning")
def test_nobody_gets_by_the_policies(cluster: LoopbackCluster) -> None:
    kubectl = Kubectl(cluster.server.administrator(), NAMESPACE)
    set_policies(kubectl, maxPartitions=6, maxRetention="7d")

    # Without an admission policy, the object is stored and the operator makes nothing of it.
    kubectl.apply(topic("by-kubectl", 7))
    eventually(
        "the condition says it",
        lambda: condition(kubectl, "by-kubectl", "Ready").get("reason") == "PolicyViolation",
        LIMIT_S,
    )
    assert condition(kubectl, "by-kubectl", "Ready")["message"] == TOO_MANY
    kubectl("delete", "ct", "by-kubectl", "--timeout=60s")  # its number cannot shrink, made or not
    kubectl.apply(topic("by-kubectl", 6))
    kubectl("wait", "ct/by-kubectl", "--for=condition=Ready", f"--timeout={LIMIT_S}s")

    clients_are_refused(AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET}))
    kubectl("wait", "ct/by-client", "--for=condition=Ready", f"--timeout={LIMIT_S}s")

    # With one, what breaks a policy is not even stored, and clients get the same error.
    install_admission_policy(kubectl)
    apply_seven = ("apply", "--dry-run=server", "-f", "-")
    eventually(
        "the API server says it",
        lambda: TOO_MANY in kubectl.fails(*apply_seven, input_text=topic("another", 7)),
        LIMIT_S,
    )
    clients_are_refused(AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET}))

    # What is there runs on under tighter policies, and goes when it is deleted.
    set_policies(kubectl, maxPartitions=3, namePattern="x.*")
    eventually(
        "the warning is there",
        lambda: condition(kubectl, "by-client", "Warning").get("reason") == "PolicyViolation",
        LIMIT_S,
    )
    assert condition(kubectl, "by-client", "Ready")["status"] == "True"
    kubectl("label", "ct", "by-client", "looked-at=yes")
    kubectl("delete", "ct", "by-client", "by-kubectl", "--timeout=60s")


def clients_are_refused(admin: AdminClient) -> None:
    """All that admin clients can do about it, asked and done. Leaves `by-client` with 6."""
    for asks_only in (True, False):
        made = admin.create_topics([NewTopic("new", 7, 1)], validate_only=asks_only)
        assert refused(made["new"]) == TOO_MANY
    made = admin.create_topics([NewTopic("new", 1, 1, config={"retention.ms": "-1"})])
    assert refused(made["new"]) == TOO_LONG
    if "by-client" not in admin.list_topics(timeout=LIMIT_S).topics:
        admin.create_topics([NewTopic("by-client", 6, 1)])["by-client"].result(LIMIT_S)
    for asks_only in (True, False):
        grown = admin.create_partitions([NewPartitions("by-client", 7)], validate_only=asks_only)
        assert refused(grown["by-client"]) == TOO_MANY
        for change in (admin.incremental_alter_configs, admin.alter_configs):
            assert configured(change, validate_only=asks_only) == TOO_LONG


def configured(change: Callable[..., dict[Any, Future[object]]], *, validate_only: bool) -> str:
    entry = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "by-client")
    if change.__name__ == "alter_configs":
        resource.set_config("retention.ms", "-1")
    else:
        resource.add_incremental_config(entry)
    (done,) = change([resource], validate_only=validate_only).values()
    return refused(done)


def install_admission_policy(kubectl: Kubectl) -> None:
    name = {"name": "topics"}
    spec = yaml.safe_load(POLICY.read_text())
    reference = {"selector": {}, "parameterNotFoundAction": "Allow"}
    bound = {"policyName": "topics", "validationActions": ["Deny"], "paramRef": reference}
    for kind, what in (
        ("ValidatingAdmissionPolicy", spec),
        ("ValidatingAdmissionPolicyBinding", bound),
    ):
        made = {"apiVersion": ADMISSION, "kind": kind, "metadata": name, "spec": what}
        kubectl.apply(json.dumps(made))
