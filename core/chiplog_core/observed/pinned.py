"""The partitions that users place by hand, with spec.assignments of their Topics."""

from collections.abc import Iterator, Mapping

from chiplog_core.ids import PartitionIndex
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.topic import Topic
from chiplog_core.observed.settings import unmanaged
from chiplog_core.observed.world import World

Pinned = Mapping[str, frozenset[PartitionIndex]]
"""Topic name -> the partitions that its Topic places."""

NONE_PINNED: Pinned = {}


def pinned_partitions(world: World, cluster: BrokerCluster) -> Pinned:
    """All partitions that spec.assignments of their Topics names."""
    return {
        topic.topic_name: frozenset(one.partition for one in topic.spec.assignments)
        for topic in pinning_topics(world, cluster)
    }


def pinning_topics(world: World, cluster: BrokerCluster) -> Iterator[Topic]:
    """The Topics whose spec.assignments counts: those that own their topic's name, or may come to
    own it."""
    for topic in world.topics:
        if not topic.spec.assignments or topic.metadata.deletion_timestamp is not None:
            continue
        found = world.maps.get(topic.topic_name)
        owner = None if found is None else found.spec.owner_uid
        may_own = owner in {None, topic.metadata.uid} and cluster.allows(topic.metadata.namespace)
        if may_own and not unmanaged(topic.metadata):
            yield topic
