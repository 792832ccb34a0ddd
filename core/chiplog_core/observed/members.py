"""Which broker processes may lead and count now, and what each one's disks can vouch for.

Everything that decides about partitions asks here, once per plan. Three answers are possible for
a replica (broker id, session): it is *alive*, it is *gone* for certain, or nobody knows. Only
what is alive is elected, only what is gone is deposed, and a Broker object that is not there
proves nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from chiplog_core.ids import BrokerId, PartitionIndex, ReplicaRef, Session, TopicId
from chiplog_core.model.broker import Broker, BrokerIntent
from chiplog_core.model.broker_status import DamagedPartition
from chiplog_core.observed.world import World


class Life(Enum):
    """What is known of the process behind a replica (broker id, session)."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One broker, in its present session."""

    ref: ReplicaRef | None
    """None before its first admission."""
    life: Life
    may_lead: bool
    """Alive, with its data directories online."""
    is_leaving: bool
    """It leads only where nobody else can."""
    is_stopping: bool = False
    """It is about to end, so it leaves every ISR that can do without it."""
    is_in_session: bool
    """Its status repeats its session, so its disk remembers the session."""
    process_since: Session
    storage_since: Session
    intact_since: Session
    rack: str | None
    is_retired: bool

    def continues(self, ref: ReplicaRef) -> bool:
        """Whether it is the very process that was named so: what that one held, this one holds."""
        return 0 < self.process_since <= ref.session

    def vouches_for(self, ref: ReplicaRef) -> bool:
        """R3: whether its disk says that it holds all that an older session acknowledged."""
        return 0 < self.intact_since <= ref.session

    def has_disk_of(self, ref: ReplicaRef) -> bool:
        return 0 < self.storage_since <= ref.session


@dataclass(frozen=True, slots=True)
class Members:
    """All brokers of a cluster."""

    of: dict[BrokerId, Member]
    leaders: frozenset[ReplicaRef]
    """Who may lead without any reason to move the leadership: the quick answer for most."""
    damaged: frozenset[tuple[BrokerId, TopicId, PartitionIndex]]
    refetching: frozenset[tuple[BrokerId, TopicId, PartitionIndex]] = frozenset()
    """Those of the damaged of which a copy was begun anew, which nobody takes for what was found:
    all that its leader believes it to have is from that leader."""
    steady: frozenset[ReplicaRef] = frozenset()
    """Who may stay in any ISR without a look: alive, with a disk that works, not about to end."""
    stopping: frozenset[ReplicaRef] = frozenset()
    """Who is alive and about to end."""
    unchecked: frozenset[BrokerId] = frozenset()
    """Who has not compared its disk with the maps as they are now (R6), the dead too."""
    awaited: frozenset[BrokerId] = frozenset()
    """Those of them that live, so that they will."""

    def life(self, ref: ReplicaRef) -> Life:
        """Whether the process of this broker and session is alive."""
        member = self.of.get(ref.broker_id)
        if member is None or member.ref is None or ref.session > member.ref.session:
            return Life.UNKNOWN
        if ref.session < member.ref.session:
            return Life.GONE
        return member.life


def find_members(world: World, awaiting_admission: frozenset[BrokerId]) -> Members:
    """Judge every broker. Those about to be admitted are left for the next plan to judge."""
    of = {
        broker_id: _member(world, broker, broker_id in awaiting_admission)
        for broker_id, broker in world.brokers.items()
    }
    unchecked = frozenset(_unchecked(world))
    return Members(
        of=of,
        leaders=frozenset(
            member.ref
            for member in of.values()
            if member.ref is not None and member.may_lead and not member.is_leaving
        ),
        damaged=frozenset(_damaged(world)),
        refetching=frozenset(_refetching(world)),
        steady=frozenset(_living((one for one in of.values() if one.may_lead), is_stopping=False)),
        stopping=frozenset(_living(of.values(), is_stopping=True)),
        unchecked=unchecked,
        awaited=frozenset(one for one in unchecked if _is_there(world, one, of[one])),
    )


def _unchecked(world: World) -> Iterator[BrokerId]:
    if world.maps_check:
        for broker_id, broker in world.brokers.items():
            if broker.status.maps_checked != world.maps_check and not broker.spec.retired:
                yield broker_id


def _is_there(world: World, broker_id: BrokerId, member: Member) -> bool:
    """Whether some process of the broker may be alive, and so will answer."""
    if broker_id in world.running:
        return True  # be it one that a restored object does not know
    incarnation = world.brokers[broker_id].status.incarnation
    is_named = incarnation is not None and incarnation not in world.ended
    return is_named and member.life is not Life.GONE


def _living(all_of_them: Iterable[Member], *, is_stopping: bool) -> Iterator[ReplicaRef]:
    for member in all_of_them:
        is_meant = member.life is Life.ALIVE and member.is_stopping is is_stopping
        if is_meant and member.ref is not None:
            yield member.ref


def _member(world: World, broker: Broker, is_awaited: bool) -> Member:
    spec, status = broker.spec, broker.status
    life = Life.UNKNOWN if is_awaited else _life(world, broker)
    directories_work = all(directory.online for directory in status.directories)
    return Member(
        ref=ReplicaRef(spec.broker_id, spec.session) if spec.session else None,
        life=life,
        may_lead=life is Life.ALIVE and directories_work,
        is_leaving=status.draining or spec.intent is not BrokerIntent.SERVE,
        is_stopping=status.draining,
        is_in_session=spec.session > 0 and status.session == spec.session,
        # An object that an older operator wrote does not say it.
        process_since=spec.process_since or spec.session,
        storage_since=spec.storage_since,
        intact_since=spec.intact_since,
        rack=spec.rack,
        is_retired=spec.retired,
    )


def _life(world: World, broker: Broker) -> Life:
    spec, status = broker.spec, broker.status
    if spec.admitted_incarnation is None:
        return Life.UNKNOWN
    is_superseded = status.incarnation not in {None, spec.admitted_incarnation}
    if spec.retired or spec.fenced or is_superseded or spec.admitted_incarnation in world.ended:
        return Life.GONE
    return Life.ALIVE


def _damaged(world: World) -> Iterator[tuple[BrokerId, TopicId, PartitionIndex]]:
    for broker_id, one in _reported(world):
        yield broker_id, one.topic_id, one.partition


def _refetching(world: World) -> Iterator[tuple[BrokerId, TopicId, PartitionIndex]]:
    for broker_id, one in _reported(world):
        if one.refetching:
            yield broker_id, one.topic_id, one.partition


def _reported(world: World) -> Iterator[tuple[BrokerId, DamagedPartition]]:
    for broker_id, broker in world.brokers.items():
        for directory in broker.status.directories:
            for damaged in directory.damaged:
                yield broker_id, damaged
