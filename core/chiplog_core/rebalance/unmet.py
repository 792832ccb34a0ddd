"""What a proposal cannot meet: brokers that are above a limit after it, and brokers that are to be
removed but keep replicas."""

from collections.abc import Iterable, Iterator, Sequence

from chiplog_core.ids import BrokerId
from chiplog_core.observed.places import Domain, Place, closed_domains, domains_of
from chiplog_core.quantities import mebibytes
from chiplog_core.rebalance.measured import Broker, Measurements
from chiplog_core.rebalance.room import Orders, Room
from chiplog_core.rebalance.settings import Goal, Mode, Settings

MAX_NAMED = 5
"""So many brokers are named in the text about unmet goals."""


def unmet_text(
    room: Room,
    brokers: Sequence[Broker],
    orders: Orders,
    measurements: Measurements,
    settings: Settings,
) -> str:
    """Which brokers are above a limit after all moves and by how much, and which replicas have to
    stay on a broker that is to be removed; empty if nothing is wrong. `room` and `orders` are
    those after all moves."""
    found = [*_above(room, brokers), *_stuck(room, brokers, orders, measurements, settings)]
    if not found:
        return ""
    more = f"; {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    remedy = "add brokers, delete data, or raise spec.brokerCapacity of the BrokerCluster"
    return f"{'; '.join(found[:MAX_NAMED])}{more}: {remedy}"


def _above(room: Room, brokers: Iterable[Broker]) -> Iterator[str]:
    """Each broker that is above a limit."""
    for broker_id in sorted(broker.broker_id for broker in brokers):
        capacity = room.capacity(broker_id)
        if excess := room.excess_replicas(broker_id):
            yield (
                f"{Goal.REPLICA_CAPACITY} is not met: broker {broker_id} would hold "
                f"{room.replicas[broker_id]} replicas, {excess} more than {capacity.max_replicas}"
            )
        if excess := room.excess_bytes(broker_id):
            yield (
                f"{Goal.DISK_CAPACITY} is not met: broker {broker_id} would hold "
                f"{mebibytes(room.bytes[broker_id])} MB, {mebibytes(excess)} MB more than "
                f"{capacity.max_disk_percent} % of its volume"
            )


def _stuck(
    room: Room,
    brokers: Sequence[Broker],
    orders: Orders,
    measurements: Measurements,
    settings: Settings,
) -> Iterator[str]:
    """Each broker that is to be removed, but keeps replicas that no broker may take."""
    if settings.mode is not Mode.REMOVE_BROKERS:
        return
    takers = _Takers(room, brokers, settings)
    for broker_id in sorted(settings.brokers):
        sizes: dict[str, list[int]] = {}
        """Those of the replicas that stay, by why they do."""
        for name, replicas in orders.items():
            if broker_id in replicas and name in measurements and settings.may_move(name):
                size = measurements[name].bytes
                if why := takers.why_none(replicas, broker_id, size):
                    sizes.setdefault(why, []).append(size)
        if sizes:
            kept = [
                f"{len(found)} replica{'s' if len(found) > 1 else ''} "
                f"({mebibytes(sum(found))} MB), and {why}"
                for why, found in sorted(sizes.items())
            ]
            yield f"broker {broker_id} cannot be emptied: it keeps {', '.join(kept)}"


class _Takers:
    """The brokers that may take replicas, by their racks, those with the most room first."""

    def __init__(self, room: Room, brokers: Sequence[Broker], settings: Settings) -> None:
        self._room = room
        # Without nodes: a broker that cannot be emptied otherwise gives replicas to any.
        self._racks = domains_of({one.broker_id: Place(one.rack) for one in brokers})
        self._by_rack: dict[tuple[Domain, ...], list[BrokerId]] = {}
        for one in sorted(settings.usable(brokers), key=lambda it: (-room.largest[it], it)):
            self._by_rack.setdefault(self._racks[one], []).append(one)

    def why_none(self, replicas: Sequence[BrokerId], leaving: BrokerId, size: int) -> str:
        """Why no broker may take a partition's replica of this size; empty if one may."""
        closed = closed_domains(self._racks, replicas, leaving)
        emptiest = [
            next((one for one in found if one not in replicas), None)
            for racks, found in self._by_rack.items()
            if closed.isdisjoint(racks)
        ]
        able = [one for one in emptiest if one is not None]
        if not able:
            return "all others hold a replica of the partition, or are in the rack of one"
        best = max(able, key=self._room.largest.__getitem__)
        largest = self._room.largest[best]
        if size <= largest:
            return ""
        is_best_of_all = all(
            self._room.largest[found[0]] <= largest for found in self._by_rack.values()
        )
        which = "" if is_best_of_all else " that may take them"
        if self._room.holds_most_replicas(best):
            return f"all others{which} hold maxReplicas"
        room_mb = mebibytes(max(0, int(largest)))
        return f"no other broker{which} has room for a replica of more than {room_mb} MB"
