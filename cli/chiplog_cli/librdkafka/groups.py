"""The rest of `KafkaAdmin`: consumer groups and what they committed."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType
from confluent_kafka import TopicPartition as Place

from chiplog_cli.facts import Group, GroupListing, Member, TopicPartition
from chiplog_cli.librdkafka.admin import LibrdkafkaTopics, broker_of
from chiplog_cli.librdkafka.failures import refused

# Kafka's names, where librdkafka uses others.
STATES: Mapping[ConsumerGroupState, str] = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
}


class LibrdkafkaAdmin(LibrdkafkaTopics):
    """`KafkaAdmin` as a whole."""

    def list_groups(self) -> list[GroupListing]:
        """All groups with their states and types, by id. Raises `BrokerRefused`."""
        found = self._result(
            self._admin.list_consumer_groups(request_timeout=self._timeout_s), "consumer groups"
        )
        if found.errors:
            raise refused(found.errors[0], "consumer groups")
        listings = (
            GroupListing(
                group_id=listing.group_id, state=_state(listing.state), type=_type(listing.type)
            )
            for listing in found.valid
        )
        return sorted(listings, key=lambda listing: listing.group_id)

    def describe_group(self, group_id: str) -> Group:
        """The group with its coordinator and members. Raises `BrokerRefused`."""
        futures = self._admin.describe_consumer_groups([group_id], request_timeout=self._timeout_s)
        found = self._result(futures[group_id], _named(group_id))
        coordinator = found.coordinator
        return Group(
            group_id=group_id,
            state=_state(found.state),
            assignor=found.partition_assignor or "",
            coordinator=None if coordinator is None else broker_of(coordinator),
            members=tuple(
                sorted(
                    (_member(member) for member in found.members),
                    key=lambda member: member.member_id,
                )
            ),
        )

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """The committed offsets of a group. Raises `BrokerRefused`."""
        futures = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group_id)], request_timeout=self._timeout_s
        )
        offsets = {}
        for place in self._result(futures[group_id], _named(group_id)).topic_partitions:
            if place.error is not None:
                raise refused(place.error, f"{_named(group_id)}, {place.topic}-{place.partition}")
            if place.offset >= 0:  # a negative offset means that none is committed
                offsets[TopicPartition(place.topic, place.partition)] = place.offset
        return offsets

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """See `KafkaAdmin.commit`. Raises `BrokerRefused`."""
        wanted = [Place(at.topic, at.partition, offset) for at, offset in offsets.items()]
        futures = self._admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group_id, wanted)], request_timeout=self._timeout_s
        )
        for place in self._result(futures[group_id], _named(group_id)).topic_partitions:
            if place.error is not None:
                raise refused(place.error, f"{_named(group_id)}, {place.topic}-{place.partition}")

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members. Raises `BrokerRefused`."""
        futures = self._admin.delete_consumer_groups([group_id], request_timeout=self._timeout_s)
        self._result(futures[group_id], _named(group_id))


def _named(group_id: str) -> str:
    return f"group '{group_id}'"


def _member(found: Any) -> Member:
    """The member in librdkafka's description of a group."""
    return Member(
        member_id=found.member_id,
        client_id=found.client_id,
        host=found.host,
        group_instance_id=found.group_instance_id or None,
        partitions=tuple(
            sorted(
                TopicPartition(place.topic, place.partition)
                for place in found.assignment.topic_partitions
            )
        ),
    )


def _state(state: ConsumerGroupState) -> str:
    return STATES.get(state, state.name.capitalize())


def _type(kind: ConsumerGroupType) -> str:
    return kind.name.capitalize()
