"""Rules for clusters, each with what a user reads."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chiplog_core.model.broker_cluster import BrokerCluster, BrokerClusterStatus
from chiplog_core.naming.api import API_VERSION
from chiplog_core.problems import Problem, Reason
from chiplog_core.quantities import Quantity
from chiplog_core.validate import unbuilt
from chiplog_core.validate.broker_cluster import (
    check_cluster,
    check_cluster_change,
)


def cluster(name: str = "demo", **spec: object) -> BrokerCluster:
    return BrokerCluster.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "BrokerCluster",
            "metadata": {"name": name, "namespace": "home"},
            "spec": {"replicas": 3, "storage": {"size": "10Gi"}, **spec},
        }
    )


def listener(**fields: object) -> dict[str, object]:
    return {"name": "plain", "type": "internal", "port": 9092, **fields}


def texts(problems: tuple[Problem, ...]) -> list[str]:
    return [str(problem) for problem in problems]


def window(schedule: str, duration: str) -> dict[str, Any]:
    return {"windows": [{"schedule": schedule, "duration": duration}]}


@pytest.fixture
def everything_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no feature were missing, to see the other rules alone."""
    monkeypatch.setattr(unbuilt, "UNBUILT", {})


def test_a_plain_cluster_has_no_problem() -> None:
    assert check_cluster(cluster()) == ()
    assert check_cluster_change(cluster(), cluster(replicas=5)) == ()


def test_a_name_that_leaves_no_room_for_service_names() -> None:
    assert texts(check_cluster(cluster("a" * 39))) == [
        (
            "metadata.name has 39 characters, too many for the names of Services made from it: "
            "use at most 38 characters"
        )
    ]
    assert check_cluster(cluster("a" * 38)) == ()


@pytest.mark.parametrize("name", ["7seas", "a.b", "Demo", "demo-"])
def test_a_name_that_is_no_dns_label(name: str) -> None:
    (problem,) = check_cluster(cluster(name))

    assert problem.message == f"is {name!r}"
    assert problem.remedy.startswith("choose a DNS label")


@pytest.mark.parametrize(
    ("size", "told"),
    [
        ("0", "is 0, below the minimum of 64Mi: set it to more, like 100Gi"),
        ("10", "is 10 bytes, below the minimum of 64Mi: write a unit, like 10Gi"),
        ("63Mi", "is 63Mi, below the minimum of 64Mi: set it to more, like 100Gi"),
    ],
)
def test_a_volume_that_is_too_small(size: str, told: str) -> None:
    assert texts(check_cluster(cluster(storage={"size": size}))) == [f"spec.storage.size {told}"]
    assert check_cluster(cluster(storage={"size": "64Mi"})) == ()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"name": "internal"},
            (
                "spec.listeners[0].name is internal, the name of the brokers' own listener: "
                "choose another name, like plain"
            ),
        ),
        (
            {"port": 9091},
            (
                "spec.listeners[0].port is 9091, which brokers use themselves: "
                "choose another port, like 9092"
            ),
        ),
        (
            {"advertisedHost": "example.com"},
            (
                "spec.listeners[0].advertisedHost is set, but a listener of type internal "
                "advertises the brokers' pods: remove it"
            ),
        ),
        (
            {"nodePortBase": 32_090},
            "spec.listeners[0].nodePortBase is set, but only type nodeport uses it: remove it",
        ),
        (
            {"type": "nodeport", "nodePortBase": 32_766},
            (
                "spec.listeners[0].nodePortBase is 32766, which leaves too few ports for 3 "
                "brokers: set it to at most 32764"
            ),
        ),
    ],
)
def test_a_listener_that_cannot_be(fields: dict[str, Any], problem: str) -> None:
    assert texts(check_cluster(cluster(listeners=[listener(**fields)]))) == [problem]


