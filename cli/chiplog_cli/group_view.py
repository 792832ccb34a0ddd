"""Groups, their states and members, as `kafka-consumer-groups.sh` shows them."""

from collections.abc import Iterable, Sequence
from typing import Any

from chiplog_cli.facts import DEAD, EMPTY, Broker, Group, GroupListing, TopicPartition
from chiplog_cli.tables import table

STATE_HEADER = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def list_text(listings: Iterable[GroupListing], *, states: bool) -> str:
    """The names, or with --state a table."""
    if not states:
        return "\n".join(one.group_id for one in listings)
    return table(
        ("GROUP", "TYPE", "STATE"), ((one.group_id, one.type, one.state) for one in listings)
    )


def list_documents(listings: Iterable[GroupListing]) -> list[dict[str, Any]]:
    return [{"group": one.group_id, "type": one.type, "state": one.state} for one in listings]


def remark(group: Group) -> str | None:
    """What should be known before the rows are read."""
    if group.state == EMPTY:
        return f"Consumer group '{group.group_id}' has no active members."
    if group.state in REBALANCING:
        return f"Warning: Consumer group '{group.group_id}' is rebalancing."
    return None


def does_not_exist(group: Group) -> bool:
    return group.state == DEAD


def state_text(groups: Iterable[Group]) -> str:
    return table(
        STATE_HEADER,
        (
            (
                one.group_id,
                _coordinator(one.coordinator),
                one.assignor,
                one.state,
                len(one.members),
            )
            for one in groups
        ),
    )


def members_text(groups: Sequence[Group], *, verbose: bool) -> str:
    """A row for each member; --verbose adds what it is to read, as `topic:0,1;other:2`."""
    static = any(member.group_instance_id for group in groups for member in group.members)
    header = ["GROUP", "CONSUMER-ID"]
    header += ["GROUP-INSTANCE-ID"] if static else []
    header += ["HOST", "CLIENT-ID", "#PARTITIONS"]
    header += ["CURRENT-ASSIGNMENT"] if verbose else []
    rows = []
    for group in groups:
        for one in group.members:
            row: list[object] = [group.group_id, one.member_id]
            row += [one.group_instance_id] if static else []
            row += [one.host, one.client_id, len(one.partitions)]
            row += [assignment_text(one.partitions)] if verbose else []
            rows.append(row)
    return table(header, rows)


def assignment_text(partitions: Iterable[TopicPartition]) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return ";".join(f"{topic}:{','.join(map(str, them))}" for topic, them in by_topic.items())


def document(group: Group) -> dict[str, Any]:
    """The group with its members; `groups describe` adds the partitions."""
    coordinator = group.coordinator
    return {
        "group": group.group_id,
        "state": group.state,
        "assignmentStrategy": group.assignor or None,
        "coordinator": None if coordinator is None else coordinator.id,
        "members": [
            {
                "consumerId": one.member_id,
                "groupInstanceId": one.group_instance_id,
                "host": one.host,
                "clientId": one.client_id,
                "assignment": [
                    {"topic": at.topic, "partition": at.partition} for at in one.partitions
                ],
            }
            for one in group.members
        ],
    }


def _coordinator(broker: Broker | None) -> str | None:
    return None if broker is None else f"{broker.host}:{broker.port} ({broker.id})"
