"""Messages about partitions without a leader: why there is none, and what a person can do."""

from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import PartitionMapSpec, PartitionState
from chiplog_core.model.verdicts import brokers_named, partitions_named
from chiplog_core.naming import labels
from chiplog_core.planner.counts import TopicCounts
from chiplog_core.planner.leadership.epochs import (
    could_unchecked_be_isr,
    may_need_consent,
    unchecked_replicas,
)
from chiplog_core.planner.leadership.regression import (
    acceptance,
    counts_as_page_cache,
    is_map_outdated,
    missing_reports,
    why_at_risk,
)
from chiplog_core.planner.topics.maps_plan import Situation

MOST_SHOWN = 10
"""How many partitions one message lists at most. When they are resolved, it lists the next ones."""


def disturbance(
    situation: Situation, spec: PartitionMapSpec, counts: TopicCounts | None
) -> tuple[str, str] | None:
    """Reason and message of the condition Ready or Warning; None if every partition has a leader
    and none waits for reports of its replicas."""
    if counts is None or not (counts.offline or counts.awaiting_reports):
        return None
    if counts.awaiting_reports:
        shown = counts.awaiting_reports[:MOST_SHOWN]
        lines = [_waiting_text(situation, spec, state) for state in shown]
        if not_shown := len(counts.awaiting_reports) - len(shown):
            lines.append(f"and {not_shown} more partitions")
        return "RecordsAtRisk", "; ".join(lines)
    brokers = sorted(
        {
            broker_id
            for generation in spec.generations
            for state in generation.partitions
            if state.partition in counts.offline
            for broker_id in state.replicas
        }
    )
    message = (
        f"no live leader for {partitions_named(counts.offline)}; the replicas are on "
        f"{brokers_named(brokers)}"
    )
    if consent := _acceptance_for_offline(situation, spec, counts):
        message += (
            ". If the disks of the in-sync replicas are lost for good, set the annotation "
            f'{labels.UNCLEAN_ELECTION} to "{consent}" to continue with the other replicas; '
            "acknowledged records that only the lost replicas held are then gone"
        )
    return "PartitionsOffline", message


def _acceptance_for_offline(
    situation: Situation, spec: PartitionMapSpec, counts: TopicCounts
) -> str:
    """The value of the unclean-election annotation that elects live replicas as leaders of the
    offline partitions; empty if none of them has a live replica."""
    broker_states = situation.brokers.by_id
    entries = []
    for state in spec.current_partitions:
        is_stuck = may_need_consent(state, spec.min_isr, situation.brokers)
        if state.partition in counts.offline and is_stuck:
            candidates: set[BrokerId] = {
                broker_id
                for broker_id in state.replicas
                if broker_id in broker_states and broker_states[broker_id].may_lead
            }
            missing = [broker_id for broker_id in state.replicas if broker_id not in candidates]
            entries += [acceptance(state, missing)] if candidates else []
    return ",".join(entries[:MOST_SHOWN])


def _waiting_text(situation: Situation, spec: PartitionMapSpec, state: PartitionState) -> str:
    """The message about a partition with `reports_wanted`: what it waits for, and how to continue
    without waiting.

    The cases are those of `regression._Settling._settled`, in the same order: the map went back,
    unchecked replicas, missing reports of restarted members, and a loss that must be accepted.
    """
    assert spec.current is not None, "only partitions of the current generation are counted"
    brokers = situation.brokers
    reports = situation.answers.reports.get((spec.current, state.partition), {})
    has_gone_back = state.leader is not None or is_map_outdated(state, reports.values(), ())
    missing = missing_reports(state, brokers, reports, has_gone_back=has_gone_back)
    name = f"partition {state.partition} (partitionEpoch {state.partition_epoch})"
    without = (
        f'set the annotation {labels.UNCLEAN_ELECTION} to "{acceptance(state, missing)}" to '
        "continue without it"
    )
    if has_gone_back and missing:
        return (
            f"{name} waits for {brokers_named(missing)} to report its log. If no report "
            f"ever comes, {without}"
        )
    unchecked = sorted(unchecked_replicas(state, brokers))
    if not has_gone_back and could_unchecked_be_isr(state, spec.min_isr, brokers):
        return (
            f"{name}: {brokers_named(unchecked)} may know of a later leader and sent no report "
            f"since the operator started. If no report ever comes, {without}"
        )
    in_sync = {ref.broker_id for ref in state.isr}
    awaited = [broker_id for broker_id in missing if broker_id in in_sync]
    if not has_gone_back and awaited:
        return (
            f"{name}: every in-sync replica was restarted, and the one with the longest log will "
            f"lead. {brokers_named(awaited).capitalize()} sent no report yet; after a minute the "
            "election proceeds without it if another replica can prove that its disk lost nothing. "
            f"If no report ever comes, {without}"
        )
    reason = "" if has_gone_back else why_at_risk(situation.answers, spec, state, brokers)
    log_ends = ", ".join(
        f"broker {broker_id} has records up to offset {report.log_end_offset}"
        for broker_id, report in sorted(reports.items())
    )
    why = "lost power" if counts_as_page_cache(spec) else "cannot prove that its disk lost nothing"
    if reason:
        return (
            f"{name}: {reason}, so acknowledged records may be missing; "
            f"{log_ends or 'nothing is left'}. To continue with what is left, set the annotation "
            f'{labels.UNCLEAN_ELECTION} to "{acceptance(state, missing)}"'
        )
    return (
        f"{name}: every in-sync replica {why} or lost its disk, and acknowledged records may "
        f"be missing; {log_ends or 'nothing is left'}. To continue with what is left, set the "
        f'annotation {labels.UNCLEAN_ELECTION} to "{acceptance(state, missing)}"'
    )
