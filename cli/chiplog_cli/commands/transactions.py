"""`chiplog transactions …`: what `kafka-transactions.sh` does."""

import time
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from chiplog_cli import hanging, topic_choice, transaction_view
from chiplog_cli.errors import BrokerRefused, CannotDo
from chiplog_cli.facts import Topic, TopicPartition
from chiplog_cli.moments import length_ms
from chiplog_cli.options import Command, checked, command
from chiplog_cli.port import KafkaTransactions
from chiplog_cli.printing import remark, show
from chiplog_cli.progress import progress
from chiplog_cli.session import Session
from chiplog_cli.transaction_facts import (
    ActiveProducer,
    Producers,
    Transaction,
    TransactionFilter,
)

AT_ONCE = 500
"""Partitions whose producers are requested at once."""
Place = Annotated[
    str, typer.Argument(metavar="TOPIC:PARTITION", help="A partition, like orders:0.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of `chiplog transactions` to the program."""
    group = typer.Typer(
        name="transactions", help="Transactions and their producers.", no_args_is_help=True
    )
    commands: Mapping[str, Command] = {
        "list": list_,
        "describe": describe,
        "describe-producers": describe_producers,
        "find-hanging": find_hanging,
        "abort": abort,
    }
    for name, function in commands.items():
        command(group, name)(function)
    app.add_typer(group)


def list_(
    session: Session,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only those in this state, like Ongoing."),
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option(metavar="ID", help="Only those of this producer id.")
    ] = None,
    duration_filter: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Only those that have been open for longer, like 5m."
        ),
    ] = None,
    transactional_id_pattern: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN", help="Only those whose whole id matches this regular expression."
        ),
    ] = None,
) -> None:
    """List the transactional ids of all coordinators, with the states of their transactions."""
    longer_than_ms = _duration_ms(duration_filter, "--duration-filter")
    wanted = TransactionFilter(
        states=tuple(state or ()),
        producer_ids=tuple(producer_id or ()),
        longer_than_ms=longer_than_ms,
        id_pattern=transactional_id_pattern,
    )
    found = session.transactions.list_all(wanted)
    show(
        session.form,
        transaction_view.list_documents(found),
        lambda: transaction_view.list_text(found),
    )


def describe(
    session: Session,
    *,
    names: Annotated[
        list[str], typer.Argument(metavar="TRANSACTIONAL-ID", help="Transactional ids.")
    ],
) -> None:
    """Show state, producer, duration and partitions of the transactions of transactional ids."""
    client = session.transactions
    found: list[Transaction] = []
    for name in names:
        found += client.describe(client.coordinator(name), [name])
    now_ms = _now_ms()
    show(
        session.form,
        transaction_view.describe_documents(found, now_ms),
        lambda: transaction_view.describe_text(found, now_ms),
    )


def describe_producers(session: Session, *, partition: Place) -> None:
    """Show the producers that the leader of a partition knows, with their open transactions."""
    at = checked(lambda: _place(partition), "TOPIC:PARTITION")
    found = session.transactions.producers(_leader(session, at), [at])[at]
    if isinstance(found, BrokerRefused):
        raise found
    show(
        session.form,
        transaction_view.producer_documents(found),
        lambda: transaction_view.producers_text(found),
    )


def find_hanging(
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
    broker_id: Annotated[
        int | None, typer.Option(metavar="ID", help="Only partitions that this broker leads.")
    ] = None,
    max_transaction_timeout: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Only transactions whose producer has not written for longer. It should be the "
            "brokers' transaction.max.timeout.ms.",
        ),
    ] = "15m",
) -> None:
    """Find transactions that are open in a partition, and that no coordinator will end."""
    option = "--max-transaction-timeout"
    max_timeout_ms = checked(lambda: length_ms(max_transaction_timeout), option)
    chosen = checked(lambda: topic_choice.choice(topics or []), "TOPIC")
    names = topic_choice.checked_names(list(chosen), session.admin.topic_names())
    described = session.admin.describe_topics(names)
    every: topic_choice.Choice = chosen or dict.fromkeys(names)
    places = topic_choice.chosen_partitions(described, every)
    leaders = _leaders(described)
    producers = _producers(
        session.transactions,
        {at: leaders[at] for at in places if broker_id is None or leaders[at] == broker_id},
    )
    now_ms = _now_ms()
    found = hanging.candidates(producers, max_timeout_ms, now_ms)
    found = hanging.hanging(found, _transactions_of(session.transactions, found))
    show(
        session.form,
        transaction_view.hanging_documents(found),
        lambda: transaction_view.hanging_text(found, now_ms),
    )
    skipped = hanging.skipped(producers)
    for at, why in skipped.items():
        remark(f"{at} was skipped: {why.message}")
    if skipped:
        raise CannotDo(
            f"the producers of {len(skipped)} of {len(producers)} partitions are not known",
            "the lines above say why",
        )


