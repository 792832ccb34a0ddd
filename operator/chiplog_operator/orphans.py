"""Topics and ConsumerGroups that name a BrokerCluster that does not exist.

Nothing can be done for them but to say so, and to let them go: a finalizer that nobody will ever
act on would hold its namespace for ever. The data stays, for the cluster may be made again.
"""

from collections.abc import Iterator
from datetime import datetime

from chiplog_core.model.actions import Action, Plan, Report, SetMetadata
from chiplog_core.model.conditions import ConditionType, merge
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.topic import Topic, TopicStatus
from chiplog_core.model.verdicts import fails
from chiplog_core.naming import api, labels
from chiplog_core.observed.world import World

REASON = "ClusterNotFound"


def plan_without_cluster(world: World, now: datetime) -> Plan:
    """The plan for users' objects that name a cluster which does not exist: report that, and let
    Kubernetes delete those that are being deleted."""
    return Plan(brokers=(), actions=tuple(_actions(world, now)))


def _actions(world: World, now: datetime) -> Iterator[Action]:
    """Report Topics as not ready, and release those that are being deleted."""
    for topic in world.topics:
        if topic.metadata.deletion_timestamp is None:
            yield from _report(topic, world, now)
        else:
            yield from _remove_finalizer(topic.metadata)
    for unreadable in world.unreadable:
        if unreadable.metadata.deletion_timestamp is not None:
            yield from _remove_finalizer(unreadable.metadata)


def _remove_finalizer(meta: Metadata) -> Iterator[Action]:
    """Remove our finalizer, so that Kubernetes can delete the object."""
    left = tuple(finalizer for finalizer in meta.finalizers if finalizer != labels.TOPIC_FINALIZER)
    if left != meta.finalizers:
        yield SetMetadata(kind=api.TOPIC, metadata=meta, finalizers=left)


def _report(topic: Topic, world: World, now: datetime) -> Iterator[Action]:
    """The status of a Topic whose cluster does not exist."""
    verdict = fails(
        ConditionType.READY,
        REASON,
        f"there is no BrokerCluster {world.metadata.name} in namespace "
        f"{world.metadata.namespace}: create it, or correct spec.clusterRef in a new Topic. The "
        "operator does not see clusters in namespaces that it does not watch",
    )
    before = topic.status
    status = TopicStatus(
        observed_generation=topic.metadata.generation,
        conditions=merge(
            before.conditions,
            (verdict,),
            observed_generation=topic.metadata.generation,
            now=now,
        ),
        topic_name=before.topic_name,
        topic_id=before.topic_id,
        partitions=before.partitions,
        replicas=before.replicas,
    )
    if status != before:
        yield Report(kind=api.TOPIC, metadata=topic.metadata, status=status)
