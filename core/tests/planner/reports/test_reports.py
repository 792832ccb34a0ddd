"""What users read, and how seldom it is written."""

from dataclasses import replace
from datetime import timedelta

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import Report
from chiplog_core.model.conditions import ConditionStatus
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.topic import TopicStatus
from chiplog_core.naming import api, labels
from chiplog_core.observed.world import Unreadable
from chiplog_core.problems import Problem
from tests.planner.model import Kubernetes
from tests.planner.objects import topic


def running() -> Kubernetes:
    kubernetes = Kubernetes()
    kubernetes.apply(topic(partitions=3))
    kubernetes.run()
    return kubernetes


def reports(kubernetes: Kubernetes, **changes: object) -> list[Report]:
    return [one for one in kubernetes.plan(**changes).actions if isinstance(one, Report)]


def test_nothing_is_written_as_time_goes_by() -> None:
    kubernetes = running()
    kubernetes.now += timedelta(days=3)

    assert reports(kubernetes) == []


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    kubernetes = running()
    since = kubernetes.now
    kubernetes.now += timedelta(hours=1)
    kubernetes.apply(topic(partitions=3, config={"retention.ms": 7}))
    kubernetes.settle()

    (ready,) = kubernetes.topics["orders"].status.conditions
    assert ready.observed_generation == kubernetes.topics["orders"].metadata.generation == 2
    assert ready.last_transition_time == since


def test_a_new_topic_costs_one_report() -> None:
    kubernetes = running()
    kubernetes.apply(topic("other"))
    written = []
    for _ in range(5):
        actions = kubernetes.plan().actions
        written += [one for one in actions if isinstance(one, Report) and one.kind == api.TOPIC]
        kubernetes.execute(actions)

    (report,) = written
    assert report.status.conditions[0].status is ConditionStatus.TRUE


def test_ready_needs_leaders_that_live() -> None:
    kubernetes = running()
    kubernetes.kill(2)
    kubernetes.settle()

    (ready,) = kubernetes.topics["orders"].status.conditions
    assert ready.message == "no live leader for partition 1; the replicas are on broker 2"


def test_what_does_not_read_is_told_so_and_keeps_its_topic_id() -> None:
    kubernetes = running()
    owner = kubernetes.topics.pop("orders")
    topic_id = owner.status.topic_id
    unreadable = Unreadable(
        metadata=owner.metadata,
        cluster_name="demo",
        problems=(Problem("spec.partitions", "is 'x'", "set it to a number"),),
        manifest_status={"topicId": str(topic_id), "partitions": 3},
    )

    (report,) = reports(kubernetes, unreadable=(unreadable,))

    assert isinstance(report.status, TopicStatus)
    assert (report.status.topic_id, report.status.partitions) == (topic_id, 3)
    (ready,) = report.status.conditions
    assert ready.message == "spec.partitions is 'x': set it to a number"


def test_an_unreadable_group_is_told_as_a_group() -> None:
    unreadable = Unreadable(
        metadata=Metadata(name="billing", namespace="home", uid="g"),
        cluster_name="demo",
        problems=(Problem("spec.maxLag", "is odd", "mend it"),),
        manifest_status={"state": 7},  # does not read either, so it is written anew
        kind=api.CONSUMER_GROUP,
    )

    (report,) = reports(running(), unreadable=(unreadable,))

    assert report.kind == api.CONSUMER_GROUP


def test_a_cluster_that_does_not_read_is_told_once() -> None:
    kubernetes = running()
    problem = Problem("spec.replicas", "is 'x'", "set it to a number")
    (report,) = reports(kubernetes, cluster=None, cluster_problems=(problem,))

    told = kubernetes.cluster.to_manifest() | {}
    manifest = replace(kubernetes.cluster, status=report.status).to_manifest()  # type: ignore[arg-type]
    again = reports(
        kubernetes,
        cluster=None,
        cluster_problems=(problem,),
        manifest_status=manifest["status"],
    )

    assert told["spec"] == manifest["spec"]
    assert again == []


