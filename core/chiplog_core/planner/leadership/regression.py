"""Elects leaders from reports about the replicas' disks (R6, and ISRs whose members all restarted).

In three cases the operator asks every replica of a partition to report its disk:
- A broker shows, by a report or a proposal, that it has applied newer metadata than the map holds:
  the map went back, as after etcd was restored from a backup.
- No member of the ISR whose process kept running can lead.
- A person accepts, for one partition at one partition epoch, the loss of what dead replicas hold.

If the map went back, nothing is decided until all replicas have reported, except those that the
person's acceptance names. Then the newest metadata among the reports is adopted, with epochs above
every epoch ever used, and an ordinary election follows. Otherwise the logs of the restarted members
are compared (`comparison`). If no member's disk certainly has everything, the longest log of a
`PageCache` topic wins, which its durability allows; after a minute only among the members that have
reported. Any other loss must be accepted by a person.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    TopicId,
)
from chiplog_core.model.broker_status import ReplicaReport
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.model.reassignment import leftovers_on
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.world import Question, World
from chiplog_core.planner.leadership.comparison import (
    WAIT_MS,
    AtRisk,
    Elected,
    Outcome,
    Terms,
    Waiting,
    compare,
    is_current_report,
    log_length,
)
from chiplog_core.planner.leadership.elections import (
    can_lead,
    changed,
    elect,
    is_awaited,
    with_generations,
    with_partitions,
)
from chiplog_core.planner.leadership.epochs import (
    could_unchecked_be_isr,
    may_need_consent,
    next_epoch,
)
from chiplog_core.planner.leadership.proposals import Claim, Proposals, is_beyond

Reports = Mapping[tuple[TopicId, PartitionIndex], Mapping[BrokerId, ReplicaReport]]
Accepted = Mapping[tuple[PartitionIndex, PartitionEpoch], frozenset[BrokerId]]
"""(partition, partition epoch) for which a person accepts a loss -> the brokers whose reports are
not waited for."""

NOTHING_ACCEPTED: Accepted = {}

_ENTRY = re.compile(r"([0-9]{1,9})@([0-9]{1,10})(?:/([0-9]{1,9}(?:\+[0-9]{1,9})*))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Loss:
    """An election that may have lost acknowledged records. `report` is that of the winner."""

    partition: PartitionIndex
    winner: BrokerId
    report: ReplicaReport

    def __str__(self) -> str:
        return (
            f"partition {self.partition}: no in-sync replica could prove that its disk lost "
            f"nothing; broker {self.winner} leads with log end offset "
            f"{self.report.log_end_offset}, and acknowledged records from that offset on are lost"
        )


def gather_reports(world: World) -> Reports:
    """The reports of all brokers: (topic id, partition) -> broker id -> report."""
    found: dict[tuple[TopicId, PartitionIndex], dict[BrokerId, ReplicaReport]] = {}
    for broker_id, broker in world.brokers.items():
        for report in broker.status.replica_reports:
            found.setdefault((report.topic_id, report.partition), {})[broker_id] = report
    return found


def accepted_losses(annotation: str) -> Accepted:
    """Parse an unclean-election annotation. "3@17,4@9/2+5" accepts a loss in partition 3 at its
    partition epoch 17, and in partition 4 at epoch 9 without the reports of brokers 2 and 5.

    An entry that cannot be parsed accepts nothing.
    """
    accepted = {}
    for entry in annotation.replace(" ", "").split(","):
        found = _ENTRY.fullmatch(entry)
        if found is not None:
            partition, epoch, brokers = found.groups()
            waived = filter(None, (brokers or "").split("+"))
            key = PartitionIndex(int(partition)), PartitionEpoch(int(epoch))
            accepted[key] = frozenset(BrokerId(int(broker_id)) for broker_id in waived)
    return accepted


def unread_losses(annotation: str) -> tuple[str, ...]:
    """The entries of an unclean-election annotation that cannot be parsed. An empty one, as after a
    final comma, is ignored."""
    entries = annotation.replace(" ", "").split(",")
    return tuple(entry for entry in entries if entry and _ENTRY.fullmatch(entry) is None)


def acceptance(state: PartitionState, missing: Iterable[BrokerId]) -> str:
    """The value of the unclean-election annotation that accepts the loss in this partition without
    the reports of the brokers `missing`, like "4@9/2+5"."""
    brokers = "+".join(map(str, missing))
    return f"{state.partition}@{state.partition_epoch}{'/' if brokers else ''}{brokers}"


def is_above(report: ReplicaReport, state: PartitionState) -> bool:
    """Whether the broker has applied a newer state than the map has."""
    return (
        report.leader_epoch > state.leader_epoch or report.partition_epoch > state.partition_epoch
    )


def missing_reports(
    state: PartitionState,
    brokers: BrokerStates,
    reports: Mapping[BrokerId, ReplicaReport],
    *,
    has_gone_back: bool,
) -> list[BrokerId]:
    """The replicas whose reports the partition still waits for. Retired brokers never report.

    `has_gone_back`: brokers know newer metadata than the map has. Then a report counts even if the
    process that made it has ended, because only its metadata matters. Otherwise the logs are
    compared, and a report counts only if it is by the live process.
    """

    def has_reported(broker_id: BrokerId) -> bool:
        """Whether the replica on this broker has a report that counts."""
        report, broker = reports.get(broker_id), brokers.by_id.get(broker_id)
        if has_gone_back:
            # After a restore of etcd, the broker's status may be as old as the map: its report
            # counts only after the broker has compared its disk with the restored maps.
            return broker_id not in brokers.unchecked and _is_current(state, report)
        return (
            report is not None and broker is not None and is_current_report(report, state, broker)
        )

    awaited = dict.fromkeys(state.replicas)
    if has_gone_back:
        # A reassignment may have moved the partition since the map was written.
        awaited |= dict.fromkeys(sorted(state.holders))
        awaited |= dict.fromkeys(_named_by_reports(brokers, reports))
    return [
        broker_id
        for broker_id in awaited
        if not _is_retired(broker_id, brokers) and not has_reported(broker_id)
    ]


def _named_by_reports(
    brokers: BrokerStates, reports: Mapping[BrokerId, ReplicaReport]
) -> Iterator[BrokerId]:
    """The brokers that are waited for because reports of newer metadata than the map's name them.

    A broker that has compared its disk and reported nothing never will. It has not heard of its
    replica yet, or has lost its disk since it was in the ISR, or the replica was moved away from it
    by yet newer metadata, after which it forgets the partition. In the last case the records are
    with brokers that no report names, so every broker has to compare its disk first.
    """
    is_any_silent = False
    for report in reports.values():
        refs = {ref.broker_id: ref for ref in report.isr}
        for broker_id in dict.fromkeys((*refs, *report.replicas)):
            if broker_id in reports or broker_id not in brokers.checked:
                yield broker_id
            elif not _is_moved_away(broker_id, report, reports.values()):
                is_any_silent = True
                if broker_id in refs and brokers.has_disk_of(refs[broker_id]):
                    # The replica was moved away, and where to is not known. The broker must not be
                    # elected: it is still in that session, but the records are gone.
                    yield broker_id
    if is_any_silent:
        yield from sorted(brokers.unchecked)


def _is_moved_away(
    broker_id: BrokerId, since: ReplicaReport, reports: Iterable[ReplicaReport]
) -> bool:
    """Whether the broker has no replica by a report of newer metadata than that of `since`."""
    return any(
        report.replicas  # none in a report by an older version
        and _epochs(report) > _epochs(since)
        and broker_id not in {*report.replicas, *(ref.broker_id for ref in report.isr)}
        for report in reports
    )


def _epochs(report: ReplicaReport) -> tuple[LeaderEpoch, PartitionEpoch]:
    """Sort key of metadata: the newest is the highest."""
    return report.leader_epoch, report.partition_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What brokers reported about partitions, beyond their maps."""

    reports: Reports
    """Reports about replicas on disk."""
    proposals: Proposals = field(default_factory=dict)
    """The leaders' proposals to change ISRs (R5). Their epochs also show newer metadata."""
    open_questions_ms: Mapping[Question, int] = field(default_factory=dict)
    """For how many milliseconds this operator process has seen a partition's reports wanted,
    counted from the first report of a live ISR member. Partitions without such a report are
    missing."""


