"""The runner of SparkApplications with the real spark-submit and a real API server.

There are no nodes: what a kubelet would say of the driver's pod, the test says.
"""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.spark_runner import Limits, SparkRunner, install_definition, remove_definition
from e2e.loopback.api_server import ApiServer
from e2e.loopback.cluster import free_node_ports

# Hang guards: on a busy machine spark-submit has taken two minutes.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SUBMIT_LIMIT_S = 300
STATE_LIMIT_S = 60
NUMBERS = count(1)
POD_TEMPLATE = {
    "metadata": {"labels": {"chiplog.dev/spark-application": "nightly-1"}},
    "spec": {
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 185},
        "containers": [
            {
                "name": "spark-kubernetes-driver",
                "volumeMounts": [{"name": "work", "mountPath": "/tmp"}],  # noqa: S108
            }
        ],
        "volumes": [{"name": "work", "emptyDir": {}}],
    },
}


def application(**spec: Any) -> str:
    """A manifest as the operator writes it, or with these fields besides."""
    return json.dumps(
        {
            "apiVersion": "sparkoperator.k8s.io/v1beta2",
            "kind": "SparkApplication",
            "metadata": {"name": "nightly-1"},
            "spec": {
                "type": "Python",
                "mode": "cluster",
                "sparkVersion": "4.2.0",
                "image": "chiplog/spark:none",
                "mainApplicationFile": "local:///opt/chiplog/jobs/verify.py",
                "arguments": ["/etc/chiplog/job/request.json"],
                "restartPolicy": {
                    "type": "OnFailure",
                    "onFailureRetries": 1,
                    "onFailureRetryInterval": 1,
                },
                "driver": {
                    "cores": 1,
                    "coreRequest": "200m",
                    "memory": "512m",
                    "memoryOverhead": "256m",
                    "serviceAccount": "nightly-driver",
                    "template": POD_TEMPLATE,
                },
                "executor": {"instances": 2, "memory": "600m"},
                **spec,
            },
        }
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("spark") / "api", free_node_ports()) as one:
        yield one


@pytest.fixture
def kubectl(server: ApiServer) -> Kubectl:
    """A kubectl for a namespace of the test's own, with the drivers' service account."""
    one = Kubectl(server.administrator(), f"e2e-{next(NUMBERS)}")
    one("create", "namespace", one.namespace)
    one("create", "serviceaccount", "nightly-driver")
    return one


@pytest.fixture(scope="module")
def runner(server: ApiServer) -> Iterator[SparkRunner]:
    """Begun before there is a definition, as it may be."""
    kubeconfig: Path = server.administrator()
    cluster = Kubectl(kubeconfig, "default")
    with SparkRunner(kubeconfig, Limits(poll_s=0.2, submit_s=SUBMIT_LIMIT_S)) as one:
        install_definition(cluster)
        yield one
        remove_definition(cluster)


def wait_for(kubectl: Kubectl, state: str, limit_s: float = STATE_LIMIT_S) -> dict[str, Any]:
    """The status once it has this state."""
    found: dict[str, Any] = {}

    def there() -> bool:
        found.update(kubectl.get("sparkapplication", "nightly-1").get("status", {}))
        assert found["applicationState"]["state"] == state, found
        return True

    eventually(state, there, limit_s, every_s=0.5)
    return found


def as_kubelet(kubectl: Kubectl, phase: str, exit_code: int | None = None) -> None:
    """Say how the driver's pod fares."""
    status: dict[str, Any] = {"phase": phase}
    if exit_code is not None:
        ended = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed"}
        container: dict[str, Any] = {
            "name": "spark-kubernetes-driver",
            "state": {"terminated": ended},
        }
        container |= {"ready": False, "restartCount": 0, "image": "", "imageID": ""}
        status["containerStatuses"] = [container]
    patch = json.dumps({"status": status})
    kubectl(
        *("patch", "pod", "nightly-1-driver", "--subresource=status", "--type=merge"),
        *("--patch", patch),
    )


@pytest.mark.usefixtures("runner")
def test_an_application_is_submitted_followed_and_run_again(kubectl: Kubectl) -> None:
    kubectl.apply(application())
    wait_for(kubectl, "SUBMITTED", SUBMIT_LIMIT_S)
    pod = kubectl.get("pod", "nightly-1-driver")
    (owner,) = pod["metadata"]["ownerReferences"]
    assert owner["uid"] == kubectl.get("sparkapplication", "nightly-1")["metadata"]["uid"]
    assert pod["metadata"]["labels"]["chiplog.dev/spark-application"] == "nightly-1"
    assert pod["spec"]["serviceAccountName"] == "nightly-driver"
    assert pod["spec"]["securityContext"]["runAsUser"] == 185
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "chiplog/spark:none"
    assert container["args"][0] == "driver"
    assert container["args"][-2:] == [
        "local:///opt/chiplog/jobs/verify.py",
        "/etc/chiplog/job/request.json",
    ]
    assert container["resources"]["requests"] == {"cpu": "200m", "memory": "768Mi"}
    assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}  # noqa: S108

    as_kubelet(kubectl, "Running")
    assert wait_for(kubectl, "RUNNING")["executionAttempts"] == 1
    as_kubelet(kubectl, "Failed", 1)
    again = wait_for(kubectl, "SUBMITTED", SUBMIT_LIMIT_S)
    assert again["executionAttempts"] == 2
    assert again["driverInfo"] == {"podName": "nightly-1-driver"}
    assert kubectl.get("pod", "nightly-1-driver")["metadata"]["uid"] != pod["metadata"]["uid"]
    as_kubelet(kubectl, "Failed", 3)
    state = wait_for(kubectl, "FAILED")["applicationState"]
    assert state["errorMessage"] == "driver container failed with ExitCode: 3, Reason: Error"


@pytest.mark.usefixtures("runner")
def test_one_that_succeeds(kubectl: Kubectl) -> None:
    kubectl.apply(application(restartPolicy={"type": "Never"}))
    wait_for(kubectl, "SUBMITTED", SUBMIT_LIMIT_S)
    as_kubelet(kubectl, "Succeeded", 0)
    assert wait_for(kubectl, "COMPLETED")["applicationState"]["errorMessage"] == ""


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"driver": {"coreRequest": "many"}}, "quantities must match"),
        ({"driver": {"env": []}}, "spec.driver.env: not supported"),
    ],
)
def test_what_cannot_be_submitted_says_why(
    kubectl: Kubectl, spec: dict[str, Any], error: str
) -> None:
    kubectl.apply(application(**spec))
    state = wait_for(kubectl, "SUBMISSION_FAILED", SUBMIT_LIMIT_S)["applicationState"]
    assert error in state["errorMessage"]


def test_the_definition_demands_what_the_real_one_demands(
    runner: SparkRunner, kubectl: Kubectl
) -> None:
    assert runner.failure is None
    wrong = json.loads(application())
    del wrong["spec"]["executor"]
    assert "spec.executor: Required value" in kubectl.fails(
        "apply", "-f", "-", input_text=json.dumps(wrong)
    )
