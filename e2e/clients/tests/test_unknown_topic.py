"""A topic that does not exist: the client gets that error, and asking for it creates none."""

import pytest
from confluent_kafka import KafkaError, Message, Producer

from e2e.clients.topics import topic_names
from e2e.cluster.shell import CommandFailed
from e2e.kafka.process import BrokerProcess
from e2e.kafka.tools import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

NOWHERE = "nobody-made-this"


def test_a_producer_gets_the_error(broker: BrokerProcess) -> None:
    """librdkafka gives up on a topic once the broker has said that it does not exist."""
    codes: list[int] = []

    def on_delivery(error: KafkaError | None, _message: "Message[bytes, bytes]") -> None:
        codes.append(error.code() if error else KafkaError.NO_ERROR)

    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "topic.metadata.propagation.max.ms": 100}
    )
    producer.produce(NOWHERE, b"lost", on_delivery=on_delivery)
    assert producer.flush(20) == 0
    assert codes in ([KafkaError.UNKNOWN_TOPIC_OR_PART], [KafkaError._UNKNOWN_TOPIC])
    assert NOWHERE not in topic_names(broker.bootstrap)


def test_a_java_producer_gets_the_error(broker: BrokerProcess) -> None:
    printed = run_tool(
        "kafka-console-producer.sh",
        *("--bootstrap-server", broker.bootstrap, "--topic", NOWHERE),
        *("--command-property", "max.block.ms=2000"),
        input_text="lost\n",
        check=False,
    )
    assert f"Topic {NOWHERE} not present in metadata" in printed
    assert NOWHERE not in topic_names(broker.bootstrap)


def test_tools_name_it(broker: BrokerProcess) -> None:
    with pytest.raises(CommandFailed, match=f"Topic '{NOWHERE}' does not exist"):
        run_tool(
            "kafka-topics.sh",
            *("--bootstrap-server", broker.bootstrap, "--describe", "--topic", NOWHERE),
        )
    assert NOWHERE not in topic_names(broker.bootstrap)
