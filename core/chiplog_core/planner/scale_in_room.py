"""Whether what is on brokers that are to be removed fits on the others (spec.brokerCapacity).

It is judged when a removal begins: while replicas are copied, they are on both brokers. What a
broker has not reported is not judged: a broker of an older version does not report its replicas'
size, and a broker that has just started does so after a minute.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.broker_capacity import BrokerCapacity
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.observed.world import World
from chiplog_core.problems import Problem

MIB = 2**20


class _Volume(NamedTuple):
    """What a broker reported."""

    total_bytes: int
    free_bytes: int
    log_bytes: int


def room_problems(
    world: World, cluster: BrokerCluster, surplus: Sequence[BrokerId], wanted: Sequence[BrokerId]
) -> Iterator[Problem]:
    """Why the brokers `surplus` cannot be removed: the `wanted` ones would hold more than they may.
    Nothing if all of them are being removed already."""
    removing = {
        broker_id
        for broker_id, broker in world.brokers.items()
        if broker.spec.intent is BrokerIntent.REMOVE
    }
    if removing.issuperset(surplus):
        return
    limits = cluster.spec.broker_capacity or BrokerCapacity()
    yield from _too_many_replicas(world, cluster, limits)
    yield from _too_many_bytes(world, cluster, limits, surplus, wanted)


def _too_many_replicas(
    world: World, cluster: BrokerCluster, limits: BrokerCapacity
) -> Iterator[Problem]:
    """The problem that there are more replicas than the brokers that stay may hold."""
    if limits.max_replicas is None:
        return
    count = cluster.spec.replicas
    replicas = sum(
        len(state.target)
        for partition_map in world.maps.values()
        for generation in partition_map.spec.generations
        for state in generation.partitions
    )
    most = count * limits.max_replicas
    if replicas > most:
        yield Problem(
            "spec.replicas",
            f"is {count}, but there are {replicas} replicas, {replicas - most} more than "
            f"{count} brokers of spec.brokerCapacity.maxReplicas {limits.max_replicas} may hold",
            "delete topics, raise that limit, or set it back",
        )


def _too_many_bytes(
    world: World,
    cluster: BrokerCluster,
    limits: BrokerCapacity,
    surplus: Sequence[BrokerId],
    wanted: Sequence[BrokerId],
) -> Iterator[Problem]:
    """The problem that the replicas on `surplus` are larger than the room of the `wanted`
    brokers."""
    leaving = [_volume(world, broker_id) for broker_id in surplus]
    staying = [_volume(world, broker_id) for broker_id in wanted]
    known_leaving = [one for one in leaving if one is not None]
    known_staying = [one for one in staying if one is not None]
    if len(known_leaving) < len(leaving) or len(known_staying) < len(staying):
        return
    needed = sum(one.log_bytes for one in known_leaving)
    percent = limits.max_disk_percent
    room = sum(
        max(0, min(one.total_bytes * percent // 100 - one.log_bytes, one.free_bytes))
        for one in known_staying
    )
    if needed > room:
        ids = ", ".join(map(str, surplus))
        yield Problem(
            "spec.replicas",
            f"is {cluster.spec.replicas}, but the replicas on brokers {ids} have "
            f"{_mib(needed)} MiB, and the volumes of the brokers that stay have room for "
            f"{room // MIB} MiB, {_mib(needed - room)} MiB too little, if replicas may use "
            f"{percent} % of each (spec.brokerCapacity.maxDiskPercent)",
            "enlarge the volumes (spec.storage.size), delete data, raise that limit, or set it "
            "back",
        )


def _volume(world: World, broker_id: BrokerId) -> _Volume | None:
    """What the broker reported of its volume; None if it is not known."""
    broker = world.brokers.get(broker_id)
    directory = None if broker is None else next(iter(broker.status.directories), None)
    if directory is None:
        return None
    total, free, logs = directory.total_bytes, directory.usable_bytes, directory.log_bytes
    if total is None or free is None or logs is None:
        return None
    return _Volume(total, free, logs)


def _mib(size_bytes: int) -> int:
    """In MiB, rounded up."""
    return -(-size_bytes // MIB)
