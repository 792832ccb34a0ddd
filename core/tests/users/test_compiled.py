"""A User's rules become Kafka's ACLs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.authorizer.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    why_not_an_acl,
)
from chiplog_core.authorizer.decision import Authorizer, Client
from chiplog_core.manifest.writing import write
from chiplog_core.users.compiled import compile_user
from tests.users.kit import rule, user

NAMES = st.sampled_from(["orders", "orders-eu", "o", "*"])
RULES = st.fixed_dictionaries(
    {
        "resource": st.fixed_dictionaries(
            {"type": st.sampled_from(["topic", "group", "transactionalId"]), "name": NAMES},
            optional={"patternType": st.sampled_from(["literal", "prefix"])},
        ),
        "operations": st.lists(
            st.sampled_from(["Read", "Write", "Describe", "All"]), min_size=1, unique=True
        ),
    },
    optional={
        "type": st.sampled_from(["allow", "deny"]),
        "host": st.sampled_from(["*", "10.0.0.1"]),
    },
)


def acls(*rules: Any, type_: str | None = "scram-sha-512") -> list[Acl]:
    return list(compile_user(user("alice", type_, *rules)).listed.kafka_acls())


@pytest.mark.parametrize(
    ("type_", "principal"),
    [
        ("tls", "User:CN=alice"),
        ("tls-external", "User:CN=alice"),
        ("scram-sha-512", "User:alice"),
        (None, "User:alice"),
    ],
)
def test_the_principal_follows_from_how_the_user_authenticates(
    type_: str | None, principal: str
) -> None:
    assert compile_user(user("alice", type_)).listed.principal == principal
    (acl,) = acls(rule("orders", "Read"), type_=type_)
    assert acl.principal == principal


def test_a_rule_has_the_defaults_of_strimzi() -> None:
    assert acls(rule("orders", "Read")) == [
        Acl(
            ResourceType.TOPIC,
            "orders",
            PatternType.LITERAL,
            "User:alice",
            "*",
            Operation.READ,
            Permission.ALLOW,
        )
    ]


def test_a_prefix_a_host_and_a_denial_are_kept() -> None:
    (acl,) = acls(rule("o", "Write", of="group", pattern="prefix", host="10.0.0.1", type="deny"))
    assert acl == Acl(
        ResourceType.GROUP,
        "o",
        PatternType.PREFIXED,
        "User:alice",
        "10.0.0.1",
        Operation.WRITE,
        Permission.DENY,
    )


@pytest.mark.parametrize(
    ("fields", "pattern"),
    [
        ({}, PatternType.LITERAL),
        ({"pattern": "literal"}, PatternType.LITERAL),
        ({"pattern": "prefix"}, PatternType.PREFIXED),
    ],
)
def test_a_transactional_id_is_a_resource_of_its_own(
    fields: dict[str, str], pattern: PatternType
) -> None:
    compiled = acls(
        rule("billing-", "Write", of="transactionalId", **fields), rule("billing-", "Read")
    )
    assert [(one.resource_type, one.operation) for one in compiled] == [
        (ResourceType.TOPIC, Operation.READ),
        (ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
    ]
    assert (compiled[1].name, compiled[1].pattern_type) == ("billing-", pattern)
    decide = Authorizer(compiled).decide
    alice, kind = Client("User:alice", "10.0.0.1"), ResourceType.TRANSACTIONAL_ID
    # Describe follows from Write, as it does for topics; for other ids only from a prefix.
    for operation in (Operation.WRITE, Operation.DESCRIBE):
        assert decide(alice, operation, kind, "billing-").is_allowed
        is_prefix = pattern is PatternType.PREFIXED
        assert decide(alice, operation, kind, "billing-1").is_allowed is is_prefix
        assert not decide(alice, operation, kind, "other").is_allowed
    assert not decide(alice, Operation.WRITE, ResourceType.TOPIC, "billing-").is_allowed


def test_the_cluster_has_kafkas_name() -> None:
    (acl,) = acls(rule(None, "Alter", of="cluster"))
    assert (acl.resource_type, acl.name) == (ResourceType.CLUSTER, "kafka-cluster")


def test_the_older_field_operation_counts_too() -> None:
    old = {"resource": {"type": "topic", "name": "orders"}, "operation": "Read"}
    assert [acl.operation for acl in acls(old)] == [Operation.READ]
    both = {**old, "operations": ["Write", "Read"]}
    assert [acl.operation for acl in acls(both)] == [Operation.READ, Operation.WRITE]


def test_rules_for_one_resource_share_an_entry() -> None:
    listed = compile_user(
        user("alice", None, rule("orders", "Read"), rule("orders", "Write"), rule("bills", "Read"))
    ).listed
    assert [(one.name, len(one.operations)) for one in listed.acls] == [("bills", 1), ("orders", 2)]


def test_quotas_without_a_number_are_none() -> None:
    assert compile_user(user(quotas={})).listed.quotas is None
    quotas = compile_user(user(quotas={"controllerMutationRate": 0.5})).listed.quotas
    assert quotas is not None
    assert quotas.controller_mutation_rate == 0.5


@given(st.lists(RULES, max_size=8), st.randoms())
def test_the_compiled_rules_decide_as_the_rules_do_in_any_order(
    rules: list[Any], random: Any
) -> None:
    """Each rule is translated on its own here, as Kafka's tools would add it."""
    one_by_one = [acl for one in rules for acl in acls(one)]
    compiled = acls(*rules)
    shuffled = list(rules)
    random.shuffle(shuffled)
    assert acls(*shuffled) == compiled
    assert all(why_not_an_acl(acl) == "" for acl in compiled)
    ours, theirs = Authorizer(compiled), Authorizer(one_by_one)
    for host in ("10.0.0.1", "10.0.0.2"):
        for operation in (Operation.READ, Operation.WRITE, Operation.DELETE):
            for type_ in (
                ResourceType.TOPIC,
                ResourceType.GROUP,
                ResourceType.TRANSACTIONAL_ID,
            ):
                question = Client("User:alice", host), operation, type_, "orders-eu"
                assert ours.decide(*question).is_allowed == theirs.decide(*question).is_allowed


def test_the_size_is_that_of_the_json() -> None:
    compiled = compile_user(user("alice", "tls", rule("größe", "Read")))
    text = json.dumps(write(compiled.listed), separators=(",", ":"), ensure_ascii=False)
    assert compiled.size_bytes == len(text.encode()) + 1


def test_a_user_without_credentials_may_have_another_username() -> None:
    account = "system:serviceaccount:shop:orders"
    found = compile_user(user("orders", None, username=account))
    assert found.problems == ()
    assert (found.listed.name, found.listed.principal) == ("orders", f"User:{account}")


@pytest.mark.parametrize("type_", ["tls", "tls-external"])
def test_a_username_that_no_certificate_has_is_a_problem(type_: str) -> None:
    found = compile_user(user("orders", type_, username="alice"))
    assert [one.field for one in found.problems] == ["spec.username"]


def test_nobody_logs_in_as_the_user_that_does_not_authenticate() -> None:
    assert compile_user(user("orders", None, username="ANONYMOUS")).problems == ()
    (problem,) = compile_user(user("orders", "scram-sha-512", username="ANONYMOUS")).problems
    assert problem.field == "spec.username"
