"""Operations as the bodies of admin requests."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.admin.bodies import from_body, to_body
from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.config_change import Change, ConfigChange
from chiplog_core.admin.operations import (
    ConfigureBroker,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    GrowTopic,
    Request,
)
from chiplog_core.ids import TopicId
from chiplog_core.limits import MAX_ADMIN_BODY_LENGTH
from chiplog_core.model.admin import AdminOperation

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
COUNTS = st.none() | INT32.filter(lambda count: count != -1)
BROKERS = st.lists(INT32, max_size=3).map(tuple)
DELETIONS = st.builds(ConfigChange, st.just(Change.DELETE), TEXTS)
SETTINGS = st.builds(ConfigChange, st.just(Change.SET), TEXTS, TEXTS)
CHANGES = DELETIONS | st.builds(
    ConfigChange, st.sampled_from([Change.SET, Change.APPEND, Change.SUBTRACT]), TEXTS, TEXTS
)


def of_different_keys(changes: st.SearchStrategy[ConfigChange]) -> st.SearchStrategy[object]:
    return st.lists(changes, max_size=3, unique_by=lambda one: one.name).map(tuple)


OPERATIONS: st.SearchStrategy[Request] = st.one_of(
    st.builds(
        ConfigureBroker,
        broker_id=st.integers(0, 2**31 - 1),
        changes=of_different_keys(CHANGES),
        validate_only=st.booleans(),
    ),
    st.builds(
        CreateTopic,
        name=TEXTS,
        partitions=COUNTS,
        replicas=COUNTS,
        assignments=st.dictionaries(INT32, BROKERS, max_size=3),
        config=st.dictionaries(TEXTS, TEXTS, max_size=3),
        validate_only=st.booleans(),
        timeout_ms=INT32,
    ),
    st.builds(
        DeleteTopic,
        name=TEXTS,
        topic_id=st.none()
        | st.integers(2, 2**128 - 1).map(lambda n: TopicId(n.to_bytes(16, "big"))),
        timeout_ms=INT32,
    ),
    st.builds(
        GrowTopic,
        name=TEXTS,
        partitions=INT32,
        assignments=st.lists(BROKERS, max_size=3).map(tuple),
        validate_only=st.booleans(),
        timeout_ms=INT32,
    ),
    st.builds(
        ConfigureTopic,
        name=TEXTS,
        changes=of_different_keys(CHANGES),
        validate_only=st.booleans(),
    ),
    st.builds(
        ConfigureTopic,
        name=TEXTS,
        changes=of_different_keys(SETTINGS),
        replace=st.just(True),
        validate_only=st.booleans(),
    ),
)


@given(OPERATIONS)
def test_what_is_written_reads_as_the_same_operation(operation: Request) -> None:
    assert from_body(*to_body(operation)) == operation


def test_a_body_has_the_names_of_kafkas_protocol() -> None:
    op, body = to_body(CreateTopic(name="orders", assignments={0: (1,)}, config={"a": "b"}))
    assert op is AdminOperation.CREATE_TOPICS
    topic = {
        "name": "orders",
        "numPartitions": -1,
        "replicationFactor": -1,
        "assignments": [{"partitionIndex": 0, "brokerIds": [1]}],
        "configs": [{"name": "a", "value": "b"}],
    }
    assert json.loads(body) == {"topics": [topic], "timeoutMs": 30_000, "validateOnly": False}


def test_a_request_that_does_not_fit_is_not_sent() -> None:
    placed = dict.fromkeys(range(2000), (1, 2, 3))
    with pytest.raises(Refused, match="as JSON") as refused:
        to_body(CreateTopic(name="orders", assignments=placed))
    assert refused.value.code is Code.INVALID_REQUEST


DELETE = '{"topics":[{"name":"a"}],"timeoutMs":1}'
ALTER = '{"resources":[{"resourceType":2,"resourceName":"a","configs":[%s]}],"validateOnly":false}'


@pytest.mark.parametrize(
    ("op", "body"),
    [
        ("DeleteTopics", ""),
        ("DeleteTopics", "null"),
        ("DeleteTopics", "[]"),
        ("DeleteTopics", "{"),
        ("DeleteTopics", "[" * 10_000),
        ("DeleteTopics", DELETE.replace("name", "nam")),
        ("DeleteTopics", DELETE.replace("timeoutMs", "timeout")),
        ("DeleteTopics", DELETE.replace('"a"', "1")),
        ("DeleteTopics", DELETE.replace(":1}", ":2147483648}")),
        ("DeleteTopics", DELETE.replace("]", ',{"name":"b"}]')),
        ("DeleteTopics", DELETE.replace('{"name":"a"}', "")),
        ("DeleteTopics", DELETE.replace('"a"', '"a","forceful":true')),
        ("DeleteTopics", DELETE.replace('"a"', '"a","topicId":"?"')),
        ("CreateTopics", DELETE),
        ("ElectLeaders", DELETE),
        ("AlterConfigs", ALTER % '{"name":"a"}'),
        ("AlterConfigs", (ALTER % "").replace('"resourceType":2', '"resourceType":4')),
        ("AlterConfigs", ALTER % '{"name":"a","value":"1"},{"name":"a","value":"2"}'),
        ("IncrementalAlterConfigs", ALTER % '{"name":"a","configOperation":0}'),
        ("IncrementalAlterConfigs", ALTER % '{"name":"a","configOperation":1,"value":"1"}'),
        ("IncrementalAlterConfigs", ALTER % '{"name":"a","configOperation":4,"value":"1"}'),
        ("IncrementalAlterConfigs", (ALTER % "").replace('"resourceType":2', '"resourceType":3')),
        ("IncrementalAlterConfigs", (ALTER % "").replace('"resourceType":2', '"resourceType":4')),
        ("DeleteTopics", DELETE + " " * MAX_ADMIN_BODY_LENGTH),
    ],
)
def test_a_body_that_is_not_understood_whole_is_refused(op: str, body: str) -> None:
    with pytest.raises(Refused) as refused:
        from_body(AdminOperation(op), body)
    assert refused.value.code is Code.INVALID_REQUEST
    assert str(refused.value)


def test_the_examples_above_are_wrong_in_one_thing_only() -> None:
    assert from_body(AdminOperation.DELETE_TOPICS, DELETE) == DeleteTopic(name="a", timeout_ms=1)
    body = ALTER % '{"name":"a","value":"1"}'
    assert from_body(AdminOperation.ALTER_CONFIGS, body) == ConfigureTopic(
        name="a", changes=(ConfigChange(Change.SET, "a", "1"),), replace=True
    )


def test_every_operation_has_a_form() -> None:
    for op in AdminOperation:
        with pytest.raises(Refused, match="cannot be parsed"):
            from_body(op, "{}")