def test_what_a_listener_without_tls_cannot_have() -> None:
    given = {"secretName": "kafka-tls", "certificate": "tls.crt", "key": "tls.key"}
    wants = {"authentication": {"type": "tls"}, "configuration": {"brokerCertChainAndKey": given}}

    assert texts(check_cluster(cluster(listeners=[listener(**wants)]))) == [
        "spec.listeners[0].authentication.type is tls, which needs TLS: set tls to true",
        (
            "spec.listeners[0].configuration.brokerCertChainAndKey is set, but the listener has "
            "no TLS: remove it, or set tls to true"
        ),
    ]
    assert check_cluster(cluster(listeners=[listener(tls=True, **wants)])) == ()
    assert check_cluster(cluster(listeners=[listener(configuration={})])) == ()


def test_certificates_are_renewed_before_they_expire() -> None:
    cluster_ca, clients_ca = {"validityDays": 30}, {"renewalDays": 400}

    assert texts(check_cluster(cluster(clusterCa=cluster_ca, clientsCa=clients_ca))) == [
        (
            "spec.clusterCa.renewalDays is 30, not less than validityDays: set it to less than "
            "30, or raise validityDays"
        ),
        (
            "spec.clientsCa.renewalDays is 400, not less than validityDays: set it to less than "
            "365, or raise validityDays"
        ),
    ]
    assert check_cluster(cluster(clusterCa={"validityDays": 31}, clientsCa={})) == ()


def test_two_listeners_on_one_port() -> None:
    twice = cluster(listeners=[listener(), listener(name="other")])

    assert texts(check_cluster(twice)) == [
        ("spec.listeners[1].port is 9092, which another listener has: choose another port")
    ]


def test_two_listeners_whose_node_ports_overlap() -> None:
    one = {"name": "one", "type": "nodeport", "port": 9094, "nodePortBase": 32_090}
    two = {"name": "two", "type": "nodeport", "port": 9095, "nodePortBase": 32_093}

    assert texts(check_cluster(cluster(listeners=[one, two]))) == [
        (
            "spec.listeners[1].nodePortBase is 32093, so its node ports 32093 to 32096 overlap "
            "32090 to 32093, those of spec.listeners[0].nodePortBase: set one of the two at "
            "least 4 away from the other"
        )
    ]
    beside = {**two, "nodePortBase": 32_094}
    assert check_cluster(cluster(listeners=[one, beside])) == ()


def test_listeners_as_they_should_be() -> None:
    outside = {"name": "external", "type": "nodeport", "port": 9094, "nodePortBase": 32_090}

    assert check_cluster(cluster(listeners=[listener(), outside])) == ()


@pytest.mark.parametrize("key", ["default.replication.factor", "min.insync.replicas"])
def test_replicas_of_topics_are_at_most_the_brokers(key: str) -> None:
    assert texts(check_cluster(cluster(config={key: 4}))) == [
        (
            f"spec.config[{key}] is 4, but there are 3 brokers: "
            "set it to at most 3, or raise spec.replicas"
        )
    ]
    assert check_cluster(cluster(config={key: 3})) == ()


def test_a_wrong_configuration_names_the_key() -> None:
    assert texts(check_cluster(cluster(config={"log.dirs": "/data"}))) == [
        "spec.config[log.dirs] is written by the operator: set spec.storage"
    ]


@pytest.mark.usefixtures("everything_built")
def test_policies_that_contradict_themselves() -> None:
    policies = {
        "namePattern": "(",
        "minReplicas": 4,
        "minRetention": "2d",
        "maxRetention": "1d",
        "maxRetentionBytes": "1500m",
    }

    assert texts(check_cluster(cluster(topicPolicies=policies))) == [
        (
            "spec.topicPolicies.namePattern cannot be used: it has a ( without a ): "
            "write one like payments\\.[a-z]+"
        ),
        (
            "spec.topicPolicies.maxRetentionBytes is 1500m, which is not a number of bytes: "
            "set it to one, like 50Gi"
        ),
        (
            "spec.topicPolicies.minReplicas is 4, but there are 3 brokers: "
            "lower it, or raise spec.replicas"
        ),
        (
            "spec.topicPolicies.minRetention is 2d, longer than maxRetention, 1d: "
            "lower it, or raise maxRetention"
        ),
    ]


