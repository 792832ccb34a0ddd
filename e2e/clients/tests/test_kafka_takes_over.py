"""Apache Kafka, started on a copy of the log directory, serves the same records.

What is needed for that, and that nothing in the copy is rewritten for it, is said in
`e2e.kafka.adopt`.
"""

from pathlib import Path

import pytest

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import CODECS, Landed, Record
from e2e.clients.tests.conftest import NewBroker
from e2e.clients.topics import create_topic, end_offsets
from e2e.kafka.adopt import AdoptingBroker
from e2e.kafka.process import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

PARTITIONS = 3


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_same_records_at_the_same_offsets(
    new_broker: NewBroker, tmp_path: Path, ending: str
) -> None:
    """Also after a crash, which leaves checkpoints and indexes behind the segments."""
    broker = new_broker()
    broker.start()
    create_topic(broker.bootstrap, "orders", PARTITIONS, {"segment.bytes": "1048576"})
    for number in range(PARTITIONS):
        for codec in CODECS:
            some = [Record(f"{codec} {n}".encode() * 30, b"%d" % n) for n in range(2000)]
            Librdkafka().produce(broker.bootstrap, "orders", some, codec, partition=number)
    before = everything(broker)
    broker.stop() if ending == "stopped" else broker.kill()

    with AdoptingBroker(tmp_path / "kafka", broker.logs) as kafka:
        assert everything(kafka) == before
        more = [Record(b"written by Apache Kafka")]
        Librdkafka().produce(kafka.bootstrap, "orders", more, partition=0)
        assert end_offsets(kafka.bootstrap, "orders", [0]) == [len(before[0]) + 1]


def everything(broker: BrokerProcess) -> list[list[Landed]]:
    """All records of all partitions, with their offsets."""
    ends = end_offsets(broker.bootstrap, "orders", range(PARTITIONS))
    return [
        Librdkafka().consume(broker.bootstrap, "orders", number, end)
        for number, end in enumerate(ends)
    ]
