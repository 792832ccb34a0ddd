"""`chiplog groups …`: what `kafka-consumer-groups.sh` does."""

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from chiplog_cli import group_lag, group_reset, group_view, topic_choice
from chiplog_cli.errors import CannotDo
from chiplog_cli.facts import EARLIEST, LATEST, Group, TopicPartition
from chiplog_cli.options import Command, checked, command
from chiplog_cli.port import KafkaAdmin
from chiplog_cli.printing import remark, show
from chiplog_cli.progress import progress
from chiplog_cli.reset_strategy import ResetStrategy, strategy_of
from chiplog_cli.session import Session
from chiplog_core.groups.reset import Strategy, ToMoment

Name = Annotated[str, typer.Argument(metavar="GROUP", help="Id of the group.")]


def register(app: typer.Typer) -> None:
    """Add the commands of `chiplog groups` to the program."""
    group = typer.Typer(name="groups", help="Consumer groups.", no_args_is_help=True)
    commands: Mapping[str, Command] = {
        "list": list_,
        "describe": describe,
        "reset": reset,
        "delete": delete,
    }
    for name, function in commands.items():
        command(group, name)(function)
    app.add_typer(group)


def list_(
    session: Session,
    *,
    state: Annotated[bool, typer.Option("--state", help="Also show type and state.")] = False,
) -> None:
    """List all groups."""
    found = session.admin.list_groups()
    show(
        session.form,
        group_view.list_documents(found),
        lambda: group_view.list_text(found, states=state),
    )


def describe(
    session: Session,
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="GROUP", help="Ids of groups. Default: all groups."),
    ] = None,
    members: Annotated[
        bool, typer.Option("--members", help="Show the groups' members instead of partitions.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="With --members: also show the partitions that each member consumes."
        ),
    ] = False,
    state: Annotated[
        bool,
        typer.Option(
            "--state", help="Show the groups' states and coordinators instead of partitions."
        ),
    ] = False,
) -> None:
    """Show committed offset, log end offset, lag and consumer of each partition of groups."""
    if members and state:
        raise typer.BadParameter("--members and --state cannot be used together: use one of them")
    admin = session.admin
    wanted = names or [listing.group_id for listing in admin.list_groups()]
    groups: list[Group] = []
    rows: list[group_lag.Row] = []
    with progress("describing groups", len(wanted)) as advance:
        for name in wanted:
            groups.append(_existing(admin, name))
            if not members and not state:
                rows += _rows(admin, groups[-1])
            advance(1)

    for group in groups:
        if note := group_view.remark(group):
            remark(note)
    documents = [_document(group, rows) for group in groups]
    show(session.form, documents, lambda: _text(groups, rows, members, verbose, state))


def _text(
    groups: list[Group], rows: list[group_lag.Row], members: bool, verbose: bool, state: bool
) -> str:
    """The text of `groups describe`: with --state or --members a table of those, else of the lag of
    each partition (`rows`)."""
    if state:
        return group_view.state_text(groups)
    if members:
        return group_view.members_text(groups, verbose=verbose)
    return group_lag.text(rows) if rows else ""


def _document(group: Group, rows: list[group_lag.Row]) -> dict[str, Any]:
    """The group for JSON and YAML. `rows` are those of all groups."""
    own = [row for row in rows if row.group_id == group.group_id]
    lag = {"totalLag": group_lag.total_lag(own), "partitions": group_lag.documents(own)}
    return {**group_view.document(group), **(lag if own else {})}


def _existing(admin: KafkaAdmin, name: str) -> Group:
    """The group of this name. Raises `CannotDo` if it does not exist."""
    group = admin.describe_group(name)
    if group_view.does_not_exist(group):
        raise CannotDo(
            f"Consumer group '{name}' does not exist", "`chiplog groups list` shows all groups"
        )
    return group


def _rows(admin: KafkaAdmin, group: Group) -> list[group_lag.Row]:
    """The rows of a group. Committed offsets are read before the end offsets, so that no lag is
    computed with a newer commit."""
    committed = admin.committed(group.group_id)
    ends = admin.offsets(dict.fromkeys(group_lag.partitions_of(group, committed), LATEST))
    return group_lag.rows(group, committed, ends)


