"""The Java client, through Kafka's console producer and consumer."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from e2e.clients.client import READ_LIMIT_S, Client, Landed, Record
from e2e.kafka.tools import run_tool

NULL = "\\N"
NO_HEADERS = "NO_HEADERS"
# kafka-console-consumer.sh prints these fields before key and value.
FIELDS = ("partition", "offset", "headers", "key")


class JavaConsole(Client):
    name: ClassVar[str] = "java"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], codec: str = "none"
    ) -> None:
        run_tool(
            "kafka-console-producer.sh",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec),
            *properties({"acks": "all", "enable.idempotence": "true", **self.settings}),
            *("--reader-property", "parse.headers=true", "--reader-property", "parse.key=true"),
            *("--reader-property", f"null.marker={NULL}"),
            input_text="".join(line(one) for one in records),
        )

    def consume(
        self, bootstrap: str, topic: str, partition: int, count: int, rack: str = ""
    ) -> list[Landed]:
        """As `Client.consume`; `rack` is the consumer's client.rack, "" for none."""
        shown = [w for name in FIELDS for w in ("--formatter-property", f"print.{name}=true")]
        settings = {**self.settings, **({"client.rack": rack} if rack else {})}
        printed = run_tool(
            "kafka-console-consumer.sh",
            *("--bootstrap-server", bootstrap, "--topic", topic),
            *("--partition", str(partition), "--offset", "earliest"),
            *("--max-messages", str(count), "--timeout-ms", str(READ_LIMIT_S * 1000)),
            *(*properties(settings), *shown, "--formatter-property", f"null.literal={NULL}"),
        )
        return [landed(one) for one in printed.splitlines() if one.startswith("Partition:")]


def properties(settings: Mapping[str, str]) -> list[str]:
    """Settings as arguments."""
    return [
        word
        for name, value in settings.items()
        for word in ("--command-property", f"{name}={value}")
    ]


def line(record: Record) -> str:
    """A record as a line for the console producer; the null marker also means "no headers"."""
    headers = ",".join(f"{name}:{value.decode()}" for name, value in record.headers)
    return f"{headers or NULL}\t{text(record.key)}\t{text(record.value)}\n"


def text(data: bytes | None) -> str:
    return NULL if data is None else data.decode()


def landed(printed: str) -> Landed:
    """Parse a printed line `Partition:0<TAB>Offset:7<TAB>headers<TAB>key<TAB>value`."""
    partition, offset, headers, key, value = printed.split("\t")
    record = Record(
        data(value),
        data(key),
        tuple(pair(one) for one in headers.split(",") if headers != NO_HEADERS),
    )
    return Landed(int(partition.partition(":")[2]), int(offset.partition(":")[2]), record)


def pair(header: str) -> tuple[str, bytes]:
    """Name and value of a printed header, `name:value`."""
    name, _, value = header.partition(":")
    return name, value.encode()


def data(printed: str) -> bytes | None:
    return None if printed == NULL else printed.encode()
