"""Whether what is on brokers that are to be removed fits on the others (spec.brokerCapacity).

It is judged when a removal begins: while replicas are copied, they are on both brokers. What a
broker has not reported is not judged: a broker of an older version does not report its replicas'
size, one that has just started does so after a minute, and the last report of a dead one is old.
"""

from collections.abc import Iterator, Mapping, Sequence

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.broker_capacity import BrokerCapacity
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.verdicts import brokers_named
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.world import World
from chiplog_core.planner.placement.volume_room import replicas_held, replicas_to_copy, volume_of
from chiplog_core.problems import Problem
from chiplog_core.quantities import mebibytes
from chiplog_core.topic_name import is_internal

MIB = 2**20


def room_problems(
    world: World,
    cluster: BrokerCluster,
    brokers: BrokerStates,
    surplus: Sequence[BrokerId],
    staying: Sequence[BrokerId],
    takers: Sequence[BrokerId],
) -> Iterator[Problem]:
    """Why the brokers `surplus` cannot be removed: the brokers `staying` would hold more than they
    may. Only `takers`, a part of them, may get replicas now, if they are alive.

    Nothing if all of them are being removed already. If some are, the problems hold for the others.
    """
    removing = being_removed(world, surplus)
    begun = [broker_id for broker_id in surplus if broker_id in removing]
    new = [broker_id for broker_id in surplus if broker_id not in removing]
    if not new:
        return
    limits = cluster.spec.broker_capacity or BrokerCapacity()
    alive = [broker_id for broker_id in takers if _is_alive(broker_id, brokers)]
    yield from _too_many_replicas(world, cluster, limits)
    to_copy = _to_copy_bytes(world, brokers, surplus)
    room = _room_bytes(world, alive, limits.max_disk_percent)
    if to_copy is None or room is None:
        return
    needed = sum(to_copy.values())
    if needed > room:
        can_wait = sum(to_copy.get(broker_id, 0) for broker_id in new) <= room
        wait = f"wait for the removal of {brokers_named(begun)}, " if can_wait else ""
        not_taking = [broker_id for broker_id in staying if broker_id not in alive]
        without = (
            f" (without {brokers_named(not_taking)}: down, cordoned or under maintenance)"
            if not_taking
            else ""
        )
        yield Problem(
            "spec.replicas",
            f"is {cluster.spec.replicas}, but the replicas on {brokers_named(surplus)} have "
            f"{mebibytes(needed)} MiB, and the volumes of the brokers that stay have room for "
            f"{room // MIB} MiB{without}, {mebibytes(needed - room)} MiB too little, if replicas "
            f"may use {limits.max_disk_percent} % of each (spec.brokerCapacity.maxDiskPercent)",
            f"{wait}enlarge the volumes (spec.storage.size), delete data, raise that limit, or set "
            "it back",
        )


def being_removed(world: World, surplus: Sequence[BrokerId]) -> frozenset[BrokerId]:
    """Those of the brokers `surplus` whose removal has begun."""
    return frozenset(
        broker_id
        for broker_id in surplus
        if broker_id in world.brokers
        and world.brokers[broker_id].spec.intent is BrokerIntent.REMOVE
    )


def _too_many_replicas(
    world: World, cluster: BrokerCluster, limits: BrokerCapacity
) -> Iterator[Problem]:
    """The problem that there are more replicas than the brokers that stay may hold."""
    if limits.max_replicas is None:
        return
    count = cluster.spec.replicas
    # Internal topics get fewer replicas by themselves.
    replicas = sum(
        min(len(state.target), count) if is_internal(name) else len(state.target)
        for name, partition_map in world.maps.items()
        for generation in partition_map.spec.generations
        for state in generation.partitions
    )
    most = count * limits.max_replicas
    if replicas > most:
        yield Problem(
            "spec.replicas",
            f"is {count}, but there are {replicas} replicas, {replicas - most} more than "
            f"{count} broker{'s' if count > 1 else ''} of spec.brokerCapacity.maxReplicas "
            f"{limits.max_replicas} may hold",
            "delete topics, raise that limit, or set it back",
        )


def _to_copy_bytes(
    world: World, brokers: BrokerStates, leaving: Sequence[BrokerId]
) -> Mapping[BrokerId, int] | None:
    """The size of the replicas on each of the brokers `leaving` that are not on other brokers yet;
    None if one is not known. A broker which no map names is left out, whatever it reported."""
    held, to_copy = replicas_held(world.maps), replicas_to_copy(world.maps, leaving)
    found = {}
    for broker_id, count in to_copy.items():
        volume = volume_of(world, broker_id)
        if volume is None or not _is_alive(broker_id, brokers):
            return None
        found[broker_id] = volume.log_bytes * count // held[broker_id]
    return found


def _room_bytes(world: World, takers: Sequence[BrokerId], max_percent: int) -> int | None:
    """The room on these brokers together; None if that of one is not known."""
    volumes = [volume_of(world, broker_id) for broker_id in takers]
    known = [volume for volume in volumes if volume is not None]
    if len(known) < len(volumes):
        return None
    return sum(volume.room_bytes(max_percent) for volume in known)


def _is_alive(broker_id: BrokerId, brokers: BrokerStates) -> bool:
    broker = brokers.by_id.get(broker_id)
    return broker is not None and broker.process_state is ProcessState.ALIVE
