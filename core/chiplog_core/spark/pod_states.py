"""Why an application makes no progress, or has failed, from the statuses of its pods.

Launchers wait for ever for a pod whose image cannot be pulled, and Spark waits for ever for
executors. So it is decided here when an application will never continue. A cause that may pass (a
registry does not answer, a Secret is created a moment later) becomes final after some time; a cause
that cannot pass, like an invalid image name, is final at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from chiplog_core.spark.json_reading import number, part, parts, text, time
from chiplog_core.spark.pods import DRIVER_CONTAINER, EXECUTOR_CONTAINER

ROLE_LABEL = "spark-role"
"""Spark's label of a pod: `driver` or `executor`."""

# How long a cause may last before it is final, in seconds.
NO_PATIENCE_S = 0
PULL_PATIENCE_S = 120
START_PATIENCE_S = 120
CREATION_PATIENCE_S = 120

NO_EXECUTORS_S = 120
"""How long a driver may run without executors before that is reported, in seconds."""
NO_EXECUTORS = (
    "the driver runs but has no executors: a ResourceQuota or an admission policy of the "
    "namespace may refuse their pods; see the driver's log"
)

WAITING: Mapping[str, int | None] = {
    "ContainerCreating": None,
    "PodInitializing": None,
    # https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/images/types.go
    "InvalidImageName": NO_PATIENCE_S,
    "ErrImageNeverPull": NO_PATIENCE_S,
    "ErrImagePull": PULL_PATIENCE_S,
    "ImagePullBackOff": PULL_PATIENCE_S,
    "ImageInspectError": PULL_PATIENCE_S,
    "RegistryUnavailable": PULL_PATIENCE_S,
    "SignatureValidationFailed": NO_PATIENCE_S,
    # https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kuberuntime/kuberuntime_container.go
    "CreateContainerConfigError": START_PATIENCE_S,
    "CreateContainerError": START_PATIENCE_S,
    "PreCreateHookError": START_PATIENCE_S,
    "PreStartHookError": START_PATIENCE_S,
    "PostStartHookError": START_PATIENCE_S,
    "RunContainerError": START_PATIENCE_S,
    "CrashLoopBackOff": START_PATIENCE_S,
}
"""Reasons why a container waits, and after how many seconds from its pod's start each is final;
None is never. A reason that is not listed here never becomes final either."""

OUT_OF_MEMORY = "OOMKilled"
FORBIDDEN = "Forbidden"
_REFUSED = "is forbidden"
"""Words in the API server's error message if it refuses to create an object."""

EXITS: Mapping[int, tuple[str, str]] = {
    3: ("JobFailed", "the job ended and wrote a result with the reason"),
    11: (
        "ExecutorsFailed",
        "executors failed too often; see the log of the driver and of the ended executor pods",
    ),
    52: ("OutOfHeap", "the driver's heap is too small: raise spec.spark.driver.memory"),
    137: (
        "Killed",
        "the driver was killed; if nobody did that on purpose, raise spec.spark.driver.memory",
    ),
}
"""What a driver's exit code means: (reason, message). 11 and 52 are defined by Spark
(`SparkExitCode`), 3 by Chiplog's jobs."""