def reset(  # noqa: PLR0913 - one option for each of Kafka's strategies
    session: Session,
    *,
    name: Name,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC[:PARTITIONS]",
            help="Topic to reset, or some of its partitions, like orders:0,2-4.",
        ),
    ] = None,
    all_topics: Annotated[
        bool,
        typer.Option(
            "--all-topics", help="Reset every topic for which the group has committed offsets."
        ),
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="Reset to the first record.")
    ] = False,
    to_latest: Annotated[
        bool,
        typer.Option("--to-latest", help="Reset to the end of the log, after the last record."),
    ] = False,
    to_current: Annotated[
        bool,
        typer.Option(
            "--to-current",
            help="Reset to the committed offset, or to the latest offset where there is none.",
        ),
    ] = False,
    to_offset: Annotated[
        str | None, typer.Option(metavar="OFFSET", help="Reset to this offset.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT",
            help="Reset to the first record at or after this time, like 2026-01-31T12:00:00Z.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Reset to this long before now, like 30m, 7d or PT1H30M."
        ),
    ] = None,
    shift_by: Annotated[
        str | None,
        typer.Option(
            metavar="RECORDS",
            help="Shift each committed offset by this many records; a negative number goes back.",
        ),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Carry out the reset. Default: only show the plan.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the plan. This is the default.")
    ] = False,
) -> None:
    """Reset a group's committed offsets. Shows the plan; --execute carries it out."""
    given = {
        ResetStrategy.TO_EARLIEST: to_earliest,
        ResetStrategy.TO_LATEST: to_latest,
        ResetStrategy.TO_CURRENT: to_current,
        ResetStrategy.TO_OFFSET: to_offset,
        ResetStrategy.TO_DATETIME: to_datetime,
        ResetStrategy.BY_DURATION: by_duration,
        ResetStrategy.SHIFT_BY: shift_by,
    }
    strategy = checked(lambda: strategy_of(given, now_ms=time.time_ns() // 1_000_000))
    chosen = checked(lambda: topic_choice.choice(topic or []), "--topic")
    if bool(chosen) == all_topics:
        raise typer.BadParameter("use either --topic or --all-topics to say what to reset")
    if execute and dry_run:
        raise typer.BadParameter("--execute and --dry-run cannot be used together: use one of them")
    admin = session.admin
    group_reset.check_inactive(admin.describe_group(name))
    planned = _plan(admin, name, chosen, strategy)
    for planned_reset in planned:
        if planned_reset.note:
            remark(planned_reset.note)
    if execute:
        admin.commit(
            name, {planned_reset.at: planned_reset.new_offset for planned_reset in planned}
        )
    show(
        session.form,
        group_reset.document(name, planned, executed=execute),
        lambda: group_reset.text(name, planned),
    )
    if not execute:
        remark("Nothing was changed. Add --execute to carry out the reset.")


def _plan(
    admin: KafkaAdmin, name: str, chosen: topic_choice.Choice, strategy: Strategy
) -> list[group_reset.Planned]:
    """The new offsets of a reset: of the chosen partitions, or of all with a committed offset.
    Raises `CannotDo`."""
    committed = admin.committed(name)
    places = _places(admin, chosen) if chosen else list(committed)
    if not places:
        raise CannotDo(
            f"the group '{name}' has committed no offsets", "choose the topics with --topic"
        )
    first_offset_of_time = None
    if isinstance(strategy, ToMoment):
        first_offset_of_time = admin.offsets(dict.fromkeys(places, strategy.timestamp_ms))
    return group_reset.plan(
        strategy,
        group_reset.reset_offsets(
            places,
            committed=committed,
            earliest=admin.offsets(dict.fromkeys(places, EARLIEST)),
            latest=admin.offsets(dict.fromkeys(places, LATEST)),
            first_offset_of_time=first_offset_of_time,
        ),
    )


def _places(admin: KafkaAdmin, chosen: topic_choice.Choice) -> list[TopicPartition]:
    """The chosen partitions, after a check that their topics exist."""
    names = topic_choice.checked_names(list(chosen), admin.topic_names())
    return topic_choice.chosen_partitions(admin.describe_topics(names), chosen)


def delete(
    session: Session,
    *,
    names: Annotated[list[str], typer.Argument(metavar="GROUP", help="Ids of groups.")],
) -> None:
    """Delete groups without members, with their committed offsets."""
    admin = session.admin
    deleted: list[str] = []
    try:
        with progress("deleting groups", len(names)) as advance:
            for name in names:
                admin.delete_group(name)
                deleted.append(name)
                advance(1)
    finally:
        # Show this even if a later group cannot be deleted: the earlier ones are gone.
        show(
            session.form,
            {"deleted": deleted},
            lambda: "\n".join(f"Deleted consumer group {name}." for name in deleted),
        )
