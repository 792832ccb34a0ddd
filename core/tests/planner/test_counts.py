"""What is counted of the partitions of a cluster."""

from dataclasses import replace
from datetime import UTC, datetime

from chiplog_core.ids import TopicId
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import PartitionMap, PartitionMapSpec, PartitionState
from chiplog_core.planner.counts import Counts, count_partitions
from tests.planner.leadership.test_elections import (
    TOPIC,
    broker_state,
    broker_states,
    partition_map,
    state,
)

ALL = broker_states(broker_state("1@1"), broker_state("2@1"), broker_state("3@1"))
WITHOUT_LEADER = state("1@1", None)


def count(name: str, spec: PartitionMapSpec) -> Counts:
    about = Metadata(name=f"demo.{name}", namespace="home")
    return count_partitions({name: PartitionMap(metadata=about, spec=spec)}, ALL)


def of(found: PartitionState) -> Counts:
    return count("orders", partition_map(found))


def test_a_partition_that_is_well_is_only_a_partition() -> None:
    found = of(state("1@1 2@1 3@1", "1@1"))

    assert (found.topics, found.partitions) == (1, 1)
    assert (found.offline, found.under_replicated, found.not_preferred) == (0, 0, 0)
    assert found.of_topic == {}


def test_a_partition_without_a_leader_is_named() -> None:
    found = of(WITHOUT_LEADER)

    assert (found.offline, found.under_replicated) == (1, 1)
    assert found.lagging == {2, 3}
    assert found.of_topic["orders"].offline == [0]


def test_topics_of_the_cluster_itself_are_no_topics_of_users() -> None:
    found = count("__consumer_offsets", partition_map(WITHOUT_LEADER))

    assert (found.topics, found.partitions, found.offline) == (0, 0, 1)


def test_data_that_clients_cannot_see_is_not_counted() -> None:
    spec = partition_map(WITHOUT_LEADER)
    (generation,) = spec.generations
    old = replace(
        generation,
        topic_id=TopicId((8).to_bytes(16, "big")),
        trash_until=datetime(2026, 1, 1, tzinfo=UTC),
    )
    well = partition_map(state("1@1 2@1 3@1", "1@1")).generations

    assert count("orders", replace(spec, generations=(old, *well))).offline == 0
    assert count("orders", replace(spec, current=None)) == Counts()
    assert count("orders", spec).offline == 1
    assert generation.topic_id == TOPIC
