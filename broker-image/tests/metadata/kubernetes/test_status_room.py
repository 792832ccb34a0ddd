"""Whatever a broker has to say fits into its object."""

import json

import pytest

from chiplog_broker.metadata.kubernetes.status_limits import limits_for
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    TopicId,
)
from chiplog_core.limits import (
    MAX_ADMIN_REQUESTS_BYTES,
    MAX_DAMAGED_PARTITIONS,
    MAX_PROPOSALS,
    MAX_REPLICA_REPORTS,
)
from chiplog_core.manifest.writing import write
from chiplog_core.model.broker_status import (
    DamagedPartition,
    HaltedReplica,
    IsrProposal,
    RemovedReplica,
    ReplicaReport,
    SettledPartition,
)
from chiplog_core.model.reassignment import Leftover

ETCD_BYTES = 3 * 2**19
REST_BYTES = 64 * 1024
"""The object's metadata, its spec, and the lists that are short."""
TOPIC_ID = TopicId(bytes(range(16)))
PARTITION, EPOCH = PartitionIndex(1_999), 123_456
OFFSET = Offset(10**13)
REFS = tuple(ReplicaRef(BrokerId(100 + number), Session(1_000)) for number in range(3))
REPORT = ReplicaReport(
    topic_id=TOPIC_ID,
    partition=PARTITION,
    leader_epoch=LeaderEpoch(EPOCH),
    partition_epoch=PartitionEpoch(EPOCH),
    isr=REFS,
    replicas=tuple(ref.broker_id for ref in REFS),
    leftovers=(Leftover(broker=BrokerId(103), removable_since=PartitionEpoch(EPOCH)),),
    log_leader_epoch=LeaderEpoch(EPOCH),
    log_end_offset=OFFSET,
    high_watermark=OFFSET,
)
SETTLED = SettledPartition(
    topic_id=TOPIC_ID,
    partition=PARTITION,
    session=Session(1_000),
    leader_epoch=LeaderEpoch(EPOCH),
)
REMOVED = RemovedReplica(
    topic_id=TOPIC_ID, partition=PARTITION, partition_epoch=PartitionEpoch(EPOCH)
)
PROPOSAL = IsrProposal(
    session=Session(1_000),
    topic_id=TOPIC_ID,
    partition=PARTITION,
    leader_epoch=LeaderEpoch(EPOCH),
    base_partition_epoch=PartitionEpoch(EPOCH),
    isr=REFS,
)


def size_bytes(one: object) -> int:
    return len(json.dumps(write(one))) + len(", ")


@pytest.mark.parametrize("reports", [0, 100, 2_500, 5_000, 10_000])
@pytest.mark.parametrize("damaged", [0, 1, 100, 130, 250, 500, 1_000, 5_000])
@pytest.mark.parametrize("halted", [0, 100, 500, 5_000])
def test_all_of_it_together(reports: int, damaged: int, halted: int) -> None:
    limits = limits_for(reports, damaged + halted)
    damage = DamagedPartition(
        topic_id=TOPIC_ID,
        partition=PARTITION,
        file="f" * limits.file,
        offset=OFFSET,
        message="m" * limits.message,
    )
    halt = HaltedReplica(
        topic_id=TOPIC_ID,
        partition=PARTITION,
        leader_epoch=LeaderEpoch(EPOCH),
        log_end_offset=OFFSET,
        high_watermark=OFFSET,
        message="m" * limits.message,
    )
    total = (
        REST_BYTES
        + MAX_ADMIN_REQUESTS_BYTES
        + min(damaged, MAX_DAMAGED_PARTITIONS) * size_bytes(damage)
        + min(halted, MAX_DAMAGED_PARTITIONS) * size_bytes(halt)
        + min(reports, limits.reports) * size_bytes(REPORT)
        + limits.proposals * size_bytes(PROPOSAL)
        + limits.moves * (size_bytes(SETTLED) + size_bytes(REMOVED))
    )
    assert total <= ETCD_BYTES


def test_there_is_room_for_all_where_little_is_to_be_said() -> None:
    limits = limits_for(10, 1)
    assert min(limits.reports, limits.proposals) > 2_800
    assert (limits.message, limits.file) == (1_024, 512)


@pytest.mark.parametrize(("reports", "damaged"), [(10_000, 0), (0, 10_000), (10_000, 10_000)])
def test_each_list_continues(reports: int, damaged: int) -> None:
    """Entries that were reported and handled leave space for the rest."""
    limits = limits_for(reports, damaged)
    assert 500 <= limits.reports <= MAX_REPLICA_REPORTS
    assert 500 <= limits.proposals <= MAX_PROPOSALS
    assert min(limits.message, limits.file) >= 32
