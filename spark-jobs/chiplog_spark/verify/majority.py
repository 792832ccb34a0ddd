"""Who is wrong where replicas differ."""

from collections import Counter
from collections.abc import Hashable, Mapping


def odd_ones(said: Mapping[int, Hashable], leader: int) -> frozenset[int]:
    """The replicas that say something else than most; where nobody is most, than the leader.

    Without a word of the leader, than the replica with the lowest id: one has to be the measure.
    """
    if len(set(said.values())) < 2:
        return frozenset()
    (first, most), (_, second) = Counter(said.values()).most_common(2)
    measure = first if most > second else said[leader if leader in said else min(said)]
    return frozenset(broker for broker, one in said.items() if one != measure)
