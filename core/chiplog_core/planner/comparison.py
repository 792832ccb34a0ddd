"""Who leads when every member of an ISR was started again: their logs are compared (R3, R4).

A process that continued since the ISR named it holds all that was acknowledged. One that was
started again has to show what it has: its disk may have lost writes, its log may have been cut,
its volume may be an older copy, and often it cannot know. So the first one to return is not
elected, but the longest log of those that returned. Decision 30 has the rule and why it holds.

Each member stands in one of three ways. It *vouches* where nothing speaks against its disk. It is
*lost* where its disk is known not to hold all that it acknowledged. Else it is *doubtful*. One
member that vouches and is honest is enough: no log that is longer than its log lacks what it has.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from chiplog_core.ids import BrokerId, ReplicaRef, TopicId
from chiplog_core.model.broker_status import ReplicaReport
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed.broker_states import BrokerState, BrokerStates, ProcessState

WAIT_MS = 60_000
"""How long the logs of an ISR are compared only when all members, or enough of them, are there."""

_NO_EPOCH = -1
"""Below every leader epoch."""


class Standing(Enum):
    """What the disk of a member that was started again is worth."""

    VOUCHING = "vouches"
    DOUBTFUL = "doubtful"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Returned:
    """A member of the ISR whose broker is alive again and has said what its disk holds."""

    listed: ReplicaRef
    """As the ISR names it."""
    present: ReplicaRef
    """In the session of the process that reported."""
    standing: Standing
    report: ReplicaReport
    may_lead: bool

    @property
    def length(self) -> tuple[int, int]:
        """The length of its log, for comparison."""
        return log_length(self.report)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the comparison of one partition goes by."""

    min_isr: int
    counts_as_page_cache: bool
    is_overdue: bool = False
    """`WAIT_MS` have passed since the first of them answered."""
    waived: Collection[BrokerId] = ()
    """Members that a person says will not return."""


