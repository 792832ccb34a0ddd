"""`chiplog produce` and `chiplog consume` against a real broker."""

import json
import threading
from collections.abc import Callable

import yaml
from confluent_kafka import Producer
from confluent_kafka.cimpl import murmur2

from e2e.clients.standalone import StandaloneBroker
from tests.commands.program import Chiplog

LIMIT_S = 60


def first(count: int) -> tuple[str, ...]:
    """Options to read so many records; a record that is missing fails the test in the end."""
    return ("--from-beginning", f"--max-messages={count}", "--timeout-ms=30000")


def test_there_and_back(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic()
    produced = chiplog("produce", name, stdin="one\ntwo\r\n\nthree")
    assert produced.stdout == f"Produced 4 records to {name}.\n"
    consumed = chiplog("consume", name, *first(4))
    assert consumed.stdout == (
        "Partition:0\tOffset:0\tnull\tone\n"
        "Partition:0\tOffset:1\tnull\ttwo\n"
        "Partition:0\tOffset:2\tnull\t\n"
        "Partition:0\tOffset:3\tnull\tthree\n"
    )


def test_a_key_lies_where_javas_producer_puts_it(
    chiplog: Chiplog, topic: Callable[..., str]
) -> None:
    name = topic(7)
    keys = [f"customer-{number}" for number in range(40)]
    lines = "".join(f"{key}=>v\n" for key in keys)
    produced = chiplog("produce", name, "--key-separator", "=>", "-o", "json", stdin=lines)
    told = json.loads(produced.stdout)
    assert told["records"] == sum(told["partitions"].values()) == 40
    read = [
        json.loads(line)
        for line in chiplog("consume", name, *first(40), "-o", "json").stdout.splitlines()
    ]
    assert {one["key"]: one["partition"] for one in read} == {
        key: murmur2(key.encode(), 7) for key in keys
    }


def test_tombstones_and_bytes_that_are_no_text(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic()
    chiplog(
        *("produce", name, "--key-separator", ":", "--null-marker", "NULL"),
        *("--compression-codec", "gzip"),
        stdin=b"k:NULL\n\xff:v\n",
    )
    consumed = chiplog("consume", name, *first(2), "-o", "yaml").stdout
    one, other = yaml.safe_load_all(consumed)
    assert (one["key"], one["value"]) == ("k", None)
    assert (other["keyBase64"], other["value"]) == ("/w==", "v")


def test_only_some_partitions(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic(3)
    for partition in range(3):
        chiplog("produce", name, f"--partition={partition}", stdin=f"of {partition}\n")
    lines = chiplog("consume", f"{name}:0,2", *first(2)).stdout.splitlines()
    assert sorted(lines) == [
        "Partition:0\tOffset:0\tnull\tof 0",
        "Partition:2\tOffset:0\tnull\tof 2",
    ]


def test_from_the_end_on(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic()
    chiplog("produce", name, stdin="old\n")
    assert chiplog("consume", name, "--timeout-ms", "500").stdout == ""


def test_only_committed_records_unless_configured_otherwise(
    broker: StandaloneBroker, chiplog: Chiplog, topic: Callable[..., str]
) -> None:
    name = topic()
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(LIMIT_S)
    for value, end in (
        ("committed", producer.commit_transaction),
        ("aborted", producer.abort_transaction),
        ("open", None),
    ):
        producer.begin_transaction()
        producer.produce(name, value, partition=0)
        assert producer.flush(LIMIT_S) == 0
        if end is not None:
            end(LIMIT_S)
    everything = ("--from-beginning", "--timeout-ms=2000")
    consumed = chiplog("consume", name, *everything).stdout
    assert consumed == "Partition:0\tOffset:0\tnull\tcommitted\n"
    uncommitted = chiplog("consume", name, *first(3), "--isolation-level=read_uncommitted").stdout
    values = [line.split("\t")[-1] for line in uncommitted.splitlines()]
    assert values == ["committed", "aborted", "open"]
    # The end of what is committed is before the open transaction: its records come when it ends.
    committing = threading.Timer(1.0, producer.commit_transaction, (LIMIT_S,))
    committing.start()
    consumed = chiplog("consume", name, "--max-messages=1", "--timeout-ms=30000").stdout
    committing.join()
    assert consumed == "Partition:0\tOffset:4\tnull\topen\n"


def test_a_line_without_a_key_ends_it_and_what_was_before_is_there(
    chiplog: Chiplog, topic: Callable[..., str]
) -> None:
    name = topic()
    refused = chiplog("produce", name, "--key-separator", ":", stdin="a:1\nalone\nb:2\n")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "chiplog: line 2 has no key: write KEY:VALUE, or remove --key-separator\n"
    )
    assert chiplog("offsets", "get", name).stdout == f"{name}:0:1\n"


def test_what_the_broker_refuses_is_counted(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic(cleanup_policy="compact")
    refused = chiplog("produce", name, stdin="without a key\n")
    assert refused.exit_code == 1
    assert "0 records were acknowledged, 1 were not" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_topic_that_is_not_there(chiplog: Chiplog) -> None:
    for command in ("produce", "consume"):
        refused = chiplog(command, "nobody", stdin="a\n")
        assert refused.exit_code == 1
        assert "topic 'nobody' does not exist" in refused.stderr
