"""`chiplog produce`: records from standard input."""

import sys
from typing import Annotated

import typer

from chiplog_cli.errors import CannotDo
from chiplog_cli.options import command
from chiplog_cli.printing import show
from chiplog_cli.progress import progress
from chiplog_cli.records import LineFormat, record_of
from chiplog_cli.session import Session
from chiplog_cli.topic_choice import checked_names


def register(app: typer.Typer) -> None:
    command(app, "produce")(produce)


def produce(
    session: Session,
    *,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")],
    key_separator: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Separates key and value in each line: KEY, this text, VALUE."
        ),
    ] = None,
    null_marker: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="A key or value that equals this text is written as null."
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Partition to write to. Default: chosen by the key's "
            "hash, as Java's producer does.",
        ),
    ] = None,
    compression_codec: Annotated[
        str, typer.Option(metavar="CODEC", help="Compression: none, gzip, snappy, lz4 or zstd.")
    ] = "none",
) -> None:
    """Write each line of standard input as a record. Ends when all records are acknowledged."""
    if compression_codec not in CODECS:
        raise typer.BadParameter(
            f"{compression_codec!r} is not a compression codec: use {', '.join(CODECS)}",
            param_hint="--compression-codec",
        )
    if key_separator == "":
        raise typer.BadParameter(
            "the text is empty: write one, like :", param_hint="--key-separator"
        )
    form = LineFormat(key_separator=_bytes(key_separator), null_marker=_bytes(null_marker))
    admin = session.admin
    checked_names([topic], admin.topic_names())
    from chiplog_cli.librdkafka.producing import (  # noqa: PLC0415 - other commands need it not
        Destination,
        RecordProducer,
    )

    to = Destination(topic=topic, partition=partition, compression=compression_codec)
    producer = RecordProducer(session.connection, to)
    try:
        with progress(f"producing to {topic}", hidden=sys.stdin.isatty()) as advance:
            for number, line in enumerate(sys.stdin.buffer, start=1):
                try:
                    key, value = record_of(line.removesuffix(b"\n").removesuffix(b"\r"), form)
                except ValueError as error:
                    raise CannotDo(f"line {number} {error}") from error
                producer.send(key, value)
                advance(1)
    finally:
        # Even if a later line is wrong, the records before it are already sent.
        producer.finish()
    shown = dict(sorted(producer.acknowledged.items()))
    count = sum(shown.values())
    show(
        session.form,
        {"topic": topic, "records": count, "partitions": shown},
        lambda: f"Produced {count} {'record' if count == 1 else 'records'} to {topic}.",
    )


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
