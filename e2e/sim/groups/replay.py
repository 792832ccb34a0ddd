"""Compares the state in a coordinator's memory with the state that its log gives when replayed."""

from collections.abc import Iterator

from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.coordinator.shard import Shard
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.storage.errors import StorageError
from chiplog_wire.records.errors import RecordsError
from e2e.sim.kubelet import Node
from e2e.sim.world import World

SLICE_BYTES = 1 << 20


def coordinator_on(node: Node) -> Coordinator | None:
    """The coordinator of this node's broker; None if no broker runs or it is still starting."""
    broker = node.broker
    return None if broker is None else getattr(broker, "_coordinator", None)


def shards_on(node: Node) -> Iterator[Shard]:
    """The shards (partitions of `__consumer_offsets`) for which this node is the coordinator."""
    coordinator = coordinator_on(node)
    if coordinator is not None and node.process is not None and not node.process.is_paused:
        yield from (one for one in coordinator if one.is_serving and one.is_current)


def serving(world: World, host: str, group: str) -> object | None:
    """The shard of the broker at this host that coordinates a group; None if it does not, or has
    not loaded it."""
    node = next((one for one in world.nodes.values() if one.host == host), None)
    coordinator = coordinator_on(node) if node is not None else None
    try:
        return coordinator.shard(group) if coordinator is not None else None
    except GroupError:
        return None


def differences(world: World) -> Iterator[str]:
    """Texts about each difference between a coordinator's memory and its log, of all brokers."""
    for node in world.nodes.values():
        for shard in shards_on(node):
            replayed = replay(shard.partition)
            if replayed is not None:
                where = f"{shard.partition.name} at broker {node.broker_id}"
                yield from (f"{where}: {what}" for what in shard_differences(shard, replayed))


def replay(partition: Partition) -> GroupsState | None:
    """The state of groups after reading a whole log; None if it cannot be read."""
    log = partition.log
    state = GroupsState(log.log_start_offset)
    offset, end_offset = log.log_start_offset, log.end_offset
    try:
        while offset < end_offset:
            found = log.read(offset, SLICE_BYTES, end_offset, min_one=True)
            if found.size_bytes:
                state.apply(found.read())
            elif found.next_offset <= offset:
                break
            offset = found.next_offset
    except (RecordsError, StorageError, OSError):
        return None
    return state


def shard_differences(shard: Shard, replayed: GroupsState) -> Iterator[str]:
    """Differences between a coordinator's state in memory and the state replayed from its log."""
    live = shard._log.state  # noqa: SLF001 - what the log's own fold came to
    for group in sorted(live.group_ids() | replayed.group_ids()):
        if live.group(group) != replayed.group(group):
            yield f"{group} is {live.group(group)}, in the log {replayed.group(group)}"
        if dict(live.offsets(group)) != dict(replayed.offsets(group)):
            committed = dict(live.offsets(group))
            yield f"{group} committed {committed}, in the log {dict(replayed.offsets(group))}"
        if dict(live.resets(group)) != dict(replayed.resets(group)):
            yield f"{group} has other offset resets in memory than in the log"
    for group in live.retained() | replayed.retained():
        if live.retention_ms(group) != replayed.retention_ms(group):
            yield f"{group} has another retention in memory than in the log"
    for group, membership in shard._members.items():  # noqa: SLF001
        stored = replayed.group(group)
        known = membership.to_stored()
        if stored is None and not known.generation and not known.members:
            continue  # the group has never had a generation, so nothing is stored
        if known != stored:
            yield f"{group} has {known}, in the log {stored}"
