"""How far the members of a group are: the rows of `kafka-consumer-groups.sh --describe`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chiplog_cli.errors import BrokerRefused
from chiplog_cli.facts import Group, Member, Offsets, TopicPartition
from chiplog_cli.tables import table

HEADER = (
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One partition of a group, or a member without partitions, whose `at` is None. Offsets that
    are not known are None, and so is the member of a partition that no member reads."""

    group_id: str
    at: TopicPartition | None
    committed: int | None = None
    end: int | None = None
    member: Member | None = None

    @property
    def lag(self) -> int | None:
        """The number of records not consumed yet; never negative.

        The two offsets are not from the same instant: the end offset is read last, so it is the
        newer one. A commit beyond it was made by hand, or its records were lost.
        """
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


def partitions_of(group: Group, committed: Mapping[TopicPartition, int]) -> set[TopicPartition]:
    """The partitions of a group: those with a committed offset, and those that a member reads."""
    return set(committed) | {at for member in group.members for at in member.partitions}


def rows(group: Group, committed: Mapping[TopicPartition, int], ends: Offsets) -> list[Row]:
    """The rows of a group by topic and partition, followed by those of members without partitions.
    `ends` has the end offsets of the partitions."""
    owners = {at: member for member in group.members for at in member.partitions}
    found = [
        Row(
            group_id=group.group_id,
            at=at,
            committed=committed.get(at),
            end=_offset_or_none(ends.get(at)),
            member=owners.get(at),
        )
        for at in sorted(partitions_of(group, committed))
    ]
    idle = sorted(
        (member for member in group.members if not member.partitions),
        key=lambda member: member.member_id,
    )
    return found + [Row(group_id=group.group_id, at=None, member=member) for member in idle]


def total_lag(found: Iterable[Row]) -> int | None:
    """The lag of all partitions; None if no partition has a committed offset."""
    lags = [row.lag for row in found if row.lag is not None]
    return sum(lags) if lags else None


def text(found: Iterable[Row]) -> str:
    return table(HEADER, (_cells(row) for row in found))


def documents(found: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows for JSON and YAML. Topic and partition are null for a member without partitions."""
    return [
        {
            "topic": row.at.topic if row.at else None,
            "partition": row.at.partition if row.at else None,
            "currentOffset": row.committed,
            "logEndOffset": row.end,
            "lag": row.lag,
            "consumerId": row.member.member_id if row.member else None,
            "host": row.member.host if row.member else None,
            "clientId": row.member.client_id if row.member else None,
        }
        for row in found
    ]


def _cells(row: Row) -> tuple[object, ...]:
    """The cells of a row, in the order of `HEADER`."""
    topic, partition = row.at or (None, None)
    member = row.member
    consumer = (member.member_id, member.host, member.client_id) if member else (None, None, None)
    return (row.group_id, topic, partition, row.committed, row.end, row.lag, *consumer)


def _offset_or_none(answer: int | BrokerRefused | None) -> int | None:
    """The offset; None for an error, and for a partition that was not requested."""
    return answer if isinstance(answer, int) else None
