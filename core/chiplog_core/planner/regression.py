"""Going on from what the replicas' disks know (R6, and tails that cannot vouch for themselves).

Three things end in asking every replica of a partition what it has. A broker shows, by a report
or a proposal, that it has applied newer metadata than the map holds: the map went back, as after
a restored etcd. Or every member of the ISR came back with a disk that may have lost what it
acknowledged. Or a person accepts the loss of what the dead hold, for one partition at one
partition epoch. Until all replicas have answered nothing is decided; those named in that
acceptance are not waited for. Then the newest metadata any of them knows is adopted, above every
epoch ever used, and an ordinary election follows. Where that finds nobody because tails are
suspect, the longest log of a `PageCache` topic wins, which its durability allows, after a minute
also among those that answered; any other loss has to be accepted.
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
from chiplog_core.planner.elections import (
    can_lead,
    cannot_vouch,
    changed,
    elect,
    with_generations,
    with_partitions,
)
from chiplog_core.planner.epochs import may_need_consent, next_epoch
from chiplog_core.planner.members import Members
from chiplog_core.planner.proposals import Claim, Proposals, is_beyond
from chiplog_core.planner.world import Question, World

Reports = Mapping[tuple[TopicId, PartitionIndex], Mapping[BrokerId, ReplicaReport]]
Accepted = Mapping[tuple[PartitionIndex, PartitionEpoch], frozenset[BrokerId]]
"""Of which partition, at which partition epoch, a loss is accepted, and who is not waited for."""

NOTHING_ACCEPTED: Accepted = {}

_ENTRY = re.compile(r"([0-9]{1,9})@([0-9]{1,10})(?:/([0-9]{1,9}(?:\+[0-9]{1,9})*))?", re.ASCII)

ANSWER_MS = 60_000
"""How long suspect tails are compared only when all of them are there."""


@dataclass(frozen=True, slots=True)
class Loss:
    """An election that may have lost acknowledged records."""

    partition: PartitionIndex
    winner: BrokerId
    report: ReplicaReport

    def __str__(self) -> str:
        return (
            f"partition {self.partition}: no in-sync replica could vouch for its disk; broker "
            f"{self.winner} leads with log end {self.report.log_end_offset}, and acknowledged "
            "records from there on are lost"
        )


def gather_reports(world: World) -> Reports:
    """Every report of every broker, by partition."""
    found: dict[tuple[TopicId, PartitionIndex], dict[BrokerId, ReplicaReport]] = {}
    for broker_id, broker in world.brokers.items():
        for report in broker.status.replica_reports:
            found.setdefault((report.topic_id, report.partition), {})[broker_id] = report
    return found


def accepted_losses(annotation: str) -> Accepted:
    """Read "3@17,4@9/2+5"; what does not read accepts nothing."""
    accepted = {}
    for entry in annotation.replace(" ", "").split(","):
        found = _ENTRY.fullmatch(entry)
        if found is not None:
            partition, epoch, brokers = found.groups()
            waived = filter(None, (brokers or "").split("+"))
            key = PartitionIndex(int(partition)), PartitionEpoch(int(epoch))
            accepted[key] = frozenset(BrokerId(int(one)) for one in waived)
    return accepted


def acceptance(state: PartitionState, missing: Iterable[BrokerId]) -> str:
    """What `accepted_losses` reads as the consent to go on without `missing`."""
    brokers = "+".join(map(str, missing))
    return f"{state.partition}@{state.partition_epoch}{'/' if brokers else ''}{brokers}"


def is_above(report: ReplicaReport, state: PartitionState) -> bool:
    """Whether the broker has applied more than the map says."""
    return (
        report.leader_epoch > state.leader_epoch or report.partition_epoch > state.partition_epoch
    )


def missing_reports(
    state: PartitionState, topic_id: TopicId, members: Members, reports: Reports
) -> list[BrokerId]:
    """The replicas that still have to say what they have. Those retired never will."""
    known = reports.get((topic_id, state.partition), {})
    return [
        broker_id
        for broker_id in state.replicas
        if not _is_retired(broker_id, members)
        # A status may be as old as a restored map.
        and (broker_id in members.unchecked or not _is_answered(state, known.get(broker_id)))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What is known of all partitions beyond their maps."""

    reports: Reports
    proposals: Proposals = field(default_factory=dict)
    """What leaders wish for (R5), which also shows what they have applied."""
    asked_ms: Mapping[Question, int] = field(default_factory=dict)
    """For how long each question has been open, as far as this operator process saw it."""


