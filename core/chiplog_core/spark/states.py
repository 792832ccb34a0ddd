"""The phase of an application, from the object of its launcher and its pods.

Each launcher has a table with all its states. A state that is not in the table becomes the phase
`Unknown`, and nothing is decided by it. Whether a job succeeded is shown by its result in the end,
which the job itself writes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from chiplog_core.model.spark import SparkLauncher
from chiplog_core.spark import pod_states
from chiplog_core.spark.json_reading import number, part, parts, text, time
from chiplog_core.spark.pod_states import Trouble
from chiplog_core.spark.short_error import short_error

Object = Mapping[str, object]


class PhaseName(StrEnum):
    """The phases of an application."""

    PENDING = "Pending"
    """The launcher has not begun to run the application, or the next attempt is waited for."""
    SUBMITTED = "Submitted"
    """The driver was created, and does not run yet."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    """The launcher reports a state that is not in our table, or does not know the state itself."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The phase of an application, and why it makes no progress."""

    name: PhaseName
    reason: str = ""
    """In CamelCase; for Unknown, the launcher's name of the state."""
    message: str = ""
    must_be_stopped: bool = False
    """Whether the application failed for good, but its launcher would continue, so that the
    `SparkApplication` or Job must be deleted."""
    is_delayed: bool = False
    """Whether a cause that may pass delays it; `reason` and `message` name the cause."""

    @property
    def has_ended(self) -> bool:
        """Whether the phase is final."""
        return self.name in (PhaseName.SUCCEEDED, PhaseName.FAILED)


KUBEFLOW: Mapping[str, PhaseName] = {
    "": PhaseName.PENDING,
    "PENDING_SUBMISSION": PhaseName.PENDING,
    "SUBMITTED": PhaseName.SUBMITTED,
    "RUNNING": PhaseName.RUNNING,
    "SUCCEEDING": PhaseName.SUCCEEDED,
    "COMPLETED": PhaseName.SUCCEEDED,
    "FAILING": PhaseName.RUNNING,
    "FAILED": PhaseName.FAILED,
    "SUBMISSION_FAILED": PhaseName.PENDING,
    "PENDING_RERUN": PhaseName.PENDING,
    "INVALIDATING": PhaseName.PENDING,
    "SUSPENDING": PhaseName.PENDING,
    "SUSPENDED": PhaseName.PENDING,
    "RESUMING": PhaseName.PENDING,
    "UNKNOWN": PhaseName.UNKNOWN,
}
"""`ApplicationStateType` in api/v1beta2/sparkapplication_types.go of kubeflow/spark-operator, and
PENDING_SUBMISSION of its first version. A run that failed is FAILING, then PENDING_RERUN or FAILED;
one that succeeded is never run again under our restart policies."""

APACHE: Mapping[str, PhaseName] = {
    "": PhaseName.PENDING,
    "Submitted": PhaseName.PENDING,
    "ScheduledToRestart": PhaseName.PENDING,
    "DriverRequested": PhaseName.SUBMITTED,
    "DriverStarted": PhaseName.RUNNING,
    "DriverReady": PhaseName.RUNNING,
    "InitializedBelowThresholdExecutors": PhaseName.RUNNING,
    "RunningHealthy": PhaseName.RUNNING,
    "RunningWithPartialCapacity": PhaseName.RUNNING,
    "RunningWithBelowThresholdExecutors": PhaseName.RUNNING,
    "Succeeded": PhaseName.SUCCEEDED,
    # Each of these is followed by ScheduledToRestart or the end.
    "DriverStartTimedOut": PhaseName.RUNNING,
    "ExecutorsStartTimedOut": PhaseName.RUNNING,
    "DriverReadyTimedOut": PhaseName.RUNNING,
    "Failed": PhaseName.RUNNING,
    "SchedulingFailure": PhaseName.RUNNING,
    "DriverEvicted": PhaseName.RUNNING,
    # The previous entry of the history says how it ended.
    "ResourceReleased": PhaseName.FAILED,
    "TerminatedWithoutReleaseResources": PhaseName.FAILED,
}
"""`ApplicationStateSummary` of apache/spark-kubernetes-operator."""

