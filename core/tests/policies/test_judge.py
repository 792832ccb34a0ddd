"""Policies against topics that are made, that are changed, and that were there before."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_core.policies.judge import NOTHING_AGAINST_IT, judge
from chiplog_core.policies.rules import TopicFacts, violations
from chiplog_core.problems import Problem, Reason
from tests.policies.facts import cluster, facts

PREFIXES = [{"namespace": "team-billing", "prefix": "billing."}]
DAY_MS = 24 * 60 * 60 * 1000


def texts(problems: tuple[Problem, ...]) -> list[str]:
    assert {problem.reason for problem in problems} <= {Reason.POLICY_VIOLATION}
    return [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("policies", "topic", "text"),
    [
        (
            {"namePattern": r"[a-z]+\.[a-z]+"},
            {"name": "orders"},
            (
                r"spec.topicName is orders, which does not match [a-z]+\.[a-z]+, "
                "spec.topicPolicies.namePattern of BrokerCluster prod: choose another name"
            ),
        ),
        (
            {"namePattern": "("},
            {"name": "orders"},
            (
                "spec.topicName cannot be checked: spec.topicPolicies.namePattern of BrokerCluster "
                "prod cannot be parsed: correct that field of the BrokerCluster"
            ),
        ),
        (
            {"namespacePrefixes": PREFIXES},
            {"name": "orders", "namespace": "team-billing"},
            (
                "spec.topicName is orders, but spec.topicPolicies.namespacePrefixes of "
                "BrokerCluster prod requires that names of topics in namespace team-billing start "
                "with billing.: choose a name with that prefix"
            ),
        ),
        (
            {"namespacePrefixes": PREFIXES, "requireNamespacePrefix": True},
            {"name": "orders", "namespace": "team-a"},
            (
                "spec.topicName is orders, but spec.topicPolicies.requireNamespacePrefix of "
                "BrokerCluster prod requires that names of topics in namespace team-a start with "
                "team-a.: choose a name with that prefix"
            ),
        ),
        (
            {"maxPartitions": 6},
            {"partitions": 7},
            (
                "spec.partitions is 7, above spec.topicPolicies.maxPartitions of BrokerCluster "
                "prod, 6: set it to at most 6"
            ),
        ),
        (
            {"minReplicas": 3},
            {"replicas": 2},
            (
                "spec.replicas is 2, below spec.topicPolicies.minReplicas of BrokerCluster prod, "
                "3: set it to at least 3"
            ),
        ),
        (
            {"minRetention": "1d"},
            {"retention_ms": 1000},
            (
                "spec.config[retention.ms] is 1000, below spec.topicPolicies.minRetention of "
                f"BrokerCluster prod, 1d: set it to at least {DAY_MS}"
            ),
        ),
        (
            {"maxRetention": "30d"},
            {"retention_ms": -1},
            (
                "spec.config[retention.ms] is -1, above spec.topicPolicies.maxRetention of "
                f"BrokerCluster prod, 30d: set it to at most {30 * DAY_MS}"
            ),
        ),
        (
            {"maxRetention": "30d"},
            {"cleanup_policy": "compact"},
            (
                "spec.config[cleanup.policy] is compact, which keeps records for ever, and "
                "spec.topicPolicies.maxRetention of BrokerCluster prod forbids that: add delete "
                "to it"
            ),
        ),
        (
            {"maxRetentionBytes": "1Ki"},
            {},
            (
                "spec.config[retention.bytes] is -1, above spec.topicPolicies.maxRetentionBytes of "
                "BrokerCluster prod, 1Ki: set it to at most 1024"
            ),
        ),
        (
            {"maxRetention": "1h"},
            {"inherited": {"log.retention.hours": "2"}},
            (
                "spec.config[retention.ms] is 7200000, above spec.topicPolicies.maxRetention of "
                "BrokerCluster prod, 1h: set it to at most 3600000"
            ),
        ),
    ],
)
def test_a_violation_names_field_limit_and_remedy(
    policies: dict[str, Any], topic: dict[str, Any], text: str
) -> None:
    judgement = judge(cluster(**policies), facts(**topic), None)

    assert texts(judgement.refused) == [text]
    assert judgement.tolerated == ()


@pytest.mark.parametrize(
    ("policies", "topic"),
    [
        ({}, {"retention_ms": -1, "partitions": 2000}),
        ({"namePattern": r"[a-z]+\.[a-z]+"}, {"name": "orders.new"}),
        ({"namespacePrefixes": PREFIXES}, {"name": "billing.a", "namespace": "team-billing"}),
        ({"namespacePrefixes": PREFIXES}, {"namespace": "team-a"}),
        ({"requireNamespacePrefix": True}, {"name": "team-a.orders", "namespace": "team-a"}),
        ({"requireNamespacePrefix": True}, {}),
        ({"maxPartitions": 6}, {"partitions": 6}),
        ({"minReplicas": 3}, {"replicas": 3}),
        ({"minRetention": "1d", "maxRetention": "1d"}, {"retention_ms": DAY_MS}),
        ({"minRetention": "9d"}, {"retention_ms": -1}),
        ({"minRetention": "9d"}, {"cleanup_policy": "compact", "retention_ms": 1}),
        ({"maxRetention": "8d"}, {"cleanup_policy": "compact,delete"}),
        ({"maxRetentionBytes": "1Ki"}, {"retention_bytes": 1024}),
    ],
)
def test_what_keeps_to_the_policies(policies: dict[str, Any], topic: dict[str, Any]) -> None:
    assert judge(cluster(**policies), facts(**topic), None) == NOTHING_AGAINST_IT


def test_what_was_before_a_policy_runs_on_and_may_not_get_worse() -> None:
    policies = cluster(maxPartitions=6, minReplicas=3, maxRetention="1d", namePattern="b.*")
    before = facts(partitions=8, replicas=2, retention_ms=-1)

    same = judge(policies, before, before)
    assert same.refused == ()
    assert len(same.tolerated) == 4
    assert texts(same.tolerated)[1] == (
        "spec.partitions is 8, above spec.topicPolicies.maxPartitions of BrokerCluster prod, 6: "
        "it was set before the policy and stays in force; a change that makes it worse is refused"
    )
    better = judge(policies, facts(partitions=8, replicas=3, retention_ms=2 * DAY_MS), before)
    assert better.refused == ()
    worse = judge(policies, facts(partitions=9, replicas=2, retention_ms=-1), before)
    assert texts(worse.refused) == [
        (
            "spec.partitions is 9, above spec.topicPolicies.maxPartitions of BrokerCluster prod, "
            "6: set it to at most 6, or leave it as it is"
        )
    ]
    assert len(worse.tolerated) == 3


AMOUNTS = st.sampled_from([-1, 0, 5, 10, 20])


@st.composite
def some_facts(draw: st.DrawFn) -> TopicFacts:
    return facts(
        draw(st.sampled_from(["a.x", "b.x", "orders"])),
        namespace=draw(st.sampled_from(["home", "a", "b", ""])),
        partitions=draw(st.integers(1, 9)),
        replicas=draw(st.integers(1, 5)),
        retention_ms=draw(AMOUNTS),
        retention_bytes=draw(AMOUNTS),
        cleanup_policy=draw(st.sampled_from(["delete", "compact", "compact,delete"])),
    )


POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "namePattern": st.sampled_from([r"[ab]\..+", "orders"]),
        "namespacePrefixes": st.just([{"namespace": "a", "prefix": "b."}]),
        "requireNamespacePrefix": st.booleans(),
        "maxPartitions": st.integers(1, 9),
        "minReplicas": st.integers(1, 5),
        "minRetention": st.sampled_from(["5ms", "10ms"]),
        "maxRetention": st.sampled_from(["5ms", "10ms"]),
        "maxRetentionBytes": st.sampled_from(["5", "10"]),
    },
)


@settings(max_examples=500, deadline=None)
@given(policies=POLICIES, wanted=some_facts(), before=some_facts())
def test_every_violation_is_refused_or_was_there_before(
    policies: dict[str, Any], wanted: TopicFacts, before: TopicFacts
) -> None:
    guarded = cluster(**policies)
    found = list(violations(guarded, wanted))
    worst_before = {one.policy: one.excess for one in violations(guarded, before)}

    judgement = judge(guarded, wanted, before)

    assert len(judgement.refused) + len(judgement.tolerated) == len(found)
    assert bool(judgement.refused) == any(
        one.policy not in worst_before or one.excess > worst_before[one.policy] for one in found
    )
    assert len(judge(guarded, wanted, None).refused) == len(found)
    assert judge(guarded, before, before).refused == ()


def test_a_cluster_without_policies_has_nothing_against_any_topic() -> None:
    plain = replace(cluster(), spec=replace(cluster().spec, topic_policies=None))

    assert list(violations(plain, facts("Orders", replicas=3))) == []
