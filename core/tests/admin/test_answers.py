"""Answers as they stand in a Broker's spec."""

import pytest

from chiplog_core.admin.answers import TopicCounts, Verdict, from_answer, to_answer
from chiplog_core.admin.codes import Code
from chiplog_core.model.admin import AdminAnswer, AdminResult


@pytest.mark.parametrize(
    ("topic", "verdict"),
    [
        ("orders", Verdict()),
        ("orders", Verdict(topic_uid="uid")),
        ("orders", Verdict(would_have=TopicCounts(partitions=6, replicas=3))),
        ("orders", Verdict(code=Code.POLICY_VIOLATION, message="because")),
        ("a/b", Verdict(code=Code.INVALID_TOPIC_EXCEPTION, message="because")),
        ("", Verdict(code=Code.INVALID_REQUEST, message="because")),
    ],
)
def test_what_is_put_into_an_answer_is_read_from_it(topic: str, verdict: Verdict) -> None:
    assert from_answer(to_answer("id", topic, verdict)) == verdict


def test_a_long_message_is_cut_to_what_the_object_may_hold() -> None:
    verdict = from_answer(to_answer("id", "orders", Verdict(code=Code(40), message="x" * 5_000)))
    assert len(verdict.message) == 4_096


def test_a_code_of_a_newer_version_is_an_unknown_error() -> None:
    result = AdminResult(topic="orders", error_code=30_000, error_message="new")
    for answer in (
        AdminAnswer(id="id", error_code=30_000, error_message="new"),
        AdminAnswer(id="id", results=(result,)),
    ):
        assert from_answer(answer) == Verdict(code=Code.UNKNOWN_SERVER_ERROR, message="new")
