"""Which partitions have two replicas in one failure domain although another one has none."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from chiplog_core.ids import BrokerId
from chiplog_core.observed.places import Domain, Level, Place


@dataclass(frozen=True, slots=True)
class SharedDomains:
    """The racks and nodes of brokers, as far as replicas can share one without need."""

    _of_broker: Mapping[Level, Mapping[BrokerId, Domain]]
    _taking: Mapping[Level, frozenset[Domain]]
    """Those with a broker that may take replicas."""

    @classmethod
    def of(cls, places: Mapping[BrokerId, Place], taking: Collection[BrokerId]) -> "SharedDomains":
        """Those of brokers at these places, of which those in `taking` may take replicas. A broker
        whose rack or node is not known shares none."""
        of_broker, of_taking = {}, {}
        for level in Level:
            known = {
                one: Domain(level, name)
                for one, place in places.items()
                if (name := place.rack if level is Level.RACK else place.node) is not None
            }
            free = frozenset(known[one] for one in taking if one in known)
            if len(set(known.values())) < len(known) and len(free) > 1:
                of_broker[level], of_taking[level] = known, free
        return cls(of_broker, of_taking)

    def needless(self, replicas: Sequence[BrokerId]) -> Iterable[Domain]:
        """The racks and nodes with several replicas of a partition, if another one that may take
        replicas has none of it."""
        found: list[Domain] = []
        for level, of_broker in self._of_broker.items():
            used = [of_broker[one] for one in replicas if one in of_broker]
            distinct = set(used)
            if len(distinct) < len(used) and self._taking[level] - distinct:
                found += (one for one in distinct if used.count(one) > 1)
        return found
