"""What was found damaged is told of for a while, and of several the newest."""

from uuid import UUID

from chiplog_broker.storage.damage_history import DamageHistory
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.limits import MAX_DAMAGE_HISTORY
from tests.storage.memory_disk import ManualClock

TOPIC_ID = UUID("5b3f3d3e-8f43-4d5c-9c57-0123456789ab")


def test_what_is_whole_again_is_reported_with_its_time() -> None:
    clock = ManualClock()
    history = DamageHistory(clock)
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    for name in (first, second):
        clock.time_ms += 10
        error = DamagedLogError("bad", file=f"{name.directory}/0.log", offset=7, is_cut=True)
        history.found(name, TOPIC_ID, error)
    clock.time_ms += 10
    history.mark_repaired(first)
    history.mark_repaired(TopicPartition("orders", 2))
    newest, oldest = history
    assert (newest.partition, newest.repaired_ms) == (second, None)
    assert (oldest.partition, oldest.topic_id, oldest.file) == (first, TOPIC_ID, "orders-0/0.log")
    assert (oldest.offset, oldest.is_cut, oldest.why) == (7, True, "bad")
    assert oldest.repaired_ms == oldest.found_ms + 20
    clock.time_ms += 10
    history.mark_repaired(first)
    assert list(history) == [newest, oldest], "it is whole once"


def test_of_many_the_oldest_are_forgotten() -> None:
    history = DamageHistory(ManualClock())
    for number in range(MAX_DAMAGE_HISTORY + 2):
        history.found(TopicPartition("orders", number), None, DamagedLogError("bad"))
    told = [one.partition.partition for one in history]
    assert told == list(range(MAX_DAMAGE_HISTORY + 1, 1, -1))
