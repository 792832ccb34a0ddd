"""The Java client: Kafka's own VerifiableProducer, and its console consumer on one partition.

Both are programs that print a line for each record.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from e2e.chaos.ledger import Ledger, name_of
from e2e.chaos.producers import PATIENCE_MS, RECORDS_PER_S, REQUEST_LIMIT_MS
from e2e.chaos.program import Program
from e2e.kafka.java import SHORT_LIVED, java
from e2e.kafka.tools import TOOLS
from e2e.sim.history import Kind

OPTIONS = (*SHORT_LIVED, "-Xmx128m")
# With keys its records are spread over the partitions; without keys they all go to one partition
# for seconds, before the client's sticky partitioner chooses another.
KEYS = 60
PREFIX = 3
"""The tool puts it before each record's number: the values are "3.0", "3.1", …"""
# Errors of records that were not sent, because the producer was closed while it took them over.
NEVER_BEGUN = (
    "Producer closed while send in progress",
    "Cannot perform operation after producer has been closed",
)
PATIENT = {
    "acks": "all",
    "enable.idempotence": "true",
    # The tool sends each record once only, by default.
    "retries": 2**31 - 1,
    "delivery.timeout.ms": PATIENCE_MS,
    "max.block.ms": PATIENCE_MS,
    "request.timeout.ms": REQUEST_LIMIT_MS,
    "linger.ms": 20,
}


class JavaProducer(Program):
    """Kafka's VerifiableProducer, which reports a record only after its answer, not when it sends
    it.

    It also chooses the partitions itself. So the sent records are known only at the end, from the
    number that it reports then, and the partition of a record without an answer only if a reader
    finds that record.
    """

    name: str = "java"

    def __init__(
        self,
        bootstrap: str,
        ledger: Ledger,
        directory: Path,
        records_per_s: float = RECORDS_PER_S,
    ) -> None:
        super().__init__(bootstrap, ledger, directory)
        self.records_per_s = records_per_s
        self.sent = 0
        """How many records it sent, as it reports when it ends; 0 before."""

    def command(self) -> list[str]:
        """The call of Kafka's VerifiableProducer with acks=all; writes its config file."""
        config = self.directory / "producer.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in PATIENT.items()))
        return [
            *java("org.apache.kafka.tools.VerifiableProducer", OPTIONS, log="warn"),
            *("--bootstrap-server", self.bootstrap, "--topic", self.ledger.topic),
            *("--throughput", f"{self.records_per_s:.0f}", "--acks", "-1"),
            *("--value-prefix", str(PREFIX), "--repeating-keys", str(KEYS)),
            *("--command-config", str(config)),
        ]

    def line(self, text: str) -> None:
        """Note the event of one printed line, a JSON object."""
        line = json.loads(text)
        match line["name"]:
            case "producer_send_success":
                partition, offset = int(line["partition"]), int(line["offset"])
                self.ledger.note(
                    Kind.ACKED, self.name, partition, value=line["value"], offset=offset
                )
            case "producer_send_error" if line["message"] in NEVER_BEGUN:
                pass  # we stopped the tool before it had sent this record
            case "producer_send_error":
                self.ledger.errors.append(f"{self.name} gave up {line['value']}: {line['message']}")
            case "tool_data":
                self.sent = int(line["sent"])
            case _:
                pass

    def values(self) -> Iterator[str]:
        """The values of all records that it sent, in the order of sending."""
        return (f"{PREFIX}.{number}" for number in range(self.sent))


class JavaReader(Program):
    """Kafka's console consumer, which reads partition 0 from its beginning and follows it."""

    name: str = "java-reader"
    partition: ClassVar[int] = 0

    def __init__(self, bootstrap: str, ledger: Ledger, directory: Path) -> None:
        super().__init__(bootstrap, ledger, directory)
        self.read_up_to = {self.partition: 0}

    def command(self) -> list[str]:
        """The call of the console consumer; it prints offset and value of a partition's records."""
        shown = ("offset=true", "partition=false", "value=true")
        return [
            *java(TOOLS["kafka-console-consumer.sh"], OPTIONS),
            *("--bootstrap-server", self.bootstrap, "--topic", self.ledger.topic),
            *("--partition", str(self.partition), "--offset", "earliest"),
            *("--command-property", f"request.timeout.ms={REQUEST_LIMIT_MS}"),
            *(word for one in shown for word in ("--formatter-property", f"print.{one}")),
        ]

    def line(self, text: str) -> None:
        """Note the record of one printed line, which looks like `Offset:7<TAB>value`."""
        where, tab, value = text.partition("\t")
        if not tab or not where.startswith("Offset:"):
            raise ValueError("the line is no record")
        offset = int(where.removeprefix("Offset:"))
        name = name_of(value.encode())
        self.ledger.note(Kind.READ, self.name, self.partition, value=name, offset=offset)
        self.read_up_to[self.partition] = offset + 1
