"""Going on from what the replicas' disks know (R6, and tails that cannot vouch for themselves).

Two things end in asking every replica of a partition what it has. A broker reports that it has
applied newer metadata than the map holds: the map went back, as after a restored etcd. Or every
member of the ISR came back with a disk that may have lost what it acknowledged. Until all
replicas have answered nothing is decided; then the newest metadata any of them knows is adopted,
above every epoch ever used, and an ordinary election follows. Where that finds nobody because
tails are suspect, the longest log of a `PageCache` topic wins, which its durability allows; any
other loss has to be accepted by a person, for one partition at one partition epoch.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

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
from chiplog_core.planner.elections import changed, elect
from chiplog_core.planner.members import Members
from chiplog_core.planner.world import World

Reports = Mapping[tuple[TopicId, PartitionIndex], Mapping[BrokerId, ReplicaReport]]
Accepted = frozenset[tuple[PartitionIndex, PartitionEpoch]]

NOTHING_ACCEPTED: Accepted = frozenset()


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
    """Read "3@17,4@9"; what does not read accepts nothing."""
    accepted = set()
    for entry in filter(None, annotation.replace(" ", "").split(",")):
        partition, _, epoch = entry.partition("@")
        if partition.isascii() and partition.isdigit() and epoch.isascii() and epoch.isdigit():
            accepted.add((PartitionIndex(int(partition)), PartitionEpoch(int(epoch))))
    return frozenset(accepted)


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
        if not _is_answered(state, known.get(broker_id)) and not _is_retired(broker_id, members)
    ]


def settle_all(
    spec: PartitionMapSpec, members: Members, reports: Reports, accepted: Accepted
) -> tuple[PartitionMapSpec, tuple[Loss, ...]]:
    """The map with every question asked, and answered where all replicas have reported."""
    if spec.hibernated or (not reports and not _asks(spec)):
        return spec, ()
    losses: list[Loss] = []
    generations = tuple(
        _settled(generation, spec, members, reports, (accepted, losses))
        for generation in spec.generations
    )
    return replace(spec, generations=generations), tuple(losses)


def _asks(spec: PartitionMapSpec) -> bool:
    return any(
        state.reports_wanted for generation in spec.generations for state in generation.partitions
    )


def _settled(
    generation: Generation,
    spec: PartitionMapSpec,
    members: Members,
    reports: Reports,
    decision: tuple[Accepted, list[Loss]],
) -> Generation:
    accepted, losses = decision
    partitions = []
    for state in generation.partitions:
        known = reports.get((generation.topic_id, state.partition), {})
        after = state
        if state.reports_wanted:
            if not missing_reports(state, generation.topic_id, members, reports):
                case = _Case(state, generation.topic_id, spec, members, known)
                after = case.decided(accepted, losses)
        elif any(is_above(report, state) for report in known.values()):
            # The epochs stay: were they raised, the map could reach what a broker knows by
            # number, and that broker would take the map's older content for newer.
            after = replace(state, reports_wanted=True)
        partitions.append(after)
    return replace(generation, partitions=tuple(partitions))


@dataclass(frozen=True, slots=True)
class _Case:
    """One partition of which every replica has reported."""

    state: PartitionState
    topic_id: TopicId
    spec: PartitionMapSpec
    members: Members
    known: Mapping[BrokerId, ReplicaReport]

    def decided(self, accepted: Accepted, losses: list[Loss]) -> PartitionState:
        adopted = adopt(self.state, self.known.values())
        elected = elect(adopted, self.topic_id, self.spec.min_isr, self.members)
        if not elected.reports_wanted:
            # Also where nobody leads: the members that are dead may come back intact.
            return _above(elected, adopted)
        candidates = self._candidates(adopted, accepted)
        if not candidates:
            return self.state
        winner = max(candidates, key=self._length)
        losses.append(Loss(self.state.partition, winner.broker_id, self.known[winner.broker_id]))
        return _above(changed(adopted, (winner,), winner), adopted)

    def _candidates(self, adopted: PartitionState, accepted: Accepted) -> list[ReplicaRef]:
        able = [
            member.ref
            for broker_id in adopted.replicas
            if (member := self.members.of.get(broker_id)) is not None
            and member.ref is not None
            and member.may_lead
            and broker_id in self.known
        ]
        if (self.state.partition, self.state.partition_epoch) in accepted:
            return able
        if not counts_as_page_cache(self.spec) or not all(map(self._is_suspect, adopted.isr)):
            return []
        in_sync = {ref.broker_id for ref in adopted.isr}
        return [ref for ref in able if ref.broker_id in in_sync]

    def _is_suspect(self, ref: ReplicaRef) -> bool:
        """It is the disk it was, undamaged; only its last writes may be missing."""
        is_damaged = (ref.broker_id, self.topic_id, self.state.partition) in self.members.damaged
        return self.members.of[ref.broker_id].has_disk_of(ref) and not is_damaged

    def _length(self, ref: ReplicaRef) -> tuple[int, int, int]:
        report = self.known[ref.broker_id]
        epoch = -1 if report.log_leader_epoch is None else report.log_leader_epoch
        return epoch, report.log_end_offset, -self.state.replicas.index(ref.broker_id)


def adopt(state: PartitionState, known: Iterable[ReplicaReport]) -> PartitionState:
    """The newest metadata anybody knows, without a leader, at the highest epochs anybody knows.

    Of equals a report wins over the map, whose own content may be restored.
    """
    reports = tuple(known)
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
        leader_epoch=LeaderEpoch(max(_leader_epochs(state, reports))),
        partition_epoch=PartitionEpoch(
            max(state.partition_epoch, *(report.partition_epoch for report in reports), 0)
        ),
        reports_wanted=False,
    )


def counts_as_page_cache(spec: PartitionMapSpec) -> bool:
    """A topic that became Fsync counts as PageCache until everybody has flushed what it had."""
    return spec.durability is Durability.PAGE_CACHE or bool(spec.unflushed)


def _above(state: PartitionState, adopted: PartitionState) -> PartitionState:
    """With both epochs above all that was ever adopted, also where there is no leader."""
    return replace(
        state,
        leader_epoch=LeaderEpoch(adopted.leader_epoch + 1),
        partition_epoch=PartitionEpoch(adopted.partition_epoch + 1),
    )


def _leader_epochs(state: PartitionState, reports: Iterable[ReplicaReport]) -> Iterator[int]:
    yield state.leader_epoch
    for report in reports:
        yield report.leader_epoch
        if report.log_leader_epoch is not None:
            yield report.log_leader_epoch


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
