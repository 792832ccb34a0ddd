"""Which Users a cluster admits, and what its brokers read."""

from datetime import UTC, datetime, timedelta

import pytest

from chiplog_core.limits import MAX_ACCESS_LIST_BYTES, MAX_CREDENTIALS_BYTES
from chiplog_core.problems import Reason
from chiplog_core.users import access
from chiplog_core.users.access import access_spec, admit
from chiplog_core.users.compiled import Compiled, compile_user
from chiplog_core.validate.user import needs_access_list
from tests.users.kit import MUTUAL, SCRAM, SIMPLE, cluster, rule, user

CLUSTER = cluster(listeners=[MUTUAL, SCRAM], authorization=SIMPLE)
START = datetime(2026, 1, 1, tzinfo=UTC)


def aged(name: str, age: int, *acls: object, type_: str = "scram-sha-512") -> Compiled:
    created = (START - timedelta(days=age)).isoformat().replace("+00:00", "Z")
    return compile_user(user(name, type_, *acls, metadata={"creationTimestamp": created}))


def names(found: access.Admission) -> list[str]:
    return [one.listed.name for one in found.admitted]


def test_users_are_listed_by_name() -> None:
    found = admit(CLUSTER, [aged("bob", 2), aged("alice", 1), aged("eve", 3)])
    assert names(found) == ["alice", "bob", "eve"]
    assert found.problems == {}


def test_a_deleted_user_is_gone_at_once() -> None:
    deleted = user("bob", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    found = admit(CLUSTER, [compile_user(deleted), aged("alice", 1)])
    assert (names(found), found.problems) == (["alice"], {})


def test_a_user_with_a_problem_takes_nobody_with_it() -> None:
    broken = compile_user(user("bob", "tls", rule("orders")))
    found = admit(CLUSTER, [broken, aged("alice", 1)])
    assert names(found) == ["alice"]
    ((problem,),) = found.problems.values()
    assert str(problem).startswith("spec.authorization.acls[0].operations is empty")


def test_users_of_other_namespaces_are_not_admitted() -> None:
    other = user("bob", metadata={"namespace": "other"}, clusterRef={"name": "demo"})
    found = admit(CLUSTER, [compile_user(other)])
    assert names(found) == []
    assert [one.reason for one in found.problems["uid-of-bob"]] == [Reason.NOT_SUPPORTED]


def test_certificates_need_a_listener_with_a_clients_ca() -> None:
    found = admit(cluster(listeners=[SCRAM]), [aged("bob", 1, type_="tls")])
    ((problem,),) = found.problems.values()
    assert problem.field == "spec.authentication.type"
    assert names(admit(cluster(listeners=[SCRAM]), [aged("bob", 1, type_="tls-external")]))


def test_where_not_all_fit_the_oldest_are_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    users = [aged("zoe", 9), aged("alice", 1), aged("bob", 5)]
    monkeypatch.setattr(access, "MAX_ACCESS_LIST_BYTES", users[0].size_bytes + users[2].size_bytes)
    found = admit(CLUSTER, users)
    assert names(found) == ["bob", "zoe"]
    ((problem,),) = found.problems.values()
    assert "the 2 older Users" in str(problem)


def test_a_small_user_fits_behind_one_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    large = aged("large", 9, *(rule(f"topic-{number}", "Read") for number in range(10)))
    small = aged("small", 1)
    monkeypatch.setattr(access, "MAX_ACCESS_LIST_BYTES", small.size_bytes)
    assert names(admit(CLUSTER, [large, small])) == ["small"]


def test_passwords_fill_a_secret_and_certificates_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_CREDENTIALS_BYTES", access.VERIFIER_BYTES + 10)
    users = [aged("alice", 3), aged("bob", 2), aged("carol", 1, type_="tls")]
    assert names(admit(CLUSTER, users)) == ["alice", "carol"]


def test_500_users_with_10_rules_fit() -> None:
    rules = [rule(f"a-topic-of-a-team-{number}", "Read", "Write") for number in range(10)]
    users = [aged(f"user-{number}", number, *rules) for number in range(500)]
    assert len(admit(CLUSTER, users).admitted) == 500
    assert sum(one.size_bytes for one in users) < MAX_ACCESS_LIST_BYTES / 1.5
    assert 500 * access.VERIFIER_BYTES < MAX_CREDENTIALS_BYTES / 3


def test_super_users_are_written_as_in_strimzi_or_in_full() -> None:
    of = cluster(authorization={**SIMPLE, "superUsers": ["CN=admin", "User:root", "root"]})
    assert access_spec(of, (), None).super_users == ("User:CN=admin", "User:root")


def test_without_authorization_there_are_no_super_users() -> None:
    spec = access_spec(cluster(), admit(CLUSTER, [aged("alice", 1)]).admitted, "0" * 64)
    assert (spec.super_users, spec.allow_everyone_if_no_acl_found) == ((), False)
    assert spec.credentials_digest == "0" * 64


def test_resources_without_acls_are_open_if_the_configuration_says_so() -> None:
    of = cluster(authorization=SIMPLE, config={"allow.everyone.if.no.acl.found": True})
    assert access_spec(of, (), None).allow_everyone_if_no_acl_found


def test_who_needs_the_list() -> None:
    assert not needs_access_list(cluster(listeners=[MUTUAL]))
    assert needs_access_list(cluster(listeners=[SCRAM]))
    assert needs_access_list(cluster(authorization=SIMPLE))


def test_of_users_with_the_same_principal_the_oldest_counts() -> None:
    named = user(
        "bob", None, username="alice", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"}
    )
    newer = user("alice", None, metadata={"creationTimestamp": "2026-01-02T00:00:00Z"})
    found = admit(CLUSTER, map(compile_user, (newer, named)))
    assert names(found) == ["bob"]
    (problem,) = found.problems["uid-of-alice"]
    assert problem.reason is Reason.RESOURCE_CONFLICT
    assert "User:alice, which the older User bob has" in str(problem)
