"""Resets of offsets in the specs of ConsumerGroups: when to send them to the coordinator, and what
to publish.

A reset in a spec is sent until its coordinator reports the outcome. Repeated sending is safe,
because the coordinator carries out each reset id only once, as long as the group exists. A status
with the outcome of exactly this reset prevents that it is sent again.

| Outcome | Sent again |
| --- | --- |
| Planned (a dry run) | when the manifest changes, and by an operator that takes over |
| Done | when `spec.reset` changes, never automatically: if the group is deleted, the coordinator
  forgets the reset, and would move the offsets of a new group with the same id |
| Refused | when `spec.reset` changes, never automatically: else it would move the offsets as
  soon as the group has no members, which may be weeks later in the middle of a deployment |
| Refused (a dry run) | when the group has no members any more, when the manifest changes, and every
  `RETRY_MS` |
| the coordinator cannot or does not answer | every `AGAIN_MS` |
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
"""Time between attempts after a refused dry run."""
AGAIN_MS: Final = 1_000
"""Time between attempts after one without an outcome."""
REFUSED_FOR_GOOD: Final = ". It is not retried: fix the cause, then set another spec.reset.id"


_FINAL: Final = frozenset({ResetState.DONE, ResetState.REFUSED})
"""The states in which a reset that is not a dry run has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The last attempt to carry out a reset."""

    generation: int
    """metadata.generation of the ConsumerGroup when the reset was sent."""
    at_ms: int
    """When the reset was sent, by a monotonic clock."""
    state: ResetState | None
    """The outcome; None if the coordinator reported none."""
    had_members: bool
    """Whether the group had members."""
    wish: str = ""
    """Digest of the reset."""


def reset_digest(reset: Reset) -> str:
    """Digest of the whole reset. A reset with other settings has another digest."""
    text = json.dumps(write(reset), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_over(group: ConsumerGroup, tried: Tried | None) -> bool:
    """Whether the reset in the spec has ended (done or refused), according to the last attempt of
    this process, or else to the status. False for a dry run."""
    reset, published = group.spec.reset, group.status.reset
    if reset is None or reset.dry_run:
        return False
    if tried is not None and tried.wish == reset_digest(reset):
        return tried.state in _FINAL
    if published is None or published.state not in _FINAL or published.id != reset.id:
        return False
    # An older operator did not write the reset's digest (`wish`) into the status. Its refusal
    # counts for this reset. If it reported a reset as done, the coordinator knows whether it was
    # this one.
    is_old_refusal = published.state is ResetState.REFUSED and not published.wish
    return is_old_refusal or published.wish == reset_digest(reset)


def is_due(
    group: ConsumerGroup, facts: GroupFacts | None, tried: Tried | None, now_ms: int
) -> bool:
    """Whether to send the reset now. `facts` is the coordinator's answer in this pass; None if
    there is none."""
    if group.spec.reset is None or paused(group.metadata) or not _is_valid(group):
        return False
    if facts is None or facts.refusal is not None or is_over(group, tried):
        return False
    if tried is None or tried.generation != group.metadata.generation:
        return True  # never sent, or the spec has changed since
    if tried.state in {ResetState.DONE, ResetState.PLANNED}:
        return False
    if tried.had_members and not facts.member_count:
        return True  # members may have been the reason of the refusal, and they are gone
    pause_ms = AGAIN_MS if tried.state is None else RETRY_MS
    return now_ms - tried.at_ms >= pause_ms


def partitions_of(reset: Reset, facts: GroupFacts, find_topic: FindTopic) -> list[At]:
    """The partitions whose start and end offsets the coordinator needs for the reset. Partitions
    that do not exist are left out; the coordinator refuses the reset because of them."""
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
    """The requests to the leaders of these partitions, for the offsets that the reset needs.
    Partitions without a leader are left out.

    `wall_ms` is the time now, in milliseconds since 1970; a reset by duration counts back from it.
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
    """The attempt that was just made. `answer` is None if the coordinator did not answer."""
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
    """The status to publish for the reset; None to keep the published one (`before`).

    Without an outcome from the coordinator the reset may have run: its state is Running until a
    broker reports the outcome.
    """
    if answer is not None and answer.state is not None:
        total, shown = len(answer.offsets), answer.offsets[:MAX_GROUP_STATUS_PARTITIONS]
        left_out = (
            f"{len(shown)} of {counted(total, 'partition')} are shown" if total > len(shown) else ""
        )
        is_refused = answer.state is ResetState.REFUSED
        final = REFUSED_FOR_GOOD if is_refused and not reset.dry_run else ""
        message = "; ".join(filter(None, (left_out, answer.message)))
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
        return before  # unchanged, so it keeps its time
    if before is not None and before.id == reset.id and _is_repeated(before, found):
        return before if before.wish == found.wish else replace(before, wish=found.wish)
    return replace(found, time=now.replace(microsecond=0))


def _has_ended(before: ResetStatus | None, reset: Reset) -> bool:
    """Whether the published status says that this reset is done. Then it stays done."""
    return before is not None and before.id == reset.id and before.state is ResetState.DONE


def _is_repeated(before: ResetStatus, found: ResetStatus) -> bool:
    """Whether an answer only repeats the outcome of a reset that is done. A repeated answer does
    not have the message of the first one."""
    is_done = before.state is found.state is ResetState.DONE
    return is_done and before.offsets == found.offsets and not found.message


def reset_event(
    group: ConsumerGroup, before: ResetStatus | None, after: ResetStatus | None
) -> Announce | None:
    """The Event for a reset that has ended, or is refused for another reason than before; None if
    there is nothing new. `before` and `after` are the published and the new status."""
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
