"""`chiplog top`: the cluster, looked at again and again."""

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from typing import Annotated

import typer

from chiplog_cli import group_lag, top_view
from chiplog_cli.errors import BrokerRefused
from chiplog_cli.facts import DEAD, EARLIEST, LATEST, Group, Offsets, TopicPartition
from chiplog_cli.moments import length_ms
from chiplog_cli.options import checked, command
from chiplog_cli.port import KafkaAdmin
from chiplog_cli.printing import Format, show_next
from chiplog_cli.session import Session
from chiplog_cli.top_view import GroupSnapshot, Snapshot

SHORTEST_MS = 100


def register(app: typer.Typer) -> None:
    command(app, "top")(top)


def top(
    session: Session,
    *,
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two refreshes.")
    ] = "2s",
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations", min=1, help="Stop after this many refreshes. Default: no limit."
        ),
    ] = None,
) -> None:
    """Show throughput, leaders and lag, live, by broker, topic and group."""
    interval_ms = checked(lambda: length_ms(interval), "--interval")
    if interval_ms < SHORTEST_MS:
        raise typer.BadParameter(
            f"{interval_ms} ms is too short: write {SHORTEST_MS}ms or more",
            param_hint="--interval",
        )
    pairs = pairwise(_snapshots(session.admin, interval_ms / 1000, iterations))
    if session.form is Format.TABLE and sys.stdout.isatty():
        _live(pairs)
        return
    for before, now in pairs:
        show_next(session.form, top_view.document(before, now), partial(_with_gap, before, now))


def _with_gap(before: Snapshot, now: Snapshot) -> str:
    """The tables followed by an empty line."""
    return top_view.text(before, now) + "\n"


def _live(pairs: Iterator[tuple[Snapshot, Snapshot]]) -> None:
    """Show each pair of snapshots on the whole terminal, in place of the one before."""
    from rich.live import Live  # noqa: PLC0415 - only a terminal needs it
    from rich.text import Text  # noqa: PLC0415

    with Live(Text("measuring rates …"), screen=True, auto_refresh=False) as shown:
        for before, now in pairs:
            shown.update(Text(top_view.text(before, now), no_wrap=True), refresh=True)


def _snapshots(admin: KafkaAdmin, interval_s: float, iterations: int | None) -> Iterator[Snapshot]:
    """Snapshots of the cluster, one more than is shown, because a rate needs two.

    If brokers do not answer the first time, an error is raised. Later, the last snapshot is shown
    again with a remark.
    """
    last = snapshot(admin)
    yield last
    for _ in range(iterations) if iterations else count():
        time.sleep(interval_s)
        try:
            last = snapshot(admin)
        except BrokerRefused as error:
            last = replace(last, at_s=time.monotonic(), remarks=(str(error),))
        yield last


def snapshot(admin: KafkaAdmin) -> Snapshot:
    """A snapshot of everything at about one moment. Groups come first, so that no lag is
    computed with a newer commit."""
    cluster = admin.describe_cluster()
    topics = admin.describe_topics(admin.topic_names())
    remarks: list[str] = []
    groups: list[tuple[Group, dict[TopicPartition, int]]] = []
    try:
        names = [listing.group_id for listing in admin.list_groups()]
        described = [(admin.describe_group(name), admin.committed(name)) for name in names]
        groups = [(group, offsets) for group, offsets in described if group.state != DEAD]
    except BrokerRefused as error:
        remarks.append(str(error))
    # A partition without a leader has no broker that knows its offsets.
    places = [
        TopicPartition(topic.name, partition.partition)
        for topic in topics
        for partition in topic.partitions
        if partition.leader is not None
    ]
    starts = admin.offsets(dict.fromkeys(places, EARLIEST))
    ends = admin.offsets(dict.fromkeys(places, LATEST))
    return Snapshot(
        at_s=time.monotonic(),
        cluster=cluster,
        topics=tuple(topics),
        starts=_answered(starts),
        ends=_answered(ends),
        groups=tuple(_group(group, offsets, ends) for group, offsets in groups),
        remarks=tuple(remarks),
    )


def _group(group: Group, committed: dict[TopicPartition, int], ends: Offsets) -> GroupSnapshot:
    """A group with its lag: from its committed offsets and the ends of the partitions."""
    return GroupSnapshot(
        group_id=group.group_id,
        state=group.state,
        members=len(group.members),
        lag=group_lag.total_lag(group_lag.rows(group, committed, ends)),
    )


def _answered(offsets: Offsets) -> dict[TopicPartition, int]:
    """The offsets of the partitions that have no error."""
    return {at: answer for at, answer in offsets.items() if isinstance(answer, int)}
