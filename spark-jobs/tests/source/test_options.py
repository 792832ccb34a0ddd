"""What a user says is taken as meant, or refused with the option's name and the remedy."""

import json
import pickle

import pytest

from chiplog_spark.source.options import BadOption, Mode, mode_of, parsed, with_payload
from chiplog_spark.wire.access import Login, Tls, addresses_of
from chiplog_spark.wire.facts import EARLIEST, LATEST, Isolation
from chiplog_spark.wire.verdicts import LEADER
from chiplog_wire.scram import Mechanism

NEEDED = {"bootstrap.servers": "one:9092,two:9093", "topic": "orders"}
LOGIN = {"sasl.username": "ada", "sasl.password.file": "/secrets/ada"}


def test_what_is_not_said_is_kafkas_or_sparks() -> None:
    found = parsed(NEEDED, is_streaming=False)
    assert found.access.bootstrap == (("one", 9092), ("two", 9093))
    assert (found.access.request_timeout_ms, found.access.patience_ms) == (30_000, 60_000)
    assert (found.topic, found.replica, found.mode) == ("orders", LEADER, Mode.RECORDS)
    assert (found.starting, found.ending) == (EARLIEST, LATEST)
    assert (found.records_per_split, found.partitions) == (100_000, None)
    assert found.fails_on_data_loss
    assert not found.with_payload
    # A stream begins with what comes, as Spark's Kafka source does.
    assert parsed(NEEDED, is_streaming=True).starting == LATEST