@dataclass(frozen=True, slots=True)
class Elected:
    """The leader, and the ISR with it: members with the very same log are in it, the others stay
    listed in their old sessions until they have caught up."""

    leader: ReplicaRef
    isr: tuple[ReplicaRef, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing is decided before these have answered, or time has passed."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class AtRisk:
    """All have answered, and acknowledged records may be missing everywhere."""

    reason: str


Outcome = Elected | Waiting | AtRisk


def compare(
    state: PartitionState,
    topic_id: TopicId,
    brokers: BrokerStates,
    reports: Mapping[BrokerId, ReplicaReport],
    terms: Terms,
) -> Outcome:
    """The leader of a partition whose ISR members have all restarted. `reports` may be of any
    replica."""
    returned = find_returned(state, topic_id, brokers, reports, terms)
    vouching = [replica for replica in returned if replica.standing is Standing.VOUCHING]
    silent = _silent(state, brokers, returned)
    missing = [broker_id for broker_id in silent if broker_id not in terms.waived]
    is_enough = len(vouching) >= min(terms.min_isr, len(state.isr))
    is_enough = is_enough or (terms.is_overdue and bool(vouching))
    if missing and not is_enough:
        return Waiting(tuple(missing))
    if not vouching and (silent or len(returned) < len(state.isr) or _is_any_lost(returned)):
        return AtRisk("no in-sync replica can prove that its disk lost nothing")
    not_lost = [replica for replica in returned if replica.standing is not Standing.LOST]
    able = [replica for replica in not_lost if replica.may_lead]
    if not able:
        return AtRisk("no in-sync replica that returned can lead")
    winner = max(able, key=lambda replica: _rank(replica, state, brokers))
    longest = max(not_lost, key=lambda replica: replica.length)
    if not is_enough and longest.length > winner.length:
        # At least one of these logs has all acknowledged records, and it is not known which: it may
        # be this one.
        return AtRisk(
            f"the disk of broker {longest.present.broker_id}, whose log is longer, failed"
        )
    if why := _why_short(winner, state, reports.values()):
        return AtRisk(why)
    return Elected(winner.present, _with_equals(state, winner, able))


def find_returned(
    state: PartitionState,
    topic_id: TopicId,
    brokers: BrokerStates,
    reports: Mapping[BrokerId, ReplicaReport],
    terms: Terms,
) -> list[Returned]:
    """The members of the ISR that have reported their logs, in the order of the ISR."""
    returned = []
    for ref in state.isr:
        broker, report = brokers.by_id.get(ref.broker_id), reports.get(ref.broker_id)
        if broker is None or broker.ref is None or report is None:
            continue
        # A session that the Broker object does not know any more stays in the ISR as it is.
        if is_answer(report, state, broker) and ref.session <= broker.ref.session:
            is_damaged = (ref.broker_id, topic_id, state.partition) in brokers.damaged
            standing = _standing(ref, report, broker, terms, is_damaged=is_damaged)
            may_lead = broker.may_lead and not is_damaged
            returned.append(Returned(ref, broker.ref, standing, report, may_lead))
    return returned


def log_length(report: ReplicaReport) -> tuple[int, int]:
    """Sort key of logs. Logs with the same last leader epoch are equal up to the end of the
    shorter one (KIP-101)."""
    epoch = report.log_leader_epoch
    return _NO_EPOCH if epoch is None else epoch, report.log_end_offset


def is_answer(report: ReplicaReport, state: PartitionState, broker: BrokerState) -> bool:
    """Whether the report is from the live process and newer than the question. An older report
    has a lower partition epoch; a report of another process is of another session."""
    is_present = broker.process_state is ProcessState.ALIVE and broker.is_in_session
    return is_present and report.partition_epoch >= state.partition_epoch


def _standing(
    ref: ReplicaRef, report: ReplicaReport, broker: BrokerState, terms: Terms, *, is_damaged: bool
) -> Standing:
    """What the replica's disk is worth: whether it certainly, possibly or not at all has every
    acknowledged record."""
    if is_damaged or not broker.has_disk_of(ref):
        return Standing.LOST
    if report.log_end_offset < (report.high_watermark or 0):
        return Standing.LOST
    if not (broker.vouches_for(ref) and broker.may_lead):
        # If the topic is synced before records are acknowledged, the disk may have all of them
        # anyway.
        return Standing.LOST if terms.counts_as_page_cache else Standing.DOUBTFUL
    return Standing.DOUBTFUL if report.cut else Standing.VOUCHING


def _silent(
    state: PartitionState, brokers: BrokerStates, returned: Collection[Returned]
) -> list[BrokerId]:
    """The members that have not reported yet but still may. Retired brokers never will."""
    answered = {replica.listed.broker_id for replica in returned}
    return [
        ref.broker_id
        for ref in state.isr
        if ref.broker_id not in answered
        and not (ref.broker_id in brokers.by_id and brokers.by_id[ref.broker_id].is_retired)
    ]


def _is_any_lost(returned: Collection[Returned]) -> bool:
    return any(replica.standing is Standing.LOST for replica in returned)


def _rank(candidate: Returned, state: PartitionState, brokers: BrokerStates) -> tuple[object, ...]:
    """Sort key of candidates: the longest log; of equal ones a broker that is not leaving, then
    the first replica."""
    broker_id = candidate.present.broker_id
    order = {replica: -number for number, replica in enumerate(state.replicas)}
    is_staying = not brokers.by_id[broker_id].is_leaving
    return (*candidate.length, is_staying, order.get(broker_id, -len(order)))


def _why_short(winner: Returned, state: PartitionState, reports: Collection[ReplicaReport]) -> str:
    """Why even the longest log lacks committed records; empty if it does not.

    Records from before an accepted loss do not count, because they need not exist any more.
    """
    accepted = _NO_EPOCH if state.unclean_epoch is None else state.unclean_epoch
    committed = max(
        (
            report.high_watermark
            for report in reports
            if report.high_watermark is not None and log_length(report)[0] >= accepted
        ),
        default=0,
    )
    end_offset = winner.report.log_end_offset
    if end_offset >= committed:
        return ""
    return f"the longest log ends at {end_offset}, and records up to {committed} were committed"


def _with_equals(
    state: PartitionState, winner: Returned, able: Collection[Returned]
) -> tuple[ReplicaRef, ...]:
    """The ISR, in which members with the same log as the winner get their present sessions."""
    equal = {replica.listed: replica.present for replica in able if replica.length == winner.length}
    return tuple(equal.get(ref, ref) for ref in state.isr)
