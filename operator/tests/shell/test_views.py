"""What is read of pods, nodes, Leases and Services, and which changes mean nothing."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from chiplog_core.observed.world import ClaimState, NodeState, PodState, StatefulSetState
from chiplog_kube import kinds
from chiplog_operator import views
from chiplog_operator.caches import Caches, ClusterKey

DEMO = {"chiplog.dev/cluster": "demo", "chiplog.dev/broker-id": "7"}
INCARNATION = "0123456789abcdef" * 2


def labelled(name: str, version: int = 1, **parts: Any) -> dict[str, Any]:
    meta = {"namespace": "shop", "name": name, "uid": name, "resourceVersion": str(version)}
    return {"metadata": {**meta, "labels": DEMO}, **parts}


def pod(version: int = 1, **status: Any) -> dict[str, Any]:
    return labelled("demo-broker-7-0", version, spec={"nodeName": "node-a"}, status=status)


def condition(kind: str, status: str, **more: str) -> dict[str, str]:
    return {"type": kind, "status": status, **more}


def test_a_pod_that_runs() -> None:
    ready = pod(conditions=[condition("Ready", "True")])
    ready["metadata"]["annotations"] = {"chiplog.dev/revision": "r1"}
    assert views.pod(views.kept_pod(ready)) == PodState(
        name="demo-broker-7-0", uid="demo-broker-7-0", node="node-a", ready=True, revision="r1"
    )


@pytest.mark.parametrize(
    ("container", "is_starting"),
    [
        ({"state": {"running": {}}, "started": False}, True),
        ({"state": {"running": {}}, "started": True}, False),
        ({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "started": False}, False),
        ({"state": {"terminated": {"exitCode": 1}}, "started": False}, False),
        ({}, False),
    ],
)
def test_a_container_that_runs_before_its_startup_probe_succeeds_is_starting(
    container: dict[str, Any], is_starting: bool
) -> None:
    made = pod(containerStatuses=[{"name": "broker", **container}])

    assert views.pod(views.kept_pod(made)).starting is is_starting


UNREADY_SINCE = "2026-01-01T00:00:05Z"


def out_of_memory(began: str | None) -> dict[str, Any]:
    """The state of a container whose last run began at this time."""
    return {"terminated": {"reason": "OOMKilled", "exitCode": 137, "startedAt": began}}


OUT_OF_MEMORY = out_of_memory("2026-01-01T00:00:07Z")
OUT_OF_MEMORY_IN_SERVICE = out_of_memory("2025-12-24T00:00:00Z")


@pytest.mark.parametrize(
    ("container", "is_out"),
    [
        ({"state": {"running": {}}, "lastState": OUT_OF_MEMORY, "started": False}, True),
        ({"state": {"running": {}}, "lastState": OUT_OF_MEMORY, "started": True}, False),
        ({"state": OUT_OF_MEMORY, "started": False}, True),
        # It had served, and the next process is recovering.
        ({"state": {"running": {}}, "lastState": OUT_OF_MEMORY_IN_SERVICE}, False),
        ({"state": {"running": {}}, "lastState": out_of_memory(None)}, False),
        ({"name": "sidecar", "state": OUT_OF_MEMORY, "started": False}, False),
        ({"state": {"waiting": {}}, "lastState": {"terminated": {"reason": "Error"}}}, False),
        ({"state": {"running": {}}, "lastState": {}, "started": False}, False),
        ({"state": {"running": {}}, "lastState": None}, False),
    ],
)
def test_a_container_that_has_not_started_since_it_exceeded_its_memory_limit(
    container: dict[str, Any], is_out: bool
) -> None:
    unready = condition("Ready", "False", lastTransitionTime=UNREADY_SINCE)
    made = pod(containerStatuses=[{"name": "broker", **container}], conditions=[unready])

    assert views.pod(views.kept_pod(made)).ran_out_of_memory is is_out


def test_a_pod_of_unknown_age_did_not_run_out_of_memory() -> None:
    made = pod(containerStatuses=[{"name": "broker", "state": OUT_OF_MEMORY}])

    assert not views.pod(views.kept_pod(made)).ran_out_of_memory


@pytest.mark.parametrize(
    ("container", "since", "has_started"),
    [
        (
            {"state": {"running": {"startedAt": UNREADY_SINCE}}, "started": True},
            datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC),
            True,
        ),
        ({"state": {"running": {}}, "started": False}, None, False),
        ({"name": "sidecar", "state": {"running": {"startedAt": UNREADY_SINCE}}}, None, False),
    ],
)
def test_since_when_the_brokers_own_container_runs(
    container: dict[str, Any], since: datetime | None, has_started: bool
) -> None:
    made = views.pod(views.kept_pod(pod(containerStatuses=[{"name": "broker", **container}])))

    assert (made.running_since, made.has_started) == (since, has_started)


def test_since_when_a_pod_is_not_ready() -> None:
    at, later = "2026-01-01T00:00:05Z", "2026-01-01T00:00:09Z"
    since = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)

    def unready_since(*conditions: dict[str, Any]) -> datetime | None:
        return views.pod(views.kept_pod(pod(conditions=list(conditions)))).unready_since

    scheduled = condition("PodScheduled", "True", lastTransitionTime=later)
    assert unready_since(scheduled, condition("Ready", "False", lastTransitionTime=at)) == since
    assert unready_since(scheduled, condition("Ready", "True", lastTransitionTime=at)) is None
    assert unready_since(condition("PodScheduled", "False", lastTransitionTime=at)) == since
    assert unready_since(scheduled) is None
    assert unready_since() is None


def test_when_a_pod_was_given_its_node() -> None:
    at = "2026-01-01T00:00:05Z"
    scheduled = pod(conditions=[condition("PodScheduled", "True", lastTransitionTime=at)])
    waiting = pod(conditions=[condition("PodScheduled", "False", lastTransitionTime=at)])
    assert views.pod(views.kept_pod(scheduled)).bound_at == datetime(
        2026, 1, 1, 0, 0, 5, tzinfo=UTC
    )
    assert views.pod(views.kept_pod(waiting)).bound_at is None


def test_what_asks_for_a_restart() -> None:
    asked = {"chiplog.dev/manual-rolling-update": "true"}
    at = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T12:00:00Z"}
    template = {"metadata": {"annotations": {**at, "chiplog.dev/revision": "r1"}}}
    found = labelled("demo-broker-7", spec={"template": template})
    found["metadata"]["annotations"] = {**asked, "other": "x"}
    assert views.stateful_set(found) == StatefulSetState(
        name="demo-broker-7", annotations=asked, template_annotations=at
    )
    made = pod()
    made["metadata"]["annotations"] = {**asked, **at, "other": "x"}
    assert views.pod(views.kept_pod(made)).annotations == {**asked, **at}


def test_a_claim_that_waits_for_its_first_consumer() -> None:
    found = labelled("data-demo-broker-7-0", status={"phase": "Pending"}, spec={})
    found["metadata"]["creationTimestamp"] = "2026-01-01T00:00:05Z"
    claim = ClaimState(
        name="data-demo-broker-7-0",
        uid="data-demo-broker-7-0",
        is_pending=True,
        created_at=datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC),
    )
    assert views.claim(found) == claim

    found["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "node-a"}
    found["spec"], found["status"] = {"volumeName": "pvc-1"}, {"phase": "Bound"}
    found["metadata"]["ownerReferences"] = [{"uid": "b1"}, {"uid": "s1"}]
    assert views.claim(found) == replace(
        claim,
        is_pending=False,
        has_node=True,
        node="node-a",
        has_volume=True,
        owners=frozenset({"b1", "s1"}),
    )


def waiting_for(reason: str) -> dict[str, Any]:
    return {"containerStatuses": [{"state": {"waiting": {"reason": reason}}}]}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({}, ""),
        (
            {"conditions": [condition("PodScheduled", "False", reason="No", message="0/3")]},
            "No: 0/3",
        ),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]},
            "ErrImagePull",
        ),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
    ],
)
def test_why_a_pod_does_not_run(status: dict[str, Any], message: str) -> None:
    assert views.pod(views.kept_pod(pod(**status))).message == message


def ended(message: str) -> dict[str, Any]:
    return {"terminated": {"message": message, "reason": "OOMKilled", "exitCode": 137}}


def test_which_process_ended_is_what_it_wrote_itself() -> None:
    other = "f" * 32
    statuses = [{"name": "broker", "state": ended(f"{INCARNATION}\n"), "lastState": ended(other)}]
    found = list(views.ended_processes(views.kept_pod(pod(containerStatuses=statuses))))
    how = "OOMKilled, exit code 137"
    assert [(one.incarnation, one.how, one.has_failed_disk) for one in found] == [
        (INCARNATION, how, False),
        (other, how, False),
    ]


def test_a_process_may_leave_word_that_its_disk_failed() -> None:
    statuses = [{"name": "broker", "lastState": ended(f"{INCARNATION} disk failed\n")}]
    (found,) = views.ended_processes(views.kept_pod(pod(containerStatuses=statuses)))
    assert (found.incarnation, found.has_failed_disk) == (INCARNATION, True)


@pytest.mark.parametrize(
    "message",
    ["", "Error: no space", INCARNATION[:-1], INCARNATION.upper(), f"{INCARNATION} out of luck"],
)
def test_any_other_last_word_names_no_process(message: str) -> None:
    statuses = [{"name": "broker", "lastState": ended(message)}]
    assert list(views.ended_processes(pod(containerStatuses=statuses))) == []


def test_a_node() -> None:
    node = {
        "metadata": {"name": "node-a", "labels": {"zone": "a"}},
        "status": {
            "addresses": [
                {"type": "Hostname", "address": "node-a"},
                {"type": "InternalIP", "address": "192.0.2.1"},
            ],
            "images": ["large"] * 100,
        },
    }
    kept = views.kept_node(node)
    assert "images" not in kept["status"]
    open_node = NodeState(name="node-a", address="192.0.2.1", labels={"zone": "a"})
    assert views.node(kept) == open_node
    cordoned = views.kept_node({**node, "spec": {"unschedulable": True, "podCIDR": "10.0.0.0/24"}})
    assert views.node(cordoned) == replace(open_node, cordoned=True)


def test_node_ports() -> None:
    ports = [{"name": "external", "port": 9094, "nodePort": 30001}, {"name": "plain", "port": 9092}]
    assert views.node_ports({"spec": {"ports": ports}}) == {"external": 30001}


class Heard:
    """Writes down what the caches tell."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def cluster_changed(self, cluster: ClusterKey, *, urgent: bool = False) -> None:
        self.said.append((str(cluster), urgent))

    def jobs_changed(self) -> None:
        pass

    def groups_changed(self, cluster: ClusterKey) -> None:
        self.said.append("groups")

    def users_changed(self, cluster: ClusterKey) -> None:
        self.said.append(f"users of {cluster}")

    def all_clusters_changed(self) -> None:
        self.said.append("all")

    def lease_changed(self, cluster: ClusterKey, lease: Any) -> None:
        self.said.append("lease")

    def pod_changed(self, cluster: ClusterKey, pod: Any) -> None:
        self.said.append("pod")


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def caches(heard: Heard) -> Caches:
    return Caches(heard, heard)


