"""Decisions are kept until the ACLs change, and not without limit."""

import pytest

from chiplog_broker.security import authorization
from chiplog_broker.security.authorization import (
    LONGEST_KEPT_NAME,
    LONGEST_KEPT_PRINCIPAL,
    Authorization,
)
from chiplog_core.authorizer.acls import Acl, Operation, PatternType, Permission, ResourceType
from chiplog_core.authorizer.decision import Authorizer, Client, Decision

ALICE = Client("User:alice", "10.0.0.1")
TOPIC = ResourceType.TOPIC
READ = Acl(
    TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW
)


class Counted(Authorizer):
    """An authorizer that counts its decisions."""

    decisions = 0

    def decide(
        self, client: Client, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        self.decisions += 1
        return super().decide(client, operation, resource_type, name)


class Source:
    def __init__(self) -> None:
        self.version = 1
        self.authorizer = Counted([READ])


def test_a_decision_is_made_once_for_each_version() -> None:
    source = Source()
    kept = Authorization(source)
    for _ in range(3):
        assert kept.allows(ALICE, Operation.READ, TOPIC, "orders")
        assert not kept.allows(ALICE, Operation.WRITE, TOPIC, "orders")
        assert not kept.allows_anywhere(ALICE, Operation.WRITE, TOPIC)
    assert source.authorizer.decisions == 3
    source.authorizer.acls.remove(READ)
    source.authorizer.acls.add(READ._replace(operation=Operation.WRITE))
    source.version += 1
    assert not kept.allows(ALICE, Operation.READ, TOPIC, "orders")
    assert kept.allows(ALICE, Operation.WRITE, TOPIC, "orders")
    assert kept.allows_anywhere(ALICE, Operation.WRITE, TOPIC)
    assert kept.version == 2


def test_the_kept_decisions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorization, "MAX_KEPT", 10)
    kept = Authorization(Source())
    for number in range(100):
        assert not kept.allows(ALICE, Operation.READ, TOPIC, f"topic-{number}")
        assert len(kept._kept) <= 10
    long_name = "n" * (LONGEST_KEPT_NAME + 1)
    before = len(kept._kept)
    assert not kept.allows(ALICE, Operation.READ, TOPIC, long_name)
    # The subject of a certificate may have 100 KB, once for each of its connections.
    somebody = Client("User:" + "n" * LONGEST_KEPT_PRINCIPAL, ALICE.host)
    assert not kept.allows(somebody, Operation.READ, TOPIC, "topic-1000")
    assert len(kept._kept) == before


def test_the_acl_that_denies_is_named() -> None:
    source = Source()
    deny = READ._replace(permission=Permission.DENY)
    source.authorizer.acls.add(deny)
    kept = Authorization(source)
    assert kept.denied_by(ALICE, Operation.READ, TOPIC, "orders") == deny
    assert kept.denied_by(ALICE, Operation.WRITE, TOPIC, "orders") is None
