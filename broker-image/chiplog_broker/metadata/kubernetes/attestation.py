"""Whether the end of the logs can be trusted after a start (R3), as a decision table.

An in-sync replica has every acknowledged record. It remains in sync over a restart only if no
acknowledged record can be missing from its disk.
"""

from dataclasses import dataclass

from chiplog_broker.metadata.kubernetes.session_file import SessionRecord
from chiplog_core.limits import MAX_DAMAGED_PARTITIONS
from chiplog_core.model.broker_status import Tail


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundData:
    """The state of the data directory and the machine at this start."""

    storage_uuid: str
    boot_id: str
    """Empty if it is not known."""
    closed_in_session: int | None
    """The session in the mark of a clean shutdown; None without a mark."""
    went_back: bool = False
    """Whether the volume is an older copy of the one that the broker had."""
    damaged: int = 0
    """Replicas that are damaged, or not completely refetched."""


@dataclass(frozen=True, slots=True)
class Attestation:
    """The verdict, and why."""

    tail: Tail
    reason: str


def attest(last_record: SessionRecord | None, found: FoundData) -> Attestation:
    """Whether an acknowledged record can be missing from this data directory, with the reason.

    The rules are tried in this order, and the first one that applies decides. `last_record` is what
    the last process stored; None if there is none.
    """
    if found.damaged > MAX_DAMAGED_PARTITIONS:
        # It is unknown which replicas they are, so none counts as undamaged.
        return Attestation(Tail.SUSPECT, f"{found.damaged} replicas are damaged")
    if found.went_back:
        return Attestation(Tail.SUSPECT, "the volume was replaced by an older copy")
    if last_record is None or last_record.storage_uuid != found.storage_uuid:
        return Attestation(
            Tail.SUSPECT,
            "no earlier process of this broker has recorded the state of this data directory",
        )
    return _attest(last_record, found)


def _attest(last_record: SessionRecord, found: FoundData) -> Attestation:
    """The verdict if this directory is the one that the last process used. The rules are tried in
    this order, and the first one that applies decides."""
    if found.closed_in_session is not None and found.closed_in_session == last_record.session:
        return Attestation(Tail.INTACT, "clean shutdown")
    if last_record.disk_failed:
        return Attestation(Tail.SUSPECT, "the disk of the last process failed")
    if last_record.fsync_only:
        return Attestation(Tail.INTACT, "all topics have Fsync durability")
    if found.boot_id and found.boot_id == last_record.boot_id:
        return Attestation(Tail.INTACT, "the page cache survived")
    return Attestation(Tail.SUSPECT, "the machine was restarted without a clean shutdown")


def intact_since(last_record: SessionRecord | None, verdict: Attestation, admitted: int) -> int:
    """The oldest session of this broker whose in-sync replicas still have all acknowledged records,
    because the directory has lost nothing since then.

    `admitted` is the session that the operator assigned last. It counts even if the process of this
    directory never learned it.
    """
    if last_record is not None and verdict.tail is Tail.INTACT:
        return last_record.intact_since
    # Records may be missing, so no earlier session counts: the next one is the first.
    return max(admitted, last_record.session if last_record else 0) + 1
