"""What admin clients ask about quotas of users: User objects are written, and say it all."""

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_core.admin.answers import Verdict
from chiplog_core.admin.bodies import from_body, to_body
from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.operations import AlterQuotas
from chiplog_core.client_quotas.entities import Quota
from chiplog_core.client_quotas.listed import listed_quotas
from chiplog_core.model.access_list import AccessListSpec
from chiplog_core.model.admin import AdminOperation
from chiplog_core.naming import labels
from chiplog_core.users.access import admit
from chiplog_core.users.compiled import compile_user
from tests.planner.admin.test_users import READ, apply, ask, of_client, scram, secured, users

if TYPE_CHECKING:
    from tests.planner.admin.conftest import Kubernetes

__all__ = ["secured"]  # a fixture

PRODUCER, CONSUMER = Quota.PRODUCER_BYTE_RATE, Quota.CONSUMER_BYTE_RATE
PERCENTAGE, MUTATIONS = Quota.REQUEST_PERCENTAGE, Quota.CONTROLLER_MUTATION_RATE


def alter(
    kubernetes: "Kubernetes",
    values: dict[Quota, float | None],
    name: str = "alice",
    *,
    validate_only: bool = False,
) -> Verdict:
    return kubernetes.outcome(
        AlterQuotas(username=name, values=values, validate_only=validate_only)
    )


def in_force(kubernetes: "Kubernetes") -> dict[str, dict[Quota, float]]:
    """What brokers read: user -> its quotas."""
    cluster = kubernetes.world().cluster
    assert cluster is not None
    admitted = admit(cluster, map(compile_user, users(kubernetes).values())).admitted
    table = listed_quotas(AccessListSpec(users=tuple(one.listed for one in admitted)))
    return {entity.user or "": dict(found) for entity, found in table.entities.items()}


def quotas(kubernetes: "Kubernetes", name: str = "alice") -> Any:
    return kubernetes.users["kafka", name]["spec"].get("quotas")


def test_the_first_quota_of_a_user_makes_it_and_the_last_one_ends_it(secured: "Kubernetes") -> None:
    assert alter(secured, {PRODUCER: 1_048_576.0, MUTATIONS: 0.5}).code is Code.NONE
    manifest = secured.users["kafka", "alice"]
    assert manifest["spec"] == {
        "clusterRef": {"name": "prod"},
        "quotas": {"producerByteRate": 1_048_576, "controllerMutationRate": 0.5},
    }
    assert manifest["metadata"]["labels"][labels.CREATED_BY] == labels.KAFKA_CLIENT
    assert alter(secured, {PRODUCER: None, CONSUMER: 7.0}).code is Code.NONE
    assert quotas(secured) == {"consumerByteRate": 7, "controllerMutationRate": 0.5}
    assert alter(secured, {CONSUMER: None, MUTATIONS: None}).code is Code.NONE
    assert not secured.users
    assert alter(secured, {CONSUMER: None}).code is Code.NONE, "carried out once more"
    assert not secured.users


def test_what_is_so_already_changes_nothing(secured: "Kubernetes") -> None:
    alter(secured, {PRODUCER: 5.0, MUTATIONS: 2.0})
    version = secured.users["kafka", "alice"]["metadata"]["resourceVersion"]
    assert alter(secured, {PRODUCER: 5.0, MUTATIONS: 2.0, CONSUMER: None}).code is Code.NONE
    assert secured.users["kafka", "alice"]["metadata"]["resourceVersion"] == version


def test_a_user_with_rules_or_a_password_stays_without_quotas(secured: "Kubernetes") -> None:
    ask(secured, READ)
    alter(secured, {PRODUCER: 5.0})
    assert alter(secured, {PRODUCER: None}).code is Code.NONE
    assert "quotas" not in secured.users["kafka", "alice"]["spec"]
    alter(secured, {PRODUCER: 5.0})
    ask(secured, READ, delete=True)
    assert quotas(secured) == {"producerByteRate": 5}, "it still has a quota"
    scram(secured)
    alter(secured, {PRODUCER: None})
    assert users(secured)["alice"].spec.authentication is not None


