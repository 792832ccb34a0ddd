"""Configuration as somebody gave it: read into Kafka's text, or refused by name."""

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from chiplog_core.config.broker_keys import BROKER_KEYS
from chiplog_core.config.given import given_broker_config, given_topic_config, warn_about_values
from chiplog_core.config.topic_keys import ABSENT_TOPIC_KEYS, TOPIC_KEYS
from chiplog_core.problems import Reason


def problems_of_topic(**given: object) -> list[str]:
    config = {name.replace("_", "."): value for name, value in given.items()}
    return [str(problem) for problem in given_topic_config(config).problems]


def problems_of_broker(**given: object) -> list[str]:
    config = {name.replace("_", "."): value for name, value in given.items()}
    return [str(problem) for problem in given_broker_config(config).problems]


def test_numbers_booleans_and_texts_become_kafkas_text() -> None:
    given = given_topic_config(
        {
            "retention.ms": 3_600_000,
            "segment.ms": "  60000 ",
            "preallocate": True,
            "min.cleanable.dirty.ratio": 0.25,
            "segment.bytes": 2097152.0,  # as a float, which is how some parsers read 2.097152e6
            "message.timestamp.type": "LogAppendTime",
        }
    )

    assert given.problems == ()
    assert given.values == {
        "message.timestamp.type": "LogAppendTime",
        "min.cleanable.dirty.ratio": "0.25",
        "preallocate": "true",
        "retention.ms": "3600000",
        "segment.bytes": "2097152",
        "segment.ms": "60000",
    }


def test_two_ways_to_write_a_value_are_one_configuration() -> None:
    assert given_topic_config({"retention.ms": 5}) == given_topic_config({"retention.ms": "+5"})


def test_an_unknown_key_is_refused_by_name_with_the_nearest() -> None:
    assert problems_of_topic(retention_mss=5) == [
        "spec.config[retention.mss] is not a topic configuration key: did you mean retention.ms?"
    ]
    assert problems_of_broker(log_retention_hour=5) == [
        (
            "spec.config[log.retention.hour] is not a broker configuration key: "
            "did you mean log.retention.hours?"
        )
    ]
    assert problems_of_topic(colour="blue") == [
        (
            "spec.config[colour] is not a topic configuration key: "
            "remove it; the reference lists all keys"
        )
    ]


def test_a_key_of_kafka_that_is_not_here_says_why() -> None:
    (problem,) = given_topic_config({"message.format.version": "3.0"}).problems

    assert problem.reason is Reason.NOT_SUPPORTED
    assert ABSENT_TOPIC_KEYS["message.format.version"] in str(problem)


def test_what_a_copied_manifest_says_of_features_that_are_off_is_taken() -> None:
    copied = {
        "compression.gzip.level": 6,
        "compression.lz4.level": "9",
        "compression.type": "zstd",
        "compression.zstd.level": -7,
        "local.retention.bytes": -2,
        "local.retention.ms": "-2",
        "remote.log.copy.disable": "false",
        "remote.log.delete.on.disable": False,
        "remote.storage.enable": False,
        "unclean.leader.election.enable": "false",
    }
    of_broker = {name: copied[name] for name in copied if name in BROKER_KEYS}

    assert given_topic_config(copied).problems == ()
    assert given_broker_config({**of_broker, "log.local.retention.ms": -2}).problems == ()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("local.retention.ms", 1000, "-2, because there is no tiered storage"),
        ("remote.storage.enable", True, "false, because there is no tiered storage"),
        (
            "unclean.leader.election.enable",
            True,
            (
                "false, because a replica that may lack acknowledged records can be elected "
                "leader only after somebody accepts the loss with the annotation "
                "chiplog.dev/unclean-election, for one partition at a time"
            ),
        ),
    ],
)
def test_what_would_turn_them_on_is_refused_with_the_reason(
    name: str, value: object, expected: str
) -> None:
    (problem,) = given_topic_config({name: value}).problems

    assert problem.reason is Reason.NOT_SUPPORTED
    assert problem.remedy == f"set it to {expected}"


def test_a_broker_key_that_only_topics_lack_is_just_unknown() -> None:
    assert "is not a broker configuration key" in problems_of_broker(remote_storage_enable=True)[0]


def test_a_value_out_of_range_names_the_range() -> None:
    assert problems_of_topic(retention_ms=-2) == [
        "spec.config[retention.ms] is '-2': set it to a number of at least -1"
    ]


def test_a_class_of_somebody_elses_is_refused_with_those_there_are() -> None:
    kafkas = "org.apache.kafka.common.replica"
    for known in ("LeaderSelector", "RackAwareReplicaSelector"):
        assert problems_of_broker(replica_selector_class=f"{kafkas}.{known}") == []
    (problem,) = problems_of_broker(replica_selector_class="com.example.Nearest")
    assert problem == (
        "spec.config[replica.selector.class] is 'com.example.Nearest': set it to one of "
        f"{kafkas}.LeaderSelector, {kafkas}.RackAwareReplicaSelector"
    )


