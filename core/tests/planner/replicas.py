"""Brokers that replicate, each at its own pace, over the tiny Kubernetes of the planner's tests.

The least that replication needs: a log for each replica, leaders that append, followers that cut
back to what they share with their leader and copy on from there, a high watermark over all listed
and proposed members (R4, R5), and views of the maps that lag. Brokers obey their rules but not
their clocks: statuses come late, twice, or from before; processes that were given up go on.

What must hold is checked where it would first do harm: whoever begins to lead has every
acknowledged record, and nobody else ever led under that epoch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from random import Random
from typing import TypeAlias

from chiplog_core.ids import (
    BrokerId,
    Incarnation,
    LeaderEpoch,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    TopicId,
)
from chiplog_core.model.actions import Action, Announce, RestartPod
from chiplog_core.model.broker_status import (
    BrokerStatus,
    DamagedPartition,
    DataDirectory,
    IsrProposal,
    Tail,
)
from chiplog_core.model.partition_map import PartitionMap, PartitionState
from chiplog_core.naming import labels
from tests.planner.model import Kubernetes
from tests.planner.objects import of_users, partitions_of, topic

Key: TypeAlias = tuple[TopicId, PartitionIndex]
Record: TypeAlias = tuple[int, int]
"""(leader epoch, number)."""

TOPIC = "orders"


@dataclass(slots=True)
class Leadership:
    """What a leader knows of one partition it leads."""

    epoch: LeaderEpoch
    start: int
    high_watermark: int = 0
    ends: dict[ReplicaRef, int] = field(default_factory=dict)
    promise: IsrProposal | None = None


@dataclass(slots=True)
class Process:
    """One process of a broker, as it sees itself."""

    broker_id: BrokerId
    incarnation: Incarnation
    directories: tuple[DataDirectory, ...]
    session: Session | None = None
    views: dict[Key, PartitionState] = field(default_factory=dict)
    leaderships: dict[Key, Leadership] = field(default_factory=dict)
    said: list[tuple[IsrProposal, ...]] = field(default_factory=list)

    @property
    def ref(self) -> ReplicaRef | None:
        return None if self.session is None else ReplicaRef(self.broker_id, self.session)


class Loss(Enum):
    """What a disk lost since its broker ran."""

    NONE = "nothing"
    TAIL = "the end of its logs"
    CUT = "the end of its logs, which the start saw and cut off"
    BACK = "all since a copy of the volume was made, and the start saw that"
    BACK_UNSEEN = "the same, and nobody saw it"


@dataclass(frozen=True, slots=True)
class Copy:
    """A volume as it was some time ago."""

    logs: dict[Key, list[Record]]
    checkpoints: dict[Key, int]
    known: dict[str, PartitionMap]
    intact_since: Session


class Replication:
    """Three brokers, one topic, and what its clients were promised."""

    def __init__(
        self, rng: Random, durability: str = "Fsync", partitions: int = 1, brokers: int = 3
    ) -> None:
        self.rng = rng
        self.kubernetes = Kubernetes(brokers)
        config = {"chiplog.durability": durability}
        self.kubernetes.apply(topic(TOPIC, partitions=partitions, replicas=3, config=config))
        self.kubernetes.run()
        self.logs: dict[tuple[BrokerId, Key], list[Record]] = {}
        self.acknowledged: dict[Key, set[Record]] = {}
        self.leaders: dict[tuple[Key, LeaderEpoch], ReplicaRef] = {}
        self.processes: dict[BrokerId, Process] = {}
        self.durability = durability
        self.checkpoints: dict[tuple[BrokerId, Key], int] = {}
        """Of high watermarks."""
        self.copies: dict[BrokerId, Copy] = {}
        """Of volumes, as of some time ago."""
        self.went_back: set[BrokerId] = set()
        """Whose volume is such a copy, which no admission knows yet."""
        self.failed: set[BrokerId] = set()
        """Whose disk failed since their last start."""
        self.short: dict[BrokerId, bool] = {}
        """Whose disk may lack what it acknowledged, and whether that shows."""
        self.damaged: set[tuple[BrokerId, Key]] = set()
        self.sessions: dict[ReplicaRef, Incarnation] = {}
        """Whose each session was: also what brokers keep on their disks."""
        self.late: list[Action] = []
        self.backups: list[Kubernetes] = []
        self.numbers = iter(range(1_000_000))
        for broker_id in self.kubernetes.brokers:
            self._adopt(broker_id)
            self.see(broker_id)

    # -- what is looked at

    @property
    def states(self) -> dict[Key, PartitionState]:
        return {
            (generation.topic_id, state.partition): state
            for _, generation, state in partitions_of(of_users(self.kubernetes.maps).values())
        }

    def log(self, broker_id: BrokerId, key: Key) -> list[Record]:
        return self.logs.setdefault((broker_id, key), [])

    # -- processes

    def _adopt(self, broker_id: BrokerId) -> Process:
        status = self.kubernetes.brokers[broker_id].status
        assert status.incarnation is not None
        process = Process(broker_id, status.incarnation, status.directories)
        self.processes[broker_id] = process
        return process

    def start(
        self,
        broker_id: BrokerId,
        tail: Tail = Tail.INTACT,
        *,
        damage: bool = False,
        loss: Loss = Loss.NONE,
    ) -> None:
        """A new process, whatever became of the one before, and of its disk."""
        if damage:
            loss = Loss.TAIL
        elif tail is Tail.SUSPECT and self.durability == "PageCache":
            loss = Loss.TAIL  # the page cache is gone; what was synced is there
        shows = damage or loss is Loss.BACK or (tail is Tail.SUSPECT and loss is Loss.TAIL)
        if loss is not Loss.NONE and not self._may_lose(broker_id, shows=shows):
            return
        self.kill(broker_id)
        if broker_id in self.failed:
            self.failed.discard(broker_id)
            self._cut(broker_id)
        self._lose(broker_id, loss, shows=shows)
        self.kubernetes.start(
            broker_id,
            tail=tail,
            went_back=broker_id in self.went_back,
            is_cut=loss is Loss.CUT,
        )
        process = self._adopt(broker_id)
        if damage:
            self.damaged |= {(broker_id, key) for key in self.states}
        self._tell_damage(process)
        if self._session_to_tell(process) is not None:
            self._register(process)

    def _may_lose(self, broker_id: BrokerId, *, shows: bool) -> bool:
        """What every disk has lost, nobody finds; and of disks that lie there is one at a time,
        fewer than min ISR."""
        for one in list(self.short):
            ref = process.ref if (process := self.processes.get(one)) else None
            if all(
                state.leader and (ref in state.isr or one not in state.holders)
                for state in self.states.values()
            ):
                del self.short[one]
        others = [is_shown for one, is_shown in self.short.items() if one != broker_id]
        return all(others) if shows else not others

    def _lose(self, broker_id: BrokerId, loss: Loss, *, shows: bool) -> None:
        if loss is Loss.NONE:
            return
        self.short[broker_id] = shows and self.short.get(broker_id, True)
        if loss in {Loss.BACK, Loss.BACK_UNSEEN}:
            self._put_back(broker_id)
            if loss is Loss.BACK:
                self.went_back.add(broker_id)
        else:
            self._cut(broker_id)

    def _cut(self, broker_id: BrokerId) -> None:
        for key in self.states:
            log = self.log(broker_id, key)
            del log[self.rng.randint(0, len(log)) :]

    def copy(self, broker_id: BrokerId) -> None:
        """A snapshot of the volume."""
        disk = self.kubernetes.disks[broker_id]
        self.copies[broker_id] = Copy(
            logs={key: list(self.log(broker_id, key)) for key in self.states},
            checkpoints={key: self.checkpoints.get((broker_id, key), 0) for key in self.states},
            known=dict(disk.known),
            intact_since=disk.intact_since,
        )

    def _put_back(self, broker_id: BrokerId) -> None:
        copy, disk = self.copies.get(broker_id), self.kubernetes.disks[broker_id]
        if copy is not None:
            for key, log in copy.logs.items():
                self.logs[broker_id, key] = list(log)
                self.checkpoints[broker_id, key] = copy.checkpoints[key]
            disk.known, disk.intact_since = dict(copy.known), copy.intact_since

    def fail_disk(self, broker_id: BrokerId) -> None:
        """A sync fails, which the process says: in its status, or when it ends, or both."""
        process = self._speaks(broker_id)
        if process is None or not self._may_lose(broker_id, shows=False):
            return
        self.short[broker_id] = False
        self.failed.add(broker_id)
        if self.rng.random() < 0.5:
            process.directories = (replace(process.directories[0], online=False),)
            status = self.kubernetes.brokers[broker_id].status
            self.kubernetes.status(broker_id, replace(status, directories=process.directories))
            if self.rng.random() < 0.5:
                self.operate()
                return
        self.kubernetes.failed_disks.add(process.incarnation)
        self.kill(broker_id)

    def stop_all(self) -> None:
        """All end cleanly."""
        for broker_id in self.kubernetes.brokers:
            self.kill(broker_id)

    def wait(self) -> None:
        self.kubernetes.now += timedelta(minutes=1)

    def _session_to_tell(self, process: Process) -> Session | None:
        """Its own; before it has one, one that the Broker object has forgotten."""
        if process.session is not None:
            return process.session
        sessions = (one.session for one in self.sessions if one.broker_id == process.broker_id)
        used = max(sessions, default=Session(0))
        is_forgotten = used > self.kubernetes.brokers[process.broker_id].spec.session
        return used if is_forgotten else None

    def _tell_damage(self, process: Process) -> None:
        """A broker remembers what is wrong with its replicas until they are fetched anew."""
        damaged = tuple(
            DamagedPartition(topic_id=topic_id, partition=partition, file="log")
            for broker_id, (topic_id, partition) in sorted(self.damaged)
            if broker_id == process.broker_id
        )
        directories = (replace(process.directories[0], damaged=damaged),)
        if directories != process.directories:
            process.directories = directories
            if self._speaks(process.broker_id):
                status = self.kubernetes.brokers[process.broker_id].status
                self.kubernetes.status(process.broker_id, replace(status, directories=directories))

    def kill(self, broker_id: BrokerId) -> None:
        """The process is gone, and known to be."""
        process = self.processes.pop(broker_id, None)
        if process is not None:
            self.kubernetes.ended[process.incarnation] = "was killed"

    def give_up(self, broker_id: BrokerId) -> None:
        """Its Lease expires, but it goes on."""
        process = self.processes.get(broker_id)
        if process is not None:
            self.kubernetes.ended[process.incarnation] = "is silent"
            self.kubernetes.renewing.discard(process.incarnation)

    def renew(self, broker_id: BrokerId) -> None:
        """It is heard of again."""
        process = self.processes.get(broker_id)
        if process is not None:
            self.kubernetes.ended.pop(process.incarnation, None)
            self.kubernetes.renewing.add(process.incarnation)

    def drain(self, broker_id: BrokerId) -> None:
        """It asks to be relieved."""
        if self._speaks(broker_id) is not None:
            status = self.kubernetes.brokers[broker_id].status
            self.kubernetes.status(broker_id, replace(status, draining=True))

    def _speaks(self, broker_id: BrokerId) -> Process | None:
        """The process, if the status still is its own."""
        process = self.processes.get(broker_id)
        status = self.kubernetes.brokers[broker_id].status
        is_own = process is not None and status.incarnation == process.incarnation
        return process if is_own else None

    def _register(self, process: Process) -> None:
        status = BrokerStatus(
            incarnation=process.incarnation,
            session=self._session_to_tell(process),
            directories=process.directories,
        )
        self.kubernetes.status(process.broker_id, status)

    # -- what brokers do with what they see

    def see(self, broker_id: BrokerId) -> None:
        """The broker sees its object and all maps as they are now, and does what they say."""
        process = self._speaks(broker_id)
        if process is None:
            return
        broker = self.kubernetes.brokers[broker_id]
        if broker.spec.admitted_incarnation != process.incarnation:
            return
        if process.incarnation in self.kubernetes.ended:
            return
        if broker.spec.fenced or broker.spec.session < (process.session or 0):
            return
        process.session = broker.spec.session
        self.went_back.discard(broker_id)
        ref = ReplicaRef(broker_id, process.session)
        owner = self.sessions.setdefault(ref, process.incarnation)
        assert owner == process.incarnation, f"{ref} is another process"
        disk = self.kubernetes.disks[broker_id]
        for key in self.states:
            log = self.log(broker_id, key)
            disk.log_ends[key] = (log[-1][0] if log else 0, len(log))
            disk.committed[key] = self.checkpoints.get((broker_id, key), 0)
        self.kubernetes.obey_one(broker_id)
        for _, generation, state in partitions_of(disk.known.values()):
            self._follow(process, (generation.topic_id, state.partition), state)

    def _follow(self, process: Process, key: Key, state: PartitionState) -> None:
        process.views[key] = state
        leadership = process.leaderships.get(key)
        if state.leader is None or state.leader != process.ref or state.reports_wanted:
            process.leaderships.pop(key, None)
        elif leadership is None or leadership.epoch != state.leader_epoch:
            self._begin(process, key, state)
        elif leadership.promise and state.partition_epoch > leadership.promise.base_partition_epoch:
            leadership.promise = None

    def _begin(self, process: Process, key: Key, state: PartitionState) -> None:
        log = self.log(process.broker_id, key)
        assert process.ref is not None
        leader = self.leaders.setdefault((key, state.leader_epoch), process.ref)
        assert leader == process.ref, f"two leaders under epoch {state.leader_epoch}"
        assert not log or log[-1][0] < state.leader_epoch, "a leader epoch was used before"
        lost = self.acknowledged.get(key, set()) - set(log)
        assert not lost, f"{process.ref} leads without {len(lost)} acknowledged records"
        process.leaderships[key] = Leadership(state.leader_epoch, len(log))
        self._checkpoint(process.broker_id, key, self.checkpoints.get((process.broker_id, key), 0))

    def _checkpoint(self, broker_id: BrokerId, key: Key, high_watermark: int) -> None:
        end = len(self.log(broker_id, key))
        self.checkpoints[broker_id, key] = min(high_watermark, end)

    def append(self, broker_id: BrokerId, key: Key) -> None:
        process = self.processes.get(broker_id)
        leadership = None if process is None else process.leaderships.get(key)
        if leadership is not None:
            self.log(broker_id, key).append((leadership.epoch, next(self.numbers)))

    def fetch(self, broker_id: BrokerId, key: Key, at_most: int = 5) -> None:
        """The follower fetches from whom it takes for the leader, if that one agrees."""
        follower = self.processes.get(broker_id)
        view = None if follower is None else follower.views.get(key)
        if follower is None or view is None or view.leader is None or follower.ref is None:
            return
        if broker_id not in view.replicas:
            return
        leader = self.processes.get(view.leader.broker_id)
        leadership = None if leader is None else leader.leaderships.get(key)
        if leader is None or leadership is None or leadership.epoch != view.leader_epoch:
            return
        if leader is follower:
            return
        mine, theirs = self.log(broker_id, key), self.log(leader.broker_id, key)
        shared = 0
        while shared < min(len(mine), len(theirs)) and mine[shared] == theirs[shared]:
            shared += 1
        del mine[shared:]
        mine += theirs[shared : shared + at_most]
        leadership.ends[follower.ref] = len(mine)
        known = max(leadership.high_watermark, self.checkpoints.get((broker_id, key), 0))
        if self.rng.random() < 0.5 or known > len(mine):
            self._checkpoint(broker_id, key, known)
        if len(mine) == len(theirs):
            self.damaged.discard((broker_id, key))
            self._tell_damage(follower)

    def acknowledge(self, broker_id: BrokerId, key: Key) -> None:
        """The leader moves its high watermark: over all listed, and all it promised to wait for."""
        process = self.processes.get(broker_id)
        leadership = None if process is None else process.leaderships.get(key)
        if process is None or leadership is None:
            return
        log = self.log(broker_id, key)
        counted = set(process.views[key].isr) | set(
            leadership.promise.isr if leadership.promise else ()
        )
        ends = [len(log) if ref == process.ref else leadership.ends.get(ref, 0) for ref in counted]
        leadership.high_watermark = max(leadership.high_watermark, min(ends))
        self.acknowledged.setdefault(key, set()).update(log[: leadership.high_watermark])
        if self.rng.random() < 0.5:
            self._checkpoint(broker_id, key, leadership.high_watermark)

    def propose(
        self,
        broker_id: BrokerId,
        key: Key,
        *,
        is_greedy: bool = False,
        without: BrokerId | None = None,
    ) -> None:
        """The leader wishes for whoever caught up, and sometimes for less."""
        process = self.processes.get(broker_id)
        leadership = None if process is None else process.leaderships.get(key)
        if process is None or leadership is None or leadership.promise is not None:
            return
        view = process.views[key]
        assert process.session is not None
        enough = max(leadership.high_watermark, leadership.start)
        wanted = {ref.broker_id: ref for ref in view.isr}
        if not is_greedy and self.rng.random() < 0.4 and len(wanted) > 1:
            del wanted[self.rng.choice([one for one in wanted if one != broker_id])]
        else:
            for ref, end in sorted(leadership.ends.items()):
                if end >= enough and ref.broker_id in view.replicas:
                    wanted[ref.broker_id] = ref
        if without is not None:
            wanted.pop(without, None)
        isr = tuple(wanted.values())
        if set(isr) != set(view.isr):
            leadership.promise = IsrProposal(
                topic_id=key[0],
                partition=key[1],
                session=process.session,
                leader_epoch=leadership.epoch,
                base_partition_epoch=view.partition_epoch,
                isr=isr,
            )

    def publish(self, broker_id: BrokerId, *, is_old: bool = False) -> None:
        """Its proposals as they are, or as they were some time ago."""
        process = self._speaks(broker_id)
        if process is None:
            return
        if not is_old or not process.said:
            leaderships = process.leaderships.values()
            process.said.append(tuple(one.promise for one in leaderships if one.promise))
        said = self.rng.choice(process.said) if is_old else process.said[-1]
        status = self.kubernetes.brokers[broker_id].status
        if status.proposals != said:
            self.kubernetes.status(broker_id, replace(status, proposals=said))

    # -- the operator, and what becomes of its store

    def operate(self, *, part: float = 1.0, is_stale: bool = False) -> None:
        """A plan and a part of its actions; the rest may come at any time."""
        changes = {}
        if is_stale and self.backups:
            changes["brokers"] = dict(self.rng.choice(self.backups).brokers)
        actions = [
            one
            for one in self.kubernetes.plan(**changes).actions
            if not isinstance(one, RestartPod)
        ]
        now = [one for one in actions if self.rng.random() < part]
        self.late += [one for one in actions if one not in now]
        self._do(now)

    def do_late(self) -> None:
        if self.late:
            self._do([self.late.pop(self.rng.randrange(len(self.late)))])

    def _do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self.kubernetes.do(action)
            if isinstance(action, Announce) and action.reason == "UncleanElection":
                self._write_off()

    def _write_off(self) -> None:
        """What an announced loss takes away was not promised any more."""
        for key, state in self.states.items():
            if state.leader is not None and len(state.isr) == 1:
                left = set(self.log(state.leader.broker_id, key))
                self.acknowledged[key] = self.acknowledged.get(key, set()) & left

    def back_up(self) -> None:
        backup = Kubernetes.__new__(Kubernetes)
        backup.maps, backup.brokers = dict(self.kubernetes.maps), dict(self.kubernetes.brokers)
        self.backups.append(backup)

    def restore(self) -> None:
        """etcd is an old copy. All brokers run and knew what it was, and the operator goes on or
        another one starts."""
        if len(self.processes) < len(self.kubernetes.brokers) or not self.backups:
            return
        for broker_id in self.processes:
            self.see(broker_id)
        views = [one.views for one in self.processes.values()]
        if any(view.get(key) != state for view in views for key, state in self.states.items()):
            return  # what only the dead know is not found out before they come back
        backup = self.rng.choice(self.backups)
        kubernetes = self.kubernetes
        kubernetes.maps = {name: kubernetes.stored(one) for name, one in backup.maps.items()}
        kubernetes.brokers = {
            broker_id: kubernetes.stored(one) for broker_id, one in backup.brokers.items()
        }
        kubernetes.maps_check = f"check-{next(self.numbers)}"
        if self.rng.random() < 0.5:
            kubernetes.ended.clear()
        self.late.clear()
        self.backups.clear()

    def register(self, broker_id: BrokerId) -> None:
        """A process whose status is not what it wrote writes it again."""
        process = self.processes.get(broker_id)
        if process is None:
            return
        status = self.kubernetes.brokers[broker_id].status
        is_told = status.directories == process.directories
        is_told = is_told and (status.session or 0) >= (self._session_to_tell(process) or 0)
        if self._speaks(broker_id) is None or not is_told:
            self._register(process)

    # -- the end

    def heal(self, rounds: int = 40) -> None:
        """Everybody runs, everything arrives, what is lost is accepted: all get in sync again."""
        kubernetes = self.kubernetes
        for broker_id in kubernetes.brokers:
            self.register(broker_id)
            self.renew(broker_id)
            is_ending = kubernetes.brokers[broker_id].status.draining or broker_id in self.failed
            if broker_id not in self.processes or is_ending:
                self.start(broker_id)
        for number in range(rounds):
            self.operate()
            for broker_id in kubernetes.brokers:
                self._catch_up(broker_id)
            if all(map(is_whole, self.states.values())):
                return
            if number > rounds // 2:
                self._accept_losses()
        raise AssertionError(f"not in sync: {list(self.states.values())}")

    def _catch_up(self, broker_id: BrokerId) -> None:
        self.register(broker_id)
        self.see(broker_id)
        for key in self.states:
            self.propose(broker_id, key, is_greedy=True)
            self.append(broker_id, key)
            self.fetch(broker_id, key, at_most=1_000)
            self.acknowledge(broker_id, key)
        self.publish(broker_id)

    def _accept_losses(self) -> None:
        """What a person does who reads the Ready condition."""
        states = self.states.values()
        lost = [state for state in states if state.leader is None or state.reports_wanted]
        for one in lost:
            assert one.reports_wanted, "offline, and nobody is asked"
        text = ",".join(f"{one.partition}@{one.partition_epoch}" for one in lost)
        known = self.kubernetes.topics[TOPIC]
        annotations = {labels.UNCLEAN_ELECTION: text}
        metadata = replace(known.metadata, annotations=annotations)
        self.kubernetes.apply(replace(known, metadata=metadata))

    def keys(self) -> Iterator[Key]:
        yield from sorted(self.states)


def is_whole(state: PartitionState) -> bool:
    """Whether all replicas are in sync, and nothing is left of a move."""
    in_sync = {one.broker_id for one in state.isr}
    is_over = not state.is_moving and not state.leftovers
    return state.leader is not None and is_over and in_sync == set(state.replicas)


def unanswered(replication: Replication) -> list[IsrProposal]:
    """Proposals that build on the present epoch."""
    states = replication.states
    return [
        proposal
        for broker in replication.kubernetes.brokers.values()
        for proposal in broker.status.proposals
        if (state := states.get((proposal.topic_id, proposal.partition))) is not None
        and proposal.base_partition_epoch == PartitionEpoch(state.partition_epoch)
    ]
