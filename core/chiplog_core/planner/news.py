"""Events and log lines about changes: elections, admissions, fenced brokers, changed conditions.

A status shows the present state. Events, which `kubectl describe` shows, and the log say how it
came to be.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from chiplog_core.ids import ReplicaRef
from chiplog_core.model.actions import EventType, LeaderChange, News
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec
from chiplog_core.model.conditions import Condition, ConditionStatus, ConditionType
from chiplog_core.model.partition_map import PartitionMapSpec
from chiplog_core.model.verdicts import FAILED_APPLY
from chiplog_core.problems import Reason

SHOULD_BE_TRUE: Final[Mapping[str, str]] = {
    ConditionType.READY: "the actual state matches the spec",
    ConditionType.HEALTHY: "every partition has a leader and all its replicas in sync",
    ConditionType.CONFIGURATION_APPLIED: "every broker runs with the configuration of the spec",
}
"""Conditions that should be True, and the Event's message when they become so."""
ONLY_WHEN_WRONG: Final = frozenset(
    {
        ConditionType.WARNING,
        ConditionType.METADATA_REGRESSED,
        ConditionType.DISK_PRESSURE,
        ConditionType.REBUILD_REFUSED,
    }
)
"""Conditions that exist only while something is wrong."""
SET_BY_USERS: Final = frozenset(
    {
        ConditionType.UNMANAGED,
        ConditionType.RECONCILIATION_PAUSED,
        ConditionType.CHANGED_BY_CLIENTS,
        ConditionType.CERTIFICATES_CHANGING,
    }
)
"""Conditions that follow from what users did."""
WAITING: Final = "Waiting"
"""Prefix of reasons for a state that passes without anybody's help: no Warning Event is needed."""
REFUSALS: Final = frozenset(reason.value for reason in Reason)
"""Reasons that say that the spec is refused."""


def condition_news(
    before: Iterable[Mapping[str, object]], after: Sequence[Condition]
) -> Iterator[News]:
    """Events for the changes in an object's conditions.

    `before` are the published conditions as in the manifest, `after` those that replace them.
    """
    published = {str(condition.get("type")): condition for condition in before}
    for condition in after:
        former = published.pop(condition.type, None)
        if former is None or _differs(former, condition):
            yield from _changed(condition, former)
    for condition_type, former in published.items():
        if condition_type in ONLY_WHEN_WRONG or condition_type in SET_BY_USERS:
            last_message = former.get("message") or former.get("reason")
            yield News(
                EventType.NORMAL,
                f"{condition_type}Over",
                f"the condition {condition_type} is over; its last message: {last_message}",
            )


def _differs(former: Mapping[str, object], condition: Condition) -> bool:
    """Whether a condition changed so much that it needs an Event: its status or reason, or why the
    spec is refused. Other messages change too often."""
    if (former.get("status"), former.get("reason")) != (condition.status.value, condition.reason):
        return True
    is_refusal = condition.reason in REFUSALS and condition.status is ConditionStatus.FALSE
    return is_refusal and former.get("message", "") != condition.message


def _changed(condition: Condition, former: Mapping[str, object] | None) -> Iterator[News]:
    """The Event for one changed condition, if it needs one. `former` is None for a new
    condition."""
    holds = condition.status is ConditionStatus.TRUE
    if condition.type in ONLY_WHEN_WRONG and holds:
        passes_without_help = condition.reason.startswith(WAITING)
        kind = EventType.NORMAL if passes_without_help else EventType.WARNING
        yield News(kind, condition.reason, condition.message)
    elif condition.type in SET_BY_USERS and holds:
        yield News(EventType.NORMAL, condition.type, condition.message)
    elif condition.type in SHOULD_BE_TRUE and holds:
        text = condition.message or SHOULD_BE_TRUE[condition.type]
        yield News(EventType.NORMAL, condition.reason, text)
    elif condition.type in SHOULD_BE_TRUE and not _has_other_event(condition):
        yield News(_urgency(condition, former), condition.reason, condition.message)


def _has_other_event(condition: Condition) -> bool:
    """Whether another Event already reports this: a failed apply gets its own Event, and a refused
    spec is reported with the condition Ready."""
    if condition.reason == FAILED_APPLY:
        return True
    return condition.type == ConditionType.CONFIGURATION_APPLIED and condition.reason in REFUSALS


def _urgency(condition: Condition, former: Mapping[str, object] | None) -> EventType:
    """Whether the Event for a condition that is not True is Normal or a Warning."""
    if condition.reason in REFUSALS:
        return EventType.WARNING
    # A restart for a new configuration is wanted, and a new object cannot be ready yet.
    is_expected = former is None or condition.type == ConditionType.CONFIGURATION_APPLIED
    return EventType.NORMAL if is_expected else EventType.WARNING


def broker_news(broker: Broker, after: BrokerSpec) -> tuple[News, ...]:
    """Events for changes of a broker's spec; `after` is the spec that replaces the present one."""
    return tuple(_of_broker(broker, broker.spec, after))


