"""A partition is found by its number, whoever wrote the map."""

import pytest

from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionEpoch, PartitionIndex, TopicId
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState

OLD, NEW, GONE = (TopicId(bytes([number]) * 16) for number in (1, 2, 3))


def generation(*numbers: int, topic_id: TopicId = NEW) -> Generation:
    return Generation(
        topic_id=topic_id,
        partitions=tuple(
            PartitionState(
                partition=PartitionIndex(number),
                replicas=(BrokerId(1),),
                isr=(),
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
            )
            for number in numbers
        ),
    )


@pytest.mark.parametrize("numbers", [(0, 1, 2), (2, 0, 1), (1, 2), (2,)])
def test_a_partition_is_found_wherever_it_stands(numbers: tuple[int, ...]) -> None:
    found = [generation(*numbers).state_of(PartitionIndex(number)) for number in range(4)]
    wanted = [number if number in numbers else None for number in range(4)]
    assert [one and one.partition for one in found] == wanted


def test_the_current_generation_is_the_one_that_the_name_means() -> None:
    old, new = generation(0, topic_id=OLD), generation(0, 1, topic_id=NEW)

    def current(topic_id: TopicId | None) -> Generation | None:
        return PartitionMapSpec(
            cluster="demo",
            topic_name="orders",
            current=topic_id,
            min_isr=1,
            durability=Durability.PAGE_CACHE,
            generations=(old, new),
        ).current_generation

    assert current(NEW) is new
    assert current(OLD) is old
    assert current(None) is None
    assert current(GONE) is None
