"""The configuration of a topic in its map, and the change of its durability."""

from collections.abc import Mapping
from dataclasses import replace

from chiplog_core.config.effective import TopicConfig, min_isr
from chiplog_core.config.topic_keys import DURABILITY, Durability
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_status import FlushedTopic
from chiplog_core.model.partition_map import PartitionMapSpec
from chiplog_core.observed.world import World


def configured(
    spec: PartitionMapSpec, own: Mapping[str, str], inherited: Mapping[str, str]
) -> PartitionMapSpec:
    """The map with this configuration and what follows from it."""
    replicas = len(spec.current_partitions[0].replicas)
    config = TopicConfig(own, inherited)
    in_force = min_isr(config, replicas)
    durability = Durability(config[DURABILITY])
    if (own, inherited, in_force, durability) == (
        spec.config,
        spec.inherited_config,
        spec.min_isr,
        spec.durability,
    ):
        return spec
    after = replace(spec, config=own, inherited_config=inherited, min_isr=in_force)
    return after if durability is spec.durability else _switched(after, durability)


def flushed(spec: PartitionMapSpec, world: World) -> PartitionMapSpec:
    """The map without the brokers that have flushed the topic since it became Fsync, or are
    retired."""
    if not spec.unflushed or spec.current is None:
        return spec
    answer = FlushedTopic(topic_id=spec.current, durability_switch=spec.durability_switch)
    waiting = tuple(
        broker_id
        for broker_id in spec.unflushed
        if not _has_flushed(world, spec, broker_id, answer)
    )
    return spec if waiting == spec.unflushed else replace(spec, unflushed=waiting)


def _switched(spec: PartitionMapSpec, durability: Durability) -> PartitionMapSpec:
    """The map with another durability. After a change to Fsync, brokers must flush what was
    acknowledged as PageCache."""
    holding: set[BrokerId] = set()
    if durability is Durability.FSYNC:
        for state in spec.current_partitions:
            holding.update(state.replicas)
    return replace(
        spec,
        durability=durability,
        durability_switch=spec.durability_switch + 1,
        unflushed=tuple(sorted(holding)),
    )


def _has_flushed(
    world: World, spec: PartitionMapSpec, broker_id: BrokerId, answer: FlushedTopic
) -> bool:
    """Whether the broker has flushed everything that was acknowledged as PageCache."""
    broker = world.brokers.get(broker_id)
    if broker is None:
        return False
    if broker.spec.retired:
        return True
    return answer in broker.status.flushed_topics and all(
        # A process that lost its page cache cannot have flushed everything.
        ref.session == broker.spec.session
        for state in spec.current_partitions
        for ref in state.isr
        if ref.broker_id == broker_id
    )
