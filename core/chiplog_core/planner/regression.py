"""Going on from what the replicas' disks know (R6, and ISRs of which no member continued).

Three things end in asking every replica of a partition what it has. A broker shows, by a report
or a proposal, that it has applied newer metadata than the map holds: the map went back, as after
a restored etcd. Or no member of the ISR that continued can lead. Or a person accepts the loss of
what the dead hold, for one partition at one partition epoch.

Where the map went back, nothing is decided until all replicas have answered; those named in that
acceptance are not waited for. Then the newest metadata any of them knows is adopted, above every
epoch ever used, and an ordinary election follows. Else the logs of the members that were started
again are compared (`comparison`). Where nobody vouches for its disk, the longest log of a
`PageCache` topic wins, which its durability allows, after a minute also among those that answered;
any other loss has to be accepted.
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
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.world import Question, World
from chiplog_core.planner.comparison import (
    WAIT_MS,
    AtRisk,
    Elected,
    Outcome,
    Terms,
    Waiting,
    compare,
    is_answer,
    log_length,
)
from chiplog_core.planner.elections import (
    can_lead,
    changed,
    elect,
    is_awaited,
    with_generations,
    with_partitions,
)
from chiplog_core.planner.epochs import are_outnumbered, may_need_consent, next_epoch
from chiplog_core.planner.proposals import Claim, Proposals, is_beyond

Reports = Mapping[tuple[TopicId, PartitionIndex], Mapping[BrokerId, ReplicaReport]]
Accepted = Mapping[tuple[PartitionIndex, PartitionEpoch], frozenset[BrokerId]]
"""Of which partition, at which partition epoch, a loss is accepted, and who is not waited for."""

NOTHING_ACCEPTED: Accepted = {}

_ENTRY = re.compile(r"([0-9]{1,9})@([0-9]{1,10})(?:/([0-9]{1,9}(?:\+[0-9]{1,9})*))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Loss:
    """An election that may have lost acknowledged records."""

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
    """Every report of every broker, by partition."""
    found: dict[tuple[TopicId, PartitionIndex], dict[BrokerId, ReplicaReport]] = {}
    for broker_id, broker in world.brokers.items():
        for report in broker.status.replica_reports:
            found.setdefault((report.topic_id, report.partition), {})[broker_id] = report
    return found


def accepted_losses(annotation: str) -> Accepted:
    """Parse an annotation like "3@17,4@9/2+5": at partition epoch 17 of partition 3, and at epoch 9
    of partition 4 without the reports of brokers 2 and 5.

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
    """The entries that cannot be parsed. An empty one, as after the last comma, is ignored."""
    entries = annotation.replace(" ", "").split(",")
    return tuple(entry for entry in entries if entry and _ENTRY.fullmatch(entry) is None)


