"""The audit log: a line for each denial and change, and never too many."""

import logging

import pytest

from chiplog_broker.security.audit import (
    AUDIT_LOGGER,
    BURST_LINES,
    LINES_PER_S,
    LONGEST_NAME,
    MAX_REMEMBERED,
    REPEAT_S,
    AuditLog,
    Denial,
)
from chiplog_core.authorizer.acls import Acl, Operation, PatternType, Permission, ResourceType
from chiplog_core.authorizer.decision import Client

ALICE = Client("User:alice", "10.0.0.1")
DENY = Acl(
    ResourceType.TOPIC, "or", PatternType.PREFIXED, "User:*", "*", Operation.ALL, Permission.DENY
)


def denial(name: str = "orders") -> Denial:
    return Denial(ALICE, "Produce", Operation.WRITE, ResourceType.TOPIC, name)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic_s(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def audit(clock: Clock, caplog: pytest.LogCaptureFixture) -> AuditLog:
    caplog.set_level(logging.INFO, AUDIT_LOGGER)
    return AuditLog(clock.monotonic_s)


def test_a_denial_says_who_what_and_why(audit: AuditLog, caplog: pytest.LogCaptureFixture) -> None:
    audit.denied(denial(), lambda: DENY)
    (line,) = caplog.records
    assert line.name == AUDIT_LOGGER
    assert line.getMessage() == "denied"
    assert (
        vars(line).items()
        >= {
            "principal": "User:alice",
            "host": "10.0.0.1",
            "api": "Produce",
            "operation": "WRITE",
            "resource": "Topic:orders",
            "acl": "DENY User:* ALL from * on Topic:or (PREFIXED)",
        }.items()
    )


def test_a_repeated_denial_is_counted(
    audit: AuditLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10):
        audit.denied(denial(), lambda: None)
    audit.denied(denial("payments"), lambda: None)
    clock.now_s += REPEAT_S
    audit.denied(denial(), lambda: None)
    audit.denied(denial(), lambda: None)
    lines = [(vars(one)["resource"], vars(one).get("repeated")) for one in caplog.records]
    assert lines == [("Topic:orders", None), ("Topic:payments", None), ("Topic:orders", 9)]


def test_all_lines_together_are_limited(
    audit: AuditLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(int(BURST_LINES) + 30):
        audit.denied(denial(f"topic-{number}"), lambda: None)
    assert len(caplog.records) == BURST_LINES
    # Denials do not hide changes.
    audit.changed(ALICE, "CreateTopics", "Topic:orders", "none")
    assert vars(caplog.records[-1])["result"] == "none"
    assert not hasattr(caplog.records[-1], "left_out")
    clock.now_s += 1.5 / LINES_PER_S
    audit.denied(denial("late"), lambda: None)
    audit.denied(denial("later"), lambda: None)
    assert vars(caplog.records[-1])["resource"] == "Topic:late"
    assert vars(caplog.records[-1])["left_out"] == 30


def test_memory_is_limited(audit: AuditLog, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(MAX_REMEMBERED + 100):
        clock.now_s += 0.05
        audit.denied(denial(f"topic-{number}"), lambda: None)
    assert len(audit._denials._logged) == MAX_REMEMBERED
    assert len(caplog.records) == MAX_REMEMBERED + 100
    audit.denied(denial("n" * 10_000), lambda: None)
    assert len(vars(caplog.records[-1])["resource"]) == len("Topic:") + LONGEST_NAME


def test_a_long_principal_is_not_remembered_whole(audit: AuditLog) -> None:
    """A certificate may have one of 100 KB, and a thousand denials are remembered."""
    client = Client("User:CN=" + "x" * 100_000, "10.0.0.1")
    audit.denied(denial()._replace(client=client), lambda: None)
    (remembered,) = audit._denials._logged
    assert len(remembered.client.principal) == LONGEST_NAME
