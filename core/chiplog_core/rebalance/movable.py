"""The replicas that may move from each broker, arranged so that the best one for a target is found
without looking at all of them: a cluster may have hundreds of brokers with hundreds of replicas
each, and a thousand moves are chosen one after the other."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from chiplog_core.ids import BrokerId
from chiplog_core.observed.places import Domain, Domains, closed_domains
from chiplog_core.rebalance.measured import PartitionName

Entry = tuple[int, PartitionName]
"""A partition's size in bytes, and its name."""

Group = tuple[bool, frozenset[Domain]]
"""What replicas on one broker have in common: whether they are their partitions' preferred leaders,
and the racks and nodes that they may not move to."""


class MovableReplicas:
    """The replicas of each broker, in groups of the same targets, sorted by size and name."""

    def __init__(
        self,
        domains: Domains,
        replicas: Mapping[PartitionName, Sequence[BrokerId]],
        sizes: Mapping[PartitionName, int],
    ) -> None:
        """`sizes` has the partitions that may move."""
        self._domains = domains
        self._replicas = {name: replicas[name] for name in sizes}
        self._sizes = sizes
        self._groups: dict[BrokerId, dict[Group, list[Entry]]] = {}
        for name in self._replicas:
            for broker_id, group in self._places(name):
                groups = self._groups.setdefault(broker_id, {})
                groups.setdefault(group, []).append((sizes[name], name))
        for groups in self._groups.values():
            for entries in groups.values():
                entries.sort()

    def set_replicas(self, name: PartitionName, replicas: Sequence[BrokerId]) -> None:
        """Record the new replicas of a partition that may move."""
        entry = self._sizes[name], name
        for broker_id, group in self._places(name):
            entries = self._groups[broker_id][group]
            del entries[bisect_left(entries, entry)]
            if not entries:
                del self._groups[broker_id][group]
        self._replicas[name] = replicas
        for broker_id, group in self._places(name):
            insort(self._groups.setdefault(broker_id, {}).setdefault(group, []), entry)

    def smallest(self, broker_id: BrokerId, least: int) -> float:
        """The size of the smallest replica on the broker that has at least `least` bytes; infinite
        if there is none."""
        found = (
            entries[bisect_left(entries, (least,)) :][:1]
            for entries in self._groups.get(broker_id, {}).values()
        )
        return min((one[0][0] for one in found if one), default=inf)

    def closed_to_all(self, broker_id: BrokerId) -> frozenset[Domain]:
        """The racks and nodes that no replica on the broker may move to."""
        closed = [domains for _, domains in self._groups.get(broker_id, {})]
        return frozenset.intersection(*closed) if closed else frozenset()

    def best(
        self, above: BrokerId, below: BrokerId, *, twice: int, least: int, most: float
    ) -> PartitionName | None:
        """The replica on `above` that may move to `below` and whose size, which is from `least` to
        `most`, is nearest to half of `twice`; None if there is none. Followers come first, then the
        names decide."""
        return min(self._found(above, below, twice, least, most), default=(False, 0, None))[2]

    def smallest_to(self, leaving: BrokerId, to: BrokerId, most: float) -> PartitionName | None:
        """The smallest follower on `leaving`, or else the smallest preferred leader, that may move
        to `to` and has at most the size `most`; None if there is none."""
        return self.best(leaving, to, twice=0, least=0, most=most)

    def size(self, name: PartitionName) -> int:
        """The size of the partition in bytes."""
        return self._sizes[name]

    def _found(
        self, above: BrokerId, below: BrokerId, twice: int, least: int, most: float
    ) -> Iterator[tuple[bool, int, PartitionName]]:
        """Candidates for `best`, the best one among them; the lowest is the best."""
        domains = self._domains.get(below, ())
        for (is_preferred, closed), entries in self._groups.get(above, {}).items():
            if closed.isdisjoint(domains):
                for distance, name in self._nearest(entries, below, twice, least, most):
                    yield is_preferred, distance, name

    def _nearest(
        self, entries: Sequence[Entry], below: BrokerId, twice: int, least: int, most: float
    ) -> Iterator[tuple[int, PartitionName]]:
        """Of the replicas from half of `twice` on, and of those below it, the one whose size is
        nearest to it; each with twice the distance from there. Those below `least` and above `most`
        are left out."""
        middle = bisect_left(entries, (-(-twice // 2),))  # rounded up
        if most < inf:
            middle = min(middle, bisect_left(entries, (most + 1,)))
        for index in range(middle, len(entries)):
            size, name = entries[index]
            if size > most:
                break
            if below not in self._replicas[name]:
                yield 2 * size - twice, name
                break
        while middle > 0:
            # Of equally large ones the first name counts, so they are tried in that order.
            size = entries[middle - 1][0]
            if size < least:
                return
            start = bisect_left(entries, (size,))
            for _, name in entries[start:middle]:
                if below not in self._replicas[name]:
                    yield twice - 2 * size, name
                    return
            middle = start

    def _places(self, name: PartitionName) -> Iterator[tuple[BrokerId, Group]]:
        """Each broker with a replica of the partition, and the replica's group there."""
        replicas = self._replicas[name]
        for broker_id in replicas:
            closed = closed_domains(self._domains, replicas, broker_id)
            yield broker_id, (broker_id == replicas[0], closed)
