"""The input of a pass: one cluster, its ConsumerGroups, and the leaders of its partitions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chiplog_core.group_watch.requests import FindTopic
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.conditions import Verdict
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.group_status import ResetStatus
from chiplog_core.model.metadata import Metadata
from chiplog_core.observed.settings import paused
from chiplog_core.validate.broker_cluster import check_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One cluster, as far as its groups depend on it, at one moment."""

    metadata: Metadata
    """Metadata of the BrokerCluster object; without a uid if the object does not exist."""
    cluster: BrokerCluster | None
    """None if the object does not exist or cannot be parsed."""
    groups: tuple[ConsumerGroup, ...]
    """Every ConsumerGroup that names the cluster, from all namespaces, allowed or not."""
    find_topic: FindTopic
    edited_by_others: frozenset[str] = frozenset()
    """Uids of ConsumerGroups that anybody but the operator has written to, or may have."""
    names_taken: frozenset[str] = frozenset()
    """Names of all ConsumerGroups in the cluster's namespace, including those that cannot be
    parsed."""
    resets: Mapping[str, ResetStatus] = field(default_factory=dict)
    """uid of the ConsumerGroup -> the new status of its reset, if it differs from the published
    one."""
    scaled: Mapping[str, Verdict] = field(default_factory=dict)
    """uid of the ConsumerGroup -> the condition about the scaling of its Deployment."""

    @property
    def exists(self) -> bool:
        """Whether the BrokerCluster exists."""
        return bool(self.metadata.uid)

    @property
    def is_paused(self) -> bool:
        return paused(self.metadata)

    @property
    def discovers(self) -> bool:
        """Whether the operator creates objects for groups that have none."""
        if self.cluster is None or self.is_paused or self.is_ending:
            return False
        settings = self.cluster.spec.consumer_groups
        return settings is not None and settings.discover and not check_cluster(self.cluster)

    @property
    def is_ending(self) -> bool:
        """Whether the BrokerCluster is being deleted."""
        return self.metadata.deletion_timestamp is not None