def _of_broker(broker: Broker, before: BrokerSpec, after: BrokerSpec) -> Iterator[News]:
    """Events for a failed disk, an admission, a fenced session and a retirement."""
    who = f"broker {after.broker_id}"
    if after.disk_failed_session > before.disk_failed_session:
        message = (
            f"a write to the disk of {who} failed in session {after.disk_failed_session}, so this "
            "session serves no partitions any more; see the log of its pod, and check the disk"
        )
        yield News(EventType.WARNING, "DiskFailed", message)
    if after.session != before.session:
        is_same_process = after.admitted_incarnation == before.admitted_incarnation
        what = "renews its Lease again" if is_same_process else "has started"
        message = f"{who} {what} and is admitted with session {after.session}"
        yield News(EventType.NORMAL, "BrokerAdmitted", message)
    elif after.fenced and not before.fenced:
        is_planned = broker.status.draining
        how = "has stopped" if is_planned else "ended or did not renew its Lease in time"
        kind = EventType.NORMAL if is_planned else EventType.WARNING
        message = (
            f"{who} {how}: its session {after.session} is fenced, leads no partition and is in "
            "sync for none"
        )
        yield News(kind, "BrokerFenced", message)
    if after.intent is not before.intent:
        yield from _of_intent(broker, before.intent, after.intent)
    if after.retired and not before.retired:
        yield News(EventType.NORMAL, "BrokerRetired", f"{who} is retired; its id is not used again")


def _of_intent(broker: Broker, before: BrokerIntent, after: BrokerIntent) -> Iterator[News]:
    """The Event when a broker is to give up its leaderships, or is to serve again."""
    who = f"broker {broker.spec.broker_id}"
    if after is BrokerIntent.DRAIN:
        message = f"{who} gives its leaderships to other replicas, and gets no new partitions"
        yield News(EventType.NORMAL, "BrokerDrains", message)
    elif before is BrokerIntent.DRAIN and after is BrokerIntent.SERVE:
        yield News(EventType.NORMAL, "BrokerServes", f"{who} may lead partitions again")


def topic_created(spec: PartitionMapSpec) -> News:
    """The Event when a topic has its partitions and replicas."""
    states = [state for generation in spec.generations for state in generation.partitions]
    partitions = "1 partition" if len(states) == 1 else f"{len(states)} partitions"
    replicas = len(states[0].target) if states else 0
    replicas_text = "1 replica" if replicas == 1 else f"{replicas} replicas each"
    message = f"topic {spec.topic_name} was created with {partitions}, {replicas_text}"
    return News(EventType.NORMAL, "TopicCreated", message)


def topic_deleted(spec: PartitionMapSpec) -> News:
    """The Event when every broker has confirmed that it holds no data of a deleted topic."""
    message = f"topic {spec.topic_name} was deleted; no broker holds data of it any more"
    return News(EventType.NORMAL, "TopicDeleted", message)


def election_news(changes: Sequence[LeaderChange]) -> Iterator[News]:
    """Events for the changes of leaderships that one plan has made: one Event for partitions that
    lost their leader, one for leaders on the same broker as before, one for leaders on another."""
    lost = [change for change in changes if change.after is None]
    if lost:
        lost_by_broker = Counter(_broker(change.before) for change in lost)
        message = (
            f"no replica can lead {_partitions(lost_by_broker.total())}: "
            f"{_counts_text(lost_by_broker, 'previously led by')}; the Ready condition of each "
            "Topic shows why and what to do"
        )
        yield News(EventType.WARNING, "LeadersLost", message)
    restarted = Counter(
        _broker(change.after) for change in changes if change.after and _is_same_broker(change)
    )
    if restarted:
        message = f"{_partitions(restarted.total())} led again by a broker that restarted"
        yield News(
            EventType.NORMAL, "LeadersElected", f"{message}: {_counts_text(restarted, 'on')}"
        )
    moved = Counter(
        (_broker(change.before), _broker(change.after))
        for change in changes
        if change.after and not _is_same_broker(change)
    )
    if moved:
        moves = ", ".join(
            f"{number} from {before} to {after}"
            for (before, after), number in sorted(moved.items())
        )
        message = f"{_partitions(moved.total())} with a new leader: {moves}"
        yield News(EventType.NORMAL, "LeadersElected", message)


def _is_same_broker(change: LeaderChange) -> bool:
    """Whether the leader is on the same broker as before, but in another session."""
    before, after = change.before, change.after
    return before is not None and after is not None and before.broker_id == after.broker_id


def _broker(ref: ReplicaRef | None) -> str:
    return "nobody" if ref is None else f"broker {ref.broker_id}"


def _counts_text(by_broker: Mapping[str, int], word: str) -> str:
    """The counts as a text, like "3 on broker 1, 2 on broker 2"; `word` is the "on"."""
    return ", ".join(f"{number} {word} {broker}" for broker, number in sorted(by_broker.items()))


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