@pytest.mark.usefixtures("everything_built")
def test_policies_that_do_not() -> None:
    policies = {"namePattern": "[a-z]+", "minReplicas": 3, "maxRetention": "1d"}

    assert check_cluster(cluster(topicPolicies=policies)) == ()
    assert check_cluster(cluster(topicPolicies={})) == ()


@pytest.mark.parametrize(
    ("policy", "field", "message"),
    [
        ({"maxParallelPerRack": 2}, "maxParallelPerRack", "racks are not known"),
        ({"timeZone": "Europe/Atlantis"}, "timeZone", "is 'Europe/Atlantis', which is no time"),
        (window("0 25 * * *", "1h"), "windows[0].schedule", "hour '25'"),
        (window("0 2 * * *", "0s"), "windows[0].duration", "not between 1ms and 366d"),
        (window("0 2 * * *", "367d"), "windows[0].duration", "not between 1ms and 366d"),
    ],
)
def test_a_mistake_in_the_policy_for_restarts(
    policy: dict[str, Any], field: str, message: str
) -> None:
    (problem,) = check_cluster(cluster(rollPolicy=policy))

    assert problem.field == f"spec.rollPolicy.{field}"
    assert message in problem.message
    assert problem.remedy


def test_restarts_in_windows_of_a_rack_are_no_problem() -> None:
    policy = {"timeZone": "Europe/Berlin", "maxParallelPerRack": 2, **window("0 2 * * 6", "3h")}

    assert check_cluster(cluster(rollPolicy=policy, rack={"topologyKey": "zone"})) == ()


def test_what_is_not_built_is_said_so() -> None:
    (problem,) = check_cluster(cluster(hibernate=True))

    assert problem.field == "spec.hibernate"
    assert problem.reason is Reason.NOT_SUPPORTED


def test_a_wish_that_asks_for_nothing_is_no_problem() -> None:
    assert check_cluster(cluster(consumerGroups={"discover": False}, hibernate=False)) == ()


def test_volumes_do_not_shrink() -> None:
    before, after = cluster(), cluster(storage={"size": "9999Mi"})

    assert texts(check_cluster_change(before, after)) == [
        ("spec.storage.size is 9999Mi, but volumes of 10Gi cannot shrink: set it to 10Gi or more")
    ]
    assert check_cluster_change(before, cluster(storage={"size": "10240Mi"})) == ()
    assert check_cluster_change(before, cluster(storage={"size": "20Gi"})) == ()


def test_a_size_that_no_volume_has_reached_is_taken_back() -> None:
    raised = cluster(storage={"size": "20Gi"})
    status = BrokerClusterStatus(volume_size=Quantity("10Gi"))
    before = dataclasses.replace(raised, status=status)

    assert check_cluster_change(before, cluster(storage={"size": "10Gi"})) == ()
    assert texts(check_cluster_change(before, cluster(storage={"size": "9Gi"}))) == [
        "spec.storage.size is 9Gi, but volumes of 10Gi cannot shrink: set it to 10Gi or more"
    ]


@pytest.mark.parametrize(
    ("before", "after", "remedy"),
    [
        ("slow", "fast", "set it back to slow"),
        ("slow", None, "set it back to slow"),
        (None, "fast", "remove it"),
    ],
)
def test_volumes_stay_in_their_class(before: str | None, after: str | None, remedy: str) -> None:
    def of_class(name: str | None) -> BrokerCluster:
        return cluster(storage={"size": "10Gi", "class": name})

    (problem,) = check_cluster_change(of_class(before), of_class(after))

    assert problem.field == "spec.storage.class"
    assert problem.remedy == remedy


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_cluster_can_be_judged(
    data: st.DataObject, values_of: Callable[[type[Any]], st.SearchStrategy[Any]]
) -> None:
    before, after = data.draw(values_of(BrokerCluster)), data.draw(values_of(BrokerCluster))

    for problem in (*check_cluster(after), *check_cluster_change(before, after)):
        assert problem.field.startswith(("spec.", "metadata."))
        assert problem.message
        assert problem.remedy


