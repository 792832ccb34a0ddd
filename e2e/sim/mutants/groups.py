"""Planted bugs of the coordinator of consumer groups.

Each function replaces one of the broker; `_sound_...` is the original.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from chiplog_broker.coordinator import group_log
from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.coordinator.group_log import GroupLog
from chiplog_broker.coordinator.holding import Safety
from chiplog_broker.coordinator.shard import Shard
from chiplog_broker.groups import forgetting
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.handlers.group_offsets import GroupOffsetHandlers
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.waiting import OnSafe
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.codes import Code
from chiplog_core.groups.group import Group
from chiplog_core.groups.member import Member
from chiplog_core.groups.membership import Membership
from chiplog_core.groups.requests import Identity
from chiplog_core.groups.roster import Roster
from chiplog_core.groups.stored import StoredGroup
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.steps import Steps
from e2e.sim.clients import SPARING
from e2e.sim.faults import Mix
from e2e.sim.groups.habits import GroupHabits
from e2e.sim.mutants.mutant import Mutant, Plant, plant

BUSY: Final = GroupHabits(
    groups=1,
    members=3,
    static_share=0.3,
    session_s=6.0,
    rebalance_s=6.0,
    heartbeat_s=1.0,
    commit_s=0.7,
    watch_s=0.7,
    compare_s=5.0,
    is_reading=False,
)
LOST: Final = frozenset({"lost-commit", "commit-went-back"})
"""An acknowledged or read commit is lost, or an older one is back."""
TWICE: Final = frozenset({"two-leaders", "two-owners", "two-assignments"})
"""One generation had two leaders or two assignments."""

_sound_refresh = Coordinator.refresh
_sound_joined = Group.joined
_sound_load_group = Group.load
_sound_apply_offset = GroupsState._apply_offset  # noqa: SLF001
_sound_checked = GroupOffsetHandlers._check_commits  # noqa: SLF001
_sound_expiry = forgetting._expiry  # noqa: SLF001


def mix(
    every_s: float,
    *faults: str,
    brokers: int = 3,
    faults_s: float = 50.0,
    habits: Mapping[str, Any] | None = None,
) -> Mix:
    """A mix with consumer groups and hardly any other load."""
    return Mix(
        brokers=brokers,
        operators=1,
        producers=1,
        consumers=0,
        pause_s=30.0,
        habits=SPARING,
        faults_s=faults_s,
        every_s=every_s,
        weights=dict.fromkeys(faults, 1.0),
        groups=replace(BUSY, **(habits or {})),
    )


MOVES: Final = ("coordinator killed", "coordinator at a commit", "coordinator cut off")


def _commit_of_any_generation(group: Membership, identity: Identity, now_ms: int) -> Code:
    """Accept commits of past generations and unknown members."""
    del now_ms
    is_nobodys = identity.generation < 0  # of a consumer that is no member
    return Code.UNKNOWN_MEMBER_ID if is_nobodys and group._group.roster else Code.NONE  # noqa: SLF001


def _safe_immediately(_safety: Safety, _group_id: str, then: OnSafe) -> None:
    """Answer a commit without waiting for its replication."""
    then(ErrorCode.none)


async def _load_what_is_safe(partition: Partition) -> GroupsState:
    """Load groups only up to the high watermark that this broker knows.

    The previous leader may have acknowledged commits above it.
    """
    state = GroupsState(partition.log.log_start_offset)
    end_offset = partition.high_watermark
    if partition.log.log_start_offset < end_offset:
        found = partition.log.read(partition.log.log_start_offset, 1 << 24, end_offset)
        if found.size_bytes:
            state.apply(found.read())
    state.end_offset = partition.log.end_offset
    return state


async def _load_one_batch(partition: Partition) -> GroupsState:
    """Load groups from the first batch of the log only."""
    log = partition.log
    state = GroupsState(log.log_start_offset)
    if log.log_start_offset < log.end_offset:
        found = log.read(log.log_start_offset, 1, log.end_offset, min_one=True)
        if found.size_bytes:
            state.apply(found.read())
    state.end_offset = log.end_offset
    return state


async def _current_immediately(_shard: Shard, _group_id: str) -> None:
    """Answer committed offsets that are not replicated yet, and may be lost."""


def _check_nothing(shard: Shard) -> None:
    """Do not check whether this broker is still the coordinator."""
    if not shard.is_loaded:
        raise GroupError(ErrorCode.not_coordinator)


def _take_up_only(coordinator: Coordinator) -> None:
    """Keep each shard that was ever led, even when another broker leads it."""
    known = coordinator._shards  # noqa: SLF001
    led = dict(known)
    _sound_refresh(coordinator)
    for index, shard in led.items():
        if known.get(index) is not shard and shard.is_loaded:
            known[index] = shard


def _keep_while_leading(coordinator: Coordinator) -> None:
    """When a shard is led again, use the state from the earlier leadership instead of the log."""
    kept: dict[int, Shard] = coordinator.__dict__.setdefault("_kept", {})
    kept |= coordinator._shards  # noqa: SLF001
    _sound_refresh(coordinator)
    for shard in coordinator._shards.values():  # noqa: SLF001
        before = kept.get(shard.partition.name.partition)
        is_again = before is not None and before is not shard and before.is_loaded
        if before is not None and is_again and not shard.is_loaded:
            shard._log.load = _loaded_before(shard._log, before._log.state)  # type: ignore[method-assign]  # noqa: SLF001


def _loaded_before(log: GroupLog, state: GroupsState) -> Callable[[], Any]:
    """A replacement for `GroupLog.load` that takes this state instead of reading the log."""

    async def load() -> None:
        log.state = state
        state.end_offset = log.partition.log.end_offset

    return load


def _everybody_leads(group: Group, member: Member) -> Any:
    """Name each member the leader in its JoinGroup response."""
    return replace(
        _sound_joined(group, member),
        leader=member.member_id,
        members=group._all_joined(),  # noqa: SLF001
    )


def _load_without_generation(group: Group, stored: StoredGroup) -> None:
    """Load a group as if it had had no generation yet."""
    _sound_load_group(group, replace(stored, generation=0))


def _commit_for_the_first(
    handlers: GroupOffsetHandlers, request: Any
) -> Steps[tuple[Any, dict[TopicPartition, CommittedOffset]]]:
    """Store each commit with the topic id of the first commit for a topic of this name."""
    refused, commits = yield from _sound_checked(handlers, request)
    first: dict[str, Any] = handlers.__dict__.setdefault("_first", {})
    return refused, {
        one: replace(commit, topic_id=first.setdefault(one.topic, commit.topic_id))
        for one, commit in commits.items()
    }


def _ignore_tombstones(state: GroupsState, key: Any, record: Any, header: Any) -> None:
    """Keep committed offsets that were deleted."""
    if record.value is not None:
        _sound_apply_offset(state, key, record, header)


def _find_by_instance(roster: Roster, member_id: str, instance: str | None) -> Member | Code:
    """Find a static member without checking that the member id is its present one."""
    owner = roster.of_instance(instance)
    if owner is not None:
        return owner
    return roster._members.get(member_id, Code.UNKNOWN_MEMBER_ID)  # noqa: SLF001


def _expiry_of_all(stored: StoredGroup | None) -> Any:
    """Let offsets expire although their group has members."""
    if stored is not None and stored.members:
        return forgetting._Expiry(since_ms=stored.current_state_timestamp_ms)  # noqa: SLF001
    return _sound_expiry(stored)


def _beat_of_anybody(_group: Membership, _identity: Identity, _now_ms: int) -> Code:
    """Accept heartbeats of past generations and unknown members."""
    return Code.NONE


def _answer_immediately(shard: Shard, _group_id: str, effect: Any, refused: ErrorCode) -> None:
    """Answer members before the new generation is replicated."""
    respond = shard._waiting.pop(effect.token)  # noqa: SLF001
    if refused is ErrorCode.none:
        respond(effect.answer)
    else:
        respond(type(effect.answer)(code=Code.NOT_COORDINATOR))


def _wait_on(group: Group, now_ms: int) -> None:
    """Wait again for missing members when the time of a rebalance is over."""
    group.join_due_ms = now_ms + 1000


MUTANTS: Final = (
    Mutant(
        "commits of any generation are taken",
        mix(5.0, "member frozen", "member slow"),
        frozenset({"stale-accepted", "commit-went-back"}),
        plant(Membership, "check_commit", _commit_of_any_generation),
    ),
    Mutant(
        "a commit is answered before it is replicated",
        mix(6.0, "coordinator at a commit", "coordinator cut off", "slow network"),
        LOST,
        plant(Safety, "call_when_safe", _safe_immediately),
    ),
    Mutant(
        "a new coordinator knows only what it knew to be safe",
        mix(6.0, *MOVES),
        LOST | TWICE | {"stale-accepted", "coordinator-state"},
        plant(group_log, "load", _load_what_is_safe),
    ),
    Mutant(
        "loading stops at the first batch",
        mix(10.0, "coordinator killed"),
        LOST | TWICE,
        plant(group_log, "load", _load_one_batch),
    ),
    Mutant(
        "offsets are told before they are replicated",
        mix(5.0, "coordinator cut off", habits={"watch_s": 0.3}),
        LOST,
        plant(Shard, "until_current", _current_immediately),
    ),
    Mutant(
        "a coordinator does not ask whether it still is one",
        mix(5.0, "coordinator deposed"),
        LOST,
        plant(Shard, "until_current", Shard.until_safe),
    ),
    Mutant(
        "a deposed coordinator answers from memory",
        mix(6.0, "coordinator cut off", "coordinator frozen"),
        LOST | {"stale-accepted"},
        (
            Plant(Shard, "check", _check_nothing),
            Plant(Shard, "until_current", Shard.until_safe),
            Plant(Coordinator, "refresh", _take_up_only),
        ),
    ),
    Mutant(
        "a coordinator that leads again goes on with what it knew",
        mix(5.0, "coordinator cut off", "coordinator frozen", faults_s=80.0),
        LOST | TWICE | {"coordinator-state"},
        plant(Coordinator, "refresh", _keep_while_leading),
    ),
    Mutant(
        "everybody is told to be the leader",
        mix(5.0, "member left", "member joined"),
        TWICE,
        plant(Group, "joined", _everybody_leads),
    ),
    Mutant(
        "a group's generation is not loaded",
        mix(6.0, *MOVES, "member left"),
        TWICE | {"coordinator-state"},
        plant(Group, "load", _load_without_generation),
    ),
    Mutant(
        "a generation is told before it is replicated",
        mix(4.0, "coordinator at a rebalance", "coordinator cut off", "member left", "member slow"),
        TWICE,
        plant(Shard, "_answer", _answer_immediately),
    ),
    Mutant(
        "tombstones of offsets are ignored",
        mix(6.0, "offset deleted", "group deleted"),
        LOST,
        plant(GroupsState, "_apply_offset", _ignore_tombstones),
    ),
    Mutant(
        "offsets of a deleted topic count for the next of its name",
        mix(8.0, "topic deleted", faults_s=60.0),
        frozenset({"offset-inherited"}),
        (
            Plant(CommittedOffset, "is_for", lambda *_: True),
            Plant(Shard, "forget_topic", lambda *_: None),
        ),
    ),
    Mutant(
        "what is committed for a topic made anew is stored for the one before",
        mix(8.0, "topic deleted", faults_s=60.0),
        frozenset({"nothing-committed"}),
        plant(GroupOffsetHandlers, "_check_commits", _commit_for_the_first),
    ),
    Mutant(
        "the old id of a static member is accepted",
        mix(4.0, "member twice", habits={"static_share": 1.0}),
        frozenset({"stale-accepted"}),
        plant(Roster, "find", _find_by_instance),
    ),
    Mutant(
        "heartbeats of anybody are accepted",
        mix(5.0, "member frozen", "member slow"),
        frozenset({"stale-accepted", "group-unwell"}),
        plant(Membership, "heartbeat", _beat_of_anybody),
    ),
    Mutant(
        "offsets of a group with members expire",
        mix(60.0, "member left", faults_s=100.0, habits={"retention_minutes": 1}),
        LOST,
        plant(forgetting, "_expiry", _expiry_of_all),
    ),
    Mutant(
        "a rebalance waits for members that are gone",
        mix(5.0, "member killed", "member left", habits={"static_share": 0.0}),
        frozenset({"group-unwell"}),
        plant(Group, "join_time_is_over", _wait_on),
    ),
)
