"""The part of a cluster's spec that topics and brokers follow without a restart.

A spec with a problem changes nothing: a typo in `log.retention.hours` must not bring its default
into force. The settings that were in force before stay; the Broker objects have them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chiplog_core.config.broker_keys import (
    DEFAULT_REPLICATION_FACTOR,
    METRICS_PARTITIONS,
    NUM_PARTITIONS,
)
from chiplog_core.config.effective import broker_value, topic_defaults
from chiplog_core.config.given import given_broker_config
from chiplog_core.config.topic_keys import DURABILITY
from chiplog_core.model.annotations import MANAGED, PAUSE
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.metadata import Metadata
from chiplog_core.observed.volumes import volume_problems
from chiplog_core.observed.world import World
from chiplog_core.problems import Problem
from chiplog_core.validate.broker_cluster import check_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings in force."""

    cluster: BrokerCluster | None
    """The BrokerCluster; None if it cannot be parsed or is paused."""
    problems: tuple[Problem, ...]
    """The problems with the spec. If there are any, brokers and inherited settings stay as they
    are."""
    is_paused: bool
    config: Mapping[str, str] | None
    """The brokers' configuration in the spec; None if the spec cannot be parsed or has problems."""
    inherited: Mapping[str, str] | None
    """The configuration that topics inherit; None if it was never known."""
    partitions: int = 1
    """Number of partitions of a topic that does not set it."""
    replicas: int = 1
    """Number of replicas of a topic that does not set it."""
    limits: Mapping[str, str] = field(default_factory=dict)
    """The brokers' configuration, also of a spec with problems, for the limits of topics and
    partitions."""

    @property
    def valid_cluster(self) -> BrokerCluster | None:
        """The cluster, if its spec has no problems."""
        return None if self.problems else self.cluster


def find_settings(world: World) -> Settings:
    """The settings from the cluster's spec, or those that the Broker objects hold if the spec
    cannot be parsed."""
    cluster = world.cluster
    is_paused = paused(world.metadata)
    problems = world.cluster_problems
    if cluster is not None:
        problems = (*check_cluster(cluster), *volume_problems(world, cluster))
    config = {} if cluster is None else given_broker_config(cluster.spec.config).values
    if cluster is None or problems:
        inherited = _last_inherited(world)
    else:
        inherited = {DURABILITY.name: cluster.spec.durability.value, **topic_defaults(config)}
    return Settings(
        cluster=None if is_paused else cluster,
        problems=problems,
        is_paused=is_paused,
        config=None if cluster is None or problems else config,
        inherited=inherited,
        partitions=broker_value(config, NUM_PARTITIONS) or 1,
        replicas=broker_value(config, DEFAULT_REPLICATION_FACTOR) or 1,
        limits=config,
    )


def config_for_brokers(cluster: BrokerCluster, inherited: Mapping[str, str]) -> Mapping[str, str]:
    """The configuration for Broker objects: what topics inherit, and what only brokers need."""
    metrics = cluster.spec.metrics
    if metrics is None or not metrics.partitions:
        return inherited  # False is the default of the key
    key = METRICS_PARTITIONS
    return {**inherited, key.name: key.format(metrics.partitions)}


def _last_inherited(world: World) -> Mapping[str, str] | None:
    """The part that topics inherit of the configuration in the first Broker object that is not
    retired; None if there is no such object."""
    for _, broker in sorted(world.brokers.items()):
        if not broker.spec.retired:
            return topic_defaults(broker.spec.config)
    return None


def paused(metadata: Metadata) -> bool:
    """Whether an annotation pauses reconciliation of the object."""
    return PAUSE.is_set(metadata.annotations)


def unmanaged(metadata: Metadata) -> bool:
    """Whether an annotation says that the operator does not manage the topic."""
    return MANAGED.is_set(metadata.annotations)
