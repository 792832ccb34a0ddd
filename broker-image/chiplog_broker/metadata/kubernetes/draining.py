"""When a broker that stops may end: nothing depends on it that other brokers could take over."""

from chiplog_broker.metadata.view import PartitionView


def can_be_handed_over(broker_id: int, partition: PartitionView, min_isr: int) -> bool:
    """Whether the operator can still release this broker from a partition before the broker ends:
    let another replica lead, or remove this one from the ISR.

    It is worth waiting for: a leader that has ended serves nobody, and an in-sync replica that has
    ended holds back the high watermark. A replica cannot be removed from an ISR of the minimum
    size, so there is nothing to wait for.
    """
    others = [replica for replica in partition.isr if replica != broker_id]
    if partition.leader_id == broker_id:
        return bool(others)
    # An ISR that has `min_isr` replicas or fewer, dead ones included, may not shrink.
    smallest_isr = max(min(min_isr, len(partition.isr_refs)), 1)
    return broker_id in partition.isr and len(others) >= smallest_isr
