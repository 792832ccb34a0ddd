"""Which replicas are wrong if replicas differ."""

from collections import Counter
from collections.abc import Hashable, Mapping


def disagreeing_replicas(said: Mapping[int, Hashable], leader: int) -> frozenset[int]:
    """The replicas that differ from the majority; without a majority, from the leader.

    If the leader has no value, the replica with the lowest id is the reference.
    """
    if len(set(said.values())) < 2:
        return frozenset()
    (first, most), (_, second) = Counter(said.values()).most_common(2)
    measure = first if most > second else said[leader if leader in said else min(said)]
    return frozenset(broker for broker, value in said.items() if value != measure)