def settle_all(
    spec: PartitionMapSpec, brokers: BrokerStates, answers: Answers, accepted: Accepted
) -> tuple[PartitionMapSpec, tuple[Loss, ...]]:
    """The map after reports are requested where they are needed, and leaders elected from reports
    where enough have come; and the elections that may have lost records."""
    has_input = answers.reports or answers.proposals or accepted
    if spec.hibernated or (not has_input and not _is_any_report_wanted(spec)):
        return spec, ()
    settling = _Settling(spec, brokers, answers, accepted)
    generations = tuple(map(settling.settled, spec.generations))
    return with_generations(spec, generations), tuple(settling.losses)


def next_overdue_ms(world: World) -> int | None:
    """After how many milliseconds the next partition has waited for `WAIT_MS`, so that it is
    decided without the missing reports; None if no partition waits."""
    left = [WAIT_MS - open_ms for open_ms in world.open_questions_ms.values() if open_ms < WAIT_MS]
    return min(left, default=None)


def _is_any_report_wanted(spec: PartitionMapSpec) -> bool:
    """Whether any partition of the map waits for reports of its replicas."""
    return any(
        state.reports_wanted for generation in spec.generations for state in generation.partitions
    )


@dataclass(slots=True)
class _Settling:
    """Requests and evaluates reports for the partitions of one map."""

    spec: PartitionMapSpec
    brokers: BrokerStates
    answers: Answers
    accepted: Accepted
    losses: list[Loss] = field(default_factory=list)
    """Elections made so far that may have lost records."""

    def settled(self, generation: Generation) -> Generation:
        """The generation after `_settled` of each of its partitions."""
        claims = self.answers.proposals.get(generation.topic_id, {})
        return with_partitions(
            generation,
            tuple(
                self._settled(state, generation.topic_id, claims.get(state.partition, ()))
                for state in generation.partitions
            ),
        )

    def _settled(
        self, state: PartitionState, topic_id: TopicId, claims: Sequence[Claim]
    ) -> PartitionState:
        """The next state of one partition: with `reports_wanted` if its replicas must report, with
        a leader if enough have reported; the same object if nothing changes now.

        `claims` are the leaders' proposals for the partition.
        """
        # `consent`: the brokers whose reports are not waited for, because a person has accepted the
        # loss of records; None if nobody has.
        reports = self.answers.reports.get((topic_id, state.partition), {})
        consent = self.accepted.get((state.partition, state.partition_epoch))
        has_gone_back = is_map_outdated(state, reports.values(), claims)
        if not state.reports_wanted:
            is_stuck = may_need_consent(state, self.spec.min_isr, self.brokers)
            if has_gone_back or (consent is not None and is_stuck):
                # The epochs are not raised. Otherwise they could become equal to those that a
                # broker has applied, and the broker would take the map's older content for newer.
                return replace(state, reports_wanted=True)
            return state
        # An election that finds no leader removes the old one before it wants reports. So if there
        # is a leader, reports are wanted because the map is older than what brokers know.
        has_gone_back = has_gone_back or state.leader is not None
        missing = set(missing_reports(state, self.brokers, reports, has_gone_back=has_gone_back))
        if has_gone_back:
            if missing - (consent or frozenset()) or not reports:
                return state  # waits until every replica, except those in the consent, has reported
        elif is_awaited(state, self.brokers) or (
            consent is None and could_unchecked_be_isr(state, self.spec.min_isr, self.brokers)
        ):
            return state  # waits: an unchecked replica may show that the map went back
        question = Question(topic_id, state.partition, state.partition_epoch)
        return _Case(
            state=state,
            topic_id=topic_id,
            spec=self.spec,
            brokers=self.brokers,
            reports=reports,
            claims=claims,
            has_gone_back=has_gone_back,
            missing=frozenset(missing),
            consent=consent,
            is_overdue=self.answers.open_questions_ms.get(question, 0) >= WAIT_MS,
        ).decided(self.losses)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One partition for which reports are wanted, and everything its decision depends on."""

    state: PartitionState
    topic_id: TopicId
    spec: PartitionMapSpec
    brokers: BrokerStates
    reports: Mapping[BrokerId, ReplicaReport]
    claims: Sequence[Claim]
    """The leaders' proposals for the partition."""
    has_gone_back: bool
    """The map is older than what brokers know (R6): the newest metadata is adopted first."""
    missing: frozenset[BrokerId]
    """Replicas that have not reported."""
    consent: frozenset[BrokerId] | None
    """Brokers without whose reports a person wants to continue, which accepts any loss; None if no
    person has decided."""
    is_overdue: bool
    """Whether `WAIT_MS` have passed: missing reports are not waited for any longer."""

    def decided(self, losses: list[Loss]) -> PartitionState:
        """The state with a leader; the same object if nothing can be decided yet.

        An ordinary election is tried first, then the comparison of logs, then an unclean election,
        which is added to `losses`.
        """
        base = replace(self.state, reports_wanted=False)
        if self.has_gone_back:
            base = adopt(self.state, self.reports.values(), self.claims)
            base = _with_reporting_holders(base, self.reports)
        elected = elect(base, self.topic_id, self.spec.min_isr, self.brokers)
        if elected.leader is not None:
            return self._above(elected, base)
        outcome = self._compared(base)
        if isinstance(outcome, Elected):
            return self._above(changed(base, outcome.isr, outcome.leader, self.brokers), base)
        winner = max(self._unclean(base, outcome), key=self._length, default=None)
        if winner is None:
            # Adopted metadata is written even without a leader. The next plan compares from there.
            return self._above(elected, base) if self.has_gone_back else self.state
        losses.append(Loss(self.state.partition, winner.broker_id, self.reports[winner.broker_id]))
        elected = self._above(changed(base, (winner,), winner, self.brokers), base)
        return replace(elected, unclean_epoch=elected.leader_epoch)

    def _compared(self, base: PartitionState) -> Outcome:
        """The result of comparing the logs of the partition's replicas."""
        terms = Terms(
            min_isr=self.spec.min_isr,
            counts_as_page_cache=counts_as_page_cache(self.spec),
            is_overdue=self.is_overdue,
            waived=self.consent or frozenset(),
        )
        return compare(base, self.topic_id, self.brokers, self.reports, terms)

    def _above(self, state: PartitionState, adopted: PartitionState) -> PartitionState:
        """The state with both epochs above those of `adopted`, so above any that a broker applied.

        They are raised even if there is no leader: brokers must take this state for newer.
        """
        return replace(
            state,
            leader_epoch=next_epoch(adopted, self.brokers, is_waived=self._is_waived),
            partition_epoch=PartitionEpoch(adopted.partition_epoch + 1),
        )

    @property
    def _is_waived(self) -> bool:
        """Whether a person decided to continue although reports are missing."""
        return self.consent is not None and bool(self.missing)

    def _unclean(self, base: PartitionState, outcome: Outcome) -> list[ReplicaRef]:
        """The replicas that an unclean election may choose from; empty if it is not allowed now.

        A person's consent allows any replica that has reported. Without one, a PageCache topic
        allows in-sync replicas whose disks lost at most their last writes.
        """
        able = [
            broker.ref
            for broker_id in base.replicas
            if (broker := self.brokers.by_id.get(broker_id)) is not None
            and broker.ref is not None
            and _is_current(self.state, self.reports.get(broker_id))
            and can_lead(broker.ref, self.state, self.topic_id, self.brokers)
        ]
        if self.consent is not None:
            return [] if self.missing - self.consent else able
        if isinstance(outcome, Waiting) and not self.is_overdue:
            return []
        if not counts_as_page_cache(self.spec) or not all(map(self._has_same_disk, base.isr)):
            return []
        in_sync = {ref.broker_id for ref in base.isr}
        return [ref for ref in able if ref.broker_id in in_sync]

    def _has_same_disk(self, ref: ReplicaRef) -> bool:
        """Whether the broker still has the disk of that session, and the replica is undamaged: then
        only the last writes, which were in the page cache, may be missing."""
        is_damaged = (ref.broker_id, self.topic_id, self.state.partition) in self.brokers.damaged
        return self.brokers.has_disk_of(ref) and not is_damaged

    def _length(self, ref: ReplicaRef) -> tuple[int, int, int]:
        """Sort key: the longest log is the highest; of equal ones, that of the first replica."""
        place = self.state.replicas.index(ref.broker_id)
        return *log_length(self.reports[ref.broker_id]), -place


