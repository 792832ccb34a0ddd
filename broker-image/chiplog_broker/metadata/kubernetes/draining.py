"""What a broker that stops waits for: that nothing which can do without it still counts on it."""

from chiplog_broker.metadata.view import PartitionView


def can_be_left(broker_id: int, partition: PartitionView, min_isr: int) -> bool:
    """Whether others could lead for this broker, or be in sync without it, and do not yet.

    A leader that is gone serves nobody, and a member of the ISR that is gone holds back the high
    watermark. At the ISR's floor nobody leaves, so that there is nothing to wait for.
    """
    others = [replica for replica in partition.isr if replica != broker_id]
    if partition.leader_id == broker_id:
        return bool(others)
    floor = max(min(min_isr, len(partition.isr_refs)), 1)
    return broker_id in partition.isr and len(others) >= floor
