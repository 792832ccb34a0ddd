"""Elects a leader when every member of an ISR was restarted: their logs are compared (R3, R4).

A process that has been running since the ISR named it has every acknowledged record. A restarted
one may not: its disk may have lost writes, its log may have been truncated, its volume may be an
older copy, and often it cannot know. So not the first member that returns is elected, but the one
with the longest log among those that returned. Decision 30 has the rule and why it holds.

A member's disk is *intact* ("vouches" in decision 30) if nothing indicates a loss. It is *lost* if
it certainly lacks records that the member acknowledged. Otherwise it is *doubtful*. One disk that
really is intact is enough: a log that is longer than the log on it has every record of that log.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from chiplog_core.ids import BrokerId, ReplicaRef, TopicId
from chiplog_core.model.broker_status import ReplicaReport
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed.broker_states import BrokerState, BrokerStates, ProcessState

WAIT_MS = 60_000
"""How long the comparison waits for members that have not reported, unless enough intact ones have.
"""

_NO_EPOCH = -1
"""Stands for the leader epoch of an empty log: below every leader epoch."""


class Standing(Enum):
    """Whether the disk of a restarted member still has every record that the member
    acknowledged."""

    INTACT = "intact"
    """Nothing indicates that it lost any."""
    DOUBTFUL = "doubtful"
    """It may have lost some."""
    LOST = "lost"
    """It certainly does not have all of them."""


@dataclass(frozen=True, slots=True)
class Returned:
    """A member of the ISR whose broker was restarted, is alive and has reported its log."""

    listed: ReplicaRef
    """The member in the session that the ISR lists."""
    present: ReplicaRef
    """The member in the session of the process that reported."""
    standing: Standing
    report: ReplicaReport
    may_lead: bool
    """Whether the member's broker can lead now and the replica is undamaged."""

    @property
    def length(self) -> tuple[int, int]:
        """Sort key: the length of its log; see `log_length`."""
        return log_length(self.report)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The conditions under which the logs of one partition are compared."""

    min_isr: int
    counts_as_page_cache: bool
    """Whether records may have been acknowledged before they were on disk."""
    is_overdue: bool = False
    """Whether `WAIT_MS` have passed since the first member reported."""
    waived: Collection[BrokerId] = ()
    """Members that are not waited for, because a person decided so."""


@dataclass(frozen=True, slots=True)
class Elected:
    """The new leader, and the new ISR. Members with exactly the leader's log are listed in their
    present sessions, the others in their old sessions until they have caught up."""

    leader: ReplicaRef
    isr: tuple[ReplicaRef, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing is decided before these brokers have reported, or `WAIT_MS` have passed."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class AtRisk:
    """No leader can be elected without the risk of losing acknowledged records."""

    reason: str


Outcome = Elected | Waiting | AtRisk


def compare(
    state: PartitionState,
    topic_id: TopicId,
    brokers: BrokerStates,
    reports: Mapping[BrokerId, ReplicaReport],
    terms: Terms,
) -> Outcome:
    """The leader of a partition whose ISR members have all restarted, or why there is none.

    `reports` may also contain reports of replicas outside of the ISR. Enough members are intact if
    they are min ISR, or the whole ISR if it is smaller, or a single one after `WAIT_MS`.
    """
    returned = find_returned(state, topic_id, brokers, reports, terms)
    intact = [replica for replica in returned if replica.standing is Standing.INTACT]
    unreported = _unreported(state, brokers, returned)
    missing = [broker_id for broker_id in unreported if broker_id not in terms.waived]
    is_enough = len(intact) >= min(terms.min_isr, len(state.isr))
    is_enough = is_enough or (terms.is_overdue and bool(intact))
    if missing and not is_enough:
        return Waiting(tuple(missing))
    # Without an intact member, the longest log is trusted only if every member has reported and
    # none is lost: an acknowledged record was on all of them.
    if not intact and (unreported or len(returned) < len(state.isr) or _is_any_lost(returned)):
        return AtRisk("no in-sync replica can prove that its disk lost nothing")
    not_lost = [replica for replica in returned if replica.standing is not Standing.LOST]
    able = [replica for replica in not_lost if replica.may_lead]
    if not able:
        return AtRisk("no in-sync replica that returned can lead")
    winner = max(able, key=lambda replica: _rank(replica, state, brokers))
    longest = max(not_lost, key=lambda replica: replica.length)
    if not is_enough and longest.length > winner.length:
        # At least one of the logs has all acknowledged records, but it is not known which one. It
        # may be the longest, whose broker cannot lead.
        return AtRisk(
            f"the disk of broker {longest.present.broker_id}, whose log is longer, failed"
        )
    if why := _why_too_short(winner, state, reports.values()):
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
        # A listed session above the broker's present one shows that its Broker object is outdated:
        # such a member is not compared.
        if is_current_report(report, state, broker) and ref.session <= broker.ref.session:
            is_damaged = (ref.broker_id, topic_id, state.partition) in brokers.damaged
            standing = _standing(ref, report, broker, terms, is_damaged=is_damaged)
            may_lead = broker.may_lead and not is_damaged
            returned.append(Returned(ref, broker.ref, standing, report, may_lead))
    return returned


def log_length(report: ReplicaReport) -> tuple[int, int]:
    """Sort key of logs: the last leader epoch, then the log end offset. Logs with the same last
    leader epoch are equal up to the end of the shorter one (KIP-101)."""
    epoch = report.log_leader_epoch
    return _NO_EPOCH if epoch is None else epoch, report.log_end_offset


def is_current_report(report: ReplicaReport, state: PartitionState, broker: BrokerState) -> bool:
    """Whether the report is by the broker's live process and was made for the partition's present
    epoch. A report from before `reports_wanted` was set has a lower partition epoch."""
    is_present = broker.process_state is ProcessState.ALIVE and broker.is_in_session
    return is_present and report.partition_epoch >= state.partition_epoch


def _standing(
    ref: ReplicaRef, report: ReplicaReport, broker: BrokerState, terms: Terms, *, is_damaged: bool
) -> Standing:
    """Whether the disk of the member `ref` still has every record that it acknowledged."""
    if is_damaged or not broker.has_disk_of(ref):
        return Standing.LOST
    if report.log_end_offset < (report.high_watermark or 0):
        return Standing.LOST  # committed records are missing
    if not (broker.has_all_records_of(ref) and broker.may_lead):
        # With durability Fsync, records were on disk before they were acknowledged, so the disk may
        # have all of them anyway.
        return Standing.LOST if terms.counts_as_page_cache else Standing.DOUBTFUL
    # A log that was truncated at start may have lost a torn write or an acknowledged record.
    return Standing.DOUBTFUL if report.cut else Standing.INTACT


def _unreported(
    state: PartitionState, brokers: BrokerStates, returned: Collection[Returned]
) -> list[BrokerId]:
    """The members of the ISR that have not reported. Retired brokers are left out: they never
    will."""
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
    """Sort key of candidates, the best is the highest: the longest log; of equal logs that of a
    broker that is not leaving, then that of the first replica."""
    broker_id = candidate.present.broker_id
    order = {replica: -number for number, replica in enumerate(state.replicas)}
    is_staying = not brokers.by_id[broker_id].is_leaving
    return (*candidate.length, is_staying, order.get(broker_id, -len(order)))


def _why_too_short(
    winner: Returned, state: PartitionState, reports: Collection[ReplicaReport]
) -> str:
    """The message that even the longest log lacks committed records; empty if it has all of them.

    High watermarks from before the last unclean election do not count, because the records below
    them need not exist any more.
    """
    unclean_epoch = _NO_EPOCH if state.unclean_epoch is None else state.unclean_epoch
    committed_offset = max(
        (
            report.high_watermark
            for report in reports
            if report.high_watermark is not None and log_length(report)[0] >= unclean_epoch
        ),
        default=0,
    )
    end_offset = winner.report.log_end_offset
    if end_offset >= committed_offset:
        return ""
    return (
        f"the longest log ends at {end_offset}, and records up to {committed_offset} were committed"
    )


def _with_equals(
    state: PartitionState, winner: Returned, able: Collection[Returned]
) -> tuple[ReplicaRef, ...]:
    """The ISR, in which members with the same log as the winner get their present sessions."""
    equal = {replica.listed: replica.present for replica in able if replica.length == winner.length}
    return tuple(equal.get(ref, ref) for ref in state.isr)