def test_a_renewal_is_told_but_makes_nothing_dirty(caches: Caches, heard: Heard) -> None:
    caches[kinds.LEASES].put(labelled("demo-7", 1))
    heard.said.clear()
    caches[kinds.LEASES].put(labelled("demo-7", 2, spec={"renewTime": "now"}))
    assert heard.said == ["lease"]


def test_a_pods_heartbeat_means_nothing_and_its_readiness_does(
    caches: Caches, heard: Heard
) -> None:
    caches[kinds.PODS].put(pod(1, conditions=[condition("Ready", "False")]))
    heard.said.clear()
    caches[kinds.PODS].put(pod(2, conditions=[condition("Ready", "False")], hostIP="192.0.2.9"))
    assert heard.said == ["pod"]
    caches[kinds.PODS].put(pod(3, conditions=[condition("Ready", "True")]))
    assert heard.said == ["pod", "pod", ("shop/demo", False)]


def test_a_pods_address_is_kept_and_a_new_one_means_something(caches: Caches, heard: Heard) -> None:
    caches[kinds.PODS].put(pod(1))
    heard.said.clear()
    caches[kinds.PODS].put(pod(2, podIP="192.0.2.9"))
    assert heard.said == ["pod", ("shop/demo", False)]
    (kept,) = caches[kinds.PODS].values()
    assert views.pod(kept).address == "192.0.2.9"


