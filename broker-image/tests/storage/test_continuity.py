"""After each append all that counts for itself has to agree; a log where it does not ends."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.storage.epochs import EpochHistory
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.segment import Segment
from chiplog_wire.records.batch import BatchHeader, iter_batches, set_place
from tests.storage.memory_disk import MemoryFile

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000
EPOCH = 3
Append = Callable[[PartitionLog, memoryview], object]
Fault = tuple[type, str, Callable[..., Any]]


def as_leader(log: PartitionLog, batch: memoryview) -> object:
    return log.append_as_leader(batch, EPOCH, NOW)


def as_follower(log: PartitionLog, batch: memoryview) -> object:
    copied = memoryview(bytearray(batch))
    set_place(copied, log.end_offset, len(copied) - 12, EPOCH)
    return log.append_as_follower(copied, EPOCH, NOW)


_sound_count = Segment.count
_sound_count_all = Segment.count_all
_sound_append = MemoryFile.append


def _one_offset_too_far(segment: Segment, last_offset: int, *more: int) -> None:
    _sound_count(segment, last_offset + 1, *more)


def _one_byte_too_few(segment: Segment, last_offset: int, newest_ms: int, size_bytes: int) -> None:
    _sound_count(segment, last_offset, newest_ms, size_bytes - 1)


def _all_one_offset_too_far(segment: Segment, run: Sequence[BatchHeader]) -> None:
    last = run[-1]
    further = last._replace(last_offset_delta=last.last_offset_delta + 1)
    _sound_count_all(segment, [*run[:-1], further])


def _all_one_byte_too_few(segment: Segment, run: Sequence[BatchHeader]) -> None:
    last = run[-1]
    _sound_count_all(segment, [*run[:-1], last._replace(length_bytes=last.length_bytes - 1)])


def _written_twice(file: MemoryFile, data: Any) -> int:
    _sound_append(file, data)
    return _sound_append(file, data)


def _last_epoch_forgotten(history: EpochHistory, epoch: int, start_offset: int) -> None:
    """As if the epoch was known already."""


@pytest.mark.parametrize(
    ("append", "fault"),
    [
        (as_leader, (Segment, "count", _one_offset_too_far)),
        (as_leader, (Segment, "count", _one_byte_too_few)),
        (as_follower, (Segment, "count_all", _all_one_offset_too_far)),
        (as_follower, (Segment, "count_all", _all_one_byte_too_few)),
        *(
            (append, fault)
            for append in (as_leader, as_follower)
            for fault in (
                (MemoryFile, "append", _written_twice),
                (EpochHistory, "assign", _last_epoch_forgotten),
            )
        ),
    ],
)
def test_what_does_not_agree_ends_the_log_and_loses_nothing(
    kit: "StorageKit",
    make_batch: "MakeBatch",
    monkeypatch: pytest.MonkeyPatch,
    append: Append,
    fault: Fault,
) -> None:
    async def scenario() -> None:
        directory, log = await kit.new_log()
        if fault[0] is not EpochHistory:
            append(log, make_batch([b"kept"]))
        acknowledged = log.end_offset
        await log.make_durable(acknowledged)
        with monkeypatch.context() as broken:
            broken.setattr(*fault)
            with pytest.raises(DamagedLogError, match="the log ends at offset"):
                append(log, make_batch([b"new"]))
        assert log.damage is not None
        assert log.damage.offset == acknowledged
        with pytest.raises(DamagedLogError):
            append(log, make_batch([b"more"]))
        with pytest.raises(DamagedLogError):
            log.read(0, 1_000, log.end_offset)
        assert [one.partition for one in directory.damage_history] == [kit.orders]
        data = directory.logs[kit.orders]._state.segments.active.log.read(0, 2**20)
        kept = [header.base_offset for _, header in iter_batches(memoryview(data))]
        assert kept[:acknowledged] == list(range(acknowledged))

    kit.run(scenario())


def test_what_agrees_continues(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    _, log = kit.run(kit.new_log())
    for _ in range(3):
        as_leader(log, make_batch([b"a", b"b"]))
        as_follower(log, make_batch([b"c"]))
    assert (log.end_offset, log.damage) == (9, None)
