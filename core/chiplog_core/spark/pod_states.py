"""What the pods of an application say about why it does not continue, or did not.

Launchers wait for ever for a pod whose image cannot be pulled, and Spark waits for ever for
executors: that an application will never continue is decided here. What may pass (a registry that
is away, a Secret that is made a moment later) has time to; what cannot pass has none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from chiplog_core.spark.json_reading import number, part, parts, text, time
from chiplog_core.spark.pods import DRIVER_CONTAINER, EXECUTOR_CONTAINER

ROLE_LABEL = "spark-role"
"""Spark's label of a pod: `driver` or `executor`."""

NONE_S = 0
PULL_S = 120
MISSING_S = 120
MAKING_S = 120

NO_EXECUTORS_S = 120
NO_EXECUTORS = (
    "the driver runs but has no executors: a ResourceQuota or an admission policy of the "
    "namespace may refuse their pods; see the driver's log"
)

WAITING: Mapping[str, int | None] = {
    "ContainerCreating": None,
    "PodInitializing": None,
    # https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/images/types.go
    "InvalidImageName": NONE_S,
    "ErrImageNeverPull": NONE_S,
    "ErrImagePull": PULL_S,
    "ImagePullBackOff": PULL_S,
    "ImageInspectError": PULL_S,
    "RegistryUnavailable": PULL_S,
    "SignatureValidationFailed": NONE_S,
    # https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kuberuntime/kuberuntime_container.go
    "CreateContainerConfigError": MISSING_S,
    "CreateContainerError": MISSING_S,
    "PreCreateHookError": MISSING_S,
    "PreStartHookError": MISSING_S,
    "PostStartHookError": MISSING_S,
    "RunContainerError": MISSING_S,
    "CrashLoopBackOff": MISSING_S,
}
"""Why a container waits, and for how many seconds after its pod's start that is put up with; None
is as long as it takes. A reason that is not here is waited for."""

OUT_OF_MEMORY = "OOMKilled"
FORBIDDEN = "Forbidden"
_REFUSED = "is forbidden"
"""How the API server's refusals read, to a launcher and to a driver."""

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
"""What a driver's exit code means: a reason and a message. 11 and 52 are Spark's (`SparkExitCode`),
3 is that of our jobs."""

_OUT_OF_MEMORY_REMEDY = (
    "the {role} used more memory than its pod has: raise spec.spark.{role}.memory, or "
    "spark.{role}.memoryOverhead in spec.spark.sparkConf"
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an application does not continue."""

    reason: str
    """In CamelCase: Kubernetes' own where it has one."""
    message: str
    is_final: bool
    """Nothing but a change by somebody helps, so there is nothing to wait for or to try again."""
    has_ended: bool = False
    """The driver's container is no more: launchers see that on their own."""


class DriverEnd(StrEnum):
    """How the driver of the last attempt ended."""

    NONE = ""
    """It did not, or there is none."""
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

    `pods` are all pods with the application's label, `events` those of the launched object.
    `expected_since` is when the launched object was created: if admission refuses a pod, only its
    events show it.
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
            return Trouble(reason, message, is_final=code in (3, 52), has_ended=True)
        if code:
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
    """What delays the executors. A job continues while one of them works, so it counts only if
    it affects all."""
    executors = [pod for pod in pods if _role(pod) == "executor"]
    found = [_of_executor(pod, now) for pod in executors]
    troubles = [trouble for trouble in found if trouble is not None]
    if not troubles or len(troubles) < len(executors):
        return None
    worst = next((trouble for trouble in troubles if not trouble.is_final), troubles[0])
    return Trouble(worst.reason, f"no executor is running: {worst.message}", worst.is_final)


def _no_executors(
    driver: Mapping[str, object], pods: Iterable[Mapping[str, object]], now: datetime
) -> Trouble | None:
    """The delay of a driver that runs without executors. Jobs keep their executors to the end,
    and only the driver's log shows why they are refused."""
    if any(_role(pod) == "executor" for pod in pods):
        return None
    for status in _containers(driver, DRIVER_CONTAINER):
        began = time(status, "state", "running", "startedAt")
        if began is not None and _is_over(began, NO_EXECUTORS_S, now):
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
            return Trouble(reason, message, is_final=_is_over(since, patience_s, now))
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
    message = text(refused[-1], "message") or "its pod was refused"
    reason = FORBIDDEN if _REFUSED in message else "FailedCreate"
    return Trouble(reason, message, is_final=_is_over(expected_since, MAKING_S, now))


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


def _is_over(since: datetime | None, patience_s: int, now: datetime) -> bool:
    """Whether the time for this reason is over, so that the delay is final."""
    if patience_s == NONE_S:
        return True
    return since is not None and now - since >= timedelta(seconds=patience_s)
