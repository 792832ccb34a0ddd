"""Resets as ConsumerGroups ask for them: when to ask the coordinator, and what to publish.

Level-triggered: as long as a manifest says it, the reset is asked for until its coordinator says
what became of it. That is safe, because the coordinator runs one id once, for as long as there is
the group. What `status` says of this very reset decides only that it is not asked for any more.

| The coordinator said | Asked again |
| --- | --- |
| Planned | when the manifest changes, and by another operator |
| Done | when `spec.reset` changes, never on its own: with a group that is gone the coordinator
  forgets what it ran, and offsets of a new group of that name would be moved |
| Refused | when `spec.reset` changes, never on its own: else it would move the offsets at the next
  moment without members, which may be weeks later in the middle of a deploy |
| Refused, of a dry run | when the members are gone, when the manifest changes, every `RETRY_MS` |
| that it cannot answer, or nothing | every `AGAIN_MS` |
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from chiplog_core.group_watch.requests import FindTopic, partition_count, position_requests
from chiplog_core.groups.at import At
from chiplog_core.groups.reset_plan import counted, moment_ms
from chiplog_core.ids import BrokerId
from chiplog_core.limits import (
    MAX_GROUP_STATUS_PARTITIONS,
    MAX_MESSAGE_LENGTH,
)
from chiplog_core.manifest.writing import write
from chiplog_core.model.actions import Announce, EventType
from chiplog_core.model.consumer_group import ConsumerGroup, Reset
from chiplog_core.model.group_exchange import (
    GroupFacts,
    PartitionPosition,
    Positions,
    PositionsRequest,
    ResetAnswer,
    ResetRequest,
    TopicPositions,
)
from chiplog_core.model.group_status import NO_COMMIT, ResetState, ResetStatus
from chiplog_core.naming import api
from chiplog_core.observed.settings import paused
from chiplog_core.validate.consumer_group import check_group

RETRY_MS: Final = 10_000
AGAIN_MS: Final = 1_000
REFUSED_FOR_GOOD: Final = ". It is not retried: fix the cause, then set another spec.reset.id"


_FINAL: Final = frozenset({ResetState.DONE, ResetState.REFUSED})
"""What a reset that is not only planned ends as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What came of the last time that a reset was asked for."""

    generation: int
    """metadata.generation of the manifest that asked for it."""
    at_ms: int
    """Of a clock that never jumps."""
    state: ResetState | None
    """None where the coordinator could not say."""
    had_members: bool
    wish: str = ""
    """Digest of the reset."""


def reset_digest(reset: Reset) -> str:
    """Digest of the whole reset. A reset with other settings has another digest."""
    text = json.dumps(write(reset), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_over(group: ConsumerGroup, tried: Tried | None) -> bool:
    """Whether this very reset was done or refused before, according to this process or the
    status."""
    reset, published = group.spec.reset, group.status.reset
    if reset is None or reset.dry_run:
        return False
    if tried is not None and tried.wish == reset_digest(reset):
        return tried.state in _FINAL
    if published is None or published.state not in _FINAL or published.id != reset.id:
        return False
    # A status of an older version does not say which reset it was for. A refusal counts for this
    # reset. If it was done, the coordinator decides whether it was this reset.
    is_old_refusal = published.state is ResetState.REFUSED and not published.wish
    return is_old_refusal or published.wish == reset_digest(reset)


def is_due(
    group: ConsumerGroup, facts: GroupFacts | None, tried: Tried | None, now_ms: int
) -> bool:
    """Whether to send the reset now. `facts` are what the coordinator reported in this pass, or
    None."""
    if group.spec.reset is None or paused(group.metadata) or not _is_valid(group):
        return False
    if facts is None or facts.refusal is not None or is_over(group, tried):
        return False
    if tried is None or tried.generation != group.metadata.generation:
        return True
    if tried.state in {ResetState.DONE, ResetState.PLANNED}:
        return False
    if tried.had_members and not facts.member_count:
        return True
    pause_ms = AGAIN_MS if tried.state is None else RETRY_MS
    return now_ms - tried.at_ms >= pause_ms


def partitions_of(reset: Reset, facts: GroupFacts, find_topic: FindTopic) -> list[At]:
    """The partitions whose ends the coordinator needs for the reset. Partitions that the
    operator does not know are left out; the coordinator reports what is wrong with them."""
    if not reset.topics:
        return [
            At(topic.topic, partition.partition)
            for topic in facts.topics
            for partition in topic.partitions
            if partition.committed_offset != NO_COMMIT
        ]
    wanted: list[At] = []
    for reset_topic in reset.topics:
        size = partition_count(reset_topic.topic, find_topic)
        wanted += [
            At(reset_topic.topic, index)
            for index in reset_topic.partitions or range(size)
            if index < size
        ]
    return wanted


def positions_requests(
    wanted: Iterable[At], reset: Reset, find_topic: FindTopic, wall_ms: int
) -> dict[BrokerId, list[PositionsRequest]]:
    """The requests to the leaders of these partitions. Partitions without a leader are left out.

    `wall_ms`: the time now, in milliseconds since 1970, from which by-duration counts back.
    """
    since_ms = moment_ms(reset, wall_ms)
    requests = position_requests(list(wanted), (), find_topic)
    return {
        broker_id: [replace(request, since_ms=since_ms) for request in of_broker]
        for broker_id, of_broker in requests.items()
    }


def reset_request(group_id: str, reset: Reset, positions: Iterable[Positions]) -> ResetRequest:
    """The request to the coordinator, with the positions that the leaders reported."""
    positions_by_topic: dict[str, dict[int, PartitionPosition]] = defaultdict(dict)
    for answer in positions:
        for topic in answer.topics:
            for position in topic.partitions:
                positions_by_topic[topic.topic][position.partition] = PartitionPosition(
                    partition=position.partition,
                    refusal=position.refusal,
                    log_start_offset=position.log_start_offset,
                    end_offset=position.end_offset,
                    since_offset=position.since_offset,
                )
    return ResetRequest(
        group_id=group_id,
        reset=reset,
        positions=tuple(
            TopicPositions(topic=topic, partitions=tuple(positions_by_topic[topic].values()))
            for topic in sorted(positions_by_topic)
        ),
    )


def tried(
    group: ConsumerGroup, facts: GroupFacts, answer: ResetAnswer | None, now_ms: int
) -> Tried:
    """What to remember of an attempt. `answer` is None if the coordinator did not answer."""
    return Tried(
        generation=group.metadata.generation,
        at_ms=now_ms,
        state=None if answer is None else answer.state,
        had_members=facts.member_count > 0,
        wish="" if group.spec.reset is None else reset_digest(group.spec.reset),
    )


def reset_status(
    before: ResetStatus | None, reset: Reset, answer: ResetAnswer | None, now: datetime
) -> ResetStatus | None:
    """The status to publish for the reset; None to keep the published one.

    A reset that may have run, but whose outcome no broker reported, is Running until one does.
    """
    if answer is not None and answer.state is not None:
        total, shown = len(answer.offsets), answer.offsets[:MAX_GROUP_STATUS_PARTITIONS]
        cut = (
            f"{len(shown)} of {counted(total, 'partition')} are shown" if total > len(shown) else ""
        )
        is_refused = answer.state is ResetState.REFUSED
        final = REFUSED_FOR_GOOD if is_refused and not reset.dry_run else ""
        message = "; ".join(filter(None, (cut, answer.message)))
        found = ResetStatus(
            id=reset.id,
            state=answer.state,
            message=message[: MAX_MESSAGE_LENGTH - len(final)] + final,
            wish=reset_digest(reset) if answer.state in _FINAL else "",
            offsets=shown,
        )
    elif reset.dry_run or _has_ended(before, reset):
        return None
    else:
        why = answer.message if answer is not None else ""
        message = f"waiting for the group's coordinator{f': {why}' if why else ''}"
        found = ResetStatus(
            id=reset.id, state=ResetState.RUNNING, message=message[:MAX_MESSAGE_LENGTH]
        )
    if before is not None and replace(before, time=None) == found:
        return before
    if before is not None and before.id == reset.id and _is_repeated(before, found):
        return before if before.wish == found.wish else replace(before, wish=found.wish)
    return replace(found, time=now.replace(microsecond=0))


def _has_ended(before: ResetStatus | None, reset: Reset) -> bool:
    """Whether the published status already says that this reset is done. It stays done."""
    return before is not None and before.id == reset.id and before.state is ResetState.DONE


def _is_repeated(before: ResetStatus, found: ResetStatus) -> bool:
    """Whether an answer only repeats the outcome of a reset that is done, without the message of
    the first answer."""
    is_done = before.state is found.state is ResetState.DONE
    return is_done and before.offsets == found.offsets and not found.message


def reset_event(
    group: ConsumerGroup, before: ResetStatus | None, after: ResetStatus | None
) -> Announce | None:
    """The Event for a reset that ends, or that is refused for another reason than before."""
    if after is None or after.state not in _EVENTS:
        return None
    known = None if before is None else (before.id, before.state, before.message)
    if known == (after.id, after.state, after.message):
        return None
    if before is not None and (before.id, before.state) == (after.id, ResetState.DONE):
        return None
    kind, reason = _EVENTS[after.state]
    partitions = counted(len(after.offsets), "partition")
    message = f"reset {after.id}: {after.message}"
    if after.state is ResetState.DONE and after.message:
        message = f"reset {after.id} has moved the offsets of {partitions}: {after.message}"
    elif after.state is ResetState.DONE:
        message = f"reset {after.id} has moved the offsets of {partitions} as requested"
    return Announce(
        kind=api.CONSUMER_GROUP.kind,
        api_version=api.API_VERSION,
        metadata=group.metadata,
        type=kind,
        reason=reason,
        message=message,
    )


_EVENTS: Final[Mapping[ResetState, tuple[EventType, str]]] = {
    ResetState.DONE: (EventType.NORMAL, "OffsetsReset"),
    ResetState.REFUSED: (EventType.WARNING, "ResetRefused"),
    ResetState.FAILED: (EventType.WARNING, "ResetFailed"),
}


def _is_valid(group: ConsumerGroup) -> bool:
    """Whether the spec's reset has no problems."""
    return not any(problem.field.startswith("spec.reset") for problem in check_group(group))