def acceptance(state: PartitionState, missing: Iterable[BrokerId]) -> str:
    """The annotation's value that accepts to continue without the replicas `missing`, in the
    form that `accepted_losses` parses."""
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
    known: Mapping[BrokerId, ReplicaReport],
    *,
    has_gone_back: bool,
) -> list[BrokerId]:
    """The replicas that have not reported yet. Retired brokers never will.

    `has_gone_back`: brokers know newer metadata than the map has. Then a report of metadata is
    enough, even if the process that made it has ended. Otherwise the report must be of the log, by
    the live process.
    """

    def is_answered(broker_id: BrokerId) -> bool:
        report, broker = known.get(broker_id), brokers.by_id.get(broker_id)
        if has_gone_back:
            # After a restore, a status may be as old as the map.
            return broker_id not in brokers.unchecked and _is_answered(state, report)
        return report is not None and broker is not None and is_answer(report, state, broker)

    return [
        broker_id
        for broker_id in state.replicas
        if not _is_retired(broker_id, brokers) and not is_answered(broker_id)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What is known of all partitions beyond their maps."""

    reports: Reports
    proposals: Proposals = field(default_factory=dict)
    """The leaders' proposals (R5), which also show what they have applied."""
    requested_ms: Mapping[Question, int] = field(default_factory=dict)
    """For how long each question has been open, as far as this operator process saw it."""


def settle_all(
    spec: PartitionMapSpec, brokers: BrokerStates, answers: Answers, accepted: Accepted
) -> tuple[PartitionMapSpec, tuple[Loss, ...]]:
    """The map after questions to replicas are asked, and decided where all replicas have
    reported."""
    is_known = answers.reports or answers.proposals or accepted
    if spec.hibernated or (not is_known and not _asks(spec)):
        return spec, ()
    settling = _Settling(spec, brokers, answers, accepted)
    generations = tuple(map(settling.settled, spec.generations))
    return with_generations(spec, generations), tuple(settling.losses)


def next_overdue_ms(world: World) -> int | None:
    """After how many milliseconds the next question is open for so long that it is decided
    without the missing reports."""
    left = [WAIT_MS - open_ms for open_ms in world.requested_ms.values() if open_ms < WAIT_MS]
    return min(left, default=None)


def _asks(spec: PartitionMapSpec) -> bool:
    """Whether the map waits for reports of any partition."""
    return any(
        state.reports_wanted for generation in spec.generations for state in generation.partitions
    )


@dataclass(slots=True)
class _Settling:
    """Goes through the partitions of one map."""

    spec: PartitionMapSpec
    brokers: BrokerStates
    answers: Answers
    accepted: Accepted
    losses: list[Loss] = field(default_factory=list)

    def settled(self, generation: Generation) -> Generation:
        """The generation after its questions are asked or decided."""
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
        """The next state of one partition: ask its replicas for reports, wait for these, or
        decide."""
        known = self.answers.reports.get((topic_id, state.partition), {})
        consent = self.accepted.get((state.partition, state.partition_epoch))
        has_gone_back = is_beneath(state, known.values(), claims)
        if not state.reports_wanted:
            is_stuck = may_need_consent(state, self.spec.min_isr, self.brokers)
            if has_gone_back or (consent is not None and is_stuck):
                # The epochs stay. If they were raised, they could become equal to those that a
                # broker knows, and the broker would take the map's older content for newer.
                return replace(state, reports_wanted=True)
            return state
        # If a leader is named, the map waits for reports because it is older than what brokers
        # know.
        has_gone_back = has_gone_back or state.leader is not None
        missing = set(missing_reports(state, self.brokers, known, has_gone_back=has_gone_back))
        if has_gone_back:
            if missing - (consent or frozenset()) or not known:
                return state
        elif is_awaited(state, self.brokers) or (
            consent is None and are_outnumbered(state, self.spec.min_isr, self.brokers)
        ):
            return state
        question = Question(topic_id, state.partition, state.partition_epoch)
        return _Case(
            state=state,
            topic_id=topic_id,
            spec=self.spec,
            brokers=self.brokers,
            known=known,
            claims=claims,
            has_gone_back=has_gone_back,
            missing=frozenset(missing),
            consent=consent,
            is_overdue=self.answers.requested_ms.get(question, 0) >= WAIT_MS,
        ).decided(self.losses)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One partition whose replicas were asked."""

    state: PartitionState
    topic_id: TopicId
    spec: PartitionMapSpec
    brokers: BrokerStates
    known: Mapping[BrokerId, ReplicaReport]
    claims: Sequence[Claim]
    has_gone_back: bool
    """The map did (R6), so that every replica had to answer and the newest metadata is adopted."""
    missing: frozenset[BrokerId]
    """Replicas that have not answered."""
    consent: frozenset[BrokerId] | None
    """Who is not waited for by a person's word, which accepts any loss; None without one."""
    is_overdue: bool

    def decided(self, losses: list[Loss]) -> PartitionState:
        """The state with a leader; the same object if nothing can be decided yet."""
        base = replace(self.state, reports_wanted=False)
        if self.has_gone_back:
            base = adopt(self.state, self.known.values(), self.claims)
        elected = elect(base, self.topic_id, self.spec.min_isr, self.brokers)
        if elected.leader is not None:
            return self._above(elected, base)
        outcome = self._compared(base)
        if isinstance(outcome, Elected):
            return self._above(changed(base, outcome.isr, outcome.leader, self.brokers), base)
        winner = max(self._unclean(base, outcome), key=self._length, default=None)
        if winner is None:
            # Adopted metadata stays adopted. The comparison continues from there.
            return self._above(elected, base) if self.has_gone_back else self.state
        losses.append(Loss(self.state.partition, winner.broker_id, self.known[winner.broker_id]))
        elected = self._above(changed(base, (winner,), winner, self.brokers), base)
        return replace(elected, unclean_epoch=elected.leader_epoch)

    def _compared(self, base: PartitionState) -> Outcome:
        """The result of comparing the replicas' logs."""
        terms = Terms(
            min_isr=self.spec.min_isr,
            counts_as_page_cache=counts_as_page_cache(self.spec),
            is_overdue=self.is_overdue,
            waived=self.consent or frozenset(),
        )
        return compare(base, self.topic_id, self.brokers, self.known, terms)

    def _above(self, state: PartitionState, adopted: PartitionState) -> PartitionState:
        """The state with both epochs above any that was ever applied, even if there is no
        leader."""
        return replace(
            state,
            leader_epoch=next_epoch(adopted, self.brokers, is_waived=self._is_waived),
            partition_epoch=PartitionEpoch(adopted.partition_epoch + 1),
        )

    @property
    def _is_waived(self) -> bool:
        """Whether a person decided to continue without missing reports."""
        return self.consent is not None and bool(self.missing)

    def _unclean(self, base: PartitionState, outcome: Outcome) -> list[ReplicaRef]:
        """The replicas that may lead although acknowledged records may be missing there, the
        best first."""
        able = [
            broker.ref
            for broker_id in base.replicas
            if (broker := self.brokers.by_id.get(broker_id)) is not None
            and broker.ref is not None
            and _is_answered(self.state, self.known.get(broker_id))
            and can_lead(broker.ref, self.state, self.topic_id, self.brokers)
        ]
        if self.consent is not None:
            return [] if self.missing - self.consent else able
        if isinstance(outcome, Waiting) and not self.is_overdue:
            return []
        if not counts_as_page_cache(self.spec) or not all(map(self._is_suspect, base.isr)):
            return []
        in_sync = {ref.broker_id for ref in base.isr}
        return [ref for ref in able if ref.broker_id in in_sync]

    def _is_suspect(self, ref: ReplicaRef) -> bool:
        """Whether the replica's disk is the same and undamaged, so that only its last writes may
        be missing."""
        is_damaged = (ref.broker_id, self.topic_id, self.state.partition) in self.brokers.damaged
        broker = self.brokers.by_id.get(ref.broker_id)
        return broker is not None and broker.has_disk_of(ref) and not is_damaged

    def _length(self, ref: ReplicaRef) -> tuple[int, int, int]:
        place = self.state.replicas.index(ref.broker_id)
        return *log_length(self.known[ref.broker_id]), -place


def adopt(
    state: PartitionState, known: Iterable[ReplicaReport], claims: Iterable[Claim] = ()
) -> PartitionState:
    """The newest metadata that anybody knows, without a leader, with the highest known epochs.

    If a report and the map are equally new, the report counts, because the map may be restored from
    a backup.
    """
    reports, claims = tuple(known), tuple(claims)
    isr, best = state.isr, (state.leader_epoch, state.partition_epoch)
    for report in reports:
        epochs = (report.leader_epoch, report.partition_epoch)
        if epochs >= best:
            isr, best = report.isr, epochs
    more = tuple(ref.broker_id for ref in isr if ref.broker_id not in state.replicas)
    return replace(
        state,
        replicas=(*state.replicas, *more),
        isr=isr,
        leader=None,
        leader_epoch=LeaderEpoch(max(_leader_epochs(state, reports, claims))),
        unclean_epoch=max(
            (epoch for epoch in _unclean_epochs(state, reports) if epoch is not None), default=None
        ),
        partition_epoch=PartitionEpoch(max(_partition_epochs(state, reports, claims))),
        reports_wanted=False,
    )


def why_at_risk(
    answers: "Answers", spec: PartitionMapSpec, state: PartitionState, brokers: BrokerStates
) -> str:
    """Why a person must decide about a current partition; empty if nobody must."""
    assert spec.current is not None, "asked of what the name means now"
    known = answers.reports.get((spec.current, state.partition), {})
    question = Question(spec.current, state.partition, state.partition_epoch)
    terms = Terms(
        min_isr=spec.min_isr,
        counts_as_page_cache=counts_as_page_cache(spec),
        is_overdue=answers.requested_ms.get(question, 0) >= WAIT_MS,
    )
    outcome = compare(state, spec.current, brokers, known, terms)
    return outcome.reason if isinstance(outcome, AtRisk) else ""


def counts_as_page_cache(spec: PartitionMapSpec) -> bool:
    """Whether the topic's durability is PageCache, or was until recently, so that some brokers
    have not flushed older records."""
    return spec.durability is Durability.PAGE_CACHE or bool(spec.unflushed)


def _leader_epochs(
    state: PartitionState, reports: Iterable[ReplicaReport], claims: Iterable[Claim]
) -> Iterator[int]:
    """Every leader epoch that a map, a report or a proposal names."""
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
    """Every partition epoch that a map, a report or a proposal names."""
    yield state.partition_epoch
    for report in reports:
        yield report.partition_epoch
    for claim in claims:
        yield claim.proposal.base_partition_epoch


def _unclean_epochs(
    state: PartitionState, reports: Iterable[ReplicaReport]
) -> Iterator[LeaderEpoch | None]:
    """The known epochs of unclean elections. A loss that was accepted once stays accepted, even
    if the map lost that."""
    yield state.unclean_epoch
    for report in reports:
        yield report.unclean_epoch


def is_beneath(
    state: PartitionState, known: Iterable[ReplicaReport], claims: Iterable[Claim]
) -> bool:
    """Whether any broker has applied a newer state than the map has (rule R6)."""
    return any(is_above(report, state) for report in known) or any(
        is_beyond(claim, state) for claim in claims
    )


def _is_answered(state: PartitionState, report: ReplicaReport | None) -> bool:
    """Whether the report is newer than the question. An older one has lower epochs."""
    if report is None:
        return False
    return (
        report.partition_epoch >= state.partition_epoch or report.leader_epoch > state.leader_epoch
    )


def _is_retired(broker_id: BrokerId, brokers: BrokerStates) -> bool:
    broker = brokers.by_id.get(broker_id)
    return broker is not None and broker.is_retired
