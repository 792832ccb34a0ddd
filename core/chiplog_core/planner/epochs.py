"""Which leader epoch comes next, where not everybody who may know a later one has spoken (R2, R6).

A map may be older than what brokers have applied, as after a restored etcd. Live brokers report it
(`regression`); a broker that died before it could compare its disk with the maps as they are now
may have led, or followed, under epochs that the map does not know. Counted on by one, such an epoch
would be given away a second time, and two logs that differ would look the same. So the next epoch
is far above all that was lost, and what that broker wrote under its epoch is a tail that differs.

Where so many are silent that they could have been a whole ISR, all that was acknowledged may be
with them: then nobody is elected before enough of them have spoken. Decision 17 has the
interleavings.
"""

from chiplog_core.ids import BrokerId, LeaderEpoch
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed.broker_states import BrokerStates

LEAP = 1_000
"""More leaderships than anybody loses with a backup, and a two-millionth of all epochs there
are."""


def next_epoch(
    state: PartitionState, brokers: BrokerStates, *, is_waived: bool = False
) -> LeaderEpoch:
    """The leader epoch of the partition's next leader.

    `is_waived`: a person or a time limit decided to continue without a replica that had not
    reported.
    """
    is_unsure = is_waived or bool(silent(state, brokers))
    return LeaderEpoch(state.leader_epoch + (LEAP if is_unsure else 1))


def are_outnumbered(state: PartitionState, min_isr: int, brokers: BrokerStates) -> bool:
    """Whether replicas that have not reported could have been in sync without any that has.

    With a min ISR of 1 every single replica could. The check is not made then, because every
    failover during which an operator starts would have to wait; acks=all gives little safety there
    anyway.
    """
    # Called for every partition in every plan, and nearly always there is no such replica.
    if min_isr <= 1 or not brokers.unchecked:
        return False
    return len(silent(state, brokers)) >= min_isr


def may_need_consent(state: PartitionState, min_isr: int, brokers: BrokerStates) -> bool:
    """Whether no leader is elected unless a replica returns, or a person accepts the loss."""
    return state.leader is None or are_outnumbered(state, min_isr, brokers)


def silent(state: PartitionState, brokers: BrokerStates) -> frozenset[BrokerId]:
    """The replicas that have not compared their disks with the present maps."""
    return brokers.unchecked.intersection(state.replicas)
