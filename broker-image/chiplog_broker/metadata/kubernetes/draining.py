"""When a broker that stops may leave: nothing depends on it that other brokers could take over."""

from chiplog_broker.metadata.view import PartitionView


def can_be_left(broker_id: int, partition: PartitionView, min_isr: int) -> bool:
    """Whether others could still take over from this broker: lead, or be in sync without it.

    A leader that is gone serves nobody, and an in-sync replica that is gone holds back the high
    watermark. If the ISR is at its minimum size, nobody can leave it, so there is nothing to wait
    for.
    """
    others = [replica for replica in partition.isr if replica != broker_id]
    if partition.leader_id == broker_id:
        return bool(others)
    floor = max(min(min_isr, len(partition.isr_refs)), 1)
    return broker_id in partition.isr and len(others) >= floor
