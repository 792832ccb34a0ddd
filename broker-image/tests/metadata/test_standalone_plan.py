"""What a standalone cluster decides about topics, by Kafka's codes."""

from dataclasses import replace
from uuid import UUID

import pytest

from chiplog_broker.metadata.standalone_plan import (
    Defaults,
    TopicRecord,
    check_identity,
    configured_topic_record,
    grown_topic_record,
    new_topic_record,
)
from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.config_change import Change, ConfigChange
from chiplog_core.admin.operations import ConfigureTopic, CreateTopic, DeleteTopic, GrowTopic
from chiplog_core.ids import TopicId

ID = UUID(int=77)
DEFAULTS = Defaults(broker_id=1, partitions=4, session=7)
ORDERS = TopicRecord("orders", ID, (3, 3), {"retention.ms": "1000"})


def create(operation: CreateTopic) -> TopicRecord:
    return new_topic_record(operation, {"orders": ORDERS}, DEFAULTS, ID)


def refusal(operation: CreateTopic) -> Code:
    with pytest.raises(Refused) as refused:
        create(operation)
    assert str(refused.value)
    return refused.value.code


def test_counts_left_to_the_cluster_are_its_defaults() -> None:
    assert create(CreateTopic(name="new")).made_in_sessions == (7, 7, 7, 7)


def test_counts_can_follow_from_a_placement() -> None:
    record = create(CreateTopic(name="new", assignments={1: (1,), 0: (1,)}))
    assert record.made_in_sessions == (7, 7)


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (CreateTopic(name="orders"), Code.TOPIC_ALREADY_EXISTS),
        (CreateTopic(name=""), Code.INVALID_TOPIC_EXCEPTION),
        (CreateTopic(name=".."), Code.INVALID_TOPIC_EXCEPTION),
        (CreateTopic(name="x" * 250), Code.INVALID_TOPIC_EXCEPTION),
        (CreateTopic(name="naïve"), Code.INVALID_TOPIC_EXCEPTION),
        (CreateTopic(name="__consumer_offsets"), Code.INVALID_TOPIC_EXCEPTION),
        (CreateTopic(name="n", partitions=0), Code.INVALID_PARTITIONS),
        (CreateTopic(name="n", partitions=2001), Code.INVALID_PARTITIONS),
        (CreateTopic(name="n", replicas=2), Code.INVALID_REPLICATION_FACTOR),
        (CreateTopic(name="n", replicas=0), Code.INVALID_REPLICATION_FACTOR),
        (CreateTopic(name="n", assignments={0: (2,)}), Code.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopic(name="n", assignments={1: (1,)}), Code.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopic(name="n", partitions=1, assignments={0: (1,)}), Code.INVALID_REQUEST),
        (CreateTopic(name="n", config={"retention.mss": "1"}), Code.INVALID_CONFIG),
        (CreateTopic(name="n", config={"retention.ms": "-2"}), Code.INVALID_CONFIG),
        (CreateTopic(name="n", config={"cleanup.policy": "condense"}), Code.INVALID_CONFIG),
        (CreateTopic(name="n", config={"min.insync.replicas": "2"}), Code.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_is_refused(operation: CreateTopic, code: Code) -> None:
    assert refusal(operation) is code


def test_names_that_metrics_cannot_tell_apart_collide() -> None:
    topics = {"a.b": TopicRecord("a.b", ID, (1,), {})}
    with pytest.raises(Refused, match=r"a\.b") as refused:
        new_topic_record(CreateTopic(name="a_b"), topics, DEFAULTS, ID)
    assert refused.value.code is Code.INVALID_TOPIC_EXCEPTION


def test_another_topic_that_has_the_name_by_now_is_not_deleted() -> None:
    check_identity(DeleteTopic(name="orders"), ORDERS)
    check_identity(DeleteTopic(name="orders", topic_id=TopicId(ID.bytes)), ORDERS)
    with pytest.raises(Refused) as refused:
        check_identity(DeleteTopic(name="orders", topic_id=TopicId(bytes(15) + b"x")), ORDERS)
    assert refused.value.code is Code.UNKNOWN_TOPIC_ID


def test_new_partitions_begin_their_epochs_in_this_session() -> None:
    assert grown_topic_record(
        GrowTopic(name="orders", partitions=4), ORDERS, {}, DEFAULTS
    ) == TopicRecord("orders", ID, (3, 3, 7, 7), ORDERS.config)


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (GrowTopic(name="orders", partitions=1), Code.INVALID_PARTITIONS),
        (GrowTopic(name="orders", partitions=2), Code.INVALID_PARTITIONS),
        (GrowTopic(name="orders", partitions=2001), Code.INVALID_PARTITIONS),
        (
            GrowTopic(name="orders", partitions=4, assignments=((1,),)),
            Code.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            GrowTopic(name="orders", partitions=3, assignments=((2,),)),
            Code.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_growth_that_cannot_be_is_refused(operation: GrowTopic, code: Code) -> None:
    with pytest.raises(Refused) as refused:
        grown_topic_record(operation, ORDERS, {}, DEFAULTS)
    assert refused.value.code is code


def test_a_refused_configuration_names_key_and_remedy() -> None:
    with pytest.raises(Refused, match=r"config\[retention\.mss\].*retention\.ms"):
        configured_topic_record(setting("retention.mss", "1"), ORDERS, DEFAULTS)


def setting(name: str, value: str) -> ConfigureTopic:
    return ConfigureTopic(name="orders", changes=(ConfigChange(Change.SET, name, value),))


def test_changes_add_to_the_configuration_and_a_replacement_does_not() -> None:
    change = setting("segment.ms", "+5")
    assert configured_topic_record(change, ORDERS, DEFAULTS).config == {
        "retention.ms": "1000",
        "segment.ms": "5",
    }
    assert configured_topic_record(replace(change, replace=True), ORDERS, DEFAULTS).config == {
        "segment.ms": "5"
    }


def test_words_are_added_to_what_is_in_force() -> None:
    change = ConfigureTopic(
        name="orders", changes=(ConfigChange(Change.APPEND, "cleanup.policy", "delete"),)
    )
    assert configured_topic_record(change, ORDERS, DEFAULTS).config["cleanup.policy"] == "delete"
