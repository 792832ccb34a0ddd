"""The status of this broker, computed from all its parts."""

from dataclasses import dataclass
from datetime import UTC, datetime

from chiplog_broker.metadata.kubernetes.maps import Maps
from chiplog_broker.metadata.kubernetes.process import Process
from chiplog_broker.metadata.kubernetes.reports import (
    confirmed_tombstones,
    removed_replicas,
    replica_reports,
)
from chiplog_broker.metadata.kubernetes.status_limits import MAX_MESSAGE, ListLimits, limits_for
from chiplog_broker.metadata.port import Damaged, Halted, Node
from chiplog_broker.ports.disk import DiskUsage
from chiplog_core.ids import (
    NEVER_ADMITTED,
    LeaderEpoch,
    Offset,
    PartitionIndex,
    Session,
    StorageUuid,
    TopicId,
)
from chiplog_core.limits import MAX_DAMAGED_PARTITIONS
from chiplog_core.model.admin import AdminRequest
from chiplog_core.model.broker_status import (
    BrokerStatus,
    DamagedPartition,
    DamageKind,
    DataDirectory,
    HaltedReplica,
    PastDamage,
    RefetchAnswer,
    SettledPartition,
    Tail,
)
from chiplog_core.model.listener_certificate import ListenerCertificate

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Attested:
    """What this start has found out about the data directory."""

    storage_uuid: StorageUuid
    tail: Tail
    intact_since: Session
    went_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusParts:
    """Everything that the status is computed from."""

    process: Process
    session: Session
    rack: str | None
    is_draining: bool
    is_online: bool
    attested: Attested
    usage: DiskUsage | None
    log_bytes: int | None
    """Size of all replicas; None if it was not counted yet."""
    node: Node
    maps: Maps
    requests: tuple[AdminRequest, ...]
    refetches: tuple[RefetchAnswer, ...]
    maps_checked: str
    """The name of the operator's last check of all maps that was completed; empty before."""
    certificates: tuple[ListenerCertificate, ...] = ()


def broker_status(parts: StatusParts) -> BrokerStatus:
    """The whole status of this broker, with lists that are shortened to what etcd can store."""
    maps_to_report, broker_id = parts.maps.maps_to_report(), parts.process.broker_id
    log_end = parts.node.replicas.log_end
    unrequested, requested = replica_reports(
        maps_to_report, parts.maps.regressed, broker_id, log_end
    )
    damaged, halted = _damaged_here(parts), parts.node.replicas.halted()
    limits = limits_for(len(unrequested) + len(requested), len(damaged) + len(halted))
    all_unrequested_fit = len(unrequested) <= limits.reports
    return BrokerStatus(
        incarnation=parts.process.incarnation,
        session=None if parts.session == NEVER_ADMITTED else parts.session,
        version=parts.process.version or None,
        rack=parts.rack,
        draining=parts.is_draining,
        directories=(_directory(parts, damaged, limits),),
        proposals=parts.node.replicas.proposals.oldest(limits.proposals),
        requests=parts.requests,
        refetches=parts.refetches,
        # Requested reports that do not fit follow when others are answered.
        replica_reports=(*unrequested, *requested)[: limits.reports],
        # The answer also states that the reports on maps that have gone back are complete.
        maps_checked=(parts.maps_checked or None) if all_unrequested_fit else None,
        halted_replicas=_halted(halted, limits),
        settled_partitions=_settled(parts)[: limits.moves],
        removed_replicas=tuple(
            removed_replicas(maps_to_report, parts.maps.removed, broker_id)[: limits.moves]
        ),
        flushed_topics=parts.maps.flushed_topics(),
        confirmed_tombstones=confirmed_tombstones(maps_to_report, parts.maps.deleted, broker_id),
        listener_certificates=parts.certificates,
    )


def _settled(parts: StatusParts) -> tuple[SettledPartition, ...]:
    """The partitions led here whose leftovers are not needed any more."""
    return tuple(
        SettledPartition(
            topic_id=TopicId(partition.topic_id.bytes),
            partition=PartitionIndex(partition.partition),
            session=Session(partition.session),
            leader_epoch=LeaderEpoch(partition.leader_epoch),
        )
        for partition in parts.node.replicas.settled()
    )


