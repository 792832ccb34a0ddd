"""The part of a cluster's spec that topics and brokers follow without a restart.

A spec with a problem in it changes nothing: a typo in `log.retention.hours` must not put the
default in its place. What was in force before then stays, and the Broker objects hold it.
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
    """What is in force."""

    cluster: BrokerCluster | None
    """The spec; None where it does not read or the operator is to leave the cluster alone."""
    problems: tuple[Problem, ...]
    """What is wrong with it. Then brokers stay as they are and topics inherit what they did."""
    is_paused: bool
    config: Mapping[str, str] | None
    """The brokers' configuration; None where the spec does not say it in a way that counts."""
    inherited: Mapping[str, str] | None
    """What topics inherit; None where that was never known."""
    partitions: int = 1
    """Of a topic that names no number."""
    replicas: int = 1
    limits: Mapping[str, str] = field(default_factory=dict)
    """The brokers' configuration, as far as it says how much the cluster takes."""

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
        return inherited  # the default need not be written
    key = METRICS_PARTITIONS
    return {**inherited, key.name: key.format(metrics.partitions)}


def _last_inherited(world: World) -> Mapping[str, str] | None:
    """The configuration that a Broker object holds, without the keys for brokers only."""
    for _, broker in sorted(world.brokers.items()):
        if not broker.spec.retired:
            config = broker.spec.config
            return {key: config[key] for key in config if key != METRICS_PARTITIONS.name}
    return None


def paused(metadata: Metadata) -> bool:
    """Whether an annotation pauses reconciliation of the object."""
    return PAUSE.is_set(metadata.annotations)


def unmanaged(metadata: Metadata) -> bool:
    """Whether an annotation says that the operator does not manage the topic."""
    return MANAGED.is_set(metadata.annotations)