APACHE_ENDS = frozenset({"ResourceReleased", "TerminatedWithoutReleaseResources"})

JOB: Mapping[str, PhaseName] = {
    "Complete": PhaseName.SUCCEEDED,
    "Failed": PhaseName.FAILED,
    "SuccessCriteriaMet": PhaseName.RUNNING,
    "FailureTarget": PhaseName.RUNNING,
    "Suspended": PhaseName.PENDING,
}
"""Types of a Job's conditions, the most important first:
https://kubernetes.io/docs/concepts/workloads/controllers/job/#terminal-job-conditions. Other types
are ignored, because other programs may add them."""

CAUSES: Mapping[str, str] = {
    "failed calling webhook": "WebhookUnavailable",
    "OOMKilled": pod_states.OUT_OF_MEMORY,
    "ImagePullBackOff": "ImagePullBackOff",
    "ErrImagePull": "ErrImagePull",
    "InvalidImageName": "InvalidImageName",
    "CreateContainerConfigError": "CreateContainerConfigError",
    "violates PodSecurity": "Forbidden",
    "forbidden": "Forbidden",
    "exceeded quota": "Forbidden",
    "ExitCode: 52": pod_states.EXITS[52][0],
    "ExitCode: 3,": pod_states.EXITS[3][0],
    "exit code 52 ": pod_states.EXITS[52][0],
    "exit code 3 ": pod_states.EXITS[3][0],
    "exit code 137 ": pod_states.EXITS[137][0],
}
"""Words in a launcher's message, and the reason that they stand for. Used if no pod shows the
cause, because the pods were deleted."""

LAUNCHER_REASONS = frozenset({"DeadlineExceeded"})
"""Reasons of launchers that are kept, because the launcher itself stopped the pods: how these ended
does not show the cause."""

NOT_TAKEN_UP_S = 60
"""A Spark operator that runs writes a status of a new application within this many seconds."""

NOT_TAKEN_UP: Mapping[SparkLauncher, str] = {
    SparkLauncher.KUBEFLOW: (
        "Kubeflow's Spark operator does not handle the application. Either that operator does not"
        " run (kubectl get pods -A -l app.kubernetes.io/name=spark-operator), or it does not watch"
        " namespace {namespace}: add the namespace to spark.jobNamespaces of its Helm chart, which"
        " is only `default` if not set, or set spec.spark.launcher of the BrokerCluster to Job"
    ),
    SparkLauncher.APACHE: (
        "Apache's Spark operator does not handle the application. Either that operator does not"
        " run (kubectl get pods -A -l app.kubernetes.io/name=spark-kubernetes-operator), or it does"
        " not watch namespace {namespace}: add the namespace to"
        " workloadResources.namespaces.data of its Helm chart, or set spec.spark.launcher of the"
        " BrokerCluster to Job"
    ),
}

WEBHOOK_FAILED = "failed calling webhook"
WEBHOOK_REMEDY = (
    "an admission webhook does not answer: if it belongs to the Spark operator, check that its "
    "webhook pods run and that its certificate is valid"
)
"""https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/"""


def observed(
    launcher: SparkLauncher,
    launched: Object,
    pods: Sequence[Object],
    now: datetime,
    events: Sequence[Object] = (),
) -> Phase:
    """The phase of an application.

    `launched` is the live `SparkApplication` or Job, `pods` are the pods with the application's
    label. `events` are those of `launched`, oldest first; if admission refuses the pod of a Job,
    only they show it. Fields that are missing or malformed are ignored.
    """
    phase = _observed(launcher, launched, pods, now, events)
    return replace(phase, message=with_hint(short_error(phase.message)))


def attempt(launcher: SparkLauncher, launched: Object) -> int | None:
    """The number of the attempt, counted from 1; None if the launcher does not report it."""
    return _ATTEMPTS[launcher](launched)


def with_hint(message: str) -> str:
    """A message of the API server or a launcher, with the remedy if one is known."""
    return f"{message}: {WEBHOOK_REMEDY}" if WEBHOOK_FAILED in message else message


