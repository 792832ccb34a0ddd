"""How far an application has come, as each launcher and its pods tell it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.model.spark import SparkLauncher
from chiplog_core.spark import pod_states, states
from chiplog_core.spark.states import Phase, PhaseName, observed
from tests.spark.test_short_error import SUBMISSION

Made = dict[str, Any]

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
K, A, J = SparkLauncher.KUBEFLOW, SparkLauncher.APACHE, SparkLauncher.JOB

KUBEFLOW_STATES = {
    *("", "SUBMITTED", "RUNNING", "COMPLETED", "FAILED", "SUBMISSION_FAILED", "PENDING_RERUN"),
    *("INVALIDATING", "SUCCEEDING", "FAILING", "SUSPENDING", "SUSPENDED", "RESUMING", "UNKNOWN"),
}
"""As api/v1beta2/sparkapplication_types.go has them, and pull request 2387 added."""

APACHE_STATES = {
    *("Submitted", "ScheduledToRestart", "DriverRequested", "DriverStarted", "DriverReady"),
    *("InitializedBelowThresholdExecutors", "RunningHealthy", "RunningWithPartialCapacity"),
    *("RunningWithBelowThresholdExecutors", "DriverStartTimedOut", "ExecutorsStartTimedOut"),
    *("DriverReadyTimedOut", "Succeeded", "Failed", "SchedulingFailure", "DriverEvicted"),
    *("ResourceReleased", "TerminatedWithoutReleaseResources"),
}
"""As status/ApplicationStateSummary.java has them."""


def ago(seconds: int) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def kubeflow(state: str, message: str = "", retries: int = 0, attempts: int = 1) -> Made:
    policy: Made = {"type": "Never"}
    if retries:
        policy = {"type": "OnFailure", "onFailureRetries": retries}
    return {
        "metadata": {"creationTimestamp": ago(600)},
        "spec": {"restartPolicy": policy},
        "status": {
            "applicationState": {"state": state, "errorMessage": message},
            "executionAttempts": attempts,
        },
    }


def apache(state: str, *before: Made, retries: int = 0, attempt: int = 0) -> Made:
    restart: Made = {"restartPolicy": "Never"}
    if retries:
        restart = {"restartPolicy": "OnFailure", "maxRestartAttempts": retries}
    now = {"currentStateSummary": state}
    return {
        "metadata": {"creationTimestamp": ago(600)},
        "spec": {"applicationTolerations": {"restartConfig": restart}},
        "status": {
            "currentState": now,
            "currentAttemptSummary": {"attemptInfo": {"id": attempt}},
            "stateTransitionHistory": {str(index): one for index, one in enumerate([*before, now])},
        },
    }


def job(*conditions: Made, **status: object) -> Made:
    return {
        "metadata": {"creationTimestamp": ago(600)},
        "status": {"conditions": list(conditions), **status},
    }


def condition(kind: str, reason: str = "", message: str = "", status: str = "True") -> Made:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def pod(
    state: Made,
    *,
    role: str = "driver",
    started: int = 600,
    phase: str = "Pending",
    made: int = 600,
) -> Made:
    return {
        "metadata": {"labels": {"spark-role": role}, "creationTimestamp": ago(made)},
        "status": {
            "phase": phase,
            "startTime": ago(started),
            "containerStatuses": [{"name": f"spark-kubernetes-{role}", "state": state}],
        },
    }


def waiting(reason: str, message: str = "because") -> Made:
    return {"waiting": {"reason": reason, "message": message}}


def ended(code: int, reason: str = "Error", message: str = "") -> Made:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


RUNNING: Made = {"running": {"startedAt": ago(500)}}
OOM = ended(137, "OOMKilled")


def test_the_tables_hold_every_state_of_their_launcher() -> None:
    assert set(states.KUBEFLOW) == KUBEFLOW_STATES | {"PENDING_SUBMISSION"}
    assert set(states.APACHE) == APACHE_STATES | {""}


@pytest.mark.parametrize(("state", "name"), states.KUBEFLOW.items())
def test_every_state_of_kubeflow(state: str, name: PhaseName) -> None:
    attempts_left = kubeflow(state, retries=2)
    assert observed(K, attempts_left, [], NOW).name is name


@pytest.mark.parametrize(("state", "name"), states.APACHE.items())
def test_every_state_of_apache(state: str, name: PhaseName) -> None:
    before = {"currentStateSummary": "Failed"}
    assert observed(A, apache(state, before, retries=2), [], NOW).name is name


@pytest.mark.parametrize(
    ("launcher", "launched"), [(K, kubeflow("HIBERNATING")), (A, apache("HIBERNATING"))]
)
def test_a_state_that_nobody_knows_is_unknown_by_its_name(
    launcher: SparkLauncher, launched: Made
) -> None:
    phase = observed(launcher, launched, [], NOW)
    assert (phase.name, phase.reason) == (PhaseName.UNKNOWN, "HIBERNATING")
    assert not phase.has_ended


@pytest.mark.parametrize(
    ("launched", "name", "reason"),
    [
        (job(), PhaseName.PENDING, ""),
        (job(active=1), PhaseName.SUBMITTED, ""),
        (job(active=1, ready=1), PhaseName.RUNNING, ""),
        (job(failed=1), PhaseName.PENDING, ""),
        (job(condition("Suspended")), PhaseName.PENDING, ""),
        (job(condition("SuccessCriteriaMet")), PhaseName.RUNNING, ""),
        (job(condition("FailureTarget")), PhaseName.RUNNING, ""),
        (job(condition("Complete"), condition("SuccessCriteriaMet")), PhaseName.SUCCEEDED, ""),
        (job(condition("Failed", status="False"), active=1), PhaseName.SUBMITTED, ""),
        (job(condition("SomebodysOwn"), active=1), PhaseName.SUBMITTED, ""),
        (
            job(condition("FailureTarget"), condition("Failed", "BackoffLimitExceeded", "often")),
            PhaseName.FAILED,
            "BackoffLimitExceeded",
        ),
        (
            job(condition("Failed", "DeadlineExceeded", "active longer than specified")),
            PhaseName.FAILED,
            "DeadlineExceeded",
        ),
        (
            job(
                condition(
                    "Failed",
                    "PodFailurePolicy",
                    "Container spark-kubernetes-driver for pod data/x failed with exit code 52 "
                    "matching FailJob rule at index 1",
                )
            ),
            PhaseName.FAILED,
            "OutOfHeap",
        ),
    ],
)
def test_a_jobs_conditions(launched: Made, name: PhaseName, reason: str) -> None:
    phase = observed(J, launched, [], NOW)
    assert (phase.name, phase.reason) == (name, reason or phase.reason)


def test_a_deadline_says_more_than_how_its_driver_was_ended() -> None:
    launched = job(condition("Failed", "DeadlineExceeded", "was active too long"))
    phase = observed(J, launched, [pod(ended(143), phase="Failed")], NOW)
    assert phase.reason == "DeadlineExceeded"


@pytest.mark.parametrize("end", sorted(states.APACHE_ENDS))
def test_how_apache_ended_is_read_one_step_back(end: str) -> None:
    healthy = {"currentStateSummary": "RunningHealthy"}
    succeeded = {"currentStateSummary": "Succeeded"}
    failed = {
        "currentStateSummary": "Failed",
        "message": "Driver has one or more failed critical container(s)",
        "lastObservedDriverStatus": {
            "containerStatuses": [{"name": "spark-kubernetes-driver", "state": OOM}]
        },
    }
    assert observed(A, apache(end, healthy, succeeded), [], NOW) == Phase(PhaseName.SUCCEEDED)
    phase = observed(A, apache(end, healthy, failed), [], NOW)
    assert (phase.name, phase.reason) == (PhaseName.FAILED, "OOMKilled")
    phase = observed(A, apache(end, succeeded, *[healthy] * 9, failed), [], NOW)
    assert phase.name is PhaseName.FAILED, "11 comes after 2"
    phase = observed(A, apache(end, healthy), [], NOW)
    assert (phase.name, phase.reason) == (PhaseName.FAILED, "RunningHealthy")
    assert observed(A, apache(end), [], NOW).name is PhaseName.UNKNOWN


@pytest.mark.parametrize(
    ("retries", "attempts", "name"),
    [(0, 1, PhaseName.FAILED), (2, 2, PhaseName.RUNNING), (2, 3, PhaseName.FAILED)],
)
def test_kubeflows_failing_is_final_after_the_last_attempt(
    retries: int, attempts: int, name: PhaseName
) -> None:
    # It can stay FAILING for ever: https://github.com/kubeflow/spark-operator/issues/2870
    launched = kubeflow("FAILING", retries=retries, attempts=attempts)
    assert observed(K, launched, [], NOW).name is name


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("driver container failed with ExitCode: 137, Reason: OOMKilled", "OOMKilled"),
        ("driver container failed with ExitCode: 52, Reason: Error", "OutOfHeap"),
        ("driver container failed with ExitCode: 3, Reason: Error", "JobFailed"),
        ('pods "x-driver" is forbidden: violates PodSecurity "restricted:latest"', "Forbidden"),
        ("something else", "FAILED"),
    ],
)
def test_kubeflows_words_tell_the_cause_where_no_pod_is_left(message: str, reason: str) -> None:
    phase = observed(K, kubeflow("FAILED", message), [], NOW)
    assert (phase.name, phase.reason, phase.message) == (PhaseName.FAILED, reason, message)


STILL = {
    K: kubeflow("SUBMITTED", retries=2),
    A: apache("DriverRequested", retries=2),
    J: job(active=1),
}


@pytest.mark.parametrize("launcher", [K, A, J])
@pytest.mark.parametrize(
    "reason", ["ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"]
)
def test_what_may_pass_has_time_to_and_then_ends(launcher: SparkLauncher, reason: str) -> None:
    early = observed(launcher, STILL[launcher], [pod(waiting(reason), started=119)], NOW)
    assert (early.name, early.reason, early.message) == (PhaseName.SUBMITTED, reason, "because")
    late = observed(launcher, STILL[launcher], [pod(waiting(reason), started=120)], NOW)
    assert late == Phase(PhaseName.FAILED, reason, "because", must_be_stopped=True)


@pytest.mark.parametrize("launcher", [K, A, J])
@pytest.mark.parametrize("reason", ["InvalidImageName", "ErrImageNeverPull"])
def test_what_cannot_pass_ends_at_once(launcher: SparkLauncher, reason: str) -> None:
    phase = observed(launcher, STILL[launcher], [pod(waiting(reason), started=0)], NOW)
    assert phase == Phase(PhaseName.FAILED, reason, "because", must_be_stopped=True)


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", "OfANewKubelet"])
def test_what_is_no_trouble_is_waited_for(reason: str) -> None:
    phase = observed(K, STILL[K], [pod(waiting(reason), started=9_999)], NOW)
    assert phase == Phase(PhaseName.SUBMITTED)


def test_a_pod_that_no_node_takes_is_told_of_and_waited_for() -> None:
    one = pod({}, started=9_999)
    scheduled = condition("PodScheduled", "Unschedulable", "0/3 nodes: memory", "False")
    one["status"] |= {"conditions": [scheduled], "containerStatuses": []}
    phase = observed(J, STILL[J], [one], NOW)
    assert phase == Phase(
        PhaseName.SUBMITTED, "Unschedulable", "0/3 nodes: memory", is_delayed=True
    )


@pytest.mark.parametrize(
    ("state", "reason"),
    [(OOM, "OOMKilled"), (ended(52), "OutOfHeap"), (ended(3), "JobFailed")],
)
def test_a_driver_that_ended_for_good_is_not_tried_again(state: Made, reason: str) -> None:
    driver = pod(state, phase="Failed")
    for launcher, launched in (
        (K, kubeflow("RUNNING", retries=2, attempts=1)),
        (A, apache("RunningHealthy", retries=2, attempt=1)),
    ):
        phase = observed(launcher, launched, [driver], NOW)
        assert (phase.name, phase.reason) == (PhaseName.FAILED, reason)
        assert phase.must_be_stopped


@pytest.mark.parametrize(
    ("launcher", "launched"),
    [
        (K, kubeflow("RUNNING")),
        (K, kubeflow("RUNNING", retries=2, attempts=3)),
        (A, apache("RunningHealthy")),
        (A, apache("RunningHealthy", retries=2, attempt=2)),
        (J, job(active=1, ready=1)),
    ],
)
def test_where_the_launcher_ends_by_itself_the_logs_are_left(
    launcher: SparkLauncher, launched: Made
) -> None:
    phase = observed(launcher, launched, [pod(OOM, phase="Failed")], NOW)
    assert (phase.name, phase.reason) == (PhaseName.RUNNING, "OOMKilled")
    assert not phase.must_be_stopped


@pytest.mark.parametrize(
    ("launcher", "launched"),
    [
        (K, kubeflow("FAILED", "driver container failed")),
        (A, apache("ResourceReleased", {"currentStateSummary": "Failed"})),
        (J, job(condition("Failed", "PodFailurePolicy", "…"))),
    ],
)
def test_a_failure_has_its_drivers_reason_and_remedy(
    launcher: SparkLauncher, launched: Made
) -> None:
    phase = observed(launcher, launched, [pod(OOM, phase="Failed")], NOW)
    assert (phase.name, phase.reason) == (PhaseName.FAILED, "OOMKilled")
    assert "raise spec.spark.driver.memory" in phase.message


def test_only_the_last_attempts_driver_counts() -> None:
    pods = [pod(RUNNING, made=10, phase="Running"), pod(ended(1), made=400, phase="Failed")]
    pods.append(pod(RUNNING, role="executor", phase="Running"))
    assert observed(J, job(active=1, ready=1), pods, NOW) == Phase(PhaseName.RUNNING)


def test_an_exit_code_of_the_jobs_own_is_shown_with_its_words() -> None:
    driver = pod(ended(1, message="Traceback: no such thing"), phase="Failed")
    phase = observed(J, job(condition("Failed", "BackoffLimitExceeded")), [driver], NOW)
    assert phase.reason == "Error"
    assert phase.message == "the driver ended with exit code 1: Traceback: no such thing"


def test_a_driver_without_its_rights_is_told_so() -> None:
    refused = 'pods "x" is forbidden: User "system:serviceaccount:shop:x-driver" cannot get'
    driver = pod(ended(1, message=refused), phase="Failed")
    phase = observed(J, job(condition("Failed", "BackoffLimitExceeded")), [driver], NOW)
    assert (phase.name, phase.reason) == (PhaseName.FAILED, "Forbidden")
    assert phase.message == f"the driver ended with exit code 1: {refused}"
    # Rights may be given meanwhile, so its launcher may try as often as it is to.
    assert observed(K, kubeflow("RUNNING", retries=2), [driver], NOW) == Phase(
        PhaseName.RUNNING, "Forbidden", phase.message
    )


def test_an_evicted_driver_is_told_of_and_left_to_its_launcher() -> None:
    driver = pod({}, phase="Failed")
    driver["status"] |= {"reason": "Evicted", "message": "node was low on memory"}
    phase = observed(K, kubeflow("RUNNING", retries=2), [driver], NOW)
    assert phase == Phase(PhaseName.RUNNING, "Evicted", "node was low on memory")


def test_executors_that_can_never_run_end_the_application() -> None:
    driver = pod(RUNNING, phase="Running")
    stuck = pod(waiting("ImagePullBackOff"), role="executor")
    launched = job(active=1, ready=1)
    phase = observed(J, launched, [driver, stuck, stuck], NOW)
    assert (phase.name, phase.reason) == (PhaseName.FAILED, "ImagePullBackOff")
    assert phase.must_be_stopped
    runs = pod(RUNNING, role="executor", phase="Running")
    assert observed(J, launched, [driver, stuck, runs], NOW) == Phase(PhaseName.RUNNING)


def test_executors_out_of_memory_are_told_of_and_spark_counts_them() -> None:
    pods = [pod(RUNNING, phase="Running"), pod(OOM, role="executor", phase="Failed")]
    phase = observed(J, job(active=1, ready=1), pods, NOW)
    assert (phase.name, phase.reason) == (PhaseName.RUNNING, "OOMKilled")
    assert "spec.spark.executor.memory" in phase.message


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest": …', "Forbidden"),
        ('serviceaccount "x" not found', "FailedCreate"),
    ],
)
def test_a_pod_that_admission_refuses_ends_the_application(message: str, reason: str) -> None:
    refused = {"reason": "FailedCreate", "message": message}
    young = job() | {"metadata": {"creationTimestamp": ago(10)}}
    phase = observed(J, young, [], NOW, [refused])
    assert phase == Phase(PhaseName.PENDING, reason, message, is_delayed=True)
    phase = observed(J, job(), [], NOW, [refused])
    assert phase == Phase(PhaseName.FAILED, reason, message, must_be_stopped=True)


def test_what_succeeded_has_no_trouble_any_more() -> None:
    pods = [pod(waiting("ImagePullBackOff"), role="executor"), pod(ended(0, "Completed"))]
    assert observed(K, kubeflow("COMPLETED"), pods, NOW) == Phase(PhaseName.SUCCEEDED)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
TEXTS = st.sampled_from(
    [*states.KUBEFLOW, *states.APACHE, *states.JOB, *pod_states.WAITING, "True"]
)
NEAR = st.recursive(
    JSON | TEXTS | st.datetimes().map(lambda at: f"{at.isoformat()}Z"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "status",
                        "metadata",
                        "spec",
                        "applicationState",
                        "state",
                        "errorMessage",
                        "0",
                        "1",
                    ),
                    *(
                        "currentState",
                        "currentStateSummary",
                        "stateTransitionHistory",
                        "conditions",
                    ),
                    *(
                        "type",
                        "reason",
                        "message",
                        "containerStatuses",
                        "name",
                        "waiting",
                        "terminated",
                    ),
                    *(
                        "exitCode",
                        "labels",
                        "spark-role",
                        "creationTimestamp",
                        "startTime",
                        "active",
                    ),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)
OBJECTS = st.dictionaries(
    st.sampled_from(["status", "metadata", "spec", "reason"]), NEAR, max_size=3
)


@given(
    launcher=st.sampled_from([K, A, J]),
    launched=OBJECTS,
    pods=st.lists(OBJECTS, max_size=3),
    events=st.lists(OBJECTS, max_size=2),
)
def test_whatever_is_read_gives_a_phase(
    launcher: SparkLauncher, launched: Made, pods: list[Made], events: list[Made]
) -> None:
    phase = observed(launcher, launched, pods, NOW, events)
    assert phase.reason or phase.name is not PhaseName.FAILED
    assert phase.has_ended or not phase.must_be_stopped


@given(launcher=st.sampled_from([K, A]), state=st.text(max_size=30))
def test_every_state_of_any_name_gives_a_phase(launcher: SparkLauncher, state: str) -> None:
    launched = kubeflow(state) if launcher is K else apache(state)
    table = states.KUBEFLOW if launcher is K else states.APACHE
    phase = observed(launcher, launched, [], NOW)
    cause = next((reason for words, reason in states.CAUSES.items() if words in state), state)
    assert state in table or phase == Phase(PhaseName.UNKNOWN, cause, phase.message)


def unscheduled(role: str) -> Made:
    made = pod({}, role=role)
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    made["status"]["conditions"] = [
        why | {"message": "0/3 nodes are available: 3 Insufficient cpu"}
    ]
    return made


def test_executors_that_no_node_takes_hold_a_running_application_up() -> None:
    driver = pod(RUNNING, phase="Running")
    phase = observed(K, kubeflow("RUNNING"), [driver, unscheduled("executor")], NOW)
    message = "no executor is running: 0/3 nodes are available: 3 Insufficient cpu"
    assert phase == Phase(PhaseName.RUNNING, "Unschedulable", message, is_delayed=True)
    one_runs = pod(RUNNING, role="executor", phase="Running")
    pods = [driver, unscheduled("executor"), one_runs]
    assert not observed(K, kubeflow("RUNNING"), pods, NOW).is_delayed
    assert pod_states.running_executors(pods) == 1


def test_a_driver_that_gets_no_executors_is_held_up() -> None:
    """As where a quota refuses them: then there is no pod that could say it."""
    new: Made = {"running": {"startedAt": ago(90)}}
    driver = pod(new, phase="Running")
    assert not observed(K, kubeflow("RUNNING"), [driver], NOW).is_delayed
    phase = observed(K, kubeflow("RUNNING"), [pod(RUNNING, phase="Running")], NOW)
    assert (phase.name, phase.reason) == (PhaseName.RUNNING, "NoExecutors")
    assert phase.is_delayed
    assert "ResourceQuota" in phase.message
    starting = pod(waiting("ContainerCreating"), role="executor")
    both = [pod(RUNNING, phase="Running"), starting]
    assert not observed(K, kubeflow("RUNNING"), both, NOW).is_delayed


@pytest.mark.parametrize(
    ("launcher", "remedy"), [(K, "spark.jobNamespaces"), (A, "workloadResources.namespaces.data")]
)
def test_an_application_that_nobody_takes_up_says_what_to_look_at(
    launcher: SparkLauncher, remedy: str
) -> None:
    new = {"metadata": {"creationTimestamp": ago(30), "namespace": "apps"}}
    assert observed(launcher, new, [], NOW) == Phase(PhaseName.PENDING)
    old = {"metadata": {"creationTimestamp": ago(90), "namespace": "apps"}}
    phase = observed(launcher, old, [], NOW)
    assert (phase.name, phase.reason) == (PhaseName.PENDING, "NotTakenUp")
    assert "does not watch namespace apps" in phase.message
    assert remedy in phase.message
    begun = old | {"status": {"applicationState": {"state": ""}, "submissionID": "x"}}
    assert observed(launcher, begun, [], NOW).reason == ""


def test_a_webhook_that_is_away_is_named_with_a_remedy() -> None:
    message = 'Internal error occurred: failed calling webhook "mutate-pod.sparkoperator.k8s.io"'
    phase = observed(K, kubeflow("SUBMISSION_FAILED", message), [], NOW)
    assert (phase.reason, phase.is_delayed) == ("WebhookUnavailable", True)
    assert phase.message.startswith(message)
    assert "check that its webhook pods run" in phase.message


def test_of_a_stack_trace_the_cause_is_told() -> None:
    phase = observed(K, kubeflow("FAILED", SUBMISSION), [], NOW)
    assert phase.message.startswith("java.net.UnknownHostException: kubernetes.default.svc")
    assert len(phase.message) < 200


@pytest.mark.parametrize(
    ("state", "phase", "end"),
    [
        (RUNNING, "Running", ""),
        (ended(0, "Completed"), "Succeeded", "Succeeded"),
        (ended(0, "Completed"), "Running", "Succeeded"),
        (ended(3), "Failed", "Failed"),
        (waiting("ContainerCreating"), "Pending", ""),
    ],
)
def test_how_a_driver_ended(state: Made, phase: str, end: str) -> None:
    old = pod(ended(1), phase="Failed", made=900)
    assert pod_states.end_of_driver([old, pod(state, phase=phase)]).value == end
    assert pod_states.end_of_driver([]).value == ""


def test_which_attempt_it_is() -> None:
    assert states.attempt(K, kubeflow("RUNNING", attempts=2)) == 2
    assert states.attempt(A, apache("RunningHealthy", attempt=1)) == 2
    assert states.attempt(J, job(failed=1, active=1)) == 2
    for launcher in (K, A, J):
        assert states.attempt(launcher, {}) is None


def test_a_pod_that_a_node_has_taken_is_no_trouble() -> None:
    one = pod({}, started=9_999)
    one["status"] |= {
        "conditions": [
            condition("Initialized", "Waiting", "not yet", "False"),
            condition("PodScheduled", "Scheduled", "", "True"),
        ],
        "containerStatuses": [],
    }

    assert observed(J, STILL[J], [one], NOW) == Phase(PhaseName.SUBMITTED)
