"""The conditions of a Rebalance, from its status."""

from chiplog_core.model.annotations import REBALANCE_AUTO_APPROVAL, REBALANCE_TEMPLATE
from chiplog_core.model.conditions import ConditionStatus, ConditionType, Verdict
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.rebalance_status import RebalanceState, RebalanceStatus
from chiplog_core.model.verdicts import (
    UNKNOWN_VALUE,
    fails,
    holds,
    paused_verdict,
    problems_text,
    refused,
)
from chiplog_core.naming import labels
from chiplog_core.observed.settings import paused
from chiplog_core.problems import Problem
from chiplog_core.spark import progress
from chiplog_core.spark.rebalance_proposal import proposal_words
from chiplog_core.spark.topic_choice import WaitReason

TEMPLATE = (
    "it is a template for spec.autoRebalance of the BrokerCluster, and is not carried out itself"
)


def verdicts(
    rebalance: Rebalance,
    status: RebalanceStatus,
    *,
    problems: tuple[Problem, ...],
    wait_reason: WaitReason | None,
    waits_for: str = "",
) -> list[Verdict]:
    """The conditions: Ready, and the state as the type of another condition, as in Strimzi, where
    users wait for it with kubectl.

    `waits_for` is the Rebalance whose moves must be finished before this approved one starts;
    empty if it does not wait.
    """
    state = status.state or RebalanceState.NEW
    ready = refused(problems) if problems else _ready(rebalance, status, state, wait_reason)
    if waits_for and not problems:
        message = f"approved; it starts when the moves of Rebalance {waits_for} are finished"
        ready = fails(ConditionType.READY, "WaitsForAnother", message)
    annotations = rebalance.metadata.annotations
    if REBALANCE_TEMPLATE.is_set(annotations) and not problems:
        ready = holds(ConditionType.READY, "Template", TEMPLATE)
    found = [ready]
    if state not in {RebalanceState.READY, RebalanceState.RECONCILIATION_PAUSED}:
        is_true = ConditionStatus.TRUE
        found.append(Verdict(type=state.value, status=is_true, reason=state.value, message=""))
    if paused(rebalance.metadata):
        found.append(paused_verdict(rebalance.metadata))
    switches = (REBALANCE_AUTO_APPROVAL, REBALANCE_TEMPLATE)
    unknown_values = [one for switch in switches if (one := switch.problem(annotations))]
    if unknown_values:
        found.append(holds(ConditionType.WARNING, UNKNOWN_VALUE, problems_text(unknown_values)))
    return found


def _ready(
    rebalance: Rebalance,
    status: RebalanceStatus,
    state: RebalanceState,
    wait_reason: WaitReason | None,
) -> Verdict:
    """The verdict for Ready, by the state of the Rebalance."""
    ready, end = ConditionType.READY, status.outcome
    if state is RebalanceState.READY:
        return holds(ready, "Ready", "" if end is None else end.message)
    if state in {RebalanceState.NEW, RebalanceState.PENDING_PROPOSAL}:
        return _measuring(status, state, wait_reason)
    if state is RebalanceState.RECONCILIATION_PAUSED:
        return fails(ready, "Paused", paused_verdict(rebalance.metadata).message)
    if end is not None:
        return fails(ready, end.reason, end.message)
    is_proposed = state is RebalanceState.PROPOSAL_READY
    return fails(
        ready, state.value, _to_approve(rebalance, status) if is_proposed else moves_words(status)
    )


def _measuring(
    status: RebalanceStatus, state: RebalanceState, wait_reason: WaitReason | None
) -> Verdict:
    """The verdict for Ready while the load is measured."""
    ready, application = ConditionType.READY, status.application
    if application is None or status.finished_at is not None:
        if wait_reason is not None:
            return fails(ready, wait_reason.reason, wait_reason.message)
        return fails(
            ready, state.value, "measuring starts when the previous application is removed"
        )
    cause = f": {application.message}" if application.message else ""
    if wait_reason is not None and not application.kind:  # the application does not exist yet
        cause = f": {wait_reason.message}"
    done = progress.progress_words(application)
    how_far = f" ({done})" if done else ""
    message = f"application {application.name} is {application.state.value}{how_far}{cause}"
    return fails(ready, state.value, message)


def _to_approve(rebalance: Rebalance, status: RebalanceStatus) -> str:
    """The proposal in words and how to approve it; empty if there is none."""
    proposal, wanted = status.proposal, rebalance.spec.approved_proposal
    if proposal is None:
        return ""
    how = (
        f"set the annotation {labels.REBALANCE} to approve, or spec.approvedProposal to "
        f"{proposal.id}"
    )
    if wanted is not None and wanted != proposal.id:
        how = f"spec.approvedProposal names {wanted}, which is another proposal: {how}"
    return f"{proposal_words(proposal)}. To carry it out, {how}"


def moves_words(status: RebalanceStatus) -> str:
    """The progress of an approved proposal, in words; empty if none was approved."""
    moves = status.moves
    if moves is None:
        return ""
    skipped = f"; {moves.left_out} were skipped" if moves.left_out else ""
    left = ""
    if moves.finishes_at is not None:
        left = f"; all will be done at about {moves.finishes_at:%H:%M:%S} UTC"
    return f"{moves.done} of {moves.total} moves are done{skipped}{left}"
