"""How often a leader was elected that may lack acknowledged records, as PartitionMaps say it.

A map holds the leader epoch of the last such election of each partition. What is there when it is
first seen is of the past.
"""

from collections.abc import Iterator

from chiplog_core.ids import PartitionIndex, TopicId
from chiplog_core.model.partition_map import PartitionMap


class UncleanElections:
    """Counts the unclean elections of one cluster since this process first saw its maps."""

    def __init__(self) -> None:
        self._maps: dict[str, PartitionMap] = {}

    def count_new(self, after: PartitionMap) -> int:
        """Compare a map with the last one of the same topic. Returns the number of partitions with
        a new unclean election. It is 0 for the first map and for new partitions."""
        topic = after.spec.topic_name
        before = self._maps.get(topic)
        self._maps[topic] = after
        if before is None or before is after:
            return 0
        old_epochs = dict(_epochs(before))
        return sum(epoch > old_epochs.get(partition, epoch) for partition, epoch in _epochs(after))

    def keep(self, topics: set[str]) -> None:
        """Forget all topics but these."""
        for gone in self._maps.keys() - topics:
            del self._maps[gone]


def _epochs(partition_map: PartitionMap) -> Iterator[tuple[tuple[TopicId, PartitionIndex], int]]:
    """Each partition (by topic id and index) with the leader epoch of its last unclean election; -1
    if there was none."""
    for generation in partition_map.spec.generations:
        for state in generation.partitions:
            epoch = -1 if state.unclean_epoch is None else state.unclean_epoch
            yield (generation.topic_id, state.partition), epoch
