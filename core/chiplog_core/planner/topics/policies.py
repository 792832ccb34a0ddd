"""Applies the topic policies of a cluster to its Topics: compares each spec with the existing
topic."""

from collections.abc import Mapping
from dataclasses import dataclass

from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.given import given_topic_config
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.model.topic import Topic
from chiplog_core.policies.judge import NOTHING_AGAINST_IT, Judgement, judge
from chiplog_core.policies.rules import TopicFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyJudge:
    """Judges the Topics of one cluster."""

    cluster: BrokerCluster
    partitions: int
    """Partitions of a new topic whose spec sets no number."""
    replicas: int
    """Replicas of a new topic whose spec sets no number."""
    inherited: Mapping[str, str]
    """The configuration that topics inherit from the cluster. The existing topic is judged with it
    too: a changed default of the cluster must not look like a change of the Topic."""

    def judge(self, topic: Topic, partition_map: PartitionMap | None) -> Judgement:
        """Judge a Topic. `partition_map` is the map of its topic name, which another Topic may own;
        None if there is none. A number that the spec does not set is that of the existing topic,
        else the default of a new one."""
        if self.cluster.spec.topic_policies is None:
            return NOTHING_AGAINST_IT
        before = self._in_force(topic, partition_map)
        wanted = TopicFacts(
            name=topic.topic_name,
            namespace=topic.metadata.namespace,
            partitions=topic.spec.partitions or (before or self).partitions,
            replicas=topic.spec.asked_replicas or (before or self).replicas,
            config=TopicConfig(given_topic_config(topic.spec.config).values, self.inherited),
        )
        if before is None and partition_map is None and topic.status.topic_id is not None:
            # Its map was lost and is created again from the disks: no policy may prevent that.
            before = wanted
        return judge(self.cluster, wanted, before)

    def _in_force(self, topic: Topic, partition_map: PartitionMap | None) -> TopicFacts | None:
        """The existing topic, before the Topic's change; None if there is none."""
        spec = None if partition_map is None else partition_map.spec
        if spec is None or spec.current is None:
            return None
        states = next(
            generation.partitions
            for generation in spec.generations
            if generation.topic_id == spec.current
        )
        is_own = spec.owner_uid == topic.metadata.uid
        return TopicFacts(
            name=spec.topic_name,
            # A Topic may take over the records of a deleted Topic only if its namespace is allowed
            # to use that name. Without a namespace, the existing topic counts as keeping that rule,
            # so a Topic that breaks it is refused.
            namespace=topic.metadata.namespace if is_own else "",
            partitions=len(states),
            replicas=len(states[0].target),
            config=TopicConfig(spec.config, self.inherited),
        )
