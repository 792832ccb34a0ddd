"""The documented permissions are those that are granted, and no more than what is needed."""

import pytest

from charts.tests.files import ALL, Right, chart_rights, covers, documented, rights
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_operator.resources.access import role
from chiplog_operator.resources.build import KINDS

SECTIONS = {
    "namespaced": "### In every watched namespace",
    "cluster": "### For the whole cluster",
    "own": "### In its own namespace",
}


PASSWORDS = {
    "name": "scram",
    "type": "internal",
    "port": 9093,
    "authentication": {"type": "scram-sha-512"},
}


def broker_rights(
    cluster: str = "demo", broker: int = 2, listeners: tuple[object, ...] = (PASSWORDS,)
) -> set[Right]:
    manifest = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "BrokerCluster",
        "metadata": {"name": cluster, "namespace": "team", "uid": "1f3c"},
        "spec": {"replicas": 3, "storage": {"size": "10Gi"}, "listeners": list(listeners)},
    }
    return rights(role(BrokerCluster.from_manifest(manifest), BrokerId(broker))["rules"])


def test_a_broker_may_do_what_is_documented() -> None:
    expected = {
        Right(
            right.group,
            right.resource,
            right.object.replace("<cluster>", "demo").replace("<id>", "2"),
            right.verb,
        )
        for right in documented("## A broker")
    }
    assert broker_rights() == expected


@pytest.mark.parametrize("section", SECTIONS)
def test_the_operator_may_do_what_is_documented(section: str) -> None:
    assert chart_rights(section) == documented(SECTIONS[section])


def test_a_broker_writes_nothing_but_its_own() -> None:
    writes = {right for right in broker_rights() if right.verb not in {"get", "list", "watch"}}
    assert writes == {
        Right("chiplog.dev", "brokers/status", "demo-2", "patch"),
        Right("coordination.k8s.io", "leases", "demo-2", "patch"),
    }


def test_two_brokers_share_no_right_to_write() -> None:
    one, other = broker_rights("demo", 1), broker_rights("demo", 11)
    assert all(right.verb in {"get", "list", "watch"} for right in one & other)
    assert {right.object for right in one & other} == {ALL, "demo", "demo-scram-credentials"}


def test_a_broker_reads_verifiers_only_if_users_have_passwords() -> None:
    more = broker_rights() - broker_rights(listeners=())
    assert more == {Right("", "secrets", "demo-scram-credentials", "get")}


@pytest.mark.parametrize("section", SECTIONS)
def test_there_are_no_wildcards(section: str) -> None:
    for right in chart_rights(section):
        assert "*" not in f"{right.group}{right.resource}{right.object}{right.verb}"


def test_the_operator_has_every_right_it_grants() -> None:
    """Or the API server refuses the brokers' Roles as an escalation."""
    has = chart_rights("namespaced")
    assert all(covers(has, right) for right in broker_rights())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_the_operator_may_apply_every_kind_it_builds(kind: kinds.Kind) -> None:
    has = chart_rights("namespaced")
    group = kind.api_version.rpartition("/")[0]
    for verb in ("get", "create", "patch"):  # server-side apply is a patch, and creates
        assert Right(group, kind.plural, ALL, verb) in has, verb


def test_what_holds_data_is_deleted_one_by_one_and_brokers_never() -> None:
    has = chart_rights("namespaced")
    on_claims = {right.verb for right in has if right.resource == "persistentvolumeclaims"}
    assert on_claims == {"get", "list", "watch", "patch", "delete"}, (
        "neither create nor a whole list"
    )
    assert {right.verb for right in has if right.resource == "persistentvolumes"} == set()
    for verb in ("delete", "deletecollection"):
        assert Right("chiplog.dev", "brokers", ALL, verb) not in has
    assert Right("", "secrets", ALL, "list") not in has


def test_the_operators_lease_is_the_one_it_holds() -> None:
    named = {right.object for right in chart_rights("own")} - {ALL}
    assert named == {names.OPERATOR_LEASE}
