"""What admin clients ask about users: User objects are written, and say it all."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_core.admin.answers import Verdict
from chiplog_core.admin.bodies import from_body, to_body
from chiplog_core.admin.codes import Code
from chiplog_core.admin.operations import AlterAcls, AlterScram
from chiplog_core.authorizer.acls import Acl, Operation, PatternType, Permission, ResourceType
from chiplog_core.limits import MAX_USER_ACLS
from chiplog_core.model.acl_rules import entries_of, why_not_a_rule
from chiplog_core.model.actions import WriteUser
from chiplog_core.model.user import User
from chiplog_core.naming import labels
from chiplog_core.observed.world import WriteResult
from chiplog_core.planner.admin import users as deciding
from chiplog_core.planner.admin.requests import answer_requests
from chiplog_core.planner.admin.users import entry_of
from chiplog_core.users.access import admit
from chiplog_core.users.compiled import compile_user

if TYPE_CHECKING:
    from tests.planner.admin.conftest import Kubernetes

ALICE = "User:alice"
READ = Acl(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    ALICE,
    "*",
    Operation.READ,
    Permission.ALLOW,
)
WRITE = READ._replace(operation=Operation.WRITE)
OF_GROUP = READ._replace(resource_type=ResourceType.GROUP, name="g", pattern_type=PatternType(4))
SEALED = "sealed"
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def secured(kubernetes: "Kubernetes") -> "Kubernetes":
    kubernetes.cluster["spec"]["authorization"] = {"type": "simple"}
    return kubernetes


def ask(kubernetes: "Kubernetes", *acls: Acl, delete: bool = False) -> Verdict:
    return kubernetes.outcome(
        AlterAcls(name=acls[0].principal, acls=entries_of(acls), is_deletion=delete)
    )


def apply(kubernetes: "Kubernetes", name: str, owned: Any = (), **spec: Any) -> None:
    """As kubectl does."""
    metadata = {
        "name": name,
        "namespace": "kafka",
        "managedFields": [
            {"manager": manager, "operation": "Update", "fieldsV1": fields}
            for manager, fields in owned
        ],
    }
    manifest = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "User",
        "metadata": metadata,
        "spec": {"clusterRef": {"name": "prod"}, **spec},
    }
    assert kubernetes.create(manifest)


def users(kubernetes: "Kubernetes") -> dict[str, User]:
    return {name: User.from_manifest(one) for (_, name), one in kubernetes.users.items()}


def listed(kubernetes: "Kubernetes") -> set[Acl]:
    """The ACLs that brokers read."""
    cluster = kubernetes.world().cluster
    assert cluster is not None
    admission = admit(cluster, map(compile_user, users(kubernetes).values()))
    assert not admission.problems
    return {acl for one in admission.admitted for acl in one.listed.kafka_acls()}


# ACLs


def test_the_first_acl_of_a_principal_makes_its_user(secured: "Kubernetes") -> None:
    assert ask(secured, READ, WRITE).code is Code.NONE
    manifest = secured.users["kafka", "alice"]
    assert manifest["spec"] == {
        "clusterRef": {"name": "prod"},
        "authorization": {
            "type": "simple",
            "acls": [
                {
                    "resource": {"type": "topic", "name": "orders"},
                    "operations": ["Read", "Write"],
                }
            ],
        },
    }
    assert manifest["metadata"]["labels"] == {
        labels.CLUSTER: "prod",
        labels.CREATED_BY: labels.KAFKA_CLIENT,
    }
    assert listed(secured) == {READ, WRITE}


def test_an_acl_that_exists_changes_nothing(secured: "Kubernetes") -> None:
    ask(secured, READ)
    version = secured.users["kafka", "alice"]["metadata"]["resourceVersion"]
    assert ask(secured, READ).code is Code.NONE
    assert secured.users["kafka", "alice"]["metadata"]["resourceVersion"] == version


def test_a_rule_without_operations_goes_and_so_does_an_empty_user(secured: "Kubernetes") -> None:
    ask(secured, READ, WRITE, OF_GROUP)
    ask(secured, WRITE, delete=True)
    assert listed(secured) == {READ, OF_GROUP}
    ask(secured, READ, delete=True)
    (rule,) = secured.users["kafka", "alice"]["spec"]["authorization"]["acls"]
    assert rule["resource"] == {"type": "group", "name": "g", "patternType": "prefix"}
    assert ask(secured, OF_GROUP, delete=True).code is Code.NONE
    assert not secured.users


def test_a_user_that_somebody_applied_stays_without_rules(secured: "Kubernetes") -> None:
    apply(secured, "alice", authentication={"type": "scram-sha-512"})
    ask(secured, READ)
    ask(secured, READ, delete=True)
    assert users(secured)["alice"].spec.authentication is not None
    assert listed(secured) == set()


def test_all_and_an_operation_are_two_acls_as_in_kafka(secured: "Kubernetes") -> None:
    every = READ._replace(operation=Operation.ALL)
    ask(secured, every)
    ask(secured, READ)
    assert listed(secured) == {every, READ}
    ask(secured, every, delete=True)
    assert listed(secured) == {READ}


OPERATIONS = st.sampled_from([Operation.READ, Operation.WRITE, Operation.ALL, Operation.ALTER])
ACLS = st.builds(
    Acl,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID]),
    st.sampled_from(["orders", "*", "größe"]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(
        [ALICE, "User:Alice", "User:CN=alice", "User:CN=bob,O=a", "User:*", "User:ANONYMOUS"]
    ),
    st.sampled_from(["*", "10.0.0.1"]),
    OPERATIONS,
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
) | st.builds(
    lambda principal, operation: Acl(
        ResourceType.CLUSTER,
        "kafka-cluster",
        PatternType.LITERAL,
        principal,
        "*",
        operation,
        Permission.ALLOW,
    ),
    st.sampled_from([ALICE, "User:CN=alice"]),
    OPERATIONS,
)
CHANGES = st.lists(
    st.tuples(st.lists(ACLS, min_size=1, max_size=5), st.booleans()), min_size=1, max_size=6
)


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES, applied=st.booleans())
def test_any_changes_leave_exactly_the_set_of_acls(
    new_kubernetes: Any, changes: list[tuple[list[Acl], bool]], applied: bool
) -> None:
    kubernetes = new_kubernetes()
    kubernetes.cluster["spec"]["authorization"] = {"type": "simple"}
    kubernetes.cluster["spec"]["listeners"] = [
        {"name": "tls", "type": "internal", "port": 9093, "tls": True}
        | {"authentication": {"type": "tls"}}
    ]
    wanted: set[Acl] = set()
    if applied:
        # The same ACL in two rules, and the older field.
        reads = {"resource": {"type": "topic", "name": "orders"}, "operation": "Read"}
        both = {**reads, "operations": ["Write"]}
        apply(
            kubernetes,
            "alice",
            authentication={"type": "tls"},
            authorization={"type": "simple", "acls": [reads, both]},
        )
        of_alice = READ._replace(principal="User:CN=alice")
        wanted = {of_alice, of_alice._replace(operation=Operation.WRITE)}
    for acls, is_deletion in changes:
        for principal in {acl.principal for acl in acls}:
            same = [acl for acl in acls if acl.principal == principal]
            assert ask(kubernetes, *same, delete=is_deletion).code is Code.NONE
        wanted = wanted - set(acls) if is_deletion else wanted | set(acls)
        assert listed(kubernetes) == wanted
        for one in kubernetes.users.values():
            assert User.from_manifest(User.from_manifest(one).to_manifest()).spec == (
                User.from_manifest(one).spec
            )


@given(st.lists(ACLS, min_size=1, max_size=8), st.booleans())
def test_a_request_reads_as_it_was_written(acls: list[Acl], is_deletion: bool) -> None:
    operation = AlterAcls(name=ALICE, acls=entries_of(acls), is_deletion=is_deletion)
    assert from_body(*to_body(operation)) == operation


@pytest.mark.parametrize(
    ("principal", "name", "spec"),
    [
        ("User:alice", "alice", {}),
        ("User:CN=alice", "alice", {"authentication": {"type": "tls-external"}}),
        ("User:Alice", None, {"username": "Alice"}),
        ("User:*", None, {"username": "*"}),
        ("User:ANONYMOUS", None, {"username": "ANONYMOUS"}),
        ("User:prod-cluster-ca", None, {"username": "prod-cluster-ca"}),
        (
            "User:CN=a,O=b",
            None,
            {"username": "CN=a,O=b", "authentication": {"type": "tls-external"}},
        ),
        (
            "User:system:serviceaccount:a:b",
            None,
            {"username": "system:serviceaccount:a:b"},
        ),
    ],
)
def test_every_principal_has_a_user(
    secured: "Kubernetes", principal: str, name: str | None, spec: dict[str, Any]
) -> None:
    acl = READ._replace(principal=principal)
    assert ask(secured, acl).code is Code.NONE
    ((found, user),) = users(secured).items()
    assert name in (None, found)
    manifest = dict(user.to_manifest()["spec"])
    del manifest["clusterRef"], manifest["authorization"]
    assert manifest == spec
    assert compile_user(user).listed.principal == principal
    ask(secured, acl, delete=True)
    assert not secured.users


def test_a_name_that_another_user_has_is_not_taken(secured: "Kubernetes") -> None:
    apply(secured, "alice", authentication={"type": "tls-external"})
    ask(secured, READ)
    assert len(secured.users) == 2
    (other,) = (one for name, one in users(secured).items() if name != "alice")
    assert other.spec.username == "alice"
    assert listed(secured) == {READ}


def of_client(*path: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in reversed(path):
        fields = {f"f:{name}": fields}
    return fields


@pytest.mark.parametrize("delete", [False, True])
def test_rules_that_somebody_else_applies_are_refused(secured: "Kubernetes", delete: bool) -> None:
    rule = {"resource": {"type": "topic", "name": "orders"}, "operations": ["Write"]}
    apply(
        secured,
        "alice",
        [("argocd", of_client("spec", "authorization", "acls"))],
        authorization={"type": "simple", "acls": [rule]},
    )
    verdict = ask(secured, WRITE if delete else READ, delete=delete)
    assert verdict.code is Code.POLICY_VIOLATION
    assert "spec.authorization.acls of User kafka/alice is managed by argocd" in verdict.message
    assert listed(secured) == {WRITE}
    assert ask(secured, READ if delete else WRITE, delete=delete).code is Code.NONE


def test_a_user_of_a_client_that_somebody_applied_since_is_not_deleted(
    secured: "Kubernetes",
) -> None:
    ask(secured, READ)
    secured.users["kafka", "alice"]["metadata"]["managedFields"] = [
        {"manager": "argocd", "operation": "Apply", "fieldsV1": of_client("spec", "clusterRef")}
    ]
    ask(secured, READ, delete=True)
    assert set(users(secured)) == {"alice"}
    assert listed(secured) == set()


def test_the_limit_of_rules_is_named(secured: "Kubernetes") -> None:
    many = [READ._replace(name=f"t{number}") for number in range(MAX_USER_ACLS)]
    assert ask(secured, *many).code is Code.NONE
    verdict = ask(secured, READ)
    assert verdict.code is Code.POLICY_VIOLATION
    assert str(MAX_USER_ACLS) in verdict.message
    assert listed(secured) == set(many)


def test_the_limit_of_users_is_named(
    secured: "Kubernetes", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "MAX_USERS", 1)
    apply(secured, "bob")
    verdict = ask(secured, READ)
    assert verdict.code is Code.POLICY_VIOLATION
    assert "1 is the limit" in verdict.message


def test_without_authorization_there_are_no_acls(kubernetes: "Kubernetes") -> None:
    assert ask(kubernetes, READ).code is Code.SECURITY_DISABLED
    assert not kubernetes.users


def test_another_type_of_principal_has_no_user(secured: "Kubernetes") -> None:
    assert ask(secured, READ._replace(principal="Group:a")).code is Code.POLICY_VIOLATION


@pytest.mark.parametrize(
    "acl",
    [
        READ._replace(resource_type=ResourceType.DELEGATION_TOKEN),
        READ._replace(operation=Operation.CREATE_TOKENS),
        READ._replace(
            resource_type=ResourceType.CLUSTER,
            name="kafka-cluster",
            pattern_type=PatternType.PREFIXED,
        ),
    ],
)
def test_what_a_user_cannot_have_is_refused(acl: Acl) -> None:
    assert why_not_a_rule(acl)
    with pytest.raises(ValueError, match=r"Users have no|only one cluster"):
        entries_of([acl])


def test_two_clients_at_once_lose_nothing(secured: "Kubernetes") -> None:
    requests = [
        secured.ask(AlterAcls(name=ALICE, acls=entries_of([acl])), broker_id)
        for broker_id, acl in ((1, READ), (2, WRITE), (3, OF_GROUP))
    ]
    secured.settle()
    assert {secured.answers()[one].code for one in requests} == {Code.NONE}
    assert listed(secured) == {READ, WRITE, OF_GROUP}


def test_a_write_of_an_older_version_is_made_again(secured: "Kubernetes") -> None:
    ask(secured, READ)
    request = secured.ask(AlterAcls(name=ALICE, acls=entries_of([WRITE])))
    (write,) = secured.plan().writes
    # Somebody else is faster.
    secured.users["kafka", "alice"]["metadata"]["resourceVersion"] = "newer"
    secured.carry_out(write)
    assert not secured.results.get(write.request_id)
    secured.settle()
    assert secured.answers()[request].code is Code.NONE
    assert listed(secured) == {READ, WRITE}


@pytest.mark.parametrize("paused", ["cluster", "user"])
def test_what_is_paused_is_not_changed(secured: "Kubernetes", paused: str) -> None:
    apply(secured, "alice")
    manifest = secured.cluster if paused == "cluster" else secured.users["kafka", "alice"]
    manifest["metadata"]["annotations"] = {labels.PAUSE: "true"}
    verdict = ask(secured, READ)
    assert verdict.code is Code.POLICY_VIOLATION
    assert labels.PAUSE in verdict.message


def test_a_user_that_cannot_be_read_keeps_its_name(secured: "Kubernetes") -> None:
    secured.ask(AlterAcls(name=ALICE, acls=entries_of([READ])))
    world = replace(secured.world(), unreadable_users=frozenset({"alice"}))
    (write,) = answer_requests(world, NOW).writes
    assert write.metadata.name != "alice"


# credentials


def scram(kubernetes: "Kubernetes", sealed: str | None = SEALED, name: str = "alice") -> Verdict:
    return kubernetes.outcome(AlterScram(username=name, sealed=sealed))


def written(kubernetes: "Kubernetes") -> WriteUser:
    """The one write of the plan."""
    (write,) = kubernetes.plan().writes
    assert isinstance(write, WriteUser)
    return write


def verifier_keys(kubernetes: "Kubernetes") -> Iterable[str | None]:
    for user in users(kubernetes).values():
        authentication = user.spec.authentication
        yield None if authentication is None else authentication.verifier_key


def test_a_credential_makes_a_user_that_names_its_entry(kubernetes: "Kubernetes") -> None:
    request = kubernetes.ask(AlterScram(username="alice", sealed=SEALED))
    write = written(kubernetes)
    assert write.credential is not None
    assert (write.credential.sealed, write.credential.before_user) == (SEALED, False)
    assert SEALED not in repr(write), "it is not for logs"
    assert SEALED not in str(write.create), "a User is read by many"
    kubernetes.settle()
    assert kubernetes.answers()[request].code is Code.NONE
    (entry,) = verifier_keys(kubernetes)
    assert entry == entry_of(write.request_id)


def test_another_password_is_another_entry_that_is_stored_first(kubernetes: "Kubernetes") -> None:
    scram(kubernetes)
    (before,) = verifier_keys(kubernetes)
    kubernetes.ask(AlterScram(username="alice", sealed=SEALED))
    write = written(kubernetes)
    assert write.credential is not None
    assert write.credential.before_user
    kubernetes.settle()
    (after,) = verifier_keys(kubernetes)
    assert after not in (before, None)


def test_without_an_answer_the_credential_is_stored_again(kubernetes: "Kubernetes") -> None:
    """Another operator takes over after the User was written: whether its entry exists is not
    known."""
    request = kubernetes.ask(AlterScram(username="alice", sealed=SEALED))
    write = written(kubernetes)
    kubernetes.carry_out(write)
    kubernetes.results.clear()
    again = written(kubernetes)
    assert again.credential is not None
    assert again.credential.entry == (write.credential and write.credential.entry)
    kubernetes.settle()
    assert kubernetes.answers()[request].code is Code.NONE


def test_a_refused_credential_is_answered(kubernetes: "Kubernetes") -> None:
    request = kubernetes.ask(AlterScram(username="alice", sealed=SEALED))
    (write,) = kubernetes.plan().writes
    kubernetes.results[write.request_id] = WriteResult(accepted=False, message="cannot decrypt")
    kubernetes.settle()
    verdict = kubernetes.answers()[request]
    assert (verdict.code, verdict.message) == (Code.POLICY_VIOLATION, "cannot decrypt")


def test_a_client_replaces_a_password_of_the_operator(kubernetes: "Kubernetes") -> None:
    given = {"valueFrom": {"secretKeyRef": {"name": "given", "key": "password"}}}
    apply(kubernetes, "alice", authentication={"type": "scram-sha-512", "password": given})
    assert scram(kubernetes).code is Code.NONE
    authentication = kubernetes.users["kafka", "alice"]["spec"]["authentication"]
    assert set(authentication) == {"type", "verifierKey"}


def test_a_password_that_somebody_else_applies_is_refused(kubernetes: "Kubernetes") -> None:
    given = {"valueFrom": {"secretKeyRef": {"name": "given", "key": "password"}}}
    apply(
        kubernetes,
        "alice",
        [("argocd", of_client("spec", "authentication", "password"))],
        authentication={"type": "scram-sha-512", "password": given},
    )
    verdict = scram(kubernetes)
    assert verdict.code is Code.POLICY_VIOLATION
    assert "managed by argocd" in verdict.message


def test_a_certificate_is_not_replaced_by_a_password(kubernetes: "Kubernetes") -> None:
    apply(kubernetes, "x", username="CN=a", authentication={"type": "tls-external"})
    assert scram(kubernetes, name="CN=a").code is Code.POLICY_VIOLATION


def test_a_deleted_credential_leaves_the_rules(secured: "Kubernetes") -> None:
    scram(secured)
    ask(secured, READ)
    assert scram(secured, None).code is Code.NONE
    assert listed(secured) == {READ}
    assert list(verifier_keys(secured)) == [None]
    scram(secured)
    ask(secured, READ, delete=True)
    assert set(users(secured)) == {"alice"}, "it still has a password"
    assert scram(secured, None).code is Code.NONE
    assert not secured.users
    assert scram(secured, None).code is Code.NONE, "carried out once more"


def test_a_login_name_that_is_no_name_of_an_object_is_in_the_spec(kubernetes: "Kubernetes") -> None:
    assert scram(kubernetes, name="Alice_1").code is Code.NONE
    (user,) = users(kubernetes).values()
    assert user.spec.username == "Alice_1"
    (compiled,) = map(compile_user, users(kubernetes).values())
    assert compiled.listed.principal == "User:Alice_1"
    assert not compiled.problems
