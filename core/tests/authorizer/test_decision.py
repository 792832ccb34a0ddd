"""Decisions: the cases of Kafka's own tests, and a slow straightforward oracle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.authorizer.acls import (
    ANYBODY,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from chiplog_core.authorizer.decision import Authorizer, Client
from chiplog_core.authorizer.index import normal_host

ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
HOST = "127.0.0.1"


def acl(text: str) -> Acl:
    """An ACL written as `allow User:bob read topic green* [from host]`; a `*` after other letters
    is a prefix."""
    permission, principal, operation, kind, name, *rest = text.split()
    is_prefix = name.endswith("*") and name != "*"
    return Acl(
        ResourceType[kind.upper()],
        name.removesuffix("*") if is_prefix else name,
        PREFIXED if is_prefix else LITERAL,
        principal,
        rest[1] if rest else WILDCARD,
        Operation[operation.upper()],
        Permission[permission.upper()],
    )


def may(authorizer: Authorizer, text: str, host: str = HOST) -> bool:
    """Whether `bob read topic green1` is allowed."""
    who, operation, kind, name = text.split()
    client = Client(f"User:{who}", host)
    return authorizer.decide(
        client, Operation[operation.upper()], ResourceType[kind.upper()], name
    ).is_allowed


MANY = (
    "allow User:* read topic green2",
    "allow User:bob read topic green*",
    "allow User:bob read topic betamax4",
    "allow User:bob read topic betamax",
    "allow User:* read topic beta*",
    "allow User:* read topic alpha*",
    "deny User:bob read topic alp*",
    "allow User:bob write group *",
    "deny User:* write group wheel",
)
OVERRULED = (
    "deny User:alice all topic foo",
    "allow User:alice read topic foo*",
    "deny User:* all topic foo",
    "allow User:* describe topic foo*",
)
EVERYTHING = (
    "allow User:* all topic foo",
    "allow User:alice all topic bar*",
    "allow User:bob all topic baz",
)


@pytest.mark.parametrize(
    ("acls", "question", "expected"),
    [
        (MANY, "bob read topic green1", True),
        (MANY, "ann read topic green1", False),
        (MANY, "ann read topic green2", True),
        (MANY, "bob write group wheel", False),
        (MANY, "bob read topic alpha", False),
        (MANY, "ann read topic alpha", True),
        (MANY, "bob write group arbitrary", True),
        (MANY, "bob read topic ala", False),
        (OVERRULED, "alice write topic foo", False),
        (OVERRULED, "alice read topic foo", False),
        (OVERRULED, "alice describe topic foo", False),
        (OVERRULED, "alice read topic foobar", True),
        (OVERRULED, "bob describe topic foo", False),
        (OVERRULED, "bob describe topic foobaz", True),
        (OVERRULED, "bob read topic foobaz", False),
        (EVERYTHING, "alice write topic foo", True),
        (EVERYTHING, "alice describe_configs topic bar", True),
        (EVERYTHING, "alice describe topic baz", False),
        (EVERYTHING, "bob read topic bar", False),
        (EVERYTHING, "bob describe topic baz", True),
        (EVERYTHING, "malory describe topic foo", True),
        (EVERYTHING, "malory write topic bar", False),
        (("allow Group:bob read topic t",), "bob read topic t", False),
        (("allow Group:* read topic t",), "bob read topic t", False),
        (("allow User:* read topic *",), "bob read topic t", True),
        (("allow User:* read topic *",), "bob read group t", False),
        (("deny User:bob read topic *", "allow User:bob read topic t"), "bob read topic t", False),
        ((), "bob read topic t", False),
    ],
)
def test_cases_of_kafkas_tests(acls: tuple[str, ...], question: str, expected: bool) -> None:
    assert may(Authorizer(map(acl, acls)), question) is expected


@pytest.mark.parametrize("operation", Operation)
def test_what_an_allow_implies_and_a_deny_does_not(operation: Operation) -> None:
    implied = {
        "describe": {"READ", "WRITE", "DELETE", "ALTER", "DESCRIBE", "ALL"},
        "describe_configs": {"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"},
        "read": {"READ", "ALL"},
    }
    for wanted, by in implied.items():
        allows = Authorizer([acl(f"allow User:bob {operation.name} topic foo_*")])
        assert may(allows, f"bob {wanted} topic foo_bar") is (operation.name in by)
        denies = Authorizer(
            [
                acl(f"deny User:bob {operation.name} topic foo_*"),
                acl("allow User:* all topic foo_*"),
            ]
        )
        is_denied = operation.name in {wanted.upper(), "ALL"}
        assert may(denies, f"bob {wanted} topic foo_bar") is not is_denied


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", {"alice": (True, False, True), "bob": (False, False, True)}),
        ("192.168.1.1", {"alice": (False, False, False), "bob": (False, False, False)}),
        ("192.168.1.2", {"alice": (True, False, False), "bob": (False, True, True)}),
    ],
)
def test_hosts(host: str, expected: dict[str, tuple[bool, ...]]) -> None:
    authorizer = Authorizer(
        map(
            acl,
            (
                "deny User:alice read topic foo from 192.168.1.1",
                "allow User:alice read topic foo",
                "allow User:bob read topic bar from 192.168.1.2",
                "allow User:* describe topic bar from 127.0.0.1",
            ),
        )
    )
    questions = "read topic foo", "read topic bar", "describe topic bar"
    for who, answers in expected.items():
        assert tuple(may(authorizer, f"{who} {one}", host) for one in questions) == answers


@pytest.mark.parametrize(
    ("written", "connected"),
    [("0:0:0:0:0:0:0:1", "::1"), ("10.0.0.7", "::ffff:10.0.0.7"), ("FE80::1", "fe80::1")],
)
def test_an_address_may_be_written_as_java_does(written: str, connected: str) -> None:
    authorizer = Authorizer([acl(f"allow User:bob read topic foo from {written}")])
    assert may(authorizer, "bob read topic foo", connected)
    assert not may(authorizer, "bob read topic foo", "10.0.0.8")
    assert normal_host("a name") == "a name"


def test_a_user_may_have_the_name_that_stands_for_everybody() -> None:
    authorizer = Authorizer(
        [acl("allow User:* read topic foo"), acl("deny User:bob read topic foo")]
    )
    assert may(authorizer, "* read topic foo")


def test_super_users_and_resources_without_acls() -> None:
    acls = [acl("allow User:alice read topic topic1"), acl("deny User:* all topic secret*")]
    for everyone in (True, False):
        authorizer = Authorizer(acls, ["User:root"], allow_everyone_if_no_acl_found=everyone)
        assert may(authorizer, "root read topic secret1")
        assert not may(authorizer, "bob read topic topic1")
        assert not may(authorizer, "bob read topic secret1")
        assert may(authorizer, "bob read topic topic2") is everyone
        assert may(authorizer, "bob read group topic1") is everyone


def test_the_acl_that_decided_is_named() -> None:
    deny, allow = acl("deny User:bob read topic a*"), acl("allow User:* read topic ab")
    authorizer = Authorizer([allow, deny])
    topic = Operation.READ, TOPIC, "ab"
    assert authorizer.decide(Client("User:bob", HOST), *topic).acl == deny
    assert authorizer.decide(Client("User:ann", HOST), *topic).acl == allow


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ((), False),
        (("allow User:bob write topic a",), True),
        (("allow User:ann write topic a",), False),
        (("allow User:bob read topic a",), False),
        (("allow User:bob write group a",), False),
        (("allow User:bob write topic a from 10.0.0.1",), False),
        (("allow User:* all topic a*",), True),
        (("allow User:bob write topic a", "deny User:bob write topic a"), False),
        (("allow User:bob write topic a", "deny User:bob write topic a*"), False),
        (("allow User:bob write topic ab*", "deny User:bob all topic a*"), False),
        (("allow User:bob write topic a*", "deny User:bob write topic ab*"), True),
        (("allow User:bob write topic a*", "deny User:bob write topic a"), True),
        (("allow User:bob write topic *", "deny User:bob write topic a*"), True),
        (("allow User:bob write topic *", "deny User:bob write topic hard*"), True),
        (("allow User:bob write topic *", "deny User:* write topic *"), False),
        (("allow User:bob write topic a", "deny User:* write topic *"), False),
        (("allow User:bob write topic a", "deny User:ann write topic *"), True),
        (("allow User:bob write topic a", "deny User:bob read topic *"), True),
    ],
)
def test_somewhere_of_a_type(acls: tuple[str, ...], expected: bool) -> None:
    bob = Client("User:bob", HOST)
    authorizer = Authorizer(map(acl, acls), ["User:root"])
    assert authorizer.allows_anywhere(bob, Operation.WRITE, TOPIC) is expected
    assert authorizer.allows_anywhere(Client("User:root", HOST), Operation.WRITE, TOPIC)


NAMES = st.text("ab", min_size=1, max_size=4)
PRINCIPALS = st.sampled_from(["User:a", "User:b", ANYBODY])
HOSTS = st.sampled_from([WILDCARD, HOST, "10.0.0.1"])
TYPES = st.sampled_from([TOPIC, GROUP])
OPERATIONS = st.sampled_from(
    [
        Operation.ALL,
        Operation.READ,
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ]
)
ACLS = st.builds(
    Acl,
    TYPES,
    NAMES | st.just(WILDCARD),
    st.sampled_from([LITERAL, PREFIXED]),
    PRINCIPALS,
    HOSTS,
    OPERATIONS,
    st.sampled_from([ALLOW, DENY]),
)
QUESTIONS = st.tuples(
    st.sampled_from(["User:a", "User:b"]),
    st.sampled_from([HOST, "10.0.0.1"]),
    OPERATIONS.filter(lambda one: one is not Operation.ALL),
    TYPES,
    NAMES,
)
IMPLIES = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def by_reading_all(acls: set[Acl], question: tuple[str, str, Operation, ResourceType, str]) -> bool:
    """The rule for resources without ACLs is: everything is allowed."""
    principal, host, operation, kind, name = question
    of_resource = [
        one
        for one in acls
        if one.resource_type is kind
        if (
            name.startswith(one.name)
            if one.pattern_type is PREFIXED
            else one.name in (name, WILDCARD)
        )
    ]
    if not of_resource:
        return True
    mine = [
        one
        for one in of_resource
        if one.principal in (principal, ANYBODY) and one.host in (host, WILDCARD)
    ]
    if any(one.permission is DENY and one.operation in (operation, Operation.ALL) for one in mine):
        return False
    enough = {operation, Operation.ALL} | IMPLIES.get(operation, set())
    return any(one.permission is ALLOW and one.operation in enough for one in mine)


@given(st.sets(ACLS, max_size=12), st.sets(ACLS, max_size=6), st.lists(QUESTIONS, max_size=6))
def test_as_one_who_reads_all_acls(
    acls: set[Acl],
    passing: set[Acl],
    questions: list[tuple[str, str, Operation, ResourceType, str]],
) -> None:
    authorizer = Authorizer(acls, allow_everyone_if_no_acl_found=True)
    # ACLs that come and go leave nothing behind.
    for one in passing - acls:
        authorizer.acls.add(one)
    for one in passing - acls:
        authorizer.acls.remove(one)
    assert set(authorizer.acls) == acls
    assert len(authorizer.acls) == len(acls)
    for question in questions:
        principal, host, operation, kind, name = question
        decision = authorizer.decide(Client(principal, host), operation, kind, name)
        assert decision.is_allowed is by_reading_all(acls, question)


@given(st.sets(ACLS, max_size=12), QUESTIONS)
def test_what_is_allowed_somewhere(
    acls: set[Acl], question: tuple[str, str, Operation, ResourceType, str]
) -> None:
    """Allowed on one resource by an ACL of this very operation: allowed somewhere."""
    principal, host, operation, kind, name = question
    client = Client(principal, host)
    authorizer = Authorizer(acls)
    decision = authorizer.decide(client, operation, kind, name)
    if decision.is_allowed and operation not in IMPLIES:
        assert authorizer.allows_anywhere(client, operation, kind)


def test_thousands_of_acls_cost_a_few_look_ups() -> None:
    """As a bound on what is looked at, which a slow machine does not change."""
    authorizer = Authorizer(
        acl(f"allow User:u{number} read topic name{number:05}{'*' if number % 2 else ''}")
        for number in range(10_000)
    )
    patterns = list(authorizer.acls.of_resource(TOPIC, "name00007-and-more"))
    assert [list(one) for one in patterns] == [["User:u7"]]
    assert may(authorizer, "u7 read topic name00007-and-more")
    assert not may(authorizer, "u7 read topic name00008")
