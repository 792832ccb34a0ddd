"""The termination message of a broker's container, which the kubelet adds to the pod's status.

The process writes its incarnation, so that the message cannot be taken for that of another process,
and whether its disk failed: the disk itself may not be able to store that, and the API server may
not be reachable.
"""

import re
from typing import Final, NamedTuple

from chiplog_core.ids import INCARNATION_PATTERN, Incarnation

_DISK_FAILED: Final = "disk failed"
_WORDS: Final = re.compile(f"({INCARNATION_PATTERN})( {_DISK_FAILED})?", re.ASCII)


class TerminationMessage(NamedTuple):
    """The message of one process."""

    incarnation: Incarnation
    has_failed_disk: bool = False

    def __str__(self) -> str:
        return f"{self.incarnation} {_DISK_FAILED}" if self.has_failed_disk else self.incarnation


def read_termination_message(message: str) -> TerminationMessage | None:
    """Parse a container's termination message; None if it does not have the form of a broker's."""
    found = _WORDS.fullmatch(message.strip())
    return (
        None if found is None else TerminationMessage(Incarnation(found[1]), found[2] is not None)
    )
