"""The cluster's label on what users write."""

from dataclasses import replace

from chiplog_core.model.actions import SetMetadata
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.naming import api, labels
from chiplog_core.naming.api import API_VERSION
from tests.planner.model import Kubernetes
from tests.planner.objects import CLUSTER, HOME, NOW, topic

MINE = {labels.CLUSTER: CLUSTER}


def running() -> Kubernetes:
    kubernetes = Kubernetes(3)
    kubernetes.run()
    kubernetes.settle()
    return kubernetes


def group(**metadata: object) -> ConsumerGroup:
    about = {"name": "billing", "namespace": HOME, "uid": "group-1", **metadata}
    spec = {"clusterRef": {"name": CLUSTER}}
    return ConsumerGroup.from_manifest(
        {"apiVersion": API_VERSION, "kind": "ConsumerGroup", "metadata": about, "spec": spec}
    )


def written(kubernetes: Kubernetes, **changes: object) -> list[SetMetadata]:
    actions = kubernetes.plan(**changes).actions
    return [one for one in actions if isinstance(one, SetMetadata)]


def test_a_topic_gets_its_label_with_its_first_finalizer_and_no_write_more() -> None:
    kubernetes = running()
    kubernetes.apply(topic())

    (change,) = written(kubernetes)
    assert (change.kind, change.labels) == (api.TOPIC, MINE)
    assert change.finalizers == (labels.TOPIC_FINALIZER,)

    kubernetes.settle()
    assert kubernetes.topics["orders"].metadata.labels == MINE
    assert written(kubernetes) == []


def test_a_topic_of_an_older_operator_gets_the_label_alone() -> None:
    kubernetes = running()
    kubernetes.apply(topic())
    kubernetes.settle()
    of_before = kubernetes.topics["orders"]
    of_before = replace(of_before, metadata=replace(of_before.metadata, labels={"team": "a"}))

    (change,) = written(kubernetes, topics=(of_before,))
    assert (change.finalizers, change.labels) == (None, MINE)


def test_a_label_that_is_there_has_another_writer() -> None:
    kubernetes = running()
    kubernetes.apply(topic())
    kubernetes.settle()
    theirs = kubernetes.topics["orders"]
    meta = replace(theirs.metadata, labels={labels.CLUSTER: "someone-elses"})

    assert written(kubernetes, topics=(replace(theirs, metadata=meta),)) == []
    assert written(kubernetes, groups=(group(labels=dict(meta.labels)),)) == []


def test_a_group_gets_its_label() -> None:
    kubernetes = running()

    (change,) = written(kubernetes, groups=(group(),))
    assert change == SetMetadata(kind=api.CONSUMER_GROUP, metadata=group().metadata, labels=MINE)


def test_what_is_paused_or_ending_is_left_as_it_is() -> None:
    kubernetes = running()
    paused = {labels.PAUSE: "true"}
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}

    for one in (group(annotations=paused), group(**going)):
        assert written(kubernetes, groups=(one,)) == []
    about = kubernetes.cluster.metadata
    cluster_paused = replace(about, annotations=paused)
    assert written(kubernetes, groups=(group(),), metadata=cluster_paused) == []
    cluster_going = replace(about, deletion_timestamp=NOW)
    assert written(kubernetes, groups=(group(),), metadata=cluster_going) == []
    ending = frozenset({HOME})
    assert written(kubernetes, groups=(group(),), namespaces_deleting=ending) == []
    kubernetes.apply(topic(annotations=paused))
    assert written(kubernetes) == []


def test_an_unmanaged_topic_is_found_by_its_label_too() -> None:
    kubernetes = running()
    kubernetes.apply(topic(annotations={labels.MANAGED: "false"}))

    (change,) = written(kubernetes)
    assert (change.finalizers, change.labels) == (None, MINE)
