"""Brokers' logs: each leader epoch has one leader, and in-sync replicas are equal."""

from collections.abc import Iterator

from chiplog_core.topic_name import INTERNAL_TOPICS
from e2e.sim.checkers.anomaly import Anomaly
from e2e.sim.history import Append, Batch, History, Replica


def epoch_fork(history: History) -> Iterator[Anomaly]:
    """Two processes appended as leaders under one leader epoch of a partition.

    The process that first writes a batch is the leader: followers copy it later. A restarted
    broker is another process. After compaction a follower may copy a changed batch, which looks
    new; so in a compacted partition only batches beyond all earlier ones of the epoch count.
    """
    first: dict[tuple[str, int, int, int], Append] = {}
    leaders: dict[tuple[str, int], Append] = {}
    ends: dict[tuple[str, int], int] = {}
    for one in history.appends:
        key = (one.partition, one.leader_epoch, one.base_offset, one.digest)
        if first.setdefault(key, one) is not one:
            continue
        if history.has_compacted(one.partition):
            end = ends.get((one.partition, one.leader_epoch), -1)
            if one.last_offset <= end:
                continue
            ends[one.partition, one.leader_epoch] = one.last_offset
        leader = leaders.setdefault((one.partition, one.leader_epoch), one)
        if leader.process != one.process:
            what = (
                f"epoch {one.leader_epoch}: {leader.process} wrote at {leader.base_offset}, "
                f"{one.process} at {one.base_offset}, t={one.at_s:.3f}"
            )
            yield Anomaly("epoch-fork", one.partition, what)


def forked_files(history: History) -> Iterator[Anomaly]:
    """Two brokers' disks hold different batches of one leader epoch at one offset."""
    seen: dict[tuple[str, int, int], tuple[int, Batch]] = {}
    for replica in history.replicas:
        if replica.is_damaged:
            continue
        for batch in replica.batches:
            key = (replica.partition, batch.leader_epoch, batch.base_offset)
            broker_id, other = seen.setdefault(key, (replica.broker_id, batch))
            if _differ(history, replica.partition, other, batch):
                what = (
                    f"epoch {batch.leader_epoch}, offset {batch.base_offset}: the disks of "
                    f"{broker_id} and {replica.broker_id} differ"
                )
                yield Anomaly("epoch-fork", replica.partition, what)


def _differ(history: History, partition: str, one: Batch, other: Batch) -> bool:
    """Whether two batches at one offset differ.

    In compacted topics only records that both still have are compared, because each broker
    compacts its replicas at another time.
    """
    is_compacted = partition.startswith(INTERNAL_TOPICS) or history.has_compacted(partition)
    if one.data == other.data or not is_compacted:
        return one.data != other.data
    mine, others = dict(one.values), dict(other.values)
    return any(mine[offset] != others[offset] for offset in mine.keys() & others.keys())


def replica_divergence(history: History) -> Iterator[Anomaly]:
    """In-sync replicas are not equal, byte for byte, below the high watermark.

    Batches below one of their log start offsets do not count: no client reads them.
    """
    models: dict[str, Replica] = {}
    starts = {(one.partition, one.broker_id): one.offset for one in history.log_starts}
    for replica in history.replicas:
        end = history.ends.get(replica.partition)
        if end is None or not replica.is_in_sync:
            continue
        if replica.end_offset < end:
            what = f"{replica.broker_id} ends at {replica.end_offset}, readers at {end}"
            yield Anomaly("replica-divergence", replica.partition, what)
        model = models.setdefault(replica.partition, replica)
        if history.has_compacted(replica.partition):
            continue  # `forked_files` compares the records that compaction left
        begin = max(
            max(one.log_start_offset, starts.get((one.partition, one.broker_id), 0))
            for one in (model, replica)
        )
        if model is not replica and (where := _differs(model, replica, begin, end)):
            what = f"{model.broker_id} and {replica.broker_id}: {where}"
            yield Anomaly("replica-divergence", replica.partition, what)


def _differs(one: Replica, other: Replica, begin: int, end: int) -> str:
    """Text about the first difference between offsets `begin` and `end`; empty if there is none."""
    mine, others = _by_offset(one, begin, end), _by_offset(other, begin, end)
    for offset in sorted(mine.keys() | others.keys()):
        here, there = mine.get(offset), others.get(offset)
        if here == there:
            continue
        if here is None or there is None:
            return f"one of them has no batch at offset {offset}"
        return f"batches differ at offset {offset}"
    return ""


def _by_offset(replica: Replica, begin: int, end: int) -> dict[int, Batch]:
    """Base offset -> batch, for all batches that lie completely between `begin` and `end`."""
    return {
        batch.base_offset: batch
        for batch in replica.batches
        if batch.base_offset >= begin and batch.last_offset < end
    }