def adopt(
    state: PartitionState, known: Iterable[ReplicaReport], claims: Iterable[Claim] = ()
) -> PartitionState:
    """The partition with the newest ISR and the highest epochs among the map, the reports `known`
    and the proposals `claims`; without a leader, because that is elected next.

    If a report and the map have equal epochs, the report's ISR counts, because the map may be
    restored from a backup.
    """
    reports, claims = tuple(known), tuple(claims)
    base, isr, best = state, state.isr, (state.leader_epoch, state.partition_epoch)
    for report in reports:
        if _epochs(report) >= best:
            base, isr, best = _with_replicas_of(report, state), report.isr, _epochs(report)
    added_replicas = tuple(ref.broker_id for ref in isr if ref.broker_id not in base.replicas)
    replicas = (*base.replicas, *added_replicas)
    return replace(
        base,
        replicas=replicas,
        leftovers=tuple(one for one in base.leftovers if one.broker not in replicas),
        isr=isr,
        leader=None,
        leader_epoch=LeaderEpoch(max(_leader_epochs(state, reports, claims))),
        unclean_epoch=max(
            (epoch for epoch in _unclean_epochs(state, reports) if epoch is not None), default=None
        ),
        partition_epoch=PartitionEpoch(max(_partition_epochs(state, reports, claims))),
        reports_wanted=False,
    )