def settle_all(
    spec: PartitionMapSpec, members: Members, answers: Answers, accepted: Accepted
) -> tuple[PartitionMapSpec, tuple[Loss, ...]]:
    """The map with every question asked, and answered where all replicas have reported."""
    is_known = answers.reports or answers.proposals or accepted
    if spec.hibernated or (not is_known and not _asks(spec)):
        return spec, ()
    settling = _Settling(spec, members, answers, accepted)
    generations = tuple(map(settling.settled, spec.generations))
    return with_generations(spec, generations), tuple(settling.losses)


def next_overdue_ms(world: World) -> int | None:
    """When the next question will have been open for long enough to go on without some."""
    left = [ANSWER_MS - open_ms for open_ms in world.asked_ms.values() if open_ms < ANSWER_MS]
    return min(left, default=None)


def _asks(spec: PartitionMapSpec) -> bool:
    return any(
        state.reports_wanted for generation in spec.generations for state in generation.partitions
    )


@dataclass(slots=True)
class _Settling:
    """Goes through the partitions of one map."""

    spec: PartitionMapSpec
    members: Members
    answers: Answers
    accepted: Accepted
    losses: list[Loss] = field(default_factory=list)

    def settled(self, generation: Generation) -> Generation:
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
        known = self.answers.reports.get((topic_id, state.partition), {})
        consent = self.accepted.get((state.partition, state.partition_epoch))
        if not state.reports_wanted:
            is_below = any(is_above(report, state) for report in known.values()) or any(
                is_beyond(claim, state) for claim in claims
            )
            is_stuck = may_need_consent(state, self.spec.min_isr, self.members)
            if is_below or (consent is not None and is_stuck):
                # The epochs stay: were they raised, the map could reach what a broker knows by
                # number, and that broker would take the map's older content for newer.
                return replace(state, reports_wanted=True)
            return state
        missing = set(missing_reports(state, topic_id, self.members, self.answers.reports))
        if missing - (consent or frozenset()) and not self._is_overdue(state, topic_id):
            return state
        if not known:
            return state
        case = _Case(state, topic_id, self.spec, self.members, known, claims, bool(missing))
        return case.decided(self.accepted, self.losses)

    def _is_overdue(self, state: PartitionState, topic_id: TopicId) -> bool:
        """Only for tails that may all be short: a map that went back waits for everybody."""
        question = Question(topic_id, state.partition, state.partition_epoch)
        return (
            state.leader is None
            and counts_as_page_cache(self.spec)
            and all(cannot_vouch(ref, state, topic_id, self.members) for ref in state.isr)
            and self.answers.asked_ms.get(question, 0) >= ANSWER_MS
        )


