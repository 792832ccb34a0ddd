"""`chiplog topics …`: what `kafka-topics.sh` does."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated

import typer

from chiplog_cli import topic_view
from chiplog_cli.errors import BrokerRefused
from chiplog_cli.facts import NewTopic, Partition, Topic
from chiplog_cli.numbers import key_and_value
from chiplog_cli.options import Command, checked, command
from chiplog_cli.printing import show
from chiplog_cli.progress import progress
from chiplog_cli.session import Session
from chiplog_cli.topic_choice import checked_names, without_internal

ALREADY_EXISTS = "TOPIC_ALREADY_EXISTS"

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
Config = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Topic configuration under Kafka's name, like retention.ms=86400000.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands of `chiplog topics` to the program."""
    group = typer.Typer(name="topics", help="Manage topics.", no_args_is_help=True)
    commands: Mapping[str, Command] = {
        "list": list_,
        "describe": describe,
        "create": create,
        "alter": alter,
        "delete": delete,
    }
    for name, function in commands.items():
        command(group, name)(function)
    app.add_typer(group)


def list_(
    session: Session,
    *,
    exclude_internal: Annotated[
        bool,
        typer.Option(
            "--exclude-internal", help="Exclude internal topics, like __consumer_offsets."
        ),
    ] = False,
) -> None:
    """List all topics."""
    names = session.admin.topic_names()
    shown = without_internal(names) if exclude_internal else names
    show(session.form, shown, lambda: "\n".join(shown))


def describe(
    session: Session,
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Names of topics. Default: all topics."),
    ] = None,
    under_replicated_partitions: Annotated[
        bool,
        typer.Option(
            "--under-replicated-partitions",
            help="Show only partitions with fewer in-sync replicas than replicas, without those "
            "that are being added.",
        ),
    ] = False,
    unavailable_partitions: Annotated[
        bool,
        typer.Option("--unavailable-partitions", help="Show only partitions without a leader."),
    ] = False,
) -> None:
    """Show partitions, replicas and configuration of topics."""
    admin = session.admin
    wanted = checked_names(names or [], admin.topic_names())
    topics = admin.describe_topics(wanted)
    if under_replicated_partitions or unavailable_partitions:
        keep = topic_view.unavailable if unavailable_partitions else topic_view.under_replicated
        topics = [_with_only(topic, keep) for topic in topics]
        topics = [topic for topic in topics if topic.partitions]
        documents = topic_view.documents(topics, {})
        show(session.form, documents, lambda: topic_view.partitions_text(topics))
        return
    configs = admin.topic_configs(wanted)
    documents = topic_view.documents(topics, configs)
    show(session.form, documents, lambda: topic_view.describe_text(topics, configs))


def _with_only(topic: Topic, keep: Callable[[Partition], bool]) -> Topic:
    """The topic with only those partitions for which `keep` returns true."""
    return replace(
        topic, partitions=tuple(partition for partition in topic.partitions if keep(partition))
    )


def create(
    session: Session,
    *,
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="Number of partitions. Default: the cluster's num.partitions."),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of replicas. Default: the cluster's default.replication.factor."
        ),
    ] = None,
    config: Config = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed without a change if the topic exists.")
    ] = False,
) -> None:
    """Create a topic."""
    wanted = NewTopic(
        name=name,
        partitions=partitions,
        replication_factor=replication_factor,
        config=_config(config),
    )
    created = True
    try:
        session.admin.create_topic(wanted)
    except BrokerRefused as error:
        if not if_not_exists or error.code != ALREADY_EXISTS:
            raise
        created = False
    shown = {"topic": name, "created": created}
    show(session.form, shown, lambda: f"Created topic {name}." if created else "")


def alter(
    session: Session,
    *,
    name: Name,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="New number of partitions; it can only grow.")
    ] = None,
    config: Config = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY", help="Remove this setting, so that the cluster's default applies again."
        ),
    ] = None,
) -> None:
    """Change the configuration of a topic, or add partitions."""
    values, deleted = _config(config), delete_config or []
    if partitions is None and not values and not deleted:
        raise typer.BadParameter("nothing to change: use --partitions, --config or --delete-config")
    if both := set(values) & set(deleted):
        raise typer.BadParameter(
            f"{min(both)!r} is both set and deleted: use either --config or --delete-config for it"
        )
    admin = session.admin
    if values or deleted:
        admin.alter_config(name, values, deleted)
    if partitions is not None:
        admin.create_partitions(name, partitions)
    shown = {"topic": name, "partitions": partitions, "config": values, "deletedConfig": deleted}
    show(session.form, shown, lambda: f"Completed updating topic {name}.")


def delete(
    session: Session,
    *,
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names of topics.")],
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Ignore topics that do not exist.")
    ] = False,
) -> None:
    """Delete topics with all their records."""
    admin = session.admin
    existing = admin.topic_names()
    wanted = [name for name in names if name in existing] if if_exists else names
    deleted: list[str] = []
    try:
        with progress("deleting topics", len(names)) as advance:
            for name in checked_names(wanted, existing) if wanted else []:
                admin.delete_topic(name)
                deleted.append(name)
                advance(1)
    finally:
        # Show this even if a later topic cannot be deleted: the earlier ones are gone.
        show(
            session.form,
            {"deleted": deleted},
            lambda: "\n".join(f"Deleted topic {name}." for name in deleted),
        )


def _config(texts: list[str] | None) -> dict[str, str]:
    """The keys and values of --config. Raises a usage error."""
    return checked(lambda: dict(key_and_value(text) for text in texts or []), "--config")
