"""The next step of one Rebalance, as a pure function of the observed objects.

A Spark job measures the load (`following`); its proposal is copied into the status and waits there
for approval. After the approval the status says Rebalancing, which makes the planner, the only
writer of PartitionMaps, move leaderships and replicas. From then on the PartitionMaps show the
progress.

Users give commands with an annotation. A command is carried out in one write of the status, which
also records the command's value, and the annotation is removed in the next pass. So an operator
that takes over in between does not carry it out again.
"""

from dataclasses import replace
from datetime import datetime

from chiplog_core.limits import MAX_LABEL_LENGTH
from chiplog_core.manifest.documents import UnreadableDocument
from chiplog_core.manifest.reading import UNKNOWN_FIELD
from chiplog_core.manifest.writing import write
from chiplog_core.model.annotations import REBALANCE_AUTO_APPROVAL, REBALANCE_TEMPLATE
from chiplog_core.model.rebalance import RebalanceMeasure, RebalanceSpec
from chiplog_core.model.rebalance_status import MovesStatus, RebalanceState, RebalanceStatus
from chiplog_core.model.spark_result import Result, ResultState
from chiplog_core.model.spark_run import ApplicationStatus
from chiplog_core.naming import labels
from chiplog_core.observed.settings import paused
from chiplog_core.rebalance.approval import MoveState, approve, judge_all
from chiplog_core.rebalance.status import changes_of, moves_of
from chiplog_core.spark.brokers_measurement import asks_brokers
from chiplog_core.spark.following import Following
from chiplog_core.spark.rebalance_proposal import proposal_of, proposal_words
from chiplog_core.spark.rebalance_report import moves_words, verdicts
from chiplog_core.spark.rebalance_request import job_of, missing_for_measuring, spec_digest
from chiplog_core.spark.rebalance_view import POSSIBLE, Command, RebalanceView
from chiplog_core.spark.runs import REQUEUE_AFTER_MS, as_timedelta, is_watched, outcome
from chiplog_core.spark.steps import Launch, RemoveAnnotation, Step
from chiplog_core.spark.topic_choice import WaitReason

OUTDATED = "ProposalOutdated"
"""Reason if the cluster has changed since a proposal was made."""
MAX_AUTOMATIC_RUNS = 10
"""After so many runs of a Rebalance whose proposals are approved by an annotation, an outdated
proposal is not replaced automatically."""
OLD_IMAGE = "the Spark image is older than the operator: update spec.spark.image"
"""What to do if a job refuses a field of the request that the operator has written."""
READING = WaitReason(RebalanceState.PENDING_PROPOSAL.value, "the brokers are asked for their load")


def next_step(view: RebalanceView, now: datetime) -> Step[RebalanceStatus]:
    """The actions, the new status, and when to reconcile again."""
    rebalance = view.rebalance
    if rebalance.metadata.deletion_timestamp is not None:
        return Step(status=rebalance.status)
    return _Steps(view, rebalance.spec, rebalance.status, now).step()


