"""What every cluster checks of an admin operation; what needs one broker only is tested there."""

import pytest

from chiplog_core.admin.capacity import Capacity
from chiplog_core.admin.checks import (
    ClusterFacts,
    ExistingTopic,
    NewTopic,
    check_configuration,
    check_creation,
    check_growth,
)
from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.config_change import Change, ConfigChange
from chiplog_core.admin.operations import ConfigureTopic, CreateTopic, GrowTopic
from chiplog_core.admin.topic_names import code_of_unknown

FACTS = ClusterFacts(
    broker_ids=(1, 2, 3),
    default_partitions=6,
    default_replicas=2,
    topics=("orders", "a.b"),
    capacity=Capacity(topics=2, partitions=8, max_topics=100, max_partitions=3_000),
    inherited={"log.cleanup.policy": "delete"},
)
ORDERS = ExistingTopic(name="orders", partitions=2, replicas=2, config={"segment.ms": "7"})


def test_what_a_client_leaves_open_is_the_clusters_default() -> None:
    new = check_creation(CreateTopic(name="n", config={"retention.ms": " 5 "}), FACTS)
    assert new == NewTopic(partitions=6, replicas=2, config={"retention.ms": "5"})


def test_counts_follow_from_a_placement() -> None:
    new = check_creation(CreateTopic(name="n", assignments={1: (2, 3), 0: (1, 2)}), FACTS)
    assert (new.partitions, new.replicas) == (2, 2)


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        # A client that is wrong in everything learns of the first thing in Kafka's order.
        (CreateTopic(name="..", partitions=0, replicas=9), Code.INVALID_TOPIC_EXCEPTION),
        (CreateTopic(name="orders", partitions=0, replicas=9), Code.TOPIC_ALREADY_EXISTS),
        (CreateTopic(name="a_b", partitions=0, replicas=9), Code.INVALID_TOPIC_EXCEPTION),
        (CreateTopic(name="n", partitions=0, replicas=9), Code.INVALID_REPLICATION_FACTOR),
        (CreateTopic(name="n", replicas=4), Code.INVALID_REPLICATION_FACTOR),
        (CreateTopic(name="n", replicas=-2), Code.INVALID_REPLICATION_FACTOR),
        (CreateTopic(name="n", replicas=32_768), Code.INVALID_REPLICATION_FACTOR),
        (CreateTopic(name="n", partitions=-2), Code.INVALID_PARTITIONS),
        (CreateTopic(name="n", assignments={0: (4,)}), Code.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopic(name="n", assignments={1: (1,)}), Code.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopic(name="n", assignments={0: (1,)}, partitions=1), Code.INVALID_REQUEST),
        (CreateTopic(name="n", assignments={0: (1,)}, replicas=1), Code.INVALID_REQUEST),
        (CreateTopic(name="n", assignments={0: (1, 1)}), Code.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopic(name="n", assignments={0: ()}), Code.INVALID_REPLICA_ASSIGNMENT),
        (
            CreateTopic(name="n", assignments={0: (1,), 1: (1, 2)}),
            Code.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            CreateTopic(name="n", assignments=dict.fromkeys(range(2_001), (1,))),
            Code.INVALID_PARTITIONS,
        ),
        (
            CreateTopic(name="n", replicas=1, config={"min.insync.replicas": "2"}),
            Code.INVALID_CONFIG,
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused(operation: CreateTopic, code: Code) -> None:
    with pytest.raises(Refused) as refused:
        check_creation(operation, FACTS)
    assert refused.value.code is code


def test_too_many_replicas_are_refused_in_kafkas_words() -> None:
    with pytest.raises(Refused, match=r"4 time\(s\): .*only 3 broker\(s\) are registered"):
        check_creation(CreateTopic(name="n", replicas=4), FACTS)


def test_min_isr_may_equal_the_replicas() -> None:
    config = {"min.insync.replicas": "2"}
    assert check_creation(CreateTopic(name="n", config=config), FACTS).config == config


def test_new_partitions_have_as_many_replicas_as_the_others() -> None:
    assert (
        check_growth(GrowTopic(name="o", partitions=3, assignments=((1, 2),)), ORDERS, FACTS) == 1
    )
    for brokers in ((1,), (1, 2, 3), (1, 4)):
        operation = GrowTopic(name="o", partitions=3, assignments=(brokers,))
        with pytest.raises(Refused) as refused:
            check_growth(operation, ORDERS, FACTS)
        assert refused.value.code is Code.INVALID_REPLICA_ASSIGNMENT


def test_words_are_added_to_what_is_in_force_and_numbers_are_not() -> None:
    def appended(key: str, value: str) -> ConfigureTopic:
        return ConfigureTopic(name="o", changes=(ConfigChange(Change.APPEND, key, value),))

    config = check_configuration(appended("cleanup.policy", "delete"), ORDERS, FACTS)
    assert config == {"segment.ms": "7", "cleanup.policy": "delete"}
    taken = ConfigChange(Change.SUBTRACT, "cleanup.policy", "compact")
    config = check_configuration(ConfigureTopic(name="o", changes=(taken,)), ORDERS, FACTS)
    assert config["cleanup.policy"] == "delete"
    with pytest.raises(Refused) as refused:
        check_configuration(appended("segment.ms", "1"), ORDERS, FACTS)
    assert refused.value.code is Code.INVALID_CONFIG


def test_a_name_that_no_topic_can_have_is_not_merely_unknown() -> None:
    assert code_of_unknown("orders") is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of_unknown("a/b") is Code.INVALID_TOPIC_EXCEPTION