def _observed(
    launcher: SparkLauncher,
    launched: Object,
    pods: Sequence[Object],
    now: datetime,
    events: Sequence[Object],
) -> Phase:
    """The phase, before its message is shortened."""
    phase = _READERS[launcher](launched)
    driver = pod_states.newest_driver(pods)
    if phase.name is PhaseName.SUCCEEDED:
        return phase
    if phase.name is PhaseName.FAILED:
        cause = pod_states.cause_of_end(driver) if driver is not None else None
        return _with_cause(phase, cause)
    since = time(launched, "metadata", "creationTimestamp")
    found = pod_states.trouble(pods, events, since, now)
    if found is None:
        phase_with_cause = _not_taken_up(launcher, launched, since, now) or _with_cause(phase, None)
        has_cause = phase_with_cause.reason != phase.reason and phase.name is PhaseName.PENDING
        return replace(phase_with_cause, is_delayed=has_cause)
    launcher_ends_it = found.has_ended and _RETRIES_ARE_OVER[launcher](launched)
    if found.is_final and not launcher_ends_it:
        return Phase(PhaseName.FAILED, found.reason, found.message, must_be_stopped=True)
    # If the driver has ended, nothing delays the application: its launcher ends it or starts the
    # next attempt.
    return Phase(phase.name, found.reason, found.message, is_delayed=not found.has_ended)


def _not_taken_up(
    launcher: SparkLauncher, launched: Object, since: datetime | None, now: datetime
) -> Phase | None:
    """The phase of an application for which its Spark operator has written no status for
    `NOT_TAKEN_UP_S`; None otherwise, and always for a plain Job."""
    hint = NOT_TAKEN_UP.get(launcher)
    if hint is None or part(launched, "status") or since is None:
        return None
    if now - since < timedelta(seconds=NOT_TAKEN_UP_S):
        return None
    message = hint.format(namespace=text(launched, "metadata", "namespace"))
    return Phase(PhaseName.PENDING, "NotTakenUp", message, is_delayed=True)


def _with_cause(phase: Phase, cause: Trouble | None) -> Phase:
    """The phase with its cause: the given one, which a pod shows, else one that is recognized in
    the launcher's message. Unchanged if no cause is known."""
    if phase.reason in LAUNCHER_REASONS:
        return phase
    if cause is not None:
        return Phase(phase.name, cause.reason, cause.message)
    for words, reason in CAUSES.items():
        if words in phase.message:
            return Phase(phase.name, reason, phase.message)
    return phase


def _kubeflow(launched: Object) -> Phase:
    """The phase of a `SparkApplication` of Kubeflow's operator."""
    state = text(launched, "status", "applicationState", "state")
    message = text(launched, "status", "applicationState", "errorMessage")
    name = KUBEFLOW.get(state, PhaseName.UNKNOWN)
    # Kubeflow's operator makes such an application FAILED next, but may not run.
    if state == "FAILING" and _attempts_are_over(launched):
        name = PhaseName.FAILED
    return _phase(name, state, message)


def _attempts_are_over(launched: Object) -> bool:
    """Whether Kubeflow's operator will not start the application again."""
    policy = part(launched, "spec", "restartPolicy")
    if text(policy, "type") not in ("OnFailure", "Always"):
        return True
    return number(launched, "status", "executionAttempts") > number(policy, "onFailureRetries")


def _apache(launched: Object) -> Phase:
    """The phase of a `SparkApplication` of Apache's operator. Its final states do not show whether
    the application succeeded; the state before them in the history does."""
    current = part(launched, "status", "currentState")
    state = text(current, "currentStateSummary")
    if state not in APACHE_ENDS:
        name = APACHE.get(state, PhaseName.UNKNOWN)
        return _phase(name, state, text(current, "message"))
    before = _last_before_the_end(part(launched, "status", "stateTransitionHistory"))
    if before is None:
        message = f"the application ended in state {state}, and its history does not show why"
        return Phase(PhaseName.UNKNOWN, state, message)
    last = text(before, "currentStateSummary")
    if last == "Succeeded":
        return Phase(PhaseName.SUCCEEDED)
    message = text(before, "message") or text(current, "message")
    failed = Phase(PhaseName.FAILED, last, message or f"the application ended after state {last}")
    driver = {"status": part(before, "lastObservedDriverStatus")}
    return _with_cause(failed, pod_states.cause_of_end(driver))


