"""`chiplog offsets …`: what `kafka-get-offsets.sh` does."""

from typing import Annotated

import typer

from chiplog_cli import offset_view, topic_choice
from chiplog_cli.errors import BrokerRefused, CannotDo
from chiplog_cli.facts import Offsets, TopicPartition
from chiplog_cli.options import checked, command
from chiplog_cli.printing import remark, show
from chiplog_cli.progress import progress
from chiplog_cli.session import Session

AT_ONCE = 1000
"""Partitions whose offsets are requested at once. Progress is shown after each request."""


def register(app: typer.Typer) -> None:
    """Add the commands of `chiplog offsets` to the program."""
    group = typer.Typer(
        name="offsets", help="Show the offsets of partitions.", no_args_is_help=True
    )
    command(group, "get")(get)
    app.add_typer(group)


def get(
    session: Session,
    *,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC:PARTITIONS",
            help="A topic like orders, or some of its partitions like "
            "orders:0,2-4. Default: all topics.",
        ),
    ] = None,
    time: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="latest, earliest, max-timestamp, milliseconds since 1970, or a time like "
            "2026-01-31T12:00:00Z. For a time: the offset of the first record at or after it.",
        ),
    ] = "latest",
    exclude_internal_topics: Annotated[
        bool,
        typer.Option(
            "--exclude-internal-topics", help="Exclude internal topics, like __consumer_offsets."
        ),
    ] = False,
) -> None:
    """Show the offset of each partition, as topic:partition:offset."""
    timestamp = checked(lambda: offset_view.timestamp(time), "--time")
    chosen = checked(lambda: topic_choice.choice(topics or []), "TOPIC")
    admin = session.admin
    names = topic_choice.checked_names(list(chosen), admin.topic_names())
    if exclude_internal_topics:
        names = topic_choice.without_internal(names)
    every: topic_choice.Choice = chosen or dict.fromkeys(names)
    places = topic_choice.chosen_partitions(admin.describe_topics(names), every)
    found: dict[TopicPartition, int | BrokerRefused] = {}
    with progress("asking for offsets", len(places)) as advance:
        for first in range(0, len(places), AT_ONCE):
            some = places[first : first + AT_ONCE]
            found.update(admin.offsets(dict.fromkeys(some, timestamp)))
            advance(len(some))
    show(
        session.form,
        offset_view.documents(found),
        lambda: offset_view.text(found),
    )
    _report_skipped(found)


def _report_skipped(found: Offsets) -> None:
    """Print why offsets are missing. Raises `CannotDo` if there are such, because the printed
    result is not complete."""
    skipped = offset_view.skipped(found)
    for line in skipped:
        remark(line)
    if skipped:
        raise CannotDo(
            f"the offsets of {len(skipped)} of {len(found)} partitions are missing",
            "the lines above say why",
        )