def _with_replicas_of(report: ReplicaReport, state: PartitionState) -> PartitionState:
    """The partition with the replicas of a newer report. Brokers that only the map names become
    leftovers: they may still have data."""
    if not report.replicas:  # by an older version, which knew no reassignments
        return state
    named = {*report.replicas, *(one.broker for one in report.leftovers)}
    forgotten = tuple(broker_id for broker_id in sorted(state.holders) if broker_id not in named)
    return replace(
        state,
        replicas=report.replicas,
        adding=report.adding,
        removing=report.removing,
        leftovers=(*report.leftovers, *leftovers_on(forgotten)),
    )


def _with_reporting_holders(
    state: PartitionState, reports: Mapping[BrokerId, ReplicaReport]
) -> PartitionState:
    """The adopted partition, with each broker as a leftover that reports to have data of it, by
    older metadata, and that the newest does not name: what gave it the data was lost with a map."""
    unnamed = tuple(
        broker_id
        for broker_id, report in sorted(reports.items())
        if broker_id not in state.holders
        and broker_id in {*report.replicas, *(one.broker for one in report.leftovers)}
    )
    return replace(state, leftovers=(*state.leftovers, *leftovers_on(unnamed)))


def why_at_risk(
    answers: "Answers", spec: PartitionMapSpec, state: PartitionState, brokers: BrokerStates
) -> str:
    """Why acknowledged records of a current partition may be missing, so that a person must accept
    the loss; empty if no person must."""
    assert spec.current is not None, "the topic is not deleted"
    reports = answers.reports.get((spec.current, state.partition), {})
    question = Question(spec.current, state.partition, state.partition_epoch)
    terms = Terms(
        min_isr=spec.min_isr,
        counts_as_page_cache=counts_as_page_cache(spec),
        is_overdue=answers.open_questions_ms.get(question, 0) >= WAIT_MS,
    )
    outcome = compare(state, spec.current, brokers, reports, terms)
    return outcome.reason if isinstance(outcome, AtRisk) else ""