class _Steps(Following[RebalanceView, RebalanceSpec, RebalanceStatus]):
    def step(self) -> Step[RebalanceStatus]:
        """Decide everything: the actions, the status and the Events."""
        if REBALANCE_TEMPLATE.is_set(self._view.rebalance.metadata.annotations):
            return self._as_template()
        if paused(self._view.rebalance.metadata):
            if self._state is not RebalanceState.RECONCILIATION_PAUSED:
                self._set(resumes=self._state, state=RebalanceState.RECONCILIATION_PAUSED)
            return self._finished_step()
        if self._state is RebalanceState.RECONCILIATION_PAUSED:
            self._set(state=self._status.resumes or RebalanceState.NEW, resumes=None)
        self._observe_run()
        self._observe_measurement()
        self._observe_moves()
        self._take_command()
        if self._view.problems:
            self._give_up()
        else:
            self._begin_if_due()
            self._approve_automatically()
        return self._finished_step()

    def _as_template(self) -> Step[RebalanceStatus]:
        """Do nothing, and end whatever was begun before it became a template."""
        self._abandon_run()
        self._set(
            state=RebalanceState.NEW,
            resumes=None,
            wish="",
            proposal=None,
            moves=None,
            outcome=None,
        )
        return self._finished_step()

    @property
    def _state(self) -> RebalanceState:
        return self._status.state or RebalanceState.NEW

    # ---- the run there is ----

    @property
    def _must_remove_ended(self) -> bool:
        return self._state in {RebalanceState.PENDING_PROPOSAL, RebalanceState.STOPPED}

    def _launch(self, known: ApplicationStatus) -> None:
        """Create the application that measures the load."""
        self._wait_reason = self._wait_reason or missing_for_measuring(
            self._spec, self._view.topics, self._view.brokers, self._view.pinned
        )
        if self._wait_reason is None and not self._view.problems:
            job = job_of(
                self._spec,
                self._view.topics,
                self._view.brokers,
                self._view.pinned,
                has_limits=self._view.sends_limits,
            )
            self._step.actions.append(
                Launch(known.name, known.launcher, write(job), self._view.access)
            )

    def _done(self, result: Result) -> None:
        """The job has succeeded: publish the proposal in its result, and end the run."""
        self._end_run()
        self._publish(result)

    def _publish(self, result: Result) -> None:
        """Publish the proposal in the result of a run that has ended."""
        try:
            proposal = proposal_of(result, self._now)
        except UnreadableDocument as unreadable:
            self._publish_failure(f"Result{unreadable.flaw.value}", str(unreadable))
            return
        self._set(state=RebalanceState.PROPOSAL_READY, proposal=proposal, outcome=None)
        self._add_event("ProposalReady", proposal_words(proposal))

    def _failed(self, reason: str, message: str) -> None:
        """End the run with an error."""
        self._end_run()
        if UNKNOWN_FIELD in message:
            message += f"; {OLD_IMAGE}"
        self._publish_failure(reason, message)

    def _publish_failure(self, reason: str, message: str) -> None:
        """Publish why a run has failed."""
        self._set(state=RebalanceState.NOT_READY, outcome=outcome(reason, message))
        self._add_event(reason, message, is_warning=True)

    def _abandon_run(self) -> None:
        """End the run. Its application is deleted even if it was never observed, because it may
        have been created."""
        known = self._status.application
        if known is not None and self._is_active:
            self._remove(known)
            self._set(finished_at=self._now)
            self._requeue_in(REQUEUE_AFTER_MS)
        if known is None and self._status.started_at is not None:
            self._set(finished_at=self._status.finished_at or self._now)

    def _observe_measurement(self) -> None:
        """End a run in which the brokers are asked, if they have reported their load, or it took
        too long."""
        rebalance = replace(self._view.rebalance, status=self._status)
        if self._view.problems or not asks_brokers(rebalance):
            return
        self._requeue_in(REQUEUE_AFTER_MS)
        measurement = self._view.measurement or READING
        if isinstance(measurement, Result):
            self._set(finished_at=self._now)
            if measurement.state is ResultState.SUCCEEDED:
                self._publish(measurement)
            else:
                self._publish_failure(measurement.reason, measurement.message)
            return
        self._wait_reason = self._wait_reason or measurement
        limit, started_at = self._spec.time_limit, self._status.started_at or self._now
        if limit is not None and self._now - started_at > as_timedelta(limit):
            self._set(finished_at=self._now)
            message = f"measuring took longer than spec.timeLimit, {limit}: {measurement.message}"
            self._publish_failure("TimeLimit", message)

    # ---- the moves that were approved ----

    def _observe_moves(self) -> None:
        """Observe the progress of an approved proposal, and end it when each of its moves is done
        or cannot be done any more (stale)."""
        status, move_bases = self._status, self._view.move_bases
        if self._state is not RebalanceState.REBALANCING:
            return
        self._requeue_in(REQUEUE_AFTER_MS)
        if move_bases is None or status.proposal is None or status.moves is None:
            return
        judged = judge_all(moves_of(status.proposal), changes_of(status.proposal), move_bases)
        stale = [judged_move for judged_move in judged if judged_move.state is MoveState.STALE]
        done = sum(judged_move.state is MoveState.DONE for judged_move in judged)
        moves = replace(status.moves, done=done, total=len(judged), left_out=len(stale))
        if moves != status.moves:
            moves = replace(moves, finishes_at=_finishes_at(moves, self._now))
        self._set(moves=moves)
        if done + len(stale) < len(judged):
            return
        message = moves_words(self._status)
        if stale:
            message += (
                f": {stale[0].message}. Set the annotation {labels.REBALANCE} to refresh to "
                "measure again"
            )
            self._set(state=RebalanceState.NOT_READY, outcome=outcome("MovesLeftOut", message))
            self._add_event("MovesLeftOut", message, is_warning=True)
            self._start_over_automatically()
        else:
            end = outcome("Rebalanced", message, complete=True)
            self._set(state=RebalanceState.READY, outcome=end)
            self._add_event("Rebalanced", message)

    _waits_for_another = False
    """Whether the Rebalance is approved, but waits until another one of the cluster is finished."""

    def _approve_automatically(self) -> None:
        """Approve the proposal that the spec names, or every proposal if an annotation says so."""
        proposal = self._status.proposal
        if proposal is None or self._state is not RebalanceState.PROPOSAL_READY:
            return
        if proposal != self._view.rebalance.status.proposal:
            self._requeue_in(
                0
            )  # it was made in this pass: `move_bases` are not those of its topics
            return
        if self._spec.approved_proposal == proposal.id:
            self._approve()
        elif REBALANCE_AUTO_APPROVAL.is_set(self._view.rebalance.metadata.annotations):
            self._approve()
            end = self._status.outcome
            if end is not None and end.reason == OUTDATED:
                self._start_over_automatically()

    def _start_over_automatically(self) -> None:
        """Measure again because the cluster has changed since the proposal, if every proposal is
        approved anyway."""
        is_automatic = REBALANCE_AUTO_APPROVAL.is_set(self._view.rebalance.metadata.annotations)
        if is_automatic and self._status.runs < MAX_AUTOMATIC_RUNS:
            self._start_over()
            self._requeue_in(0)

    def _approve(self) -> bool:
        """Begin to carry out the proposal, or refuse it. False if that cannot be decided yet, so
        that the approval must be handled again."""
        proposal, move_bases = self._status.proposal, self._view.move_bases
        assert proposal is not None, "the state says that there is one"
        if not proposal.executable:
            self._refuse_approval("NotExecutable", proposal.message)
            return True
        if move_bases is None or self._view.other_rebalance:
            self._requeue_in(REQUEUE_AFTER_MS)
            self._waits_for_another = bool(self._view.other_rebalance)
            return False
        approval = approve(moves_of(proposal), changes_of(proposal), move_bases)
        if approval.is_refused:
            self._refuse_approval(OUTDATED, approval.message)
            return True
        total = len(proposal.leader_moves) + len(proposal.replica_moves)
        moves = MovesStatus(
            proposal=proposal.id,
            done=total - len(approval.to_do),
            total=total,
            approved_at=self._now,
        )
        self._set(state=RebalanceState.REBALANCING, moves=moves, outcome=None)
        self._requeue_in(REQUEUE_AFTER_MS)
        self._add_event("Approved", f"proposal {proposal.id}: {proposal_words(proposal)}")
        return True

    def _refuse_approval(self, reason: str, message: str) -> None:
        """Publish why the proposal cannot be carried out."""
        end = outcome(reason, message)
        if self._status.outcome != end:
            self._add_event(reason, message, is_warning=True)
        self._set(outcome=end)

    # ---- the annotation ----

    def _take_command(self) -> None:
        """Carry out the command in the annotation once, then remove the annotation."""
        value = self._view.rebalance.metadata.annotations.get(labels.REBALANCE)
        command = None if value is None else value[:MAX_LABEL_LENGTH]
        # The status names the command that was carried out until the annotation is gone.
        if command is None or command == self._status.answered:
            if command is not None:
                self._step.actions.append(RemoveAnnotation())
            self._set(answered="")
        elif self._carry_out_command(command):
            self._set(answered=command)
            self._requeue_in(0)

    def _carry_out_command(self, command: str) -> bool:
        """Carry out a command, or refuse it. False if that cannot be decided yet."""
        state = self._state
        if command not in {*Command} or state not in POSSIBLE[Command(command)]:
            possible = [other.value for other in Command if state in POSSIBLE[other]]
            values = f"the possible values are {' and '.join(possible)}" if possible else ""
            hint = f"in state {state.value} {values or 'no value of it is possible'}"
            message = f"the annotation {labels.REBALANCE}={command!r} was removed: {hint}"
            self._add_event("AnnotationRefused", message, is_warning=True)
            return True
        if command == Command.APPROVE:
            return self._approve()
        if command == Command.STOP:
            self._stop()
        else:
            self._start_over()
        return True

    def _stop(self) -> None:
        """Stop measuring or moving. No new run begins before the spec changes or a user sets the
        annotation to refresh."""
        message = (
            f"measuring was stopped; set the annotation {labels.REBALANCE} to refresh to "
            "measure again"
        )
        if self._state is RebalanceState.REBALANCING:
            moves = self._status.moves
            if moves is not None:
                self._set(moves=replace(moves, finishes_at=None))
            message = f"stopped: {moves_words(self._status)}; finished moves are not undone"
        self._abandon_run()
        # The digest in `wish` says that a run for the present spec has begun, so none begins now.
        self._set(
            state=RebalanceState.STOPPED,
            outcome=outcome("Stopped", message),
            wish=spec_digest(self._spec),
        )
        self._add_event("Stopped", message)

    # ---- the next run ----

    def _give_up(self) -> None:
        """Stop the run because the spec has problems. An empty digest in `wish` makes a new run
        begin when they are corrected."""
        self._abandon_run()
        self._set(state=RebalanceState.NOT_READY, wish="", outcome=None)

    def _start_over(self) -> None:
        """Delete the old proposal from the status, and stop the run. An empty digest in `wish`
        makes a new run begin."""
        self._abandon_run()
        self._set(
            state=RebalanceState.PENDING_PROPOSAL,
            wish="",
            proposal=None,
            moves=None,
            outcome=None,
        )

    def _begin_if_due(self) -> None:
        """Begin a run if the spec changed, as soon as the previous application has ended."""
        if self._status.wish == spec_digest(self._spec):
            return
        if self._state is not RebalanceState.NEW or self._is_active:
            self._start_over()
        if is_watched(self._status.application):
            self._requeue_in(REQUEUE_AFTER_MS)
            return
        self._wait_reason = self._wait_reason or missing_for_measuring(
            self._spec, self._view.topics, self._view.brokers, self._view.pinned
        )
        if self._wait_reason is None:
            self._begin()

    def _begin(self) -> None:
        """Begin a run."""
        self._set(state=RebalanceState.PENDING_PROPOSAL)
        if self._spec.measure is RebalanceMeasure.BROKERS:
            self._set(
                runs=self._status.runs + 1,
                wish=spec_digest(self._spec),
                application=None,
                started_at=self._now,
                finished_at=None,
                outcome=None,
            )
            self._wait_reason = READING
            self._requeue_in(0)
            self._add_event("RunBegun", "the brokers are asked for their load")
            return
        self._name_run(self._view.rebalance.metadata, spec_digest(self._spec))

    # ---- what is published ----

    def _finished_step(self) -> Step[RebalanceStatus]:
        """The finished step, with the conditions."""
        rebalance = self._view.rebalance
        self._set(state=self._state)
        published = verdicts(
            rebalance,
            self._status,
            problems=self._view.problems,
            wait_reason=self._wait_reason,
            waits_for=self._view.other_rebalance if self._waits_for_another else "",
        )
        return self._with_conditions(rebalance.metadata, published)


def _finishes_at(moves: MovesStatus, now: datetime) -> datetime | None:
    """When all moves will be done, if the others take as long as those that are done; None before
    the first and after the last."""
    left = moves.total - moves.left_out - moves.done
    if moves.approved_at is None or not moves.done or left <= 0:
        return None
    return (now + (now - moves.approved_at) * left / moves.done).replace(microsecond=0)
