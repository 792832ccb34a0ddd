"""A Rebalance that is measured from the brokers' counters (`spec.measure: Brokers`), without a job.

The run has no application: its status has the run's number and when it started, and
`finished_at` ends it. The proposal has the form of a job's result, so that everything after the
measurement is the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.model.rebalance import Rebalance, RebalanceMeasure, RebalanceSpec
from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_core.model.spark_result import Result, ResultState, failed
from chiplog_core.observed.pinned import NONE_PINNED, Pinned
from chiplog_core.observed.settings import paused
from chiplog_core.rebalance.brokers_load import (
    RATE_WINDOW_MS,
    Readings,
    as_partition,
    continues,
    is_window_over,
    measured_load,
    reported_bytes,
)
from chiplog_core.rebalance.documents import proposal_json
from chiplog_core.rebalance.fitting import fitted
from chiplog_core.rebalance.measured import Broker, PartitionName
from chiplog_core.rebalance.proposal import propose
from chiplog_core.rebalance.settings import RebalanceRefused, read_settings
from chiplog_core.spark.rebalance_request import spec_digest
from chiplog_core.spark.runs import application_name
from chiplog_core.spark.topic_choice import WaitReason

MEASURED = "Measured"

Measurement: TypeAlias = Result | WaitReason
"""The proposal of the brokers' load, or why there is none yet."""

Partitions = Mapping[PartitionName, PartitionState]


def asks_brokers(rebalance: Rebalance) -> bool:
    """Whether the brokers are asked for their load now."""
    spec, status = rebalance.spec, rebalance.status
    return (
        spec.measure is RebalanceMeasure.BROKERS
        and status.state is RebalanceState.PENDING_PROPOSAL
        and status.application is None
        and status.finished_at is None
        and status.wish == spec_digest(spec)
        and not paused(rebalance.metadata)
    )


def waits_for_brokers(
    leading: Mapping[BrokerId, int], unanswered: Mapping[BrokerId, str]
) -> WaitReason | None:
    """Why the load is not known: a broker that leads partitions did not report it. None if all have
    reported. `leading` has the number of partitions that each broker leads, `unanswered` why a
    broker did not answer."""
    missing = [broker_id for broker_id in leading if broker_id in unanswered]
    if not missing:
        return None
    first = missing[0]
    more = f", and {len(missing) - 1} more brokers" if len(missing) > 1 else ""
    message = (
        f"broker {first}, which leads {leading[first]} partitions, did not report its load"
        f"{more}: {unanswered[first]}. The load is measured when all have answered"
    )
    return WaitReason("BrokerNotAnswering", message)


def waits_for_window(first: Readings | None, last: Readings) -> WaitReason | None:
    """Why there are no rates yet; None if there are. `first` is None before the first reading."""
    if first is not None and continues(first, last) and is_window_over(first, last):
        return None
    message = f"the brokers count what is written to them for {RATE_WINDOW_MS // 1000} s"
    return WaitReason("BrokersCount", message)


def proposal_name(rebalance: Rebalance) -> str:
    """The id of the proposal that the present run will make."""
    status = rebalance.status
    assert status.started_at is not None, "a run has started"
    return application_name(rebalance.metadata, status.runs, status.started_at)


def result_of(
    name: str,
    spec: RebalanceSpec,
    *,
    brokers: Sequence[Broker],
    partitions: Partitions,
    window: tuple[Readings, Readings],
    pinned: Pinned = NONE_PINNED,
) -> Result:
    """The proposal with this name, in the form of a job's result. It may take seconds for very
    large clusters (`docs/performance.md`). `window` has the first and the last reading;
    `pinned` are partitions that stay as they are."""
    load = measured_load(*window, partitions)
    sizes = reported_bytes(window[1])
    try:
        settings = read_settings(
            mode=spec.mode.value,
            brokers=spec.brokers,
            excluded_topics=spec.excluded_topics,
            goals=spec.goals,
        )
        found = propose(
            brokers,
            [
                as_partition(partition, state, sizes.get(partition))
                for partition, state in sorted(partitions.items())
            ],
            load,
            replace(settings, pinned=pinned),
        )
    except RebalanceRefused as refused:
        return failed(name, "InvalidSpec", str(refused))
    coverage = {
        "topics": len({partition.topic for partition in load}),
        "partitions": len(load),
        "replicas": len(load),
    }
    summary = fitted({**proposal_json(found), "coverage": coverage})
    return Result(application=name, state=ResultState.SUCCEEDED, reason=MEASURED, summary=summary)
