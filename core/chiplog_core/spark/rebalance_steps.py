"""What is to be done next about one Rebalance: a pure function of what there is.

It is measured by a Spark job, begun in two writes as a Verification's; what the job proposes is
copied into the status and waits there. Approved, the status says Rebalancing: that is the order to
the planner, which alone writes maps. From then on only what the maps say counts.

The annotation by which a person steers is acted upon in one write of the status, which names its
value, and is taken away in the next look: whoever takes over in between sees that it was done.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from chiplog_core import labels
from chiplog_core.conditions import merge
from chiplog_core.limits import MAX_LABEL_LENGTH
from chiplog_core.manifest.writing import write
from chiplog_core.model.rebalance_status import MovesStatus, RebalanceState, RebalanceStatus
from chiplog_core.model.spark_run import ApplicationStatus, RunState
from chiplog_core.planner.settings import paused
from chiplog_core.rebalance.approval import MoveState, approve, judge
from chiplog_core.rebalance.status import moves_of
from chiplog_core.spark.documents import UnreadableDocument
from chiplog_core.spark.rebalance_proposal import proposal_of, told
from chiplog_core.spark.rebalance_report import moved, verdicts
from chiplog_core.spark.rebalance_request import job_of, wants, wish_of
from chiplog_core.spark.rebalance_view import POSSIBLE, RebalanceView, Wish
from chiplog_core.spark.results import Result
from chiplog_core.spark.runs import (
    GRACE,
    LOOK_AGAIN_MS,
    Done,
    Failed,
    NotThere,
    Seen,
    application_name,
    is_watched,
    observed,
    outcome,
    progress,
)
from chiplog_core.spark.steps import Launch, Remove, Step, TakeAwayAnnotation, Told


def next_step(view: RebalanceView, now: datetime) -> Step[RebalanceStatus]:
    """What to do, what to write into the status, and when to look again."""
    rebalance = view.rebalance
    if rebalance.metadata.deletion_timestamp is not None:
        return Step(status=rebalance.status)
    return _Steps(view, now).step()


class _Steps:
    def __init__(self, view: RebalanceView, now: datetime) -> None:
        self._view = view
        self._now = now.replace(microsecond=0)  # Kubernetes keeps whole seconds
        self._spec = view.rebalance.spec
        self._status = view.rebalance.status
        self._step: Step[RebalanceStatus] = Step(status=self._status)
        self._unmet = view.unmet

    def step(self) -> Step[RebalanceStatus]:
        if paused(self._view.rebalance.metadata):
            if self._state is not RebalanceState.RECONCILIATION_PAUSED:
                self._set(resumes=self._state, state=RebalanceState.RECONCILIATION_PAUSED)
            return self._told()
        if self._state is RebalanceState.RECONCILIATION_PAUSED:
            self._set(state=self._status.resumes or RebalanceState.NEW, resumes=None)
        self._look_at_run()
        self._look_at_moves()
        self._hear()
        if self._view.problems:
            self._give_up()
        else:
            self._begin_if_due()
            self._approve_by_spec()
        return self._told()

    @property
    def _state(self) -> RebalanceState:
        return self._status.state or RebalanceState.NEW

    # ---- the run there is ----

    @property
    def _is_active(self) -> bool:
        return self._status.application is not None and self._status.finished_at is None

    def _look_at_run(self) -> None:
        known, seen = self._status.application, self._view.seen
        if known is None or not is_watched(known):
            return
        self._again_in(LOOK_AGAIN_MS)
        if seen is None:
            return
        if not self._is_active:
            self._look_at_rest(known, seen)
            return
        waited = self._now - (self._status.started_at or self._now)
        found = progress(known, seen, waited=waited, time_limit=self._spec.time_limit)
        self._set(application=observed(known, seen))
        if isinstance(found, NotThere):
            self._launch(known)
        elif isinstance(found, Done):
            self._take(found.result)
        elif isinstance(found, Failed):
            if found.must_remove:
                self._step.actions.append(Remove(known.name, known.launcher))
            self._fail(found.reason, found.message)

    def _look_at_rest(self, known: ApplicationStatus, seen: Seen) -> None:
        """The run is over by its result, or was given up; its application is to end as well."""
        over = self._now - (self._status.finished_at or self._now)
        if seen.state is RunState.GONE:
            self._set(application=replace(known, state=RunState.GONE, message=""))
            return
        self._set(application=observed(known, seen))
        is_in_the_way = self._state in {RebalanceState.PENDING_PROPOSAL, RebalanceState.STOPPED}
        if is_watched(self._status.application) and (over > GRACE or is_in_the_way):
            self._step.actions.append(Remove(known.name, known.launcher))

    def _launch(self, known: ApplicationStatus) -> None:
        if self._view.refusal:
            self._fail("LaunchRefused", self._view.refusal)
            return
        self._unmet = self._unmet or wants(self._view.topics, self._view.brokers)
        if self._unmet is None and not self._view.problems:
            job = job_of(self._spec, self._view.topics, self._view.brokers)
            self._step.actions.append(Launch(known.name, known.launcher, write(job)))

    def _take(self, result: Result) -> None:
        try:
            proposal = proposal_of(result, self._now)
        except UnreadableDocument as unreadable:
            self._fail(f"Result{unreadable.flaw.value}", str(unreadable))
            return
        self._end_run()
        self._set(state=RebalanceState.PROPOSAL_READY, proposal=proposal, outcome=None)
        self._tell("ProposalReady", told(proposal))

    def _fail(self, reason: str, message: str) -> None:
        self._end_run()
        self._set(state=RebalanceState.NOT_READY, outcome=outcome(reason, message))
        self._tell(reason, message, is_warning=True)

    def _end_run(self) -> None:
        known = self._status.application
        assert known is not None, "only a run that was begun ends"
        if known.state is RunState.WANTED:
            # It was never seen and is not made any more.
            self._set(application=replace(known, state=RunState.GONE))
        self._set(finished_at=self._now)

    def _abandon_run(self) -> None:
        """It may have been made although nobody has seen it."""
        known = self._status.application
        if known is not None and self._is_active:
            self._step.actions.append(Remove(known.name, known.launcher))
            self._set(finished_at=self._now)
            self._again_in(LOOK_AGAIN_MS)

    # ---- the moves that were approved ----

    def _look_at_moves(self) -> None:
        status, now = self._status, self._view.standings
        if self._state is not RebalanceState.REBALANCING:
            return
        self._again_in(LOOK_AGAIN_MS)
        if now is None or status.proposal is None or status.moves is None:
            return
        judged = [judge(move, now.get(move.name)) for move in moves_of(status.proposal)]
        stale = [one for one in judged if one.state is MoveState.STALE]
        done = sum(one.state is MoveState.DONE for one in judged)
        moves = replace(status.moves, done=done, total=len(judged), left_out=len(stale))
        self._set(moves=moves)
        if done + len(stale) < len(judged):
            return
        message = moved(self._status)
        if stale:
            message += f": {stale[0].message}. The annotation refresh measures anew"
            self._set(state=RebalanceState.NOT_READY, outcome=outcome("MovesLeftOut", message))
            self._tell("MovesLeftOut", message, is_warning=True)
        else:
            end = outcome("Rebalanced", message, complete=True)
            self._set(state=RebalanceState.READY, outcome=end)
            self._tell("Rebalanced", message)

    def _approve_by_spec(self) -> None:
        proposal = self._status.proposal
        is_named = proposal is not None and self._spec.approved_proposal == proposal.id
        if is_named and self._state is RebalanceState.PROPOSAL_READY:
            self._approve()

    def _approve(self) -> bool:
        """Whether that could be decided."""
        proposal, now = self._status.proposal, self._view.standings
        assert proposal is not None, "the state says that there is one"
        if not proposal.executable:
            self._refuse_approval("NotExecutable", proposal.message)
            return True
        if now is None:
            self._again_in(LOOK_AGAIN_MS)
            return False
        approval = approve(moves_of(proposal), now)
        if approval.is_refused:
            self._refuse_approval("ProposalOutdated", approval.message)
            return True
        total = len(proposal.leader_moves)
        moves = MovesStatus(proposal=proposal.id, done=total - len(approval.to_do), total=total)
        self._set(state=RebalanceState.REBALANCING, moves=moves, outcome=None)
        self._again_in(LOOK_AGAIN_MS)
        self._tell("Approved", f"proposal {proposal.id}: {told(proposal)}")
        return True

    def _refuse_approval(self, reason: str, message: str) -> None:
        end = outcome(reason, message)
        if self._status.outcome != end:
            self._tell(reason, message, is_warning=True)
        self._set(outcome=end)

    # ---- the annotation ----

    def _hear(self) -> None:
        value = self._view.rebalance.metadata.annotations.get(labels.REBALANCE)
        said = None if value is None else value[:MAX_LABEL_LENGTH]
        if said is None or said == self._status.answered:
            if said is not None:
                self._step.actions.append(TakeAwayAnnotation())
            self._set(answered="")
        elif self._is_answered(said):
            self._set(answered=said)
            self._again_in(0)

    def _is_answered(self, said: str) -> bool:
        state = self._state
        if said not in {*Wish} or state not in POSSIBLE[Wish(said)]:
            possible = [wish.value for wish in Wish if state in POSSIBLE[wish]]
            heard = f"in state {state.value} it may be {' or '.join(possible) or 'nothing'}"
            message = f"annotation {labels.REBALANCE} is {said!r} and is taken away: {heard}"
            self._tell("AnnotationRefused", message, is_warning=True)
            return True
        if said == Wish.APPROVE:
            return self._approve()
        if said == Wish.STOP:
            self._stop()
        else:
            self._begin_anew()
        return True

    def _stop(self) -> None:
        message = "measuring was stopped; the annotation refresh begins it anew"
        if self._state is RebalanceState.REBALANCING:
            message = f"stopped: {moved(self._status)}, and what was moved stays moved"
        self._abandon_run()
        # Also where it was about to begin: what is wished for is what was stopped.
        self._set(
            state=RebalanceState.STOPPED,
            outcome=outcome("Stopped", message),
            wish=wish_of(self._spec),
        )
        self._tell("Stopped", message)

    # ---- the next run ----

    def _give_up(self) -> None:
        """What is asked for cannot be done: nothing goes on, and it begins anew when it can."""
        self._abandon_run()
        self._set(state=RebalanceState.NOT_READY, wish="", outcome=None)

    def _begin_anew(self) -> None:
        """What is known is outdated."""
        self._abandon_run()
        self._set(
            state=RebalanceState.PENDING_PROPOSAL,
            wish="",
            proposal=None,
            moves=None,
            outcome=None,
        )

    def _begin_if_due(self) -> None:
        if self._status.wish == wish_of(self._spec):
            return
        if self._state is not RebalanceState.NEW or self._is_active:
            self._begin_anew()
        if is_watched(self._status.application):
            self._again_in(LOOK_AGAIN_MS)
            return
        self._unmet = self._unmet or wants(self._view.topics, self._view.brokers)
        if self._unmet is None:
            self._begin()

    def _begin(self) -> None:
        run = self._status.runs + 1
        name = application_name(self._view.rebalance.metadata, run, self._now)
        self._set(
            state=RebalanceState.PENDING_PROPOSAL,
            runs=run,
            wish=wish_of(self._spec),
            application=ApplicationStatus(name=name, launcher=self._view.launcher),
            started_at=self._now,
            finished_at=None,
            outcome=None,
        )
        self._again_in(0)
        self._tell("RunBegun", f"Application {name} is begun")

    # ---- what is told ----

    def _told(self) -> Step[RebalanceStatus]:
        rebalance = self._view.rebalance
        self._set(state=self._state)
        published = verdicts(
            rebalance, self._status, problems=self._view.problems, unmet=self._unmet
        )
        self._set(
            observed_generation=rebalance.metadata.generation,
            conditions=merge(
                rebalance.status.conditions,
                published,
                observed_generation=rebalance.metadata.generation,
                now=self._now,
            ),
        )
        self._step.status = self._status
        return self._step

    def _tell(self, reason: str, message: str, *, is_warning: bool = False) -> None:
        self._step.told.append(Told(is_warning, reason, message))

    def _set(self, **changes: Any) -> None:
        self._status = replace(self._status, **changes)

    def _again_in(self, wait_ms: int) -> None:
        known = self._step.look_again_ms
        self._step.look_again_ms = wait_ms if known is None else min(known, wait_ms)