def test_a_cluster_that_is_gone_is_told_nothing() -> None:
    kubernetes = running()
    nobody = Metadata(name="demo", namespace="home")

    kinds = {one.kind.kind for one in reports(kubernetes, cluster=None, metadata=nobody)}

    assert "BrokerCluster" not in kinds


def test_a_message_that_is_too_long_for_kubernetes_is_cut() -> None:
    kubernetes = running()
    config = {f"no.such.key.{number}" + "x" * 300: 1 for number in range(100)}
    kubernetes.apply(topic(partitions=3, config=config))
    kubernetes.settle()

    assert len(kubernetes.topics["orders"].status.conditions[0].message) == 32_768


def test_a_topic_without_writes_where_one_broker_is_away() -> None:
    kubernetes = Kubernetes(config={"min.insync.replicas": 2})
    kubernetes.run()
    kubernetes.apply(topic(replicas=2, config={"min.insync.replicas": 2}))
    kubernetes.settle()

    warning = kubernetes.topics["orders"].status.conditions[1]
    assert warning.type == "Warning"
    assert "a single unavailable broker blocks all writes" in warning.message


def test_a_volume_that_is_nearly_full_is_told_of_as_long_as_it_is() -> None:
    kubernetes = running()
    status = kubernetes.brokers[BrokerId(2)].status

    def tell(*, full: bool) -> list[tuple[str, str]]:
        directory = replace(status.directories[0], full=full)
        kubernetes.status(2, replace(status, directories=(directory,)))
        kubernetes.settle()
        conditions = kubernetes.cluster.status.conditions
        return [(one.reason, one.message) for one in conditions if one.type == "DiskPressure"]

    ((reason, message),) = tell(full=True)
    assert reason == "VolumeNearlyFull"
    assert message.startswith("almost no space is left on the volume of broker 2")
    assert tell(full=False) == []


def test_compression_by_brokers_is_warned_of_where_it_is_asked_for() -> None:
    kubernetes = running()
    wanted = {"compression.type": "zstd"}
    kubernetes.configure(config=wanted)
    kubernetes.apply(topic(partitions=3, config=wanted))
    kubernetes.settle()

    for conditions in (
        kubernetes.cluster.status.conditions,
        kubernetes.topics["orders"].status.conditions,
    ):
        (warning,) = (one for one in conditions if one.type == "Warning")
        assert warning.reason == "NotSupported"
        assert warning.message == (
            "spec.config[compression.type] is zstd, but brokers store each batch as its producer "
            "compressed it: set compression.type of the producers, and producer here"
        )


def test_what_clients_changed_on_somebody_elses_topic_can_be_seen() -> None:
    kubernetes = running()
    uid = kubernetes.topics["orders"].metadata.uid
    book = [
        {"manager": "kubectl", "fieldsV1": {"f:spec": {"f:clusterRef": {"f:name": {}}}}},
        {"manager": labels.KAFKA_ADMIN, "fieldsV1": {"f:spec": {"f:config": {"f:a.b": {}}}}},
    ]

    (report,) = reports(kubernetes, managed_fields={uid: book})

    (told,) = [one for one in report.status.conditions if one.type == "ChangedByClients"]
    assert told.status is ConditionStatus.TRUE
    assert "spec.config[a.b]" in told.message
    assert "kubectl diff" in told.message


def test_an_unreadable_object_that_was_reported_already_is_not_reported_again() -> None:
    kubernetes = running()
    owner = kubernetes.topics.pop("orders")
    unreadable = Unreadable(
        metadata=owner.metadata,
        cluster_name="demo",
        problems=(Problem("spec.partitions", "is 'x'", "set it to a number"),),
        manifest_status={},
    )
    (report,) = reports(kubernetes, unreadable=(unreadable,))
    published = replace(owner, status=report.status).to_manifest()["status"]  # type: ignore[arg-type]

    assert reports(kubernetes, unreadable=(replace(unreadable, manifest_status=published),)) == []