def test_what_is_said_counts_whatever_its_case() -> None:
    said = (
        NEEDED
        | LOGIN
        | {
            "sasl.mechanism": "scram-sha-256",
            "replica": "7",
            "partitions": "3, 0",
            "mode": "Batches",
            "withPayload": "TRUE",
            "failOnDataLoss": "false",
            "startingOffsets": json.dumps({"orders": {"0": 23, "3": -2}}),
            "endingOffsets": json.dumps({"orders": {"0": 99, "3": -1}}),
            "recordsPerSplit": "5",
            "request.timeout.ms": "1",
            "default.api.timeout.ms": "2",
        }
    )
    # Spark hands names in lower case.
    found = parsed({name.lower(): value for name, value in said.items()}, is_streaming=False)
    assert found == parsed(said, is_streaming=False)
    assert found.access.login == Login("ada", "/secrets/ada", Mechanism.SCRAM_SHA_256)
    assert (found.access.request_timeout_ms, found.access.patience_ms) == (1, 2)
    assert (found.replica, found.partitions) == (7, frozenset({0, 3}))
    assert (found.mode, found.with_payload) == (Mode.BATCHES, True)
    assert (found.starting, found.ending) == ({0: 23, 3: -2}, {0: 99, 3: -1})
    assert (found.records_per_split, found.fails_on_data_loss) == (5, False)
    assert (mode_of(said), with_payload(said)) == (Mode.BATCHES, True)
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301 (made here)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("bootstrap.servers", ""),
        ("bootstrap.servers", "one"),
        ("bootstrap.servers", "one:0"),
        ("bootstrap.servers", "one:65536"),
        ("bootstrap.servers", "kafka://one:9092"),
        ("bootstrap.servers", " , "),
        ("topic", " "),
        ("replica", "follower"),
        ("replica", "-2"),
        ("replica", "2147483648"),
        ("partitions", "0,,1"),
        ("partitions", ""),
        ("mode", "rows"),
        ("startingOffsets", "latest"),
        ("startingOffsets", "yesterday"),
        ("startingOffsets", "[]"),
        ("startingOffsets", '{"others":{"0":1}}'),
        ("startingOffsets", '{"orders":{}}'),
        ("startingOffsets", '{"orders":[1]}'),
        ("startingOffsets", '{"orders":{"x":1}}'),
        ("startingOffsets", '{"orders":{"0":true}}'),
        ("startingOffsets", '{"orders":{"0":1.5}}'),
        ("startingOffsets", '{"orders":{"0":-3}}'),
        ("startingOffsets", '{"orders":{"0":9223372036854775808}}'),
        ("endingOffsets", "earliest"),
        ("recordsPerSplit", "0"),
        ("recordsPerSplit", "1e3"),
        ("recordsPerSplit", "٣"),
        ("withPayload", "yes"),
        ("withPayload", "true"),
        ("failOnDataLoss", "no"),
        ("maxOffsetsPerTrigger", "10"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("security.protocol", "TLS"),
        ("security.protocol", "SASL_SSL"),
        ("ssl.ca.location", "/ca.crt"),
        ("request.timeout.ms", "-1"),
        ("isolation.level", "committed"),
        ("subscribe", "orders"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(option: str, value: str) -> None:
    with pytest.raises(BadOption) as refused:
        parsed(NEEDED | {option: value}, is_streaming=False)
    assert refused.value.option == option
    what, remedy = str(refused.value).split("; ", 1)
    assert what.startswith(f"InvalidOption: option {option}: ")
    assert remedy


@pytest.mark.parametrize("name", ["isolation.level", "kafka.isolation.level", "isolationLevel"])
def test_records_are_read_committed_unless_configured_otherwise(name: str) -> None:
    assert parsed(NEEDED, is_streaming=False).isolation is Isolation.READ_COMMITTED
    for text, isolation in (
        ("read_uncommitted", Isolation.READ_UNCOMMITTED),
        ("READ_COMMITTED", Isolation.READ_COMMITTED),
    ):
        for is_streaming in (True, False):
            found = parsed(NEEDED | {name: text}, is_streaming=is_streaming)
            assert found.isolation is isolation


def test_batches_are_read_as_they_are_stored() -> None:
    batches = NEEDED | {"mode": "batches"}
    assert parsed(batches, is_streaming=False).isolation is Isolation.READ_UNCOMMITTED
    with pytest.raises(BadOption, match=r"option isolation.level: batches are read as they are"):
        parsed(batches | {"isolation.level": "read_committed"}, is_streaming=False)


def test_an_option_with_two_names_has_one_value() -> None:
    given = NEEDED | {"isolation.level": "read_committed"}
    same = parsed(given | {"isolationLevel": "read_committed"}, is_streaming=False)
    assert same.isolation is Isolation.READ_COMMITTED
    with pytest.raises(BadOption, match=r"option isolation.level: it is set twice"):
        parsed(given | {"kafka.isolation.level": "read_uncommitted"}, is_streaming=False)


def test_tls_with_and_without_a_login() -> None:
    files = {
        "ssl.ca.location": "/ca.crt",
        "ssl.certificate.location": "/user.crt",
        "ssl.key.location": "/user.key",
    }
    mutual = parsed(NEEDED | files | {"security.protocol": "ssl"}, is_streaming=False).access
    assert (mutual.tls, mutual.login) == (Tls("/ca.crt", "/user.crt", "/user.key"), None)
    both = parsed(NEEDED | LOGIN | {"security.protocol": "SASL_SSL"}, is_streaming=False).access
    assert (both.tls, both.login) == (Tls(), Login("ada", "/secrets/ada"))
    assert parsed(NEEDED | LOGIN, is_streaming=False).access.tls is None


@pytest.mark.parametrize(
    ("given", "option"),
    [
        (LOGIN | {"security.protocol": "SSL"}, "security.protocol"),
        (LOGIN | {"security.protocol": "PLAINTEXT"}, "security.protocol"),
        ({"security.protocol": "SSL", "ssl.key.location": "/user.key"}, "ssl.key.location"),
    ],
)
def test_options_of_tls_that_contradict_each_other(given: dict[str, str], option: str) -> None:
    with pytest.raises(BadOption) as refused:
        parsed(NEEDED | given, is_streaming=False)
    assert refused.value.option == option


@pytest.mark.parametrize("missing", [*NEEDED])
def test_what_is_needed_is_missed_by_name(missing: str) -> None:
    with pytest.raises(BadOption, match=f"option {missing}: it is missing"):
        parsed({key: value for key, value in NEEDED.items() if key != missing}, is_streaming=False)


@pytest.mark.parametrize("missing", [*LOGIN])
def test_a_login_is_whole_or_none(missing: str) -> None:
    given = {key: value for key, value in LOGIN.items() if key != missing}
    with pytest.raises(BadOption, match=f"option {missing}: it is missing"):
        parsed(NEEDED | given, is_streaming=False)


def test_a_stream_has_no_end_and_may_have_a_limit() -> None:
    with pytest.raises(BadOption, match="option endingOffsets: a stream has no end"):
        parsed(NEEDED | {"endingOffsets": "latest"}, is_streaming=True)
    found = parsed(NEEDED | {"maxOffsetsPerTrigger": "10"}, is_streaming=True)
    assert found.max_per_trigger == 10


def test_a_refusal_survives_the_way_from_an_executor() -> None:
    refused = BadOption("topic", "it is missing", "say it")
    again = pickle.loads(pickle.dumps(refused))  # noqa: S301 (made here)
    assert (str(again), again.option) == (str(refused), "topic")


def test_addresses_of_the_sixth_version_stand_in_brackets() -> None:
    assert addresses_of("[::1]:9092, a-b.c:1") == (("::1", 9092), ("a-b.c", 1))
