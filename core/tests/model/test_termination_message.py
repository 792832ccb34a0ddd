"""What a broker's process leaves behind, and what else may stand in a termination message."""

import pytest

from chiplog_core.ids import Incarnation
from chiplog_core.model.termination_message import TerminationMessage, read_termination_message

INCARNATION = Incarnation("0123456789abcdef" * 2)


@pytest.mark.parametrize("has_failed_disk", [False, True])
def test_it_reads_back(has_failed_disk: bool) -> None:
    words = TerminationMessage(INCARNATION, has_failed_disk)

    assert read_termination_message(f"{words}\n") == words


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Error: no space",
        "disk failed",
        INCARNATION[:-1],
        INCARNATION.upper(),
        f"{INCARNATION} disk",
        f"{INCARNATION}  disk failed",
        f"{INCARNATION} disk failed {INCARNATION}",
        f"{INCARNATION}\n{INCARNATION}",
    ],
)
def test_what_no_broker_wrote(message: str) -> None:
    assert read_termination_message(message) is None
