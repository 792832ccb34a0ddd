"""The records of an offset reset, in one batch: fencing, offsets and the reset's id.

So they take effect together, and no member can join in between. If the broker fails before the
batch is written, the group knows nothing of the reset. If it fails afterwards, the group is reset,
and repeated requests are answered with the stored result.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from chiplog_broker.groups.batches import commit_records, group_record, reset_record
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.groups.reset_value import DoneReset
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.stored import StoredGroup
from chiplog_wire.records.writer import NewRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReset:
    """A reset that is to be carried out."""

    id: str
    done: DoneReset
    commits: Mapping[TopicPartition, CommittedOffset]


def records_of_reset(
    state: GroupsState,
    group_id: str,
    reset: NewReset,
    fenced: Iterable[StoredGroup],
    now_ms: int,
) -> list[NewRecord]:
    """The records of a reset. `fenced` is the group as it is stored without its members; empty if
    it had no members.

    Only the last reset of a group keeps its offsets, so earlier ones are written again without
    them. Raises `UnstorableGroupRecordError`.
    """
    earlier = [
        reset_record(group_id, reset_id, replace(done, offsets=()), now_ms)
        for reset_id, done in state.resets(group_id).items()
        if done.offsets and reset_id != reset.id
    ]
    return [
        *(group_record(group_id, group, now_ms) for group in fenced),
        *earlier,
        *commit_records(group_id, reset.commits, now_ms),
        reset_record(group_id, reset.id, reset.done, now_ms),
    ]
