"""`chiplog consume`: records on standard output."""

import sys
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from chiplog_cli import records, topic_choice
from chiplog_cli.errors import BrokerRefused
from chiplog_cli.facts import EARLIEST, LATEST, TopicPartition
from chiplog_cli.options import checked, command
from chiplog_cli.port import KafkaAdmin
from chiplog_cli.printing import show_next
from chiplog_cli.progress import progress
from chiplog_cli.session import Session


class Isolation(StrEnum):
    """Kafka's isolation levels."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


def register(app: typer.Typer) -> None:
    command(app, "consume")(consume)


def consume(  # noqa: PLR0913 (one for each option)
    session: Session,
    *,
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC:PARTITIONS",
            help="A topic like orders, or some of its partitions like orders:0,2-4.",
        ),
    ],
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning", help="Start at the first record, not at the end of the log."
        ),
    ] = False,
    max_messages: Annotated[
        int | None, typer.Option(min=1, help="Stop after this many records. Default: no limit.")
    ] = None,
    timeout_ms: Annotated[
        int | None,
        typer.Option(min=1, help="Stop when no record has arrived for this many milliseconds."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP",
            help="Consumer group: start at its committed offsets and commit what is read.",
        ),
    ] = None,
    isolation_level: Annotated[
        Isolation,
        typer.Option(help="read_uncommitted: also records of open and aborted transactions."),
    ] = Isolation.READ_COMMITTED,
) -> None:
    """Print records: partition, offset, key and value, until Ctrl-C."""
    chosen = checked(lambda: topic_choice.choice([topic]), "TOPIC")
    ((name, partitions),) = chosen.items()
    if group is not None and partitions is not None:
        raise typer.BadParameter(
            "a group consumes all partitions: remove the partitions, or --group", param_hint="TOPIC"
        )
    admin = session.admin
    topic_choice.checked_names([name], admin.topic_names())
    read_committed = isolation_level is Isolation.READ_COMMITTED
    starts: Mapping[TopicPartition, int] = {}
    if group is None:
        wanted_place = EARLIEST if from_beginning else LATEST
        starts = _starts(admin, chosen, wanted_place, read_committed=read_committed)
    from chiplog_cli.librdkafka.consuming import Reading, reading  # noqa: PLC0415 - as produce

    wanted = Reading(
        topic=name,
        group=group,
        from_beginning=from_beginning,
        starts=starts,
        limit=max_messages,
        silence_s=None if timeout_ms is None else timeout_ms / 1000,
        read_committed=read_committed,
    )
    with (
        progress(f"consuming from {name}", max_messages, hidden=sys.stdout.isatty()) as advance,
        reading(session.connection, wanted) as found,
    ):
        for record in found:
            show_next(session.form, records.document(record), partial(records.text, record))
            advance(1)


def _starts(
    admin: KafkaAdmin, chosen: topic_choice.Choice, place: int, *, read_committed: bool
) -> Mapping[TopicPartition, int]:
    """The offset at which to begin in each chosen partition: `place` is EARLIEST or LATEST. They
    are numbers from now: librdkafka would look up the end of a log later, and skip records that are
    written until then."""
    places = topic_choice.chosen_partitions(admin.describe_topics(chosen), chosen)
    offsets = admin.offsets(dict.fromkeys(places, place), read_committed=read_committed)
    starts = {}
    for at, answer in offsets.items():
        if isinstance(answer, BrokerRefused):
            raise answer
        starts[at] = answer
    return starts
