"""A change waits for its approval and is then rolled under load; maintenance; restarts by hand."""

import time

import pytest

from chiplog_core.naming import labels
from chiplog_core.planner.brokers.unable_to_start import PATIENCE
from e2e import measured
from e2e.change.gaps import check_gaps
from e2e.change.spec import configure
from e2e.cluster import containers, processes
from e2e.cluster.kubectl import eventually
from e2e.cluster.processes import Process
from e2e.long_form import LONG_FORM
from e2e.main.broker_cluster import BrokerClusterUnderTest, Life, Manifest, shown
from e2e.main.replicas import places, wait_in_sync
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic

pytestmark = [pytest.mark.change, pytest.mark.timeout(400)]

PARTITIONS = 6
ROLL_LIMIT_S = 150
SETTLED_LIMIT_S = 60
MISSING_IMAGE = "localhost/chiplog/broker:missing"
SAFE = {"min.insync.replicas": 2}
NEVER_SOON = {"schedule": "0 0 29 2 *", "duration": "1m"}
REQUEST_BYTES = "socket.request.max.bytes"
HANGS_LIMIT_S = PATIENCE.total_seconds() + 120


def condition(cluster: BrokerClusterUnderTest, type_: str) -> Manifest:
    """A condition of the BrokerCluster, for its newest spec."""
    found = cluster.kubectl.get("cbc", cluster.name)
    of_type = [
        one
        for one in found["status"]["conditions"]
        if one["type"] == type_ and one["observedGeneration"] == found["metadata"]["generation"]
    ]
    assert of_type, shown(found)
    condition_: Manifest = of_type[0]
    return condition_


def wait_reason(cluster: BrokerClusterUnderTest, type_: str, reason: str) -> Manifest:
    """Wait until the condition has this reason; returns the condition."""

    def has_reason() -> bool:
        found = condition(cluster, type_)
        assert found["reason"] == reason, found
        return True

    eventually(f"{type_} has the reason {reason}", has_reason, SETTLED_LIMIT_S, every_s=0.5)
    return condition(cluster, type_)


def wait_restarted(cluster: BrokerClusterUnderTest, before: dict[str, Life]) -> float:
    """Wait until every broker has another pod than before, and is in sync; returns seconds. Checks
    that never more than one pod is missing or not ready."""

    def are_restarted() -> bool:
        ready = [one["metadata"]["name"] for one in cluster.pods() if is_ready(one)]
        if len(ready) < len(before) - 1:
            pytest.fail(f"only {ready} are ready")
        now = cluster.broker_pods()
        same = {name for name in before if name not in now or now[name].uid == before[name].uid}
        assert not same, f"not restarted yet: {sorted(same)}"
        return True

    took_s = eventually("all brokers were restarted", are_restarted, ROLL_LIMIT_S, every_s=0.3)
    cluster.wait_cluster_ready()
    return took_s + wait_in_sync(cluster)


def is_ready(pod: Manifest) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    is_going = "deletionTimestamp" in pod["metadata"]
    return not is_going and any(
        one["type"] == "Ready" and one["status"] == "True" for one in conditions
    )


