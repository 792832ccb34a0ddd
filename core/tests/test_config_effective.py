"""Which value is in force: the topic's, the cluster's, or the default."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.config import broker_keys, topic_keys
from chiplog_core.config.effective import (
    ConfigEntry,
    ConfigSource,
    TopicConfig,
    broker_value,
    min_isr,
    topic_defaults,
)
from chiplog_core.config.topic_keys import TOPIC_KEYS


def test_the_topics_own_value_wins() -> None:
    config = TopicConfig({"retention.ms": "5"}, {"log.retention.ms": "7"})

    assert config[topic_keys.RETENTION_MS] == 5
    assert config.entry(topic_keys.RETENTION_MS) == ConfigEntry(
        "retention.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG, "retention.ms"
    )


def test_then_the_clusters() -> None:
    config = TopicConfig({}, {"log.segment.bytes": "2097152"})

    assert config.entry(topic_keys.SEGMENT_BYTES) == ConfigEntry(
        "segment.bytes", "2097152", ConfigSource.STATIC_BROKER_CONFIG, "log.segment.bytes"
    )


def test_then_the_default() -> None:
    config = TopicConfig({}, {})

    assert config.entry(topic_keys.SEGMENT_BYTES) == ConfigEntry(
        "segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG, "segment.bytes"
    )


@pytest.mark.parametrize(
    ("inherited", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        (
            {
                "log.retention.hours": "2",
                "log.retention.minutes": "3",
                "log.retention.ms": "4",
            },
            4,
        ),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-1", "log.retention.hours": "2"}, -1),
    ],
)
def test_the_finest_retention_that_is_set_wins(
    inherited: dict[str, str], retention_ms: int
) -> None:
    assert TopicConfig({}, inherited)[topic_keys.RETENTION_MS] == retention_ms


def test_values_have_the_type_of_their_key() -> None:
    config = TopicConfig({"cleanup.policy": "compact,delete"}, {"log.preallocate": "true"})

    assert config[topic_keys.CLEANUP_POLICY] == ("compact", "delete")
    assert config[topic_keys.PREALLOCATE] is True
    assert config[topic_keys.MIN_CLEANABLE_DIRTY_RATIO] == 0.5


def test_every_key_has_an_entry() -> None:
    assert [entry.name for entry in TopicConfig({}, {}).entries(3)] == list(TOPIC_KEYS)


def test_topics_inherit_only_what_sets_their_defaults() -> None:
    cluster = {"log.retention.hours": "2", "num.partitions": "6", "min.insync.replicas": "2"}

    assert topic_defaults(cluster) == {"log.retention.hours": "2", "min.insync.replicas": "2"}


def test_a_brokers_own_value() -> None:
    assert broker_value({"num.partitions": "6"}, broker_keys.NUM_PARTITIONS) == 6
    assert broker_value({}, broker_keys.NUM_PARTITIONS) == 1
    assert broker_value({}, broker_keys.BROKER_RACK) is None


def test_a_topic_key_is_no_broker_key() -> None:
    with pytest.raises(AssertionError, match=r"retention\.ms is not a broker key"):
        broker_value({}, topic_keys.RETENTION_MS)


@pytest.mark.parametrize(("replicas", "expected"), [(1, 1), (2, 1), (3, 2), (5, 2)])
def test_two_of_three_replicas_must_hold_a_record_by_default(replicas: int, expected: int) -> None:
    assert min_isr(TopicConfig({}, {}), replicas) == expected


def test_a_topics_own_min_isr_is_taken_as_it_is() -> None:
    assert min_isr(TopicConfig({"min.insync.replicas": "1"}, {}), replicas=3) == 1


def test_the_clusters_min_isr_gives_way_to_fewer_replicas() -> None:
    config = TopicConfig({}, {"min.insync.replicas": "2"})

    assert min_isr(config, replicas=3) == 2
    assert min_isr(config, replicas=1) == 1


@given(st.integers(1, 32), st.one_of(st.none(), st.integers(1, 32)))
def test_an_inherited_min_isr_never_stops_all_writes(replicas: int, inherited: int | None) -> None:
    config = {} if inherited is None else {"min.insync.replicas": str(inherited)}

    assert 1 <= min_isr(TopicConfig({}, config), replicas) <= replicas