def abort(
    session: Session,
    *,
    partition: Place,
    start_offset: Annotated[
        int,
        typer.Option(
            metavar="OFFSET", help="First offset of the transaction, as find-hanging shows it."
        ),
    ],
    force: Annotated[
        bool,
        typer.Option("--force", help="Also abort a transaction that its coordinator will end."),
    ] = False,
) -> None:
    """Abort a hanging transaction in one partition. Its records stay invisible to consumers with
    isolation.level=read_committed, which then get the records behind them."""
    at = checked(lambda: _place(partition), "TOPIC:PARTITION")
    client, leader = session.transactions, _leader(session, at)
    found = hanging.beginning_at(client.producers(leader, [at]), at, start_offset)
    if not force and not hanging.hanging([found], _transactions_of(client, [found])):
        raise CannotDo(
            f"the transaction in {at} does not hang: its coordinator will end it",
            "stop its producer and wait for its timeout; --force aborts it in this partition only, "
            "so that it may be committed in others",
        )
    client.abort(leader, at, found.producer)
    show(
        session.form,
        transaction_view.hanging_documents([found]),
        lambda: transaction_view.aborted_text(found),
    )


def _producers(
    client: KafkaTransactions, leaders: Mapping[TopicPartition, int | None]
) -> Producers:
    """The producers of all these partitions, each with its leader. Those without one are
    skipped."""
    found: dict[TopicPartition, tuple[ActiveProducer, ...] | BrokerRefused] = {}
    by_leader: dict[int, list[TopicPartition]] = {}
    for at, leader in leaders.items():
        if leader is None:
            found[at] = BrokerRefused("LEADER_NOT_AVAILABLE", "it has no leader")
        else:
            by_leader.setdefault(leader, []).append(at)
    with progress("asking for producers", len(leaders)) as advance:
        for leader, places in by_leader.items():
            for first in range(0, len(places), AT_ONCE):
                some = places[first : first + AT_ONCE]
                found.update(client.producers(leader, some))
                advance(len(some))
    return found


def _transactions_of(
    client: KafkaTransactions, found: Iterable[hanging.OpenTransaction]
) -> list[Transaction]:
    """The transactions that coordinators have of these producers."""
    producer_ids = tuple(sorted({one.producer.producer_id for one in found}))
    if not producer_ids:
        return []
    by_coordinator: dict[int, list[str]] = {}
    for listing in client.list_all(TransactionFilter(producer_ids=producer_ids)):
        by_coordinator.setdefault(listing.coordinator, []).append(listing.transactional_id)
    return [
        transaction
        for coordinator, names in by_coordinator.items()
        for transaction in client.describe(coordinator, names)
    ]


def _leaders(topics: Iterable[Topic]) -> dict[TopicPartition, int | None]:
    """The leader of each partition; None for one that is offline."""
    return {
        TopicPartition(topic.name, one.partition): one.leader
        for topic in topics
        for one in topic.partitions
    }


def _leader(session: Session, at: TopicPartition) -> int:
    """The leader of a partition. Raises `CannotDo`."""
    names = topic_choice.checked_names([at.topic], session.admin.topic_names())
    topics = session.admin.describe_topics(names)
    topic_choice.chosen_partitions(topics, {at.topic: (at.partition,)})
    leader = _leaders(topics)[at]
    if leader is None:
        raise CannotDo(f"partition {at} has no leader", "`chiplog check` says what is wrong")
    return leader


def _place(text: str) -> TopicPartition:
    """The partition in a text like `orders:0`. Raises `ValueError`."""
    match list(topic_choice.choice([text]).items()):
        case [(topic, (number,))]:
            return TopicPartition(topic, number)
    raise ValueError(f"{text!r} is not one partition: write it like orders:0")


def _duration_ms(text: str | None, option: str) -> int | None:
    """The milliseconds of a duration. A number alone is in milliseconds, as in Kafka's tool."""
    if text is None:
        return None
    return int(text) if text.isdecimal() else checked(lambda: length_ms(text), option)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
