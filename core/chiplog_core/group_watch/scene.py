"""What is checked: one cluster, its ConsumerGroups, and where its partitions are led."""

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
    """One cluster as far as its groups need it, at one moment."""

    metadata: Metadata
    """Of the BrokerCluster object; without a uid where there is none."""
    cluster: BrokerCluster | None
    """None where its spec does not read."""
    groups: tuple[ConsumerGroup, ...]
    """Every ConsumerGroup that names the cluster, from all namespaces, allowed or not."""
    find_topic: FindTopic
    touched: frozenset[str] = frozenset()
    """Uids of ConsumerGroups that anybody but the operator has written to, or may have."""
    names_taken: frozenset[str] = frozenset()
    """Names of all ConsumerGroups in the cluster's namespace, also those that do not read."""
    resets: Mapping[str, ResetStatus] = field(default_factory=dict)
    """By uid of the ConsumerGroup, where the reset's status is another than the published one."""
    scaled: Mapping[str, Verdict] = field(default_factory=dict)
    """By uid of the ConsumerGroup, how it goes with the scaling of its Deployment."""

    @property
    def exists(self) -> bool:
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
        return self.metadata.deletion_timestamp is not None
