"""What the runner of tests makes of a SparkApplication: a call of spark-submit, and states."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.spark_states import (
    Next,
    Progress,
    State,
    followed,
    next_step,
    not_submitted,
    pending,
    status_of,
    submitted,
)
from e2e.cluster.spark_submission import Submission, Unsubmittable, driver_pod, submission

SERVER = "https://10.0.0.1:6443"
DIRECTORY = Path("/somewhere")
RUNNING = Progress(State.RUNNING, executions=1, submissions=1)


def application(**spec: Any) -> dict[str, Any]:
    """A SparkApplication with everything that is translated, or with these fields instead."""
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "spark-kubernetes-driver"}], "volumes": []},
    }
    given = {
        "type": "Python",
        "pythonVersion": "3",
        "mode": "cluster",
        "sparkVersion": "4.2.0",
        "image": "chiplog/spark:1",
        "imagePullPolicy": "IfNotPresent",
        "imagePullSecrets": ["one", "two"],
        "mainApplicationFile": "local:///opt/chiplog/jobs/verify.py",
        "arguments": ["/etc/chiplog/job/request.json", "a b"],
        "restartPolicy": {"type": "Never"},
        "timeToLiveSeconds": 60,
        "sparkConf": {"spark.ui.enabled": "false", "spark.executor.memory": "9g"},
        "driver": {
            "cores": 1,
            "coreRequest": "200m",
            "coreLimit": "1",
            "memory": "512m",
            "memoryOverhead": "256m",
            "serviceAccount": "nightly-driver",
            "template": template,
        },
        "executor": {
            "cores": 2,
            "instances": 3,
            "memory": "600m",
            "serviceAccount": "nightly-executor",
            "template": {"spec": {"containers": []}},
        },
        **spec,
    }
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "nightly-1", "namespace": "shop", "uid": "u-1"},
        "spec": {name: value for name, value in given.items() if value is not ...},
    }


def call(**spec: Any) -> Submission:
    return submission(application(**spec), SERVER, DIRECTORY)


def conf_of(found: Submission) -> dict[str, str]:
    words = found.arguments
    pairs = [words[at + 1] for at, word in enumerate(words) if word == "--conf"]
    assert len(pairs) == len({pair.split("=")[0] for pair in pairs}), "a key is said twice"
    return dict(pair.split("=", 1) for pair in pairs)


def test_a_manifest_becomes_a_call_of_spark_submit() -> None:
    found = call()
    assert found.arguments[:6] == (
        *("--master", "k8s://https://10.0.0.1:6443", "--deploy-mode", "cluster"),
        *("--name", "nightly-1"),
    )
    assert found.arguments[-3:] == (
        "local:///opt/chiplog/jobs/verify.py",
        "/etc/chiplog/job/request.json",
        "a b",
    )
    assert conf_of(found) == {
        "spark.kubernetes.namespace": "shop",
        "spark.kubernetes.driver.pod.name": "nightly-1-driver",
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.driver.label.sparkoperator.k8s.io/app-name": "nightly-1",
        "spark.kubernetes.executor.label.sparkoperator.k8s.io/app-name": "nightly-1",
        "spark.kubernetes.container.image": "chiplog/spark:1",
        "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
        "spark.kubernetes.container.image.pullSecrets": "one,two",
        "spark.ui.enabled": "false",
        "spark.driver.cores": "1",
        "spark.kubernetes.driver.request.cores": "200m",
        "spark.kubernetes.driver.limit.cores": "1",
        "spark.driver.memory": "512m",
        "spark.driver.memoryOverhead": "256m",
        "spark.kubernetes.authenticate.driver.serviceAccountName": "nightly-driver",
        "spark.executor.cores": "2",
        "spark.executor.instances": "3",
        "spark.executor.memory": "600m",  # the field of the manifest counts, not sparkConf
        "spark.kubernetes.authenticate.executor.serviceAccountName": "nightly-executor",
        "spark.kubernetes.driver.podTemplateFile": "/somewhere/driver.json",
        "spark.kubernetes.driver.podTemplateContainerName": "spark-kubernetes-driver",
        "spark.kubernetes.executor.podTemplateFile": "/somewhere/executor.json",
        "spark.kubernetes.executor.podTemplateContainerName": "spark-kubernetes-executor",
    }


def test_the_drivers_pod_belongs_to_its_application() -> None:
    template = call().templates[DIRECTORY / "driver.json"]
    assert template["kind"] == "Pod"
    assert template["metadata"]["labels"] == {"a": "b"}
    (owner,) = template["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("SparkApplication", "u-1")
    assert "metadata" in call().templates[DIRECTORY / "executor.json"]


def test_what_is_not_said_is_left_to_spark() -> None:
    found = conf_of(
        call(
            **dict.fromkeys(("sparkConf", "image", "imagePullPolicy", "imagePullSecrets"), ...),
            driver={},
            executor={"instances": 1},
        )
    )
    assert "spark.driver.memory" not in found
    assert "spark.kubernetes.container.image" not in found


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"volumes": []}, "spec.volumes"),
        ({"driver": {"env": []}}, "spec.driver.env"),
        ({"driver": {"instances": 2}}, "spec.driver.instances"),
        ({"executor": {"deleteOnTermination": True}}, "spec.executor.deleteOnTermination"),
        ({"mode": "client"}, "cluster mode"),
        ({"type": "Scala"}, "only Python"),
    ],
)
def test_no_wish_is_ignored(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(Unsubmittable, match=field):
        call(**spec)


# ---- states ----


def pod(phase: str, *containers: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"phase": phase, "containerStatuses": list(containers)}}


def ended(code: int, reason: str) -> dict[str, Any]:
    return {"state": {"terminated": {"exitCode": code, "reason": reason}}}


def test_an_application_that_succeeds() -> None:
    progress = submitted(Progress(State.SUBMITTED))
    assert (progress.state, progress.executions) == (State.SUBMITTED, 1)
    assert followed(progress, pod("Pending")) == progress
    progress = followed(progress, pod("Running"))
    assert progress.state is State.RUNNING
    progress = followed(progress, pod("Succeeded", ended(0, "Completed")))
    assert progress.state is State.COMPLETED
    assert next_step({}, progress) == Next()
    assert status_of(progress, "nightly-1-driver") == {
        "applicationState": {"state": "COMPLETED", "errorMessage": ""},
        "driverInfo": {"podName": "nightly-1-driver"},
        "executionAttempts": 1,
        "submissionAttempts": 1,
    }


def test_a_failure_says_how_the_drivers_container_ended() -> None:
    failed = followed(RUNNING, pod("Failed", {"state": {}}, ended(3, "Error")))
    assert failed.state is State.FAILED
    assert failed.error == "driver container failed with ExitCode: 3, Reason: Error"
    evicted = followed(RUNNING, {"status": {"phase": "Failed", "reason": "Evicted"}})
    assert evicted.error == "driver pod failed with reason: Evicted"
    assert followed(RUNNING, None).error == "driver pod not found"
    assert followed(RUNNING, pod("Unknown")).state is State.UNKNOWN
    assert followed(RUNNING, {}) == RUNNING


def test_it_is_run_again_as_often_as_its_policy_says() -> None:
    spec = {
        "restartPolicy": {
            "type": "OnFailure",
            "onFailureRetries": 2,
            "onFailureRetryInterval": 7,
            "onSubmissionFailureRetries": 1,
            "onSubmissionFailureRetryInterval": 3,
        }
    }
    progress, waits = Progress(State.SUBMITTED), []
    for _ in range(10):
        progress = followed(submitted(progress), None)
        step = next_step(spec, progress)
        if step.again_after_s is None:
            break
        waits.append(step.again_after_s)
        progress = pending(progress)
        assert progress.state is State.PENDING_RERUN
    assert waits == [7.0, 7.0]
    assert progress.executions == 3


def test_a_submission_that_fails_is_tried_again_as_often_as_its_policy_says() -> None:
    first = not_submitted(Progress(State.SUBMITTED), "x" * 5_000 + " no such account\n")
    assert first.state is State.SUBMISSION_FAILED
    assert first.error.startswith("failed to run spark-submit: xxx")
    assert first.error.endswith("no such account")
    assert len(first.error) < 2_100
    retries = {"type": "OnFailure", "onSubmissionFailureRetries": 1}
    assert next_step({"restartPolicy": retries}, first) == Next(5.0)
    second = not_submitted(first, "again")
    assert next_step({"restartPolicy": retries}, second) == Next()
    never = {"type": "Never", "onSubmissionFailureRetries": 9, "onFailureRetries": 9}
    assert next_step({"restartPolicy": never}, first) == Next()
    assert next_step({"restartPolicy": never}, replace(RUNNING, state=State.FAILED)) == Next()
    assert next_step({}, first) == Next()


def test_why_a_submission_failed_is_kept_however_deep_it_was() -> None:
    stack = "\tat io.netty.handler.ssl.SslHandler.unwrap(SslHandler.java:1526)\n" * 100
    output = f"Exception in main\n{stack}Caused by: no such account\n{stack}\t... 12 more\n"
    error = not_submitted(Progress(State.SUBMITTED), output).error
    assert error.endswith("Exception in main\nCaused by: no such account")


def test_the_drivers_pod_is_named_for_the_application() -> None:
    assert driver_pod(application()) == "nightly-1-driver"