def test_a_peer_that_selects_nobody_is_refused() -> None:
    peers = [{}, {"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}]

    assert texts(check_cluster(cluster(listeners=[listener(networkPolicyPeers=peers)]))) == [
        (
            "spec.listeners[0].networkPolicyPeers[0] selects nobody: set podSelector, "
            "namespaceSelector or ipBlock; {} as a selector means all"
        )
    ]


def test_a_peer_is_an_address_block_or_selected_by_labels() -> None:
    peers = [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]

    assert texts(check_cluster(cluster(listeners=[listener(networkPolicyPeers=peers)]))) == [
        (
            "spec.listeners[0].networkPolicyPeers[0].ipBlock is set together with a selector, but "
            "a peer is either an address block or selected by labels: make it a peer of its own"
        )
    ]


def test_a_template_has_its_own_rules() -> None:
    assert check_cluster(cluster(template={"labels": {"team": "a"}})) == ()
    (problem,) = check_cluster(cluster(template={"labels": {"chiplog.dev/cluster": "a"}}))
    assert problem.field.startswith("spec.template.labels")


@pytest.mark.parametrize(("most", "is_one"), [("50Gi", True), ("1", True), ("0", False)])
def test_the_largest_retention_is_a_number_of_bytes(most: str, is_one: bool) -> None:
    problems = check_cluster(cluster(topicPolicies={"maxRetentionBytes": most}))

    assert (problems == ()) is is_one


NIGHT = {"schedule": "0 22 * * *", "duration": "7h"}


def test_settings_of_an_automatic_rebalance_that_would_have_no_effect() -> None:
    fine = [
        {"mode": "add-brokers", "template": "gentle", "windows": [NIGHT], "timeZone": "UTC"},
        {"mode": "imbalance", "threshold": 30, "unevenFor": "1h", "template": "gentle"},
        {"mode": "remove-brokers"},
    ]
    assert check_cluster(cluster(autoRebalance=fine)) == ()
    assert texts(
        check_cluster(
            cluster(
                autoRebalance=[
                    {"mode": "add-brokers", "threshold": 30},
                    {"mode": "remove-brokers", "template": "gentle"},
                ]
            )
        )
    ) == [
        "spec.autoRebalance[0].threshold is only for mode imbalance: remove it",
        (
            "spec.autoRebalance[1].template is set, but removed brokers are emptied without a "
            "Rebalance: remove it"
        ),
    ]
    assert texts(
        check_cluster(
            cluster(
                autoRebalance=[
                    {"mode": "add-brokers", "unevenFor": "5m"},
                    {"mode": "remove-brokers", "windows": [NIGHT]},
                ]
            )
        )
    ) == [
        "spec.autoRebalance[0].unevenFor is only for mode imbalance: remove it",
        (
            "spec.autoRebalance[1].windows is set, but removed brokers are emptied at any time: "
            "remove it"
        ),
    ]


def test_the_windows_of_automatic_rebalances_are_checked_like_those_of_restarts() -> None:
    windows = [{"schedule": "0 99 * * *", "duration": "0s"}]
    wrong = [{"mode": "add-brokers", "windows": windows, "timeZone": "Europe/Atlantis"}]
    assert [one.field for one in check_cluster(cluster(autoRebalance=wrong))] == [
        "spec.autoRebalance[0].timeZone",
        "spec.autoRebalance[0].windows[0].schedule",
        "spec.autoRebalance[0].windows[0].duration",
    ]
