"""How often a leader was elected that may lack acknowledged records, as PartitionMaps say it.

A map holds the leader epoch of the last such election of each partition. What is there when it is
first seen is of the past.
"""

from collections.abc import Iterator

from chiplog_core.ids import PartitionIndex, TopicId
from chiplog_core.model.partition_map import PartitionMap


class UncleanElections:
    """Of one cluster, as far as this process saw them."""

    def __init__(self) -> None:
        self._maps: dict[str, PartitionMap] = {}

    def saw(self, after: PartitionMap) -> int:
        """Take over a map. Returns the number of new unclean elections in it."""
        topic = after.spec.topic_name
        before = self._maps.get(topic)
        self._maps[topic] = after
        if before is None or before is after:
            return 0
        known = dict(_epochs(before))
        return sum(epoch > known.get(place, epoch) for place, epoch in _epochs(after))

    def keep(self, topics: set[str]) -> None:
        """Forget all topics but these."""
        for gone in self._maps.keys() - topics:
            del self._maps[gone]


def _epochs(partition_map: PartitionMap) -> Iterator[tuple[tuple[TopicId, PartitionIndex], int]]:
    """The epoch of the last unclean election of each partition; -1 if there was none."""
    for generation in partition_map.spec.generations:
        for state in generation.partitions:
            epoch = -1 if state.unclean_epoch is None else state.unclean_epoch
            yield (generation.topic_id, state.partition), epoch
