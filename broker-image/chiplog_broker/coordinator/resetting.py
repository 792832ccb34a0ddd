"""What a reset appends, all of it in one batch: fencing, offsets and that it is done.

Hence there is no moment in which one of them counts without the others, and nobody can join in
between. A broker that dies before the batch leaves a group that knows nothing of the reset; one
that dies after it leaves a group that is reset, and says so to whoever asks again.
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
    """`fenced` is the group without members, where it had some.

    Raises `UnstorableGroupRecordError`.
    """
    earlier = [
        reset_record(group_id, reset_id, replace(done, offsets=()), now_ms)
        for reset_id, done in state.resets(group_id).items()
        if done.offsets and reset_id != reset.id
    ]
    return [
        *(group_record(group_id, one, now_ms) for one in fenced),
        *earlier,
        *commit_records(group_id, reset.commits, now_ms),
        reset_record(group_id, reset.id, reset.done, now_ms),
    ]
