"""Which process may act for a broker id: admission and fencing (R1, R3).

Both are one compare-and-set write of the Broker object. An admission also records which sessions'
records are on the process's disks. Only the admission can compare the disks with those of the
process before; afterwards `storageUUIDs` has the new ones. The PartitionMaps get the new session in
the next plan, which sees the admission.
"""

from collections.abc import Iterator
from dataclasses import replace

from chiplog_core.ids import MAX_SESSION, BrokerId, ReplicaRef, Session, StorageUuid
from chiplog_core.model.broker import Broker, BrokerSpec
from chiplog_core.model.broker_status import Tail
from chiplog_core.observed.broker_states import unchecked_brokers
from chiplog_core.observed.world import World

SESSION_LEAP = 500
"""`_leapt` raises a session by this number at least, and by less than twice as many: more sessions
than a restored backup can lack, and few of all that there are."""


def awaiting_admission(world: World) -> frozenset[BrokerId]:
    """Brokers with a live process that has no session yet, or whose session is lost."""
    return frozenset(
        broker_id for broker_id, broker in world.brokers.items() if _is_admissible(world, broker)
    )


def in_its_session(world: World, broker: Broker) -> BrokerSpec:
    """The broker's spec after this plan: a new process is admitted, or the session of a process
    that has ended is fenced; unchanged otherwise."""
    if _is_admissible(world, broker):
        return _admitted(world, broker)
    spec = broker.spec
    if spec.session and not spec.retired and _has_failed_disk(world, broker):
        spec = replace(spec, disk_failed_session=spec.session)
    if spec.session and not spec.fenced and not spec.retired and _is_over(world, broker):
        return replace(spec, fenced=True)
    return spec


def _is_admissible(world: World, broker: Broker) -> bool:
    """Whether the broker's process must get a new session."""
    spec, incarnation = broker.spec, broker.status.incarnation
    if incarnation is None or spec.retired or incarnation in world.ended:
        return False
    if incarnation != spec.admitted_incarnation:
        return True
    if (broker.status.session or 0) > spec.session:
        return True  # the Broker object was restored and does not know this session
    # A process that was fenced because its Lease expired, but is alive, is admitted again. An
    # observed renewal must prove that: an operator that has just started does not know yet which
    # processes have ended.
    return spec.fenced and incarnation in world.renewing


def _has_failed_disk(world: World, broker: Broker) -> bool:
    """Whether a write of the admitted process failed. Its disk may work again by now."""
    admitted, status = broker.spec.admitted_incarnation, broker.status
    if admitted in world.failed_disks:
        return True
    is_its_status = status.incarnation == admitted
    return is_its_status and not all(directory.online for directory in status.directories)


def _is_over(world: World, broker: Broker) -> bool:
    """Whether the admitted process has ended, or another one has taken its place."""
    admitted, incarnation = broker.spec.admitted_incarnation, broker.status.incarnation
    return admitted in world.ended or incarnation not in {None, admitted}


def _admitted(world: World, broker: Broker) -> BrokerSpec:
    """The spec with a new session for the broker's process.

    It also records since which session the broker has had this process (`process_since`) and these
    disks (`storage_since`), and since which session no acknowledged record can be missing from the
    disks (`intact_since`). If the process or the disks are new, that is the new session.
    """
    spec, status = broker.spec, broker.status
    has_same_disks = _has_same_disks(broker)
    session = _unused_session(world, broker)
    if spec.session and not has_same_disks and _is_any_other_unchecked(world, broker):
        session = _leapt(session, broker)
    failed_session = spec.session if _has_failed_disk(world, broker) else spec.disk_failed_session
    same_process = replace(
        spec,
        admitted_incarnation=status.incarnation,
        session=session,
        disk_failed_session=failed_session,
        fenced=False,
    )
    if status.incarnation == spec.admitted_incarnation:
        return same_process  # its memory and disks are unchanged
    is_intact = has_same_disks and all(
        directory.online and directory.tail is Tail.INTACT for directory in status.directories
    )
    storage_since = spec.storage_since if has_same_disks else session
    intact_since = session
    if is_intact:
        # Records of the last session with a failed write, and of earlier ones, may be missing.
        of_directories = (directory.intact_since for directory in status.directories)
        intact_since = max(spec.intact_since, Session(failed_session + 1), *of_directories)
    return replace(
        same_process,
        storage_uuids=_storage_uuids(broker),
        process_since=session,
        storage_since=storage_since,
        intact_since=intact_since,
    )


def _storage_uuids(broker: Broker) -> tuple[StorageUuid, ...]:
    """The ids of the disks that the broker's process reports."""
    return tuple(sorted(directory.storage_uuid for directory in broker.status.directories))


def _has_same_disks(broker: Broker) -> bool:
    """Whether the broker's process has the disks of the last admitted one."""
    reported = set(_storage_uuids(broker))
    # A volume that was restored to an older state counts as another volume, in spite of its id.
    went_back = any(directory.went_back for directory in broker.status.directories)
    return bool(reported) and reported == set(broker.spec.storage_uuids) and not went_back


def _is_any_other_unchecked(world: World, broker: Broker) -> bool:
    """Whether any other broker has yet to compare its disk with the present maps. Only these
    comparisons show that the objects were restored from a backup."""
    return any(one != broker.spec.broker_id for one in unchecked_brokers(world))


def _leapt(session: Session, broker: Broker) -> Session:
    """A session far above this one, for a new disk while a restore of etcd may not be known yet.

    A disk knows the sessions of its processes; a lost one has taken them along, and the restored
    object may have forgotten them. In one of them the broker may be in sync by newer metadata that
    other brokers will report. The new disk in the same session would count as that replica, and be
    elected though it is empty. The distance depends on the process, so that two restores of the
    same backup lead to different sessions.
    """
    assert broker.status.incarnation is not None, "only a process is admitted"
    leap = SESSION_LEAP + int(broker.status.incarnation[-8:], 16) % SESSION_LEAP
    return Session(session + leap) if session + leap <= MAX_SESSION else session


def _unused_session(world: World, broker: Broker) -> Session:
    """A session number above all that any object has for this broker. The Broker object alone is
    not enough: it may have been restored from an old backup."""
    broker_id = broker.spec.broker_id
    named = (ref.session for ref in _refs(world) if ref.broker_id == broker_id)
    return Session(max(broker.spec.session, broker.status.session or 0, *named) + 1)


def _refs(world: World) -> Iterator[ReplicaRef]:
    """All broker sessions in the ISRs of PartitionMaps and of replica reports."""
    for partition_map in world.maps.values():
        for generation in partition_map.spec.generations:
            for state in generation.partitions:
                yield from state.isr
    for broker in world.brokers.values():
        for report in broker.status.replica_reports:
            yield from report.isr