def test_a_change_waits_for_its_approval_and_is_then_rolled_under_load(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("approved", PARTITIONS, replicas=3, config=SAFE)
    wait_in_sync(cluster)
    before = cluster.broker_pods()
    configure(
        cluster,
        rollPolicy={"approval": "Manual"},
        config={"socket.request.max.bytes": 90_000_000},
    )
    waiting = wait_reason(cluster, "ConfigurationApplied", "WaitingForApproval")
    status = cluster.kubectl.get("cbc", cluster.name)["status"]
    assert status["roll"]["state"] == "pending"
    assert status["roll"]["cause"] == "spec.config[socket.request.max.bytes]"
    assert status["revision"] in waiting["message"]
    assert condition(cluster, "Quiesced")["status"] == "True"
    assert cluster.broker_pods() == before
    with Traffic(cluster.bootstrap, topic, PARTITIONS) as traffic:
        approval = f"{labels.APPROVED_REVISION}={status['revision']}"
        cluster.kubectl("annotate", "cbc", cluster.name, approval)
        took_s = wait_restarted(cluster, before)
    check_gaps(traffic, f"an approved change of {len(before)} brokers in {took_s:.0f} s")
    wait_reason(cluster, "ConfigurationApplied", "Applied")
    assert "roll" not in cluster.kubectl.get("cbc", cluster.name)["status"]
    cluster.kubectl("annotate", "cbc", cluster.name, f"{labels.APPROVED_REVISION}-")


@LONG_FORM
def test_a_broker_whose_image_is_missing_comes_back_with_the_corrected_spec(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("corrected", PARTITIONS, replicas=3, config=SAFE)
    wait_in_sync(cluster)
    before = cluster.broker_pods()

    def is_stuck() -> bool:
        reasons = {one["metadata"]["name"]: waiting_reason(one) for one in cluster.pods()}
        assert reasons.keys() == before.keys(), reasons
        assert {"ErrImagePull", "ImagePullBackOff"}.intersection(reasons.values()), reasons
        return True

    with Traffic(cluster.bootstrap, topic, PARTITIONS) as traffic:
        configure(cluster, image=MISSING_IMAGE, rollPolicy=None)
        try:
            eventually("one broker has no image", is_stuck, SETTLED_LIMIT_S, every_s=0.5)
        finally:
            configure(cluster, image=None)
        took_s = cluster.wait_cluster_ready()
        took_s += wait_in_sync(cluster)
    check_gaps(traffic, f"a broker without an image, back {took_s:.0f} s after the correction")
    wait_reason(cluster, "ConfigurationApplied", "Applied")
    after = cluster.broker_pods()
    assert len([name for name in before if after[name].uid != before[name].uid]) == 1


def waiting_reason(pod: Manifest) -> str:
    """Why the broker's container does not run; "" if it does, or is not there yet."""
    (container,) = pod["status"].get("containerStatuses") or [{}]
    return str(container.get("state", {}).get("waiting", {}).get("reason", ""))


@LONG_FORM
@pytest.mark.timeout(900)
def test_a_broker_that_hangs_in_its_start_comes_back_with_the_corrected_spec(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    """Its process is suspended before it renews its Lease. The startup probe would wait for a day,
    the window that is set for longer: the operator deletes the pod all the same."""
    topic = new_topic("hanging", PARTITIONS, replicas=3, config=SAFE)
    wait_in_sync(cluster)
    before = cluster.broker_pods()
    with Traffic(cluster.bootstrap, topic, PARTITIONS) as traffic:
        configure(cluster, rollPolicy=None, config={REQUEST_BYTES: 91_000_000})
        name, uid, found = starting(cluster, before)
        with processes.paused(found):
            configure(cluster, rollPolicy={"windows": [NEVER_SOON]}, config={REQUEST_BYTES: None})

            def is_replaced() -> bool:
                now = cluster.broker_pods()
                assert name in now, now
                assert now[name].uid != uid, shown(cluster.kubectl.get("cbc", cluster.name))
                return True

            hung_s = eventually(f"another {name}", is_replaced, HANGS_LIMIT_S, every_s=0.5)
        cluster.wait_cluster_ready()
        wait_in_sync(cluster)
    measured.note(f"{name}, suspended in its start, was replaced after {hung_s:.0f} s")
    check_gaps(traffic, f"a broker that hangs in its start for {hung_s:.0f} s")
    assert hung_s >= PATIENCE.total_seconds() - SETTLED_LIMIT_S, "it might have been recovering"
    after = cluster.broker_pods()
    assert [one for one in before if after[one].uid != before[one].uid] == [name]
    wait_reason(cluster, "ConfigurationApplied", "Applied")
    configure(cluster, rollPolicy=None)


def starting(
    cluster: BrokerClusterUnderTest, before: dict[str, Life]
) -> tuple[str, str, list[Process]]:
    """The first pod that is not one of `before`, its uid, and its processes as soon as it has
    any."""
    end_s = time.monotonic() + SETTLED_LIMIT_S
    while time.monotonic() < end_s:
        for name, life in cluster.broker_pods().items():
            if life.uid != before[name].uid and (found := containers.in_pod(life.uid)):
                return name, life.uid, found
        time.sleep(0.02)
    pytest.fail("no broker was restarted")


def test_a_broker_under_maintenance_leads_nothing(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("maintained", PARTITIONS, replicas=3, config=SAFE)
    wait_in_sync(cluster)
    with Traffic(cluster.bootstrap, topic, PARTITIONS) as traffic:
        configure(cluster, maintenance={"brokers": [2]})
        wait_reason(cluster, "Maintenance", "LeadingNothing")
        states = places(cluster, topic)
        assert 2 not in {one.leader for one in states}
        assert all(2 in one.in_sync for one in states), "it still follows"
    check_gaps(traffic, "a broker under maintenance")
    placed = places(cluster, new_topic("beside", PARTITIONS, replicas=2))
    assert {one for state in placed for one in state.replicas} == {1, 3}
    configure(cluster, maintenance=None)


@LONG_FORM
def test_an_annotation_of_the_cluster_restarts_every_broker_in_its_window(
    cluster: BrokerClusterUnderTest,
) -> None:
    wait_in_sync(cluster)
    before = cluster.broker_pods()
    configure(cluster, rollPolicy={"timeZone": "Europe/Berlin", "windows": [NEVER_SOON]})
    cluster.kubectl("annotate", "cbc", cluster.name, f"{labels.MANUAL_ROLLING_UPDATE}=true")

    def waits_for_window() -> bool:
        status = cluster.kubectl.get("cbc", cluster.name)["status"]
        roll = status.get("roll", {})
        assert roll.get("brokers") == [1, 2, 3], status
        assert roll["continuesAt"].endswith("-02-28T23:00:00Z"), roll
        return True

    eventually("the restarts wait", waits_for_window, SETTLED_LIMIT_S, every_s=0.5)
    assert cluster.broker_pods() == before
    configure(cluster, rollPolicy=None)
    took_s = wait_restarted(cluster, before)
    measured.note(f"all brokers restarted by one annotation in {took_s:.0f} s")
    left = cluster.kubectl.get("cbc", cluster.name)["metadata"].get("annotations", {})
    assert labels.MANUAL_ROLLING_UPDATE not in left
    assert "roll" not in cluster.kubectl.get("cbc", cluster.name)["status"]
