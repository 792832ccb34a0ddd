"""What a broker's process leaves in its termination message, which the kubelet shows when it ends.

Its incarnation, so that the message is about no other process, and whether its disk failed: the
disk itself may not be able to remember that, and the API server may be away.
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
    """Parse a pod's termination message; None if no broker wrote it."""
    found = _WORDS.fullmatch(message.strip())
    return (
        None if found is None else TerminationMessage(Incarnation(found[1]), found[2] is not None)
    )
