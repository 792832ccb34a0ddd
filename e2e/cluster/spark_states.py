"""The states of a `SparkApplication`, from the state of its driver's pod: pure functions.

States and messages are those of Kubeflow's operator
(https://github.com/kubeflow/spark-operator/blob/master/docs/api-docs.md), without the intermediate
states that last only for a moment.
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
    """The progress of an application.

    Each function below returns the next one, from the one `before`.
    """

    state: State
    error: str = ""
    executions: int = 0
    """How many drivers were started for it."""
    submissions: int = 0
    """How often spark-submit was called since a driver last failed."""


@dataclass(frozen=True, slots=True)
class Next:
    """What the runner must do after an attempt."""

    again_after_s: float | None = None
    """Seconds until the next submission; None if there is none: the application has ended."""


def submitted(before: Progress) -> Progress:
    """The progress after spark-submit created the driver's pod."""
    return Progress(State.SUBMITTED, "", before.executions + 1, before.submissions + 1)


def not_submitted(before: Progress, output: str) -> Progress:
    """The progress after spark-submit failed, or could not be called."""
    count = before.submissions + 1
    # Without Java stack traces: they may be longer than the 2,000 characters that are kept.
    lines = "\n".join(one for one in output.splitlines() if not one.startswith(("\tat ", "\t... ")))
    error = f"failed to run spark-submit: {lines.strip()[-2000:]}"
    return Progress(State.SUBMISSION_FAILED, error, before.executions, count)


def followed(before: Progress, pod: Manifest | None) -> Progress:
    """The progress by the phase of the driver's pod; None if the pod does not exist."""
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
    """Why a driver's pod failed, in the words of Kubeflow's operator."""
    for container in pod["status"].get("containerStatuses", []):
        ended = container.get("state", {}).get("terminated")
        if ended is not None:
            reason = ended.get("reason", "Unknown")
            return f"driver container failed with ExitCode: {ended['exitCode']}, Reason: {reason}"
    status = pod["status"]
    return f"driver pod failed with reason: {status.get('reason', 'Unknown')}"


def next_step(spec: Manifest, now: Progress) -> Next:
    """Whether and when to submit an application again, by its restartPolicy.

    Failed submissions and failed drivers have their own limits of retries.
    """
    policy = spec.get("restartPolicy", {"type": "Never"})
    if now.state is State.SUBMISSION_FAILED:
        allowed = policy.get("onSubmissionFailureRetries", 0)
        attempts, wait_s = now.submissions, policy.get("onSubmissionFailureRetryInterval", 5)
        retries = policy["type"] != "Never"
    elif now.state is State.FAILED:
        allowed = policy.get("onFailureRetries", 0)
        attempts, wait_s = now.executions, policy.get("onFailureRetryInterval", 5)
        retries = policy["type"] == "OnFailure"
    else:
        return Next()
    return Next(float(wait_s)) if retries and attempts <= allowed else Next()


def pending(before: Progress) -> Progress:
    """The progress of a failed application that will be submitted again."""
    return replace(before, state=State.PENDING_RERUN, error="", submissions=0)


def status_of(progress: Progress, driver_pod: str) -> Manifest:
    """The status of the SparkApplication for this progress."""
    return {
        "applicationState": {"state": progress.state.value, "errorMessage": progress.error},
        "driverInfo": {"podName": driver_pod},
        "executionAttempts": progress.executions,
        "submissionAttempts": progress.submissions,
    }
