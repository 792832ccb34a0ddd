"""`server.properties`: Java's format, Kafka's keys, and errors that name line and remedy."""

import pytest

from chiplog_broker.config_file import (
    InvalidConfigFile,
    checked,
    listeners,
    parse_properties,
)


def test_the_format_of_java_properties() -> None:
    text = (
        "# comment\n! too\n\nnum.partitions = 3\nlog.retention.ms: 1000\nlisteners=a:1,\\\n  b:2\n"
    )
    assert parse_properties(text) == {
        "num.partitions": "3",
        "log.retention.ms": "1000",
        "listeners": "a:1,b:2",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num.partitions", "line 1: write key=value"),
        ("=3", "line 1: write key=value"),
        ("a=1\nb=2\na=3", "line 3: a is already set in line 1"),
    ],
)
def test_a_line_that_does_not_read_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidConfigFile, match=message):
        parse_properties(text)


def test_every_problem_is_named_with_its_remedy() -> None:
    with pytest.raises(InvalidConfigFile) as invalid:
        checked({"num.partition": "3", "log.segment.bytes": "x"})
    lines = str(invalid.value).splitlines()
    assert len(lines) == 2
    assert any("num.partitions" in line for line in lines)


def test_listeners_and_the_addresses_that_clients_get() -> None:
    (one,) = listeners({"listeners": "PLAINTEXT://0.0.0.0:19092"})
    assert (one.host, one.port, one.advertised_host, one.advertised_port) == (
        "0.0.0.0",  # noqa: S104 - not bound here
        19092,
        "127.0.0.1",
        19092,
    )
    (two,) = listeners(
        {
            "listeners": "PLAINTEXT://127.0.0.1:1",
            "advertised.listeners": "PLAINTEXT://broker.example:9",
        }
    )
    assert (two.advertised_host, two.advertised_port) == ("broker.example", 9)


@pytest.mark.parametrize("text", ["PLAINTEXT://host", "host:port", "host:99999", "a:1,a:2"])
def test_listeners_that_do_not_read_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfigFile, match="NAME://host:port"):
        listeners({"listeners": text})


def test_a_listener_named_like_a_protocol_of_sasl_has_it() -> None:
    (found,) = listeners({"listeners": "SASL_PLAINTEXT://127.0.0.1:9093"})
    assert found.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert found.tls is None
