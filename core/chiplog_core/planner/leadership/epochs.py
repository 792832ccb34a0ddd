"""The next leader epoch of a partition, even if dead replicas may know a later one (R2, R6).

A map may be older than what brokers have applied, as after a restore of etcd. Live brokers report
that (`regression`). But a broker that died before it compared its disk with the present maps is
*unchecked*: it may have led or followed in epochs that the map does not know. If the epoch were
only raised by one, it could be used a second time, and two logs that differ would look equal. So
the epoch is raised by far more, and what such a broker wrote in its own epoch is found to diverge.

If so many replicas are unchecked that they could have been a whole ISR, they may hold all
acknowledged records: then no leader is elected before enough of them have reported. Decision 17 has
the interleavings.
"""

from chiplog_core.ids import BrokerId, LeaderEpoch
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed.broker_states import BrokerStates

LEAP = 1_000
"""By how much `next_epoch` raises the leader epoch if later leaderships may exist that the map does
not show: more than a restored backup can lack, and only a two-millionth of all epochs."""


def next_epoch(
    state: PartitionState, brokers: BrokerStates, *, is_waived: bool = False
) -> LeaderEpoch:
    """The leader epoch of the partition's next leader: the next number, or `LEAP` numbers higher if
    a replica that has not reported may know of later leaderships. A leap puts the new epoch above
    theirs.

    `is_waived`: a person or a time limit decided to continue without a replica that had not
    reported.
    """
    is_unsure = is_waived or bool(unchecked_replicas(state, brokers))
    return LeaderEpoch(state.leader_epoch + (LEAP if is_unsure else 1))


def could_unchecked_be_isr(state: PartitionState, min_isr: int, brokers: BrokerStates) -> bool:
    """Whether the replicas that have not compared their disks with the present maps could have been
    an ISR by themselves. They may then have records, acknowledged with acks=all, that no other
    replica has.

    With a min ISR of 1 every single replica could. The check is not made then, because every
    failover while an operator starts would have to wait, and acks=all gives little safety anyway.
    """
    # Called for every partition in every plan: the usual case, without unchecked brokers, is fast.
    if min_isr <= 1 or not brokers.unchecked:
        return False
    return len(unchecked_replicas(state, brokers)) >= min_isr


def may_need_consent(state: PartitionState, min_isr: int, brokers: BrokerStates) -> bool:
    """Whether no leader will be elected unless a replica returns or a person accepts the loss."""
    return state.leader is None or could_unchecked_be_isr(state, min_isr, brokers)


def unchecked_replicas(state: PartitionState, brokers: BrokerStates) -> frozenset[BrokerId]:
    """The replicas that have not compared their disks with the present maps."""
    return brokers.unchecked.intersection(state.replicas)