@dataclass(frozen=True, slots=True)
class _Case:
    """One partition of which every replica has reported."""

    state: PartitionState
    topic_id: TopicId
    spec: PartitionMapSpec
    members: Members
    known: Mapping[BrokerId, ReplicaReport]
    claims: Sequence[Claim]
    is_waived: bool
    """Whether one of them has not, and is not waited for."""

    def decided(self, accepted: Accepted, losses: list[Loss]) -> PartitionState:
        adopted = adopt(self.state, self.known.values(), self.claims)
        elected = elect(adopted, self.topic_id, self.spec.min_isr, self.members)
        is_accepted = (self.state.partition, self.state.partition_epoch) in accepted
        if elected.leader is not None or not (elected.reports_wanted or is_accepted):
            # Also where nobody leads: the members that are dead may come back intact.
            return self._above(elected, adopted)
        candidates = self._candidates(adopted, is_accepted=is_accepted)
        if not candidates:
            return self.state
        winner = max(candidates, key=self._length)
        losses.append(Loss(self.state.partition, winner.broker_id, self.known[winner.broker_id]))
        elected = self._above(changed(adopted, (winner,), winner, self.members), adopted)
        return replace(elected, unclean_epoch=elected.leader_epoch)

    def _above(self, state: PartitionState, adopted: PartitionState) -> PartitionState:
        """With both epochs above all that was ever adopted, also where there is no leader."""
        return replace(
            state,
            leader_epoch=next_epoch(adopted, self.members, is_waived=self.is_waived),
            partition_epoch=PartitionEpoch(adopted.partition_epoch + 1),
        )

    def _candidates(self, adopted: PartitionState, *, is_accepted: bool) -> list[ReplicaRef]:
        able = [
            member.ref
            for broker_id in adopted.replicas
            if (member := self.members.of.get(broker_id)) is not None
            and member.ref is not None
            and broker_id in self.known
            and can_lead(member.ref, self.state, self.topic_id, self.members)
        ]
        if is_accepted:
            return able
        if not counts_as_page_cache(self.spec) or not all(map(self._is_suspect, adopted.isr)):
            return []
        in_sync = {ref.broker_id for ref in adopted.isr}
        return [ref for ref in able if ref.broker_id in in_sync]

    def _is_suspect(self, ref: ReplicaRef) -> bool:
        """It is the disk it was, undamaged; only its last writes may be missing."""
        is_damaged = (ref.broker_id, self.topic_id, self.state.partition) in self.members.damaged
        member = self.members.of.get(ref.broker_id)
        return member is not None and member.has_disk_of(ref) and not is_damaged

    def _length(self, ref: ReplicaRef) -> tuple[int, int, int]:
        report = self.known[ref.broker_id]
        epoch = -1 if report.log_leader_epoch is None else report.log_leader_epoch
        return epoch, report.log_end_offset, -self.state.replicas.index(ref.broker_id)


def adopt(
    state: PartitionState, known: Iterable[ReplicaReport], claims: Iterable[Claim] = ()
) -> PartitionState:
    """The newest metadata anybody knows, without a leader, at the highest epochs anybody knows.

    Of equals a report wins over the map, whose own content may be restored.
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
        leader_epoch=LeaderEpoch(
            max(0, *_leader_epochs(state, reports), *(one.proposal.leader_epoch for one in claims))
        ),
        unclean_epoch=max(
            (one for one in _unclean_epochs(state, reports) if one is not None), default=None
        ),
        partition_epoch=PartitionEpoch(
            max(
                state.partition_epoch,
                *(report.partition_epoch for report in reports),
                *(one.proposal.base_partition_epoch for one in claims),
                0,
            )
        ),
        reports_wanted=False,
    )


def counts_as_page_cache(spec: PartitionMapSpec) -> bool:
    """A topic that became Fsync counts as PageCache until everybody has flushed what it had."""
    return spec.durability is Durability.PAGE_CACHE or bool(spec.unflushed)


def _leader_epochs(state: PartitionState, reports: Iterable[ReplicaReport]) -> Iterator[int]:
    yield state.leader_epoch
    for report in reports:
        yield report.leader_epoch
        if report.log_leader_epoch is not None:
            yield report.log_leader_epoch


def _unclean_epochs(
    state: PartitionState, reports: Iterable[ReplicaReport]
) -> Iterator[LeaderEpoch | None]:
    """A loss that was accepted once stays accepted, also where the map forgot it."""
    yield state.unclean_epoch
    for report in reports:
        yield report.unclean_epoch


def _is_answered(state: PartitionState, report: ReplicaReport | None) -> bool:
    """Whether the report is of now. One from before the question has older epochs."""
    if report is None:
        return False
    return (
        report.partition_epoch >= state.partition_epoch or report.leader_epoch > state.leader_epoch
    )


def _is_retired(broker_id: BrokerId, members: Members) -> bool:
    member = members.of.get(broker_id)
    return member is not None and member.is_retired
