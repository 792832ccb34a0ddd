"""What any client wrote, in any compression, every client reads back the same."""

from collections.abc import Callable

import pytest

from e2e.clients.client import CODECS, Client, Landed, Record
from e2e.clients.clients import CLIENTS
from e2e.clients.topics import create_topic
from e2e.kafka.process import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

TRACED = (("trace", b"4bf92f35"), ("tenant", b"acme"))
# Long enough in all that a codec has something to compress, and a batch to fill.
RECORDS = [
    Record(b"plain value"),
    Record(b"value", b"key"),
    Record(None, b"a tombstone"),
    Record(b"no key, but headers", None, TRACED),
    Record(b"everything", b"key", TRACED),
    *(Record(f"padding {n:04} ".encode() * 20, f"key-{n % 7}".encode()) for n in range(100)),
]
WAYS = pytest.mark.parametrize(
    ("client", "codec"),
    [pytest.param(one, codec, id=f"{one.name}-{codec}") for one in CLIENTS for codec in one.codecs],
)


@WAYS
def test_a_client_reads_its_own(
    broker: BrokerProcess, new_topic: Callable[[int], str], client: Client, codec: str
) -> None:
    topic = new_topic(1)
    client.produce(broker.bootstrap, topic, RECORDS, codec)
    assert client.consume(broker.bootstrap, topic, 0, len(RECORDS)) == numbered(RECORDS)


@pytest.fixture(scope="module")
def written_by_all(broker: BrokerProcess) -> dict[str, list[Record]]:
    """A topic a codec, named after it, with what each client that has the codec wrote."""
    written = {}
    for codec in CODECS:
        create_topic(broker.bootstrap, codec, 1)
        writers = [client for client in CLIENTS if codec in client.codecs]
        for client in writers:
            client.produce(broker.bootstrap, codec, RECORDS, codec)
        written[codec] = RECORDS * len(writers)
    return written


@WAYS
def test_a_client_reads_all_others(
    broker: BrokerProcess,
    written_by_all: dict[str, list[Record]],
    client: Client,
    codec: str,
) -> None:
    expected = written_by_all[codec]
    assert client.consume(broker.bootstrap, codec, 0, len(expected)) == numbered(expected)


def numbered(records: list[Record]) -> list[Landed]:
    """These values as records of partition 0: from offset 0 on, without a gap."""
    return [Landed(0, offset, record) for offset, record in enumerate(records)]
