"""Which topics a Verification is about."""

from typing import Any

import pytest

from chiplog_core.model.references import ClusterRef
from chiplog_core.model.verification import TopicSelector, VerificationSpec
from chiplog_core.spark.topic_choice import Topics, WaitReason, choose_topics

TOPICS: Topics = {"orders": {"team": "billing"}, "payments": {"team": "billing"}, "logs": {}}


def chosen(existing: Topics = TOPICS, **spec: Any) -> tuple[str, ...] | WaitReason:
    return choose_topics(VerificationSpec(cluster_ref=ClusterRef(name="demo"), **spec), existing)


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({}, ("logs", "orders", "payments")),
        ({"topics": ("payments", "logs")}, ("logs", "payments")),
        (
            {"topic_selector": TopicSelector(match_labels={"team": "billing"})},
            ("orders", "payments"),
        ),
    ],
)
def test_topics_are_named_selected_or_all(spec: dict[str, Any], names: tuple[str, ...]) -> None:
    assert chosen(**spec) == names


def test_a_topic_that_does_not_exist_is_waited_for() -> None:
    many = tuple(f"none-{number}" for number in range(7))

    assert chosen(topics=("order",)) == WaitReason(
        "TopicNotFound",
        "spec.topics contains order, which the cluster does not have (did you mean orders?): "
        "correct it, or create the topic; the run starts when the topic exists",
    )
    found = chosen(topics=many)
    assert isinstance(found, WaitReason)
    assert "none-4 and 2 more, which the cluster does not have: " in found.message


def test_without_any_topic_the_run_waits_for_one() -> None:
    selector = TopicSelector(match_labels={"team": "nobody"})

    assert chosen({}) == WaitReason(
        "NoTopics", "the cluster has no topics: the run starts when there is one"
    )
    assert chosen(topic_selector=selector) == WaitReason(
        "NoTopics",
        "no Topic of the cluster has the labels of spec.topicSelector: the run starts when there "
        "is one",
    )
