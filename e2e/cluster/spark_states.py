"""What becomes of a `SparkApplication` as its driver fares: values in, values out.

The states and their words are those of Kubeflow's operator
(https://github.com/kubeflow/spark-operator/blob/master/docs/api-docs.md); of the intermediate ones
only those are posted that last.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

Manifest = dict[str, Any]


class State(StrEnum):
    """`status.applicationState.state`."""

    SUBMITTED = "SUBMITTED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SUBMISSION_FAILED = "SUBMISSION_FAILED"
    PENDING_RERUN = "PENDING_RERUN"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an application has come."""

    state: State
    error: str = ""
    executions: int = 0
    """How often a driver was started for it."""
    submissions: int = 0
    """How often spark-submit was called since a driver last ran."""


@dataclass(frozen=True, slots=True)
class Next:
    """What there is to do now."""

    again_after_s: float | None = None
    """Submit again after so long; None where it has ended."""


def submitted(before: Progress) -> Progress:
    """spark-submit made the driver's pod."""
    return Progress(State.SUBMITTED, "", before.executions + 1, before.submissions + 1)


def not_submitted(before: Progress, output: str) -> Progress:
    """spark-submit failed, or there was no way to call it."""
    count = before.submissions + 1
    # Without Java's stack, which may be longer than all that is kept, and says nothing of why.
    said = "\n".join(one for one in output.splitlines() if not one.startswith(("\tat ", "\t... ")))
    error = f"failed to run spark-submit: {said.strip()[-2000:]}"
    return Progress(State.SUBMISSION_FAILED, error, before.executions, count)


def followed(before: Progress, pod: Manifest | None) -> Progress:
    """By the driver's pod; None where it is gone."""
    if pod is None:
        return replace(before, state=State.FAILED, error="driver pod not found")
    match pod.get("status", {}).get("phase"):
        case "Running":
            return replace(before, state=State.RUNNING)
        case "Succeeded":
            return replace(before, state=State.COMPLETED)
        case "Failed":
            return replace(before, state=State.FAILED, error=why_failed(pod))
        case "Unknown":
            return replace(before, state=State.UNKNOWN)
    return before


def why_failed(pod: Manifest) -> str:
    """The words of Kubeflow's operator, for the container that ended by itself."""
    for container in pod["status"].get("containerStatuses", []):
        ended = container.get("state", {}).get("terminated")
        if ended is not None:
            reason = ended.get("reason", "Unknown")
            return f"driver container failed with ExitCode: {ended['exitCode']}, Reason: {reason}"
    status = pod["status"]
    return f"driver pod failed with reason: {status.get('reason', 'Unknown')}"


def next_step(spec: Manifest, now: Progress) -> Next:
    """Whether an application that ended is to be tried again, by its restartPolicy."""
    policy = spec.get("restartPolicy", {"type": "Never"})
    if now.state is State.SUBMISSION_FAILED:
        allowed = policy.get("onSubmissionFailureRetries", 0)
        tried, wait_s = now.submissions, policy.get("onSubmissionFailureRetryInterval", 5)
        retries = policy["type"] != "Never"
    elif now.state is State.FAILED:
        allowed = policy.get("onFailureRetries", 0)
        tried, wait_s = now.executions, policy.get("onFailureRetryInterval", 5)
        retries = policy["type"] == "OnFailure"
    else:
        return Next()
    return Next(float(wait_s)) if retries and tried <= allowed else Next()


def pending(before: Progress) -> Progress:
    """The state of an application that is to be submitted again."""
    return replace(before, state=State.PENDING_RERUN, error="", submissions=0)


def status_of(progress: Progress, driver_pod: str) -> Manifest:
    """The status to post."""
    return {
        "applicationState": {"state": progress.state.value, "errorMessage": progress.error},
        "driverInfo": {"podName": driver_pod},
        "executionAttempts": progress.executions,
        "submissionAttempts": progress.submissions,
    }
