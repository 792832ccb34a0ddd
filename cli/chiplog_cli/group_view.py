"""Groups, their states and members, as `kafka-consumer-groups.sh` shows them."""

from collections.abc import Iterable, Sequence
from typing import Any

from chiplog_cli.facts import DEAD, EMPTY, Broker, Group, GroupListing, TopicPartition
from chiplog_cli.tables import table

STATE_HEADER = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def list_text(listings: Iterable[GroupListing], *, states: bool) -> str:
    """The ids of groups; with --state (`states`) a table that also has their types and states."""
    if not states:
        return "\n".join(listing.group_id for listing in listings)
    return table(
        ("GROUP", "TYPE", "STATE"),
        ((listing.group_id, listing.type, listing.state) for listing in listings),
    )


def list_documents(listings: Iterable[GroupListing]) -> list[dict[str, Any]]:
    """The groups for JSON and YAML, with their types and states."""
    return [
        {"group": listing.group_id, "type": listing.type, "state": listing.state}
        for listing in listings
    ]


def remark(group: Group) -> str | None:
    """A warning to print before the rows of a group; None if none is needed."""
    if group.state == EMPTY:
        return f"Consumer group '{group.group_id}' has no active members."
    if group.state in REBALANCING:
        return f"Warning: Consumer group '{group.group_id}' is rebalancing."
    return None


def does_not_exist(group: Group) -> bool:
    """Whether the group does not exist: a coordinator describes it as Dead then."""
    return group.state == DEAD


def state_text(groups: Iterable[Group]) -> str:
    """A table with the state and the coordinator of each group."""
    return table(
        STATE_HEADER,
        (
            (
                group.group_id,
                _coordinator(group.coordinator),
                group.assignor,
                group.state,
                len(group.members),
            )
            for group in groups
        ),
    )


def members_text(groups: Sequence[Group], *, verbose: bool) -> str:
    """A row for each member. --verbose adds its assignment, as `topic:0,1;other:2`. The column with
    the `group.instance.id` is left out if no member has one."""
    has_static = any(member.group_instance_id for group in groups for member in group.members)
    header = ["GROUP", "CONSUMER-ID"]
    header += ["GROUP-INSTANCE-ID"] if has_static else []
    header += ["HOST", "CLIENT-ID", "#PARTITIONS"]
    header += ["CURRENT-ASSIGNMENT"] if verbose else []
    rows = []
    for group in groups:
        for group_member in group.members:
            row: list[object] = [group.group_id, group_member.member_id]
            row += [group_member.group_instance_id] if has_static else []
            row += [group_member.host, group_member.client_id, len(group_member.partitions)]
            row += [assignment_text(group_member.partitions)] if verbose else []
            rows.append(row)
    return table(header, rows)


def assignment_text(partitions: Iterable[TopicPartition]) -> str:
    """The partitions as text, like `topic:0,1;other:2`."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items())


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
                "consumerId": member.member_id,
                "groupInstanceId": member.group_instance_id,
                "host": member.host,
                "clientId": member.client_id,
                "assignment": [
                    {"topic": at.topic, "partition": at.partition} for at in member.partitions
                ],
            }
            for member in group.members
        ],
    }


def _coordinator(broker: Broker | None) -> str | None:
    return None if broker is None else f"{broker.host}:{broker.port} ({broker.id})"