def counts_as_page_cache(spec: PartitionMapSpec) -> bool:
    """Whether the topic's durability is PageCache, or was, and some brokers have not yet flushed
    the records from that time."""
    return spec.durability is Durability.PAGE_CACHE or bool(spec.unflushed)


def _leader_epochs(
    state: PartitionState, reports: Iterable[ReplicaReport], claims: Iterable[Claim]
) -> Iterator[int]:
    """Every leader epoch in the map, the reports and the proposals."""
    yield state.leader_epoch
    for report in reports:
        yield report.leader_epoch
        if report.log_leader_epoch is not None:
            yield report.log_leader_epoch
    for claim in claims:
        yield claim.proposal.leader_epoch


def _partition_epochs(
    state: PartitionState, reports: Iterable[ReplicaReport], claims: Iterable[Claim]
) -> Iterator[int]:
    """Every partition epoch in the map, the reports and the proposals."""
    yield state.partition_epoch
    for report in reports:
        yield report.partition_epoch
    for claim in claims:
        yield claim.proposal.base_partition_epoch


def _unclean_epochs(
    state: PartitionState, reports: Iterable[ReplicaReport]
) -> Iterator[LeaderEpoch | None]:
    """The epochs of unclean elections in the map and the reports; None for one without. A loss that
    was accepted once stays accepted, even if a restored map does not know of it."""
    yield state.unclean_epoch
    for report in reports:
        yield report.unclean_epoch


def is_map_outdated(
    state: PartitionState, known: Iterable[ReplicaReport], claims: Iterable[Claim]
) -> bool:
    """Whether any broker has applied a newer state than the map has (rule R6)."""
    return any(is_above(report, state) for report in known) or any(
        is_beyond(claim, state) for claim in claims
    )


def _is_current(state: PartitionState, report: ReplicaReport | None) -> bool:
    """Whether there is a report and it was made for the map's present epochs or later ones. A
    report from before `reports_wanted` was set has lower epochs."""
    if report is None:
        return False
    return (
        report.partition_epoch >= state.partition_epoch or report.leader_epoch > state.leader_epoch
    )


def _is_retired(broker_id: BrokerId, brokers: BrokerStates) -> bool:
    """Whether the broker is gone for good, so that it will never report."""
    broker = brokers.by_id.get(broker_id)
    return broker is not None and broker.is_retired