_OUT_OF_MEMORY_REMEDY = (
    "the {role} used more memory than its pod has: raise spec.spark.{role}.memory, or "
    "spark.{role}.memoryOverhead in spec.spark.sparkConf"
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an application makes no progress."""

    reason: str
    """In CamelCase; Kubernetes' own reason if it has one."""
    message: str
    is_final: bool
    """Whether neither waiting nor a retry can help, but only a change by a user."""
    has_ended: bool = False
    """Whether the driver's container has ended. Launchers notice that themselves."""


class DriverEnd(StrEnum):
    """How the driver of the last attempt ended."""

    NONE = ""
    """It has not ended, or it does not exist."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


def end_of_driver(pods: Sequence[Mapping[str, object]]) -> DriverEnd:
    """How the driver of the last attempt ended according to its pod, which the launcher may not
    have noticed yet."""
    driver = newest_driver(pods)
    if driver is None:
        return DriverEnd.NONE
    if cause_of_end(driver) is not None:
        return DriverEnd.FAILED
    is_over = text(driver, "status", "phase") == "Succeeded" or any(
        part(container, "state", "terminated")
        for container in _containers(driver, DRIVER_CONTAINER)
    )
    return DriverEnd.SUCCEEDED if is_over else DriverEnd.NONE


def running_executors(pods: Iterable[Mapping[str, object]]) -> int:
    """The number of running executors."""
    executors = [pod for pod in pods if _role(pod) == "executor"]
    return sum(text(pod, "status", "phase") == "Running" for pod in executors)


def newest_driver(pods: Sequence[Mapping[str, object]]) -> Mapping[str, object] | None:
    """The driver's pod of the last attempt. Executors always have Spark's role label, drivers
    not always."""
    drivers = [pod for pod in pods if _role(pod) != "executor"]
    return max(drivers, key=_made_at, default=None)


def trouble(
    pods: Sequence[Mapping[str, object]],
    events: Sequence[Mapping[str, object]],
    expected_since: datetime | None,
    now: datetime,
) -> Trouble | None:
    """What delays an application that has not ended; None if nothing does.

    `pods` are all pods with the application's label. `events` are those of the launched object:
    only they show it if admission refuses the driver's pod. `expected_since` is when the launched
    object was created.
    """
    driver = newest_driver(pods)
    if driver is None:
        return _no_pod(events, expected_since, now)
    return _of_driver(driver, now) or _of_executors(pods, now) or _no_executors(driver, pods, now)


def cause_of_end(driver: Mapping[str, object]) -> Trouble | None:
    """Why a driver's container failed; None if it did not end, or succeeded."""
    for status in _containers(driver, DRIVER_CONTAINER):
        ended = part(status, "state", "terminated")
        code = number(ended, "exitCode")
        if text(ended, "reason") == OUT_OF_MEMORY:
            message = _OUT_OF_MEMORY_REMEDY.format(role="driver")
            return Trouble(OUT_OF_MEMORY, message, is_final=True, has_ended=True)
        if code in EXITS:
            reason, message = EXITS[code]
            # A retry fails, too, after a failure with a result (3) or without enough heap (52).
            return Trouble(reason, message, is_final=code in (3, 52), has_ended=True)
        if code:
            # The error is at the end of the output.
            output = text(ended, "message").strip()[-1_000:]
            message = f"the driver ended with exit code {code}{': ' if output else ''}{output}"
            reason = FORBIDDEN if _REFUSED in output else text(ended, "reason") or "Error"
            return Trouble(reason, message, is_final=False, has_ended=True)
    if text(driver, "status", "phase") == "Failed":
        reason = text(driver, "status", "reason") or "PodFailed"
        message = text(driver, "status", "message") or "the driver's pod failed"
        return Trouble(reason, message, is_final=False, has_ended=True)
    return None


def _of_driver(driver: Mapping[str, object], now: datetime) -> Trouble | None:
    """What delays the driver."""
    ended = cause_of_end(driver)
    if ended is not None:
        return ended
    return _waiting(driver, DRIVER_CONTAINER, now) or _unscheduled(driver)


def _of_executors(pods: Iterable[Mapping[str, object]], now: datetime) -> Trouble | None:
    """What delays the executors; None if at least one is not delayed, because the job continues
    while one of them works."""
    executors = [pod for pod in pods if _role(pod) == "executor"]
    found = [_of_executor(pod, now) for pod in executors]
    troubles = [trouble for trouble in found if trouble is not None]
    if not troubles or len(troubles) < len(executors):
        return None
    # The delay is final only if it is final for every executor.
    shown = next((trouble for trouble in troubles if not trouble.is_final), troubles[0])
    return Trouble(shown.reason, f"no executor is running: {shown.message}", shown.is_final)


def _no_executors(
    driver: Mapping[str, object], pods: Iterable[Mapping[str, object]], now: datetime
) -> Trouble | None:
    """The delay of a driver that runs without executors for `NO_EXECUTORS_S`; None if it has some.

    Jobs keep their executors until the end. If the API server refuses to create their pods, only
    the driver's log shows why.
    """
    if any(_role(pod) == "executor" for pod in pods):
        return None
    for status in _containers(driver, DRIVER_CONTAINER):
        started = time(status, "state", "running", "startedAt")
        if started is not None and _is_patience_over(started, NO_EXECUTORS_S, now):
            return Trouble("NoExecutors", NO_EXECUTORS, is_final=False)
    return None


def _of_executor(pod: Mapping[str, object], now: datetime) -> Trouble | None:
    """What delays one executor."""
    for status in _containers(pod, EXECUTOR_CONTAINER):
        if text(status, "state", "terminated", "reason") == OUT_OF_MEMORY:
            # Spark replaces it, up to spark.executor.maxNumFailures times.
            message = _OUT_OF_MEMORY_REMEDY.format(role="executor")
            return Trouble(OUT_OF_MEMORY, message, is_final=False)
    return _waiting(pod, EXECUTOR_CONTAINER, now) or _unscheduled(pod)


def _waiting(pod: Mapping[str, object], container: str, now: datetime) -> Trouble | None:
    """The reason why a container waits, if it is one that delays the application."""
    for status in _containers(pod, container):
        reason = text(status, "state", "waiting", "reason")
        patience_s = WAITING.get(reason)
        if patience_s is not None:
            since = time(pod, "status", "startTime") or time(pod, "metadata", "creationTimestamp")
            message = text(status, "state", "waiting", "message") or f"the pod is waiting: {reason}"
            return Trouble(reason, message, is_final=_is_patience_over(since, patience_s, now))
    return None


def _unscheduled(pod: Mapping[str, object]) -> Trouble | None:
    """The reason why no node can run the pod. It is never final, because a node may be added."""
    for condition in parts(pod, "status", "conditions"):
        if text(condition, "type") == "PodScheduled" and text(condition, "status") == "False":
            reason = text(condition, "reason") or "Unschedulable"
            message = text(condition, "message") or "no node can run the pod"
            return Trouble(reason, message, is_final=False)
    return None


def _no_pod(
    events: Iterable[Mapping[str, object]], expected_since: datetime | None, now: datetime
) -> Trouble | None:
    """The reason why the driver's pod was not created, from events."""
    refused = [event for event in events if text(event, "reason") == "FailedCreate"]
    if not refused:
        return None
    message = text(refused[-1], "message") or "the API server refused the driver's pod"
    reason = FORBIDDEN if _REFUSED in message else "FailedCreate"
    return Trouble(
        reason, message, is_final=_is_patience_over(expected_since, CREATION_PATIENCE_S, now)
    )


def _containers(pod: Mapping[str, object], name: str) -> tuple[Mapping[str, object], ...]:
    """The statuses of the container with this name; of all containers if none has it."""
    statuses = parts(pod, "status", "containerStatuses")
    return tuple(status for status in statuses if text(status, "name") == name) or statuses


def _role(pod: Mapping[str, object]) -> str:
    return text(pod, "metadata", "labels", ROLE_LABEL)


def _made_at(pod: Mapping[str, object]) -> float:
    """When the pod was created, as a sort key; 0 if unknown."""
    created = time(pod, "metadata", "creationTimestamp")
    return created.timestamp() if created else 0.0


def _is_patience_over(since: datetime | None, patience_s: int, now: datetime) -> bool:
    """Whether a cause that exists `since` then is final: it has lasted for `patience_s`."""
    if patience_s == NO_PATIENCE_S:
        return True
    return since is not None and now - since >= timedelta(seconds=patience_s)
