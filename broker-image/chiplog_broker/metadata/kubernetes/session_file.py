"""`session.json`: what a process stores so that the next one can attest the data.

It is durable before a session is used. An unreadable file counts as none: the next process then
cannot attest anything, and asks the operator for everything else.
"""

import logging
from dataclasses import asdict, dataclass, fields

from chiplog_broker.metadata.json_files import read_json, write_json
from chiplog_broker.ports.disk import Disk

logger = logging.getLogger(__name__)

SESSION_FILE = "session.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """The last process that used the data directory."""

    cluster_id: str
    broker_id: int
    session: int
    """The last session that was used here; 0 before the first."""
    incarnation: str
    intact_since: int
    """The oldest session since which every start found the directory intact."""
    boot_id: str
    """The boot id of kernel and pod: `Machine.boot_id`."""
    storage_uuid: str
    fsync_only: bool
    """Whether every topic here was `Fsync` since this process opened the directory."""
    disk_failed: bool = False
    """A write or a sync failed, so records in the page cache may be lost."""


def read_session(disk: Disk) -> SessionRecord | None:
    """The record of the last process; None if the file does not exist or cannot be read."""
    if not disk.exists(SESSION_FILE):
        return None
    try:
        record = SessionRecord(**read_json(disk, SESSION_FILE))
        for field in fields(SessionRecord):
            value = getattr(record, field.name)
            if type(value) is not field.type:
                raise TypeError(f"{field.name} is {value!r}")
        return record
    except (ValueError, TypeError) as error:
        logger.warning(
            "session_file_unreadable", extra={"file": SESSION_FILE, "reason": str(error)}
        )
        return None


async def write_session(disk: Disk, record: SessionRecord) -> None:
    """Replace the stored record, durable on return. Raises `OSError`."""
    await write_json(disk, SESSION_FILE, asdict(record))
