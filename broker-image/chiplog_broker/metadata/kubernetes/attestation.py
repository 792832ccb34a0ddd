"""Whether the end of the logs can be trusted after a start (R3): a table, and nothing else.

An in-sync replica holds every acknowledged record. It stays one over a restart only if nothing
that was acknowledged can be missing from its disk.
"""

from dataclasses import dataclass

from chiplog_broker.metadata.kubernetes.session_file import SessionRecord
from chiplog_core.limits import MAX_DAMAGED_PARTITIONS
from chiplog_core.model.broker_status import Tail


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundData:
    """The data directory and the machine as this start finds them."""

    storage_uuid: str
    boot_id: str
    """Empty where it is not known."""
    closed_in_session: int | None
    """The session of the clean-shutdown mark; None where there is no mark."""
    went_back: bool = False
    """The volume is an older copy of the one that the broker had."""
    damaged: int = 0
    """Replicas that are damaged, or not whole again after that."""


@dataclass(frozen=True, slots=True)
class Attestation:
    """The verdict, and why."""

    tail: Tail
    reason: str


def attest(left: SessionRecord | None, found: FoundData) -> Attestation:
    """What can be said for the data, by what the last process left: the first line that applies."""
    if found.damaged > MAX_DAMAGED_PARTITIONS:
        # They cannot be named one by one, so none counts as whole.
        return Attestation(Tail.SUSPECT, f"{found.damaged} replicas are damaged")
    if found.went_back:
        return Attestation(Tail.SUSPECT, "the volume was replaced by an older copy")
    if left is None or left.storage_uuid != found.storage_uuid:
        return Attestation(
            Tail.SUSPECT,
            "no earlier process of this broker has recorded the state of this data directory",
        )
    return _attest(left, found)


def _attest(left: SessionRecord, found: FoundData) -> Attestation:
    """The same, where the directory is the one that the last process had."""
    if found.closed_in_session is not None and found.closed_in_session == left.session:
        return Attestation(Tail.INTACT, "clean shutdown")
    if left.disk_failed:
        return Attestation(Tail.SUSPECT, "the disk of the last process failed")
    if left.fsync_only:
        return Attestation(Tail.INTACT, "all topics have Fsync durability")
    if found.boot_id and found.boot_id == left.boot_id:
        return Attestation(Tail.INTACT, "the page cache survived")
    return Attestation(Tail.SUSPECT, "the machine was restarted without a clean shutdown")


def intact_since(left: SessionRecord | None, verdict: Attestation, admitted: int) -> int:
    """The oldest session for whose in-sync replicas the directory vouches.

    `admitted` is the session the operator gave out last: one that this directory's processes
    were admitted to without ever knowing counts as well.
    """
    if left is not None and verdict.tail is Tail.INTACT:
        return left.intact_since
    return max(admitted, left.session if left else 0) + 1