def test_a_user_that_somebody_applied_stays(secured: "Kubernetes") -> None:
    apply(secured, "alice")
    alter(secured, {PRODUCER: 5.0})
    assert in_force(secured) == {"alice": {PRODUCER: 5.0}}
    alter(secured, {PRODUCER: None})
    assert "quotas" not in secured.users["kafka", "alice"]["spec"]


@pytest.mark.parametrize("value", [7.0, None])
def test_a_quota_of_a_manifest_is_refused_and_others_can_be_set(
    secured: "Kubernetes", value: float | None
) -> None:
    owned = [("argocd", of_client("spec", "quotas", "producerByteRate"))]
    apply(secured, "alice", owned, quotas={"producerByteRate": 5})
    verdict = alter(secured, {PRODUCER: value, CONSUMER: 9.0})
    assert verdict.code is Code.POLICY_VIOLATION
    assert (
        "spec.quotas.producerByteRate of User kafka/alice is managed by argocd" in verdict.message
    )
    assert quotas(secured) == {"producerByteRate": 5}
    assert alter(secured, {PRODUCER: 5.0, CONSUMER: 9.0}).code is Code.NONE, "it is so already"
    assert quotas(secured) == {"producerByteRate": 5, "consumerByteRate": 9}
    assert alter(secured, {CONSUMER: None}).code is Code.NONE
    assert quotas(secured) == {"producerByteRate": 5}


def test_an_empty_field_of_a_manifest_is_not_removed(secured: "Kubernetes") -> None:
    apply(secured, "alice", [("argocd", of_client("spec", "quotas"))], quotas={})
    alter(secured, {PRODUCER: 5.0})
    alter(secured, {PRODUCER: None})
    assert quotas(secured) == {}


def test_a_validation_says_the_same_and_writes_nothing(secured: "Kubernetes") -> None:
    assert alter(secured, {PRODUCER: 5.0}, validate_only=True).code is Code.NONE
    assert not secured.users
    owned = [("argocd", of_client("spec", "quotas", "producerByteRate"))]
    apply(secured, "alice", owned, quotas={"producerByteRate": 5})
    verdict = alter(secured, {PRODUCER: 7.0}, validate_only=True)
    assert verdict.code is Code.POLICY_VIOLATION
    assert alter(secured, {CONSUMER: 7.0}, validate_only=True).code is Code.NONE
    assert quotas(secured) == {"producerByteRate": 5}


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize(
    ("quota", "value", "why"),
    [
        (PERCENTAGE, 0.5, "whole number"),
        (PERCENTAGE, 2.0**31, "spec.quotas.requestPercentage"),
        (PRODUCER, 2.0**63, "spec.quotas.producerByteRate"),
        (PRODUCER, 1.5, "Long"),
        (MUTATIONS, 0.0, "greater than 0"),
    ],
)
def test_a_value_that_a_user_cannot_have_is_refused(
    secured: "Kubernetes", quota: Quota, value: float, why: str, exists: bool
) -> None:
    if exists:
        apply(secured, "alice")
    verdict = alter(secured, {quota: value})
    assert verdict.code is Code.POLICY_VIOLATION
    assert why in verdict.message
    assert [one.spec.quotas for one in users(secured).values()] == [None] * exists


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1", '"5"'])
def test_a_body_with_no_rate_is_refused(value: str) -> None:
    _, body = to_body(AlterQuotas(username="alice", values={PRODUCER: 5.0}))
    assert "5.0" in body
    with pytest.raises(Refused):
        from_body(AdminOperation.ALTER_CLIENT_QUOTAS, body.replace("5.0", value))


def test_without_authorization_and_passwords_quotas_have_no_effect(
    kubernetes: "Kubernetes",
) -> None:
    verdict = alter(kubernetes, {PRODUCER: 5.0})
    assert verdict.code is Code.POLICY_VIOLATION
    assert "spec.authorization.type" in verdict.message
    assert not kubernetes.users