def _apache_attempts_are_over(launched: Object) -> bool:
    """Whether Apache's operator will not start the application again."""
    restart = part(launched, "spec", "applicationTolerations", "restartConfig")
    if text(restart, "restartPolicy") in ("", "Never"):
        return True
    attempt = number(launched, "status", "currentAttemptSummary", "attemptInfo", "id")
    return attempt >= number(restart, "maxRestartAttempts")


def _last_before_the_end(history: Object) -> Object | None:
    """The last state in the history before the final ones; None if there is none. The keys of the
    history are numbers as text, counted from 0, so they are sorted as numbers."""
    counted = {int(key): history[key] for key in history if _is_number(key)}
    for key in sorted(counted, reverse=True):
        state = part(counted[key])
        if text(state, "currentStateSummary") not in {"", *APACHE_ENDS}:
            return state
    return None


def _is_number(key: object) -> bool:
    """Whether the key is a text of digits."""
    # The length is limited, because int() of a very long text is slow and raises.
    return isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) < 20


def _job(launched: Object) -> Phase:
    """The phase of a plain Job."""
    by_type = {
        text(condition, "type"): condition
        for condition in parts(launched, "status", "conditions")
        if text(condition, "status") == "True"
    }
    for kind, name in JOB.items():
        if kind in by_type:
            return _phase(
                name, text(by_type[kind], "reason") or kind, text(by_type[kind], "message")
            )
    if number(launched, "status", "active") == 0:
        return Phase(PhaseName.PENDING)
    ready = number(launched, "status", "ready")
    return Phase(PhaseName.RUNNING if ready else PhaseName.SUBMITTED)


def _phase(name: PhaseName, state: str, message: str) -> Phase:
    """A phase with the launcher's message. `state` is the launcher's name of the state; it is the
    reason if there is a message to it."""
    if name is PhaseName.UNKNOWN:
        return Phase(name, state, message or f"the launcher reports {state!r}")
    if name is PhaseName.FAILED:
        return Phase(name, state, message or f"the launcher reports {state}")
    return Phase(name, state if message else "", message)


_READERS: Mapping[SparkLauncher, Callable[[Object], Phase]] = {
    SparkLauncher.KUBEFLOW: _kubeflow,
    SparkLauncher.APACHE: _apache,
    SparkLauncher.JOB: _job,
}


def _kubeflow_attempt(launched: Object) -> int | None:
    return number(launched, "status", "executionAttempts") or None


def _apache_attempt(launched: Object) -> int | None:
    """The number of the attempt. Ids begin with 0; before the first attempt there is no summary."""
    attempt = part(launched, "status", "currentAttemptSummary", "attemptInfo")
    return number(attempt, "id") + 1 if attempt else None


def _job_attempt(launched: Object) -> int | None:
    """The number of the attempt: failed pods plus one; None before the Job has a status."""
    status = part(launched, "status")
    return number(status, "failed") + 1 if status else None


_ATTEMPTS: Mapping[SparkLauncher, Callable[[Object], int | None]] = {
    SparkLauncher.KUBEFLOW: _kubeflow_attempt,
    SparkLauncher.APACHE: _apache_attempt,
    SparkLauncher.JOB: _job_attempt,
}

_RETRIES_ARE_OVER: Mapping[SparkLauncher, Callable[[Object], bool]] = {
    SparkLauncher.KUBEFLOW: _attempts_are_over,
    SparkLauncher.APACHE: _apache_attempts_are_over,
    # The Job's podFailurePolicy decides which failures are final.
    SparkLauncher.JOB: lambda _launched: True,
}
"""For each launcher: whether it will not start the application again after the driver ended. Then
the application need not be deleted, and its pods are kept for their logs."""