def test_what_is_no_scalar_is_refused() -> None:
    assert problems_of_topic(retention_ms=None, segment_ms=[1], preallocate={"a": 1}) == [
        "spec.config[preallocate] is an object: write a string, a number or a boolean",
        "spec.config[retention.ms] is empty: write a string, a number or a boolean",
        "spec.config[segment.ms] is a list: write a string, a number or a boolean",
    ]


def test_a_float_that_may_have_lost_digits_is_not_guessed() -> None:
    assert problems_of_topic(retention_ms=2.0**60) == [
        "spec.config[retention.ms] is '1.152921504606847e+18': set it to a whole number"
    ]


@pytest.mark.parametrize("policy", ["compact", "delete", "compact,delete", "delete, compact"])
def test_topics_are_compacted_deleted_from_or_both(policy: str) -> None:
    assert problems_of_topic(cleanup_policy=policy) == []
    assert problems_of_broker(log_cleanup_policy=policy) == []


def test_compression_by_the_broker_is_taken_with_a_warning() -> None:
    assert problems_of_topic(compression_type="zstd") == []
    assert [str(one) for one in warn_about_values({"compression.type": "zstd"})] == [
        (
            "spec.config[compression.type] is zstd, but brokers store each batch as its producer "
            "compressed it: set compression.type of the producers, and producer here"
        )
    ]
    assert warn_about_values({"compression.type": "producer"}) == warn_about_values({}) == ()


def test_the_shortest_compaction_lag_is_not_above_the_longest() -> None:
    assert problems_of_topic(min_compaction_lag_ms=10, max_compaction_lag_ms=5) == [
        (
            "spec.config[min.compaction.lag.ms] is 10, above max.compaction.lag.ms, which is 5: "
            "lower min.compaction.lag.ms or raise max.compaction.lag.ms"
        )
    ]
    assert problems_of_topic(min_compaction_lag_ms=10) == []


def test_a_bound_is_compared_with_the_others_default() -> None:
    assert problems_of_broker(group_min_session_timeout_ms=3_600_000) == [
        (
            "spec.config[group.min.session.timeout.ms] is 3600000, above "
            "group.max.session.timeout.ms, which is 1800000: lower group.min.session.timeout.ms or "
            "raise group.max.session.timeout.ms"
        )
    ]


def test_keys_the_operator_writes_name_the_field_to_set() -> None:
    assert problems_of_broker(listeners="PLAINTEXT://:9092", broker_rack="a") == [
        "spec.config[broker.rack] is written by the operator: set spec.rack",
        "spec.config[listeners] is written by the operator: set spec.listeners",
    ]


def test_a_brokers_own_file_may_hold_them() -> None:
    given = given_broker_config(
        {"node.id": "3", "listeners": "127.0.0.1:9092"}, "server.properties", by_operator=True
    )

    assert given.problems == ()
    assert given.values == {"listeners": "127.0.0.1:9092", "node.id": "3"}


def test_every_problem_is_found_at_once() -> None:
    assert len(problems_of_topic(retention_ms=-2, retention_mss=1, cleanup_policy="condense")) == 3


names = st.one_of(st.sampled_from(sorted(TOPIC_KEYS)), st.text(max_size=20))
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just([1])
)


@hypothesis_given(st.dictionaries(names, scalars, max_size=5))
def test_every_entry_is_either_read_or_refused_by_name(config: dict[str, object]) -> None:
    found = given_topic_config(config)

    refused = {problem.field for problem in found.problems}
    for name in config:
        assert name in found.values or f"spec.config[{name}]" in refused
    assert given_topic_config(found.values).values == found.values


def test_a_key_of_one_listener_is_read_as_the_key_of_all() -> None:
    given = given_broker_config(
        {"listener.name.tls.ssl.client.auth": " required "}, by_operator=True
    )

    assert given.problems == ()
    assert given.values == {"listener.name.tls.ssl.client.auth": "required"}


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (
            "listener.name.tls.ssl.client.auth",
            "maybe",
            "set it to one of none, requested, required",
        ),
        ("listener.name.tls.ssl.keystore.type", "JKS", "PEM, because other formats are not"),
        ("listener.name.tls.ssl.enabled.protocols", "TLSv1.1,TLSv1.2", "one of TLSv1.2, TLSv1.3"),
        ("ssl.principal.mapping.rules", "RULE:^CN=(.*?)$/$1/", "DEFAULT, because rules are not"),
        ("listener.name.tls.num.partitions", "3", "is not a broker configuration key"),
        ("ssl.key.password", "x", "is not a broker configuration key"),
    ],
)
def test_a_wrong_key_of_a_listener_is_refused(name: str, value: str, problem: str) -> None:
    (found,) = given_broker_config({name: value}, by_operator=True).problems
    assert problem in str(found)


def test_users_do_not_write_the_keys_of_listeners() -> None:
    name = "listener.name.tls.ssl.client.auth"
    (problem,) = given_broker_config({name: "none"}).problems
    assert str(problem) == (f"spec.config[{name}] is written by the operator: set spec.listeners")
