"""Which replicas are wrong if replicas differ."""

from collections import Counter
from collections.abc import Hashable, Mapping


def disagreeing_replicas(value_by_replica: Mapping[int, Hashable], leader: int) -> frozenset[int]:
    """The replicas that differ from the majority; without a majority, from the leader.

    If the leader has no value, the replica with the lowest id is the reference.
    """
    if len(set(value_by_replica.values())) < 2:
        return frozenset()
    (most_common, count), (_, next_count) = Counter(value_by_replica.values()).most_common(2)
    if count > next_count:
        reference = most_common
    else:
        reference = value_by_replica[
            leader if leader in value_by_replica else min(value_by_replica)
        ]
    return frozenset(broker for broker, value in value_by_replica.items() if value != reference)
