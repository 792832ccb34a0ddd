"""The state of every broker process, and which acknowledged records its disk is known to hold.

`find_broker_states` runs once per plan; elections and ISR changes use its result. The process of a
replica (broker id, session) is alive, gone, or unknown. Only a live one is elected, and only one
that is gone loses its leadership. A missing Broker object means unknown, not gone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from chiplog_core.ids import BrokerId, PartitionIndex, ReplicaRef, Session, TopicId
from chiplog_core.model.broker import Broker, BrokerIntent
from chiplog_core.model.broker_status import DamagedPartition
from chiplog_core.observed.places import NOT_KNOWN, Place
from chiplog_core.observed.world import World


class ProcessState(Enum):
    """What is known about the process of a replica (broker id, session)."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """One broker in its current session."""

    ref: ReplicaRef | None
    """The broker in its current session; None before its first admission."""
    process_state: ProcessState
    may_lead: bool
    """Whether the process is alive, with all its data directories online."""
    is_leaving: bool
    """Whether the broker should lead only partitions that no other replica can lead."""
    is_stopping: bool = False
    """Whether the process is shutting down, so that it leaves each ISR that has another usable
    replica."""
    is_in_session: bool
    """Whether the broker's status has its current session: then the session is on its disk."""
    process_since: Session
    """The first session of the present process; 0 if there is none."""
    storage_since: Session
    """The first session with the present disks; 0 if there is none."""
    intact_since: Session
    """The first session whose acknowledged records are certainly on the disks; 0 if there is
    none."""
    rack: str | None
    node: str | None = None
    """The node that the broker runs on, or ran on last; None if it is not known."""
    is_retired: bool

    def continues(self, ref: ReplicaRef) -> bool:
        """Whether the process of the session `ref` is still running, with all records that it had
        in memory. One process may have several sessions, from `process_since` on."""
        return 0 < self.process_since <= ref.session

    def has_all_records_of(self, ref: ReplicaRef) -> bool:
        """Whether the broker's disks still have every record that the session `ref` acknowledged
        (rule R3)."""
        return 0 < self.intact_since <= ref.session

    def has_disk_of(self, ref: ReplicaRef) -> bool:
        """Whether the broker still has the disks of the session `ref`."""
        return 0 < self.storage_since <= ref.session


@dataclass(frozen=True, slots=True)
class BrokerStates:
    """All brokers of a cluster."""

    by_id: dict[BrokerId, BrokerState]
    leaders: frozenset[ReplicaRef]
    """Brokers in sessions that may lead and need not give their leaderships to others. Most leaders
    are in this set, so plans check it first."""
    damaged: frozenset[tuple[BrokerId, TopicId, PartitionIndex]]
    """Replicas that their brokers report as damaged."""
    refetching: frozenset[tuple[BrokerId, TopicId, PartitionIndex]] = frozenset()
    """Damaged replicas that are being fetched again. Their log holds only records copied from the
    present leader, so the damage that was found is not in it."""
    may_stay_in_isr: frozenset[ReplicaRef] = frozenset()
    """Replicas that may stay in any ISR: alive, with a working disk, not shutting down."""
    stopping: frozenset[ReplicaRef] = frozenset()
    """Replicas that are alive and shutting down."""
    unchecked: frozenset[BrokerId] = frozenset()
    """Brokers, including dead ones, that have not yet compared their disks with the current
    PartitionMaps (R6)."""
    checked: frozenset[BrokerId] = frozenset()
    """Brokers that have compared them, and so have reported every partition of which they know a
    newer state than its map has. Empty as long as no comparison was requested."""
    unchecked_alive: frozenset[BrokerId] = frozenset()
    """The unchecked brokers that may be alive, so that they will still compare their disks."""

    def rack_of(self, broker_id: BrokerId) -> str | None:
        """The rack of the broker; None if it is not known."""
        broker = self.by_id.get(broker_id)
        return None if broker is None else broker.rack

    def has_disk_of(self, ref: ReplicaRef) -> bool:
        """Whether the broker is known and still has the disk of that session."""
        broker = self.by_id.get(ref.broker_id)
        return broker is not None and broker.has_disk_of(ref)

    def place_of(self, broker_id: BrokerId) -> Place:
        """Where the broker is."""
        broker = self.by_id.get(broker_id)
        return NOT_KNOWN if broker is None else Place(broker.rack, broker.node)

    def process_state(self, ref: ReplicaRef) -> ProcessState:
        """The state of the process with this broker id and session."""
        broker = self.by_id.get(ref.broker_id)
        if broker is None or broker.ref is None or ref.session > broker.ref.session:
            return ProcessState.UNKNOWN
        if ref.session < broker.ref.session:
            return ProcessState.GONE
        return broker.process_state