def _directory(
    parts: StatusParts, damaged: list[tuple[TopicId, Damaged]], limits: ListLimits
) -> DataDirectory:
    """The status of the data directory. `damaged` are pairs of a topic id and a replica; `limits`
    shortens the texts about each of them."""
    attested, usage = parts.attested, parts.usage
    return DataDirectory(
        storage_uuid=attested.storage_uuid,
        tail=attested.tail,
        intact_since=attested.intact_since,
        went_back=attested.went_back,
        online=parts.is_online,
        total_bytes=_rounded_to_mib(usage.total_bytes) if usage else None,
        usable_bytes=_rounded_to_mib(usage.free_bytes) if usage else None,
        log_bytes=None if parts.log_bytes is None else _rounded_to_mib(parts.log_bytes),
        full=parts.node.replicas.is_short_of_space,
        damaged=tuple(
            _damage(topic_id, replica, limits)
            for topic_id, replica in damaged[:MAX_DAMAGED_PARTITIONS]
        ),
        damage_history=_history(parts),
    )


def _damaged_here(parts: StatusParts) -> list[tuple[TopicId, Damaged]]:
    """Damaged replicas of existing topics, each with its topic id; the data of other topics is not
    needed."""
    found = []
    for replica in parts.node.replicas.damaged():
        spec = parts.maps.applied.get(replica.topic)
        if spec is not None and spec.current is not None:
            found.append((spec.current, replica))
    return found


def _history(parts: StatusParts) -> tuple[PastDamage, ...]:
    """All damage that was found here, also if it is repaired, of replicas whose topic id is
    known."""
    return tuple(
        PastDamage(
            topic=found.partition.topic,
            topic_id=TopicId(found.topic_id.bytes),
            partition=PartitionIndex(found.partition.partition),
            kind=DamageKind.TRUNCATED if found.is_cut else DamageKind.CHANGED,
            file=(found.file or found.partition.directory)[: MAX_MESSAGE // 2],
            offset=None if found.offset is None else Offset(found.offset),
            message=found.why[:MAX_MESSAGE],
            found_at=_moment(found.found_ms),
            whole_at=None if found.repaired_ms is None else _moment(found.repaired_ms),
        )
        for found in parts.node.replicas.damage_history
        if found.topic_id is not None
    )


def _halted(halted: list[Halted], limits: ListLimits) -> tuple[HaltedReplica, ...]:
    """The replicas that stopped following, because that would lose acknowledged records."""
    return tuple(
        HaltedReplica(
            topic_id=TopicId(replica.topic_id.bytes),
            partition=PartitionIndex(replica.partition),
            leader_epoch=LeaderEpoch(replica.leader_epoch),
            log_end_offset=Offset(replica.log_end_offset),
            high_watermark=Offset(replica.high_watermark),
            message=replica.why[: limits.message],
        )
        for replica in halted[:MAX_DAMAGED_PARTITIONS]
    )


def _damage(topic_id: TopicId, replica: Damaged, limits: ListLimits) -> DamagedPartition:
    """A damaged replica for the status. While other brokers may still count on records that its new
    copy lacks (`must_catch_up`), it is not reported as being fetched again."""
    return DamagedPartition(
        topic_id=topic_id,
        partition=PartitionIndex(replica.partition),
        file=(replica.file or f"{replica.topic}-{replica.partition}")[: limits.file],
        offset=None if replica.offset is None else Offset(replica.offset),
        message=replica.why[: limits.message],
        refetching=replica.is_refetching and not replica.must_catch_up,
    )


def _moment(time_ms: int) -> datetime:
    """The time in whole seconds, as in Kubernetes: the written status must be equal to the computed
    one."""
    return datetime.fromtimestamp(time_ms // 1_000, UTC)


def _rounded_to_mib(size_bytes: int) -> int:
    """The size in bytes, rounded down to a whole MiB: otherwise each appended record would change
    the status."""
    return size_bytes // MIB * MIB
