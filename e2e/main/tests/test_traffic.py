"""What the clients beside a fault make of their answers."""

import time

from confluent_kafka import KafkaError, Message

from e2e.main.traffic import Traffic

PARTITIONS = 3


def answered(traffic: Traffic, number: int, offset: int, error: KafkaError | None = None) -> bytes:
    """As librdkafka reports a record; an offset below 0 is one that was not answered."""
    value, partition = b"%010d" % number, number % PARTITIONS
    message = Message(topic="orders", partition=partition, offset=offset, value=value)
    traffic.sent += 1
    traffic.answered(time.monotonic(), error, message)
    return value


def test_a_record_is_acknowledged_also_where_nobody_says_its_offset() -> None:
    traffic = Traffic("nowhere:1", "orders", PARTITIONS)
    values = {answered(traffic, number, offset) for number, offset in enumerate((0, -1001, -1))}
    assert traffic.noticed.acknowledged.keys() == values
    assert sorted(traffic.noticed.at_s) == [0, 1, 2]
    assert not traffic.has_read_all()
    traffic.noticed.read.update(values)
    assert traffic.has_read_all()
    traffic.check_records()


def test_a_record_that_is_refused_is_no_acknowledgement() -> None:
    traffic = Traffic("nowhere:1", "orders", PARTITIONS)
    answered(traffic, 0, -1001, KafkaError(KafkaError.NOT_ENOUGH_REPLICAS))
    assert not traffic.noticed.acknowledged
    assert len(traffic.noticed.errors) == 1


def test_what_was_read_wrongly_is_named_by_partition_and_number() -> None:
    traffic = Traffic("nowhere:1", "orders", PARTITIONS)
    values = [answered(traffic, number, number) for number in range(4)]
    traffic.noticed.read.update([*values, values[1], b"%010d" % 5])
    assert traffic.read_wrongly() == (
        "read more than once: partition 1: 1 (numbers 1 to 1); "
        "read, though never acknowledged: partition 2: 1 (numbers 5 to 5)"
    )