def find_broker_states(world: World, awaiting_admission: frozenset[BrokerId]) -> BrokerStates:
    """The state of every broker. Brokers in `awaiting_admission` are UNKNOWN until the next
    plan."""
    by_id = {
        broker_id: _broker_state(world, broker, broker_id in awaiting_admission)
        for broker_id, broker in world.brokers.items()
    }
    unchecked = frozenset(unchecked_brokers(world))
    return BrokerStates(
        by_id=by_id,
        leaders=frozenset(
            broker.ref
            for broker in by_id.values()
            if broker.ref is not None and broker.may_lead and not broker.is_leaving
        ),
        damaged=frozenset(_damaged(world)),
        refetching=frozenset(_refetching(world)),
        may_stay_in_isr=frozenset(
            _alive((broker for broker in by_id.values() if broker.may_lead), is_stopping=False)
        ),
        stopping=frozenset(_alive(by_id.values(), is_stopping=True)),
        unchecked=unchecked,
        checked=frozenset(
            broker_id
            for broker_id, broker in world.brokers.items()
            if world.maps_check and broker.status.maps_checked == world.maps_check
        ),
        unchecked_alive=frozenset(
            broker_id
            for broker_id in unchecked
            if _may_be_alive(world, broker_id, by_id[broker_id])
        ),
    )


def unchecked_brokers(world: World) -> Iterator[BrokerId]:
    """Brokers that have not yet compared their disks with the present PartitionMaps."""
    if world.maps_check:
        for broker_id, broker in world.brokers.items():
            if broker.status.maps_checked != world.maps_check and not broker.spec.retired:
                yield broker_id


def _may_be_alive(world: World, broker_id: BrokerId, broker: BrokerState) -> bool:
    """Whether a process of the broker may be alive."""
    if broker_id in world.running:
        # Also for a process that the Broker object does not name, if the object was restored.
        return True
    incarnation = world.brokers[broker_id].status.incarnation
    is_named = incarnation is not None and incarnation not in world.ended
    return is_named and broker.process_state is not ProcessState.GONE


def _alive(brokers: Iterable[BrokerState], *, is_stopping: bool) -> Iterator[ReplicaRef]:
    """The live brokers in their sessions: those that are stopping, or, if `is_stopping` is False,
    those that are not."""
    for broker in brokers:
        is_included = (
            broker.process_state is ProcessState.ALIVE and broker.is_stopping is is_stopping
        )
        if is_included and broker.ref is not None:
            yield broker.ref


def _broker_state(world: World, broker: Broker, is_awaited: bool) -> BrokerState:
    """The state of one broker. `is_awaited` is whether it has a process that is not admitted yet:
    then the state of its process is UNKNOWN until the next plan."""
    spec, status = broker.spec, broker.status
    process_state = ProcessState.UNKNOWN if is_awaited else _process_state(world, broker)
    directories_work = all(directory.online for directory in status.directories)
    return BrokerState(
        ref=ReplicaRef(spec.broker_id, spec.session) if spec.session else None,
        process_state=process_state,
        may_lead=process_state is ProcessState.ALIVE and directories_work,
        is_leaving=status.draining or spec.intent is not BrokerIntent.SERVE,
        is_stopping=status.draining,
        is_in_session=spec.session > 0 and status.session == spec.session,
        # An object written by an older operator has no processSince.
        process_since=spec.process_since or spec.session,
        storage_since=spec.storage_since,
        intact_since=spec.intact_since,
        rack=spec.rack,
        node=spec.node,
        is_retired=spec.retired,
    )


def _process_state(world: World, broker: Broker) -> ProcessState:
    """What is known about the admitted process of a broker."""
    spec, status = broker.spec, broker.status
    if spec.admitted_incarnation is None:
        return ProcessState.UNKNOWN
    is_superseded = status.incarnation not in {None, spec.admitted_incarnation}
    if spec.retired or spec.fenced or is_superseded or spec.admitted_incarnation in world.ended:
        return ProcessState.GONE
    return ProcessState.ALIVE


def _damaged(world: World) -> Iterator[tuple[BrokerId, TopicId, PartitionIndex]]:
    """The damaged replicas, as brokers report them."""
    for broker_id, damaged in _reported(world):
        yield broker_id, damaged.topic_id, damaged.partition


def _refetching(world: World) -> Iterator[tuple[BrokerId, TopicId, PartitionIndex]]:
    """The damaged replicas that are being fetched again."""
    for broker_id, damaged in _reported(world):
        if damaged.refetching:
            yield broker_id, damaged.topic_id, damaged.partition


def _reported(world: World) -> Iterator[tuple[BrokerId, DamagedPartition]]:
    """The damaged replicas in the statuses of all brokers, each with its broker."""
    for broker_id, broker in world.brokers.items():
        for directory in broker.status.directories:
            for damaged in directory.damaged:
                yield broker_id, damaged