def test_what_is_paused_is_not_changed(secured: "Kubernetes") -> None:
    apply(secured, "alice")
    secured.users["kafka", "alice"]["metadata"]["annotations"] = {labels.PAUSE: "true"}
    verdict = alter(secured, {PRODUCER: 5.0})
    assert verdict.code is Code.POLICY_VIOLATION
    assert labels.PAUSE in verdict.message


def test_the_user_of_a_certificate_gets_the_quota_of_its_subject(secured: "Kubernetes") -> None:
    """Kafka names users of quotas as their principals."""
    apply(secured, "x", username="CN=a,O=b", authentication={"type": "tls-external"})
    assert alter(secured, {PRODUCER: 5.0}, "CN=a,O=b").code is Code.NONE
    assert alter(secured, {PRODUCER: 6.0}, "Alice_1").code is Code.NONE
    assert quotas(secured, "x") == {"producerByteRate": 5}
    assert in_force(secured) == {"CN=a,O=b": {PRODUCER: 5.0}, "Alice_1": {PRODUCER: 6.0}}


def test_of_two_users_with_the_principal_the_older_one_gets_it_and_both_lose_it(
    secured: "Kubernetes",
) -> None:
    apply(secured, "alice")
    apply(secured, "second", username="alice", quotas={"producerByteRate": 1})
    for name, second in (("alice", 1), ("second", 2)):
        stamp = f"2026-01-0{second}T00:00:00Z"
        secured.users["kafka", name]["metadata"]["creationTimestamp"] = stamp
    assert alter(secured, {PRODUCER: 5.0}).code is Code.NONE
    assert (quotas(secured), quotas(secured, "second")) == (
        {"producerByteRate": 5},
        {"producerByteRate": 1},
    )
    assert alter(secured, {PRODUCER: None}).code is Code.NONE
    assert (quotas(secured), quotas(secured, "second")) == (None, None)


def test_two_clients_at_once_lose_nothing(secured: "Kubernetes") -> None:
    alter(secured, {PERCENTAGE: 50.0})
    requests = [
        secured.ask(AlterQuotas(username="alice", values={quota: 5.0}), broker_id)
        for broker_id, quota in ((1, PRODUCER), (2, CONSUMER), (3, MUTATIONS))
    ]
    (write,) = secured.plan().writes
    # Somebody else is faster.
    secured.users["kafka", "alice"]["metadata"]["resourceVersion"] = "newer"
    secured.carry_out(write)
    assert not secured.results.get(write.request_id)
    secured.settle()
    assert {secured.answers()[one].code for one in requests} == {Code.NONE}
    every = {PERCENTAGE: 50.0, PRODUCER: 5.0, CONSUMER: 5.0, MUTATIONS: 5.0}
    assert in_force(secured) == {"alice": every}


VALUES: st.SearchStrategy[dict[Quota, float | None]] = st.dictionaries(
    st.sampled_from(Quota),
    st.none() | st.integers(1, 2**31 - 1).map(float),
)


@given(VALUES | st.dictionaries(st.just(MUTATIONS), st.floats(0, 1e9)), st.booleans())
def test_a_request_reads_as_it_was_written(
    values: dict[Quota, float | None], validate_only: bool
) -> None:
    operation = AlterQuotas(username="größe", values=values, validate_only=validate_only)
    assert from_body(*to_body(operation)) == operation


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["alice", "CN=bob", "*x"]), VALUES), max_size=6))
def test_any_changes_leave_exactly_these_quotas(
    new_kubernetes: Any, changes: list[tuple[str, dict[Quota, float | None]]]
) -> None:
    kubernetes = new_kubernetes()
    kubernetes.cluster["spec"]["authorization"] = {"type": "simple"}
    wanted: dict[str, dict[Quota, float]] = {}
    for name, values in changes:
        assert alter(kubernetes, values, name).code is Code.NONE
        after: dict[Quota, float | None] = {**wanted.get(name, {}), **values}
        wanted[name] = {quota: value for quota, value in after.items() if value is not None}
        wanted = {one: found for one, found in wanted.items() if found}
        assert in_force(kubernetes) == wanted
        assert len(kubernetes.users) == len(wanted)
