"""Reads partitions, ISRs and damaged replicas out of the API server's objects."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias
from uuid import UUID

from chiplog_core.model.broker import Broker
from chiplog_core.model.partition_map import PartitionMap, PartitionState
from chiplog_core.topic_name import is_internal
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from e2e.sim.api_store import ApiStore
from e2e.sim.wire import TopicPartition

States: TypeAlias = Sequence[tuple[TopicPartition, PartitionState]]
"""Partitions, each with its entry in the PartitionMap."""


def partitions_in(store: ApiStore) -> list[TopicPartition]:
    """All partitions of topics that are not internal, of each topic's current generation."""
    found = (partition for partition, _ in states_in(store))
    return [partition for partition in found if not is_internal(partition.topic)]


def in_sync_in(store: ApiStore) -> dict[str, frozenset[int]]:
    """Label of the partition -> ids of the brokers in its ISR."""
    return {
        str(partition): frozenset(int(one.broker_id) for one in state.isr)
        for partition, state in states_in(store)
    }


def damaged_in(store: ApiStore) -> dict[str, frozenset[int]]:
    """Label of the partition -> ids of the brokers that report their replica of it as damaged."""
    labels = {(one.topic_id, one.number): str(one) for one, _ in states_in(store)}
    found: dict[str, frozenset[int]] = {}
    for manifest in store.all_of(kinds.BROKERS):
        broker = Broker.from_manifest(manifest)
        for directory in broker.status.directories:
            for one in directory.damaged:
                if one.refetching:
                    continue  # its files are already a new copy from the leader
                label = labels.get((UUID(bytes=one.topic_id.value), int(one.partition)), "")
                found[label] = found.get(label, frozenset()) | {int(broker.spec.broker_id)}
    return found


def owned_name(store: ApiStore, topic: Manifest) -> str | None:
    """The name under which this Topic's partitions exist now; None if it has none."""
    uid = topic["metadata"]["uid"]
    for manifest in store.all_of(kinds.PARTITION_MAPS):
        spec = PartitionMap.from_manifest(manifest).spec
        if spec.owner_uid == uid and spec.current is not None:
            return spec.topic_name
    return None


def states_in(store: ApiStore) -> Iterator[tuple[TopicPartition, PartitionState]]:
    """All partitions of each topic's current generation, with their entries in the maps."""
    for manifest in store.all_of(kinds.PARTITION_MAPS):
        spec = PartitionMap.from_manifest(manifest).spec
        for generation in spec.generations:
            if generation.topic_id == spec.current:
                topic_id = UUID(bytes=generation.topic_id.value)
                for state in generation.partitions:
                    yield TopicPartition(spec.topic_name, int(state.partition), topic_id), state
