"""The configuration of a topic in its map, and the change of its durability."""

from collections.abc import Mapping
from dataclasses import replace

from chiplog_core.config.effective import TopicConfig, min_isr
from chiplog_core.config.topic_keys import DURABILITY, Durability
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_status import FlushedTopic
from chiplog_core.model.partition_map import PartitionMapSpec, fewest_replicas
from chiplog_core.observed.world import World


def configured(
    spec: PartitionMapSpec,
    own: Mapping[str, str],
    inherited: Mapping[str, str],
    wanted_replicas: int | None = None,
) -> PartitionMapSpec:
    """The map with this configuration, and with the min ISR and durability that follow from it.

    `own` is what the topic sets itself, `inherited` has the cluster's values for all other keys.
    A default of min ISR follows from the number of replicas: while that changes, from the lower
    one, because the new replicas are not in sync yet, or the old ones go soon.
    Returns the same object if nothing changes.
    """
    replicas = fewest_replicas(spec.current_partitions)
    if wanted_replicas is not None:
        replicas = min(replicas, wanted_replicas)
    config = TopicConfig(own, inherited)
    min_in_sync = min(min_isr(config, replicas), max(replicas, 1))
    durability = Durability(config[DURABILITY])
    if (own, inherited, min_in_sync, durability) == (
        spec.config,
        spec.inherited_config,
        spec.min_isr,
        spec.durability,
    ):
        return spec
    after = replace(spec, config=own, inherited_config=inherited, min_isr=min_in_sync)
    return after if durability is spec.durability else _switched(after, durability)


def flushed(spec: PartitionMapSpec, world: World) -> PartitionMapSpec:
    """The map whose list `unflushed` no longer contains brokers that have flushed the topic after
    its change to Fsync, or that are retired. Returns the same object if nothing changes."""
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
    """The map with another durability. After a change to Fsync, every broker with a replica must
    flush the records that were acknowledged as PageCache: it is listed in `unflushed`."""
    brokers_to_flush: set[BrokerId] = set()
    if durability is Durability.FSYNC:
        for state in spec.current_partitions:
            brokers_to_flush.update(state.replicas)
    return replace(
        spec,
        durability=durability,
        durability_switch=spec.durability_switch + 1,
        unflushed=tuple(sorted(brokers_to_flush)),
    )


def _has_flushed(
    world: World, spec: PartitionMapSpec, broker_id: BrokerId, answer: FlushedTopic
) -> bool:
    """Whether the broker has flushed every record that was acknowledged as PageCache, or is
    retired. `answer` is the status entry by which it confirms this durability change."""
    if not any(broker_id in state.replicas for state in spec.current_partitions):
        return True  # its replicas were moved away
    broker = world.brokers.get(broker_id)
    if broker is None:
        return False
    if broker.spec.retired:
        return True
    return answer in broker.status.flushed_topics and all(
        # The ISR may name an older session: the page cache of that process was lost with it, so
        # the present process cannot have flushed everything.
        ref.session == broker.spec.session
        for state in spec.current_partitions
        for ref in state.isr
        if ref.broker_id == broker_id
    )