def node(version: int, label: str) -> dict[str, Any]:
    meta = {"name": "node-a", "uid": "n", "resourceVersion": str(version)}
    return {"metadata": {**meta, "labels": {"zone": label}}, "status": {"images": [str(version)]}}


def test_a_nodes_heartbeat_means_nothing_and_its_zone_does(caches: Caches, heard: Heard) -> None:
    caches[kinds.NODES].put(node(1, "a"))
    heard.said.clear()
    caches[kinds.NODES].put(node(2, "a"))
    assert heard.said == []
    caches[kinds.NODES].put(node(3, "b"))
    assert heard.said == ["all"]
    caches[kinds.NODES].put({**node(4, "b"), "spec": {"unschedulable": True}})
    assert heard.said == ["all", "all"]


def group(version: int, **own: str) -> dict[str, Any]:
    found = labelled("billing", version, spec={"clusterRef": {"name": "demo"}})
    found["metadata"]["labels"] = own
    return found


def test_the_operators_label_on_a_group_means_nothing_and_a_users_does(
    caches: Caches, heard: Heard
) -> None:
    caches[kinds.CONSUMER_GROUPS].put(group(1, team="a"))
    heard.said.clear()
    caches[kinds.CONSUMER_GROUPS].put(group(2, team="a", **{"chiplog.dev/cluster": "demo"}))
    assert heard.said == []
    caches[kinds.CONSUMER_GROUPS].put(group(3, team="b"))
    assert heard.said


