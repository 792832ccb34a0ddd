"""kcat, as people use it in a shell: one line per record, with an older librdkafka inside."""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, ClassVar

from e2e.clients.client import READ_LIMIT_S, WRITE_LIMIT_S, Client, Landed, Record
from e2e.cluster.shell import run
from e2e.kafka import debian


class Kcat(Client):
    """Runs kcat, which takes headers as arguments: once per run of records with equal headers."""

    name: ClassVar[str] = "kcat"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], codec: str = "none"
    ) -> None:
        for headers, group in groupby(records, lambda one: one.headers):
            run(
                *(debian.program("kcat"), "-P", "-b", bootstrap, "-t", topic, "-z", codec),
                # -Z: an empty key or value is sent as a null.
                *("-Z", "-K", "\\t", "-X", "enable.idempotence=true"),
                # Choose a partition for each record without a key, not one every ten milliseconds.
                *("-X", "sticky.partitioning.linger.ms=0", *self.options()),
                *(word for name, value in headers for word in ("-H", f"{name}={value.decode()}")),
                input_text="".join(
                    f"{(one.key or b'').decode()}\t{(one.value or b'').decode()}\n" for one in group
                ),
                timeout_s=WRITE_LIMIT_S,
            )

    def consume(self, bootstrap: str, topic: str, partition: int, count: int) -> list[Landed]:
        lines = run(
            *(debian.program("kcat"), "-C", "-b", bootstrap, "-t", topic, "-p", str(partition)),
            *("-o", "beginning", "-c", str(count), "-e", "-q", "-J", *self.options()),
            timeout_s=READ_LIMIT_S,
        ).splitlines()
        return [landed(json.loads(line)) for line in lines]

    def options(self) -> Iterator[str]:
        """Its settings as arguments."""
        for name, value in self.settings.items():
            yield from ("-X", f"{name}={value}")


def landed(line: dict[str, Any]) -> Landed:
    """The record of one line of kcat's JSON output."""
    record = Record(encoded(line["payload"]), encoded(line["key"]), tuple(headers(line)))
    return Landed(line["partition"], line["offset"], record)


def headers(line: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """(name, value) of each header; kcat prints one flat list, name, value, name, value, …"""
    flat = line.get("headers", [])
    for name, value in zip(flat[::2], flat[1::2], strict=True):
        yield name, value.encode()


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
