"""The tables of configuration keys hold together and say what Kafka says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.config import broker_keys, topic_keys
from chiplog_core.config.broker_keys import BROKER_KEYS, TOPIC_DEFAULTS
from chiplog_core.config.key import ConfigKey
from chiplog_core.config.topic_keys import ABSENT_TOPIC_KEYS, TOPIC_KEYS
from chiplog_core.config.value_types import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PRINCIPALS,
    STRING,
    ConfigType,
    ValueType,
)

ALL_KEYS = [*TOPIC_KEYS.values(), *BROKER_KEYS.values()]

KAFKA_TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def named(keys: list[ConfigKey[object]]) -> list[object]:
    return [pytest.param(key, id=key.name) for key in keys]


def test_topic_defaults_are_kafkas() -> None:
    ours = {name: key.format(key.default) for name, key in TOPIC_KEYS.items()}

    assert ours == {**KAFKA_TOPIC_DEFAULTS, "chiplog.durability": "Fsync"}


@pytest.mark.parametrize("key", named(ALL_KEYS))
def test_a_default_is_a_value_of_its_key(key: ConfigKey[object]) -> None:
    if key.default is not None:
        assert key.parse(key.format(key.default)) == key.default


@pytest.mark.parametrize("key", named(ALL_KEYS))
def test_a_description_is_one_sentence_or_more(key: ConfigKey[object]) -> None:
    assert key.doc[0].isupper() or key.doc.startswith("SO_")
    assert key.doc.endswith(".")


@pytest.mark.parametrize("module", [topic_keys, broker_keys])
def test_every_key_of_a_module_is_in_its_table(module: object) -> None:
    table = TOPIC_KEYS if module is topic_keys else BROKER_KEYS
    keys = [value for value in vars(module).values() if isinstance(value, ConfigKey)]

    assert {key.name for key in keys} <= set(table)


def test_every_synonym_is_a_broker_key() -> None:
    assert set(BROKER_KEYS) >= TOPIC_DEFAULTS
    assert {"log.retention.ms", "log.retention.minutes", "log.retention.hours"} <= TOPIC_DEFAULTS


def test_the_last_synonym_carries_the_default() -> None:
    assert BROKER_KEYS["log.retention.ms"].default is None
    assert BROKER_KEYS["log.retention.minutes"].default is None
    assert BROKER_KEYS["log.retention.hours"].default == 168
    assert BROKER_KEYS["log.roll.hours"].default == 168
    assert BROKER_KEYS["log.segment.bytes"].default == 1073741824


def test_defaults_that_differ_from_kafkas_do_so_on_purpose() -> None:
    assert BROKER_KEYS["auto.create.topics.enable"].default is False
    assert BROKER_KEYS["replica.lag.time.max.ms"].default == 10_000


def test_a_key_is_in_kafka_and_absent_or_here_but_not_both() -> None:
    assert not set(ABSENT_TOPIC_KEYS) & set(TOPIC_KEYS)


def test_a_table_is_a_mapping_by_name() -> None:
    assert TOPIC_KEYS["retention.ms"] is topic_keys.RETENTION_MS
    assert len(TOPIC_KEYS) == len(list(TOPIC_KEYS)) == 34


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [
        (BOOLEAN, " TRUE ", True),
        (BOOLEAN, "false", False),
        (INT, " 7 ", 7),
        (INT, "+7", 7),
        (INT, "-2147483648", -(2**31)),
        (LONG, "9223372036854775807", 2**63 - 1),
        (DOUBLE, "0.25", 0.25),
        (DOUBLE, "1e-1", 0.1),
        (STRING, " gzip ", "gzip"),
        (LIST, "compact , delete", ("compact", "delete")),
        (PRINCIPALS, ";  User:bob  ;  User:alice ", ("User:bob", "User:alice")),
        (PRINCIPALS, " ", ()),
    ],
)
def test_values_are_read_as_kafka_reads_them(
    value_type: ValueType[object], text: str, value: object
) -> None:
    assert value_type.parse(text) == value


@pytest.mark.parametrize(
    ("value_type", "text", "expected"),
    [
        (BOOLEAN, "yes", "true or false"),
        (INT, "", "a whole number"),
        (INT, "1_000", "a whole number"),
        (INT, "٣", "a whole number"),
        (INT, "0x10", "a whole number"),
        (INT, "2147483648", "at most 2147483647"),
        (INT, "-2147483649", "at most 2147483647"),
        (LONG, "9223372036854775808", "at most 9223372036854775807"),
        (LONG, "99999999999999999999", "a whole number"),
        (DOUBLE, "half", "a number"),
        (DOUBLE, "1_0", "a number"),
        (DOUBLE, "NaN", "a finite number"),
        (DOUBLE, "-Infinity", "a finite number"),
        (LIST, "", "none of them empty"),
        (PRINCIPALS, "bob;:alice", "principals like User:alice;User:bob"),
        (LIST, "a,,b", "none of them empty"),
        (LIST, "a, a", "each of them once"),
    ],
)
def test_what_cannot_be_read_says_what_was_expected(
    value_type: ValueType[object], text: str, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        value_type.parse(text)


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_read_as_they_were_printed(number: int) -> None:
    assert LONG.parse(LONG.format(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_decimals_read_as_they_were_printed(number: float) -> None:
    assert DOUBLE.parse(DOUBLE.format(number)) == number


def test_every_type_has_kafkas_name() -> None:
    assert {key.value_type.type for key in ALL_KEYS} == set(ConfigType)


def test_a_range_on_a_text_is_an_error_in_the_table() -> None:
    key = ConfigKey(name="odd", value_type=STRING, default="", minimum=1, doc="Odd.")

    with pytest.raises(TypeError, match="is not a number"):
        key.parse("x")


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        (topic_keys.RETENTION_MS, "-2", "a number of at least -1"),
        (topic_keys.MIN_CLEANABLE_DIRTY_RATIO, "1.5", "a number from 0 to 1"),
        (topic_keys.CLEANUP_POLICY, "delete,shrink", "one of delete, compact"),
        (topic_keys.MESSAGE_TIMESTAMP_TYPE, "Now", "one of CreateTime, LogAppendTime"),
        (topic_keys.UNCLEAN_LEADER_ELECTION_ENABLE, "true", "^false, because a replica that may"),
        (topic_keys.REMOTE_STORAGE_ENABLE, "true", "^false, because there is no tiered storage$"),
        (topic_keys.LOCAL_RETENTION_MS, "1000", "^-2, because there is no tiered storage$"),
        (broker_keys.NUM_PARTITIONS, "2001", "a number from 1 to 2000"),
    ],
)
def test_a_value_that_is_not_allowed_says_what_is(
    key: ConfigKey[object], text: str, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        key.parse(text)