def topic(version: int, cluster: Any, namespace: str | None = None) -> dict[str, Any]:
    reference = {"name": cluster, **({"namespace": namespace} if namespace else {})}
    return labelled("orders", version, spec={"clusterRef": reference})


def test_a_topic_belongs_to_the_cluster_it_names(caches: Caches, heard: Heard) -> None:
    caches[kinds.TOPICS].put(topic(1, "demo", "platform"))
    assert heard.said == [("platform/demo", False)]
    assert caches.clusters() == {ClusterKey("platform", "demo")}
    caches[kinds.TOPICS].put(topic(2, "other"))
    assert set(heard.said[1:]) == {("platform/demo", False), ("shop/other", False)}
    assert caches.clusters() == {ClusterKey("shop", "other")}
    assert caches.members(kinds.TOPICS, ClusterKey("platform", "demo")) == []


@pytest.mark.parametrize("spec", [{}, {"clusterRef": "demo"}, {"clusterRef": {"name": 7}}, "odd"])
def test_a_topic_that_names_no_cluster_is_nobodys(caches: Caches, heard: Heard, spec: Any) -> None:
    caches[kinds.TOPICS].put(labelled("orders", 1, spec=spec))
    assert heard.said == []
    assert caches.clusters() == set()


def test_brokers_are_urgent_and_an_object_that_goes_is_told(caches: Caches, heard: Heard) -> None:
    broker = labelled("demo-7", 1, spec={"cluster": "demo"})
    caches[kinds.BROKERS].put(broker)
    caches[kinds.BROKERS].remove(broker)
    assert heard.said == [("shop/demo", True)] * 2
    assert caches.members(kinds.BROKERS, ClusterKey("shop", "demo")) == []


def test_a_user_concerns_the_users_of_its_cluster_and_its_status_nobody(
    caches: Caches, heard: Heard
) -> None:
    metadata = {"namespace": "shop", "name": "alice", "uid": "u", "generation": 1}
    spec = {"clusterRef": {"name": "demo"}}
    user = {"metadata": {**metadata, "resourceVersion": "1"}, "spec": spec}
    caches[kinds.USERS].put(user)
    assert heard.said == ["users of shop/demo"]
    heard.said.clear()
    ready = {**user, "metadata": {**metadata, "resourceVersion": "2"}, "status": {"username": "a"}}
    caches[kinds.USERS].put(ready)
    assert heard.said == []
    caches[kinds.USERS].remove(ready)
    assert heard.said == ["users of shop/demo"]


@pytest.mark.parametrize(
    ("ingress", "found"),
    [
        ([{"ip": "192.0.2.1"}], "192.0.2.1"),
        ([{"hostname": "a.elb.example.com", "ip": "192.0.2.1"}], "a.elb.example.com"),
        ([{"ip": "fd00::1"}, {"ip": "192.0.2.1"}], "fd00::1"),
        ([], ""),
        (None, ""),
        ([{"ports": []}], ""),
        ([{"hostname": "what no client\ncould write"}], ""),
        ([{"hostname": "a" * 254}], ""),
    ],
)
def test_the_address_of_a_load_balancer(ingress: Any, found: str) -> None:
    status = {"loadBalancer": {} if ingress is None else {"ingress": ingress}}
    service = {"spec": {"type": "LoadBalancer"}, "status": status}
    assert views.service_address(service) == found
    assert views.service_address({**service, "spec": {"type": "NodePort"}}) == ""
    assert views.service_address({"spec": {"type": "LoadBalancer"}}) == ""
