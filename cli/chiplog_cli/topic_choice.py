"""Which partitions a command is about, out of `--topic orders:0,2-4` and its like."""

from collections.abc import Iterable, Mapping, Sequence

from chiplog_cli.errors import CannotDo
from chiplog_cli.facts import Topic, TopicPartition
from chiplog_cli.numbers import partition_numbers
from chiplog_core.problems import nearest
from chiplog_core.topic_name import is_internal

Choice = Mapping[str, tuple[int, ...] | None]
"""Partitions of each topic; None means all."""


def choice(texts: Iterable[str]) -> Choice:
    """The chosen topics and partitions, from texts like `orders` and `orders:0,2-4`. A
    `ValueError` says how to write them."""
    chosen: dict[str, tuple[int, ...] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic:
            raise ValueError(f"{text!r} has no topic name: write TOPIC or TOPIC:PARTITIONS")
        if topic in chosen:
            raise ValueError(
                f"{topic!r} is given twice: write all its partitions together, like orders:0,2-4"
            )
        chosen[topic] = partition_numbers(numbers) if colon else None
    return chosen


def chosen_partitions(topics: Iterable[Topic], chosen: Choice) -> list[TopicPartition]:
    """The chosen partitions. Raises `CannotDo` for one that does not exist."""
    found: list[TopicPartition] = []
    for topic in topics:
        existing = {partition.partition for partition in topic.partitions}
        wanted = chosen[topic.name]
        missing = set(wanted or ()) - existing
        if missing:
            raise CannotDo(
                f"topic '{topic.name}' has no partition {min(missing)}",
                f"its partitions are 0 to {len(existing) - 1}",
            )
        found += [TopicPartition(topic.name, number) for number in sorted(wanted or existing)]
    return found


def checked_names(wanted: Sequence[str], existing: Sequence[str]) -> list[str]:
    """The wanted topics; all existing ones if none is named. Raises `CannotDo` for one that does
    not exist."""
    for name in wanted:
        if name not in existing:
            near = nearest(name, existing)
            remedy = f"did you mean '{near}'?" if near else "`chiplog topics list` shows all"
            raise CannotDo(f"topic '{name}' does not exist", remedy)
    return list(wanted or existing)


def without_internal(names: Iterable[str]) -> list[str]:
    return [name for name in names if not is_internal(name)]
