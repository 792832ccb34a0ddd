"""The request to the job of a Rebalance, and what must exist before it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from chiplog_core.durations import duration_ms
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.rebalance import RebalanceMeasure, RebalanceSpec
from chiplog_core.observed.pinned import NONE_PINNED, Pinned
from chiplog_core.rebalance.capacity import UNLIMITED
from chiplog_core.rebalance.job import MAX_TOPICS, RebalanceJob, pinned_runs
from chiplog_core.rebalance.measured import Broker
from chiplog_core.spark.requests import MAX_REQUEST_BYTES
from chiplog_core.spark.runs import digest
from chiplog_core.spark.topic_choice import WaitReason

MAX_NAMES_BYTES = MAX_REQUEST_BYTES - 64 * 1024
"""Limit for the topic names in a request; 64 KiB are left for everything else in it."""


RUN_BYTES = 48
"""What a run of pinned partitions takes in a request, without its topic's name."""


def spec_digest(spec: RebalanceSpec) -> str:
    """Digest of the fields of the spec that affect the measurement. A new digest begins a new run,
    so the fields that only affect how a proposal is carried out are set to fixed values."""
    return digest(
        replace(
            spec,
            approved_proposal=None,
            concurrent_leader_movements=1,
            concurrent_partition_movements_per_broker=None,
            replication_throttle=None,
        )
    )


def sends_limits(rebalance: RebalanceSpec, cluster: BrokerCluster) -> bool:
    """Whether the job should know what brokers may hold. With an image of its own, which may be
    older than the operator and refuse the field, only if the cluster has limits."""
    images = [spark.image for spark in (cluster.spec.spark, rebalance.spark) if spark is not None]
    return cluster.spec.broker_capacity is not None or not any(images)


def missing_for_measuring(
    spec: RebalanceSpec,
    topics: Sequence[str],
    brokers: Sequence[Broker],
    pinned: Pinned = NONE_PINNED,
) -> WaitReason | None:
    """Why the cluster cannot be measured now; None if it can."""
    if not topics:
        return WaitReason(
            "NoTopics", "the cluster has no topics: measuring starts when there is one"
        )
    if not any(broker.is_usable for broker in brokers):
        return WaitReason("NoBrokers", "no broker is ready: measuring starts when one is")
    if spec.measure is RebalanceMeasure.SPARK:
        return _too_many_names(topics, pinned)
    return None


def _too_many_names(topics: Sequence[str], pinned: Pinned) -> WaitReason | None:
    """Why the topics do not fit into the request to a job; None if they do."""
    names_bytes = sum(len(topic) + len('"",') for topic in topics)
    pinned_bytes = sum(len(run.topic) + RUN_BYTES for run in pinned_runs(pinned))
    if pinned_bytes and names_bytes + pinned_bytes > MAX_NAMES_BYTES:
        message = (
            f"the list of the partitions that are placed by spec.assignments has {pinned_bytes} "
            f"bytes; with the names of the topics a Rebalance can take {MAX_NAMES_BYTES}: name "
            "fewer partitions, or neighbouring ones"
        )
        return WaitReason("TooManyAssignments", message)
    if len(topics) > MAX_TOPICS or names_bytes > MAX_NAMES_BYTES:
        message = (
            f"the cluster has {len(topics)} topics with {names_bytes} bytes of names; a Rebalance "
            f"can measure at most {MAX_TOPICS} topics with {MAX_NAMES_BYTES} bytes of names with a "
            "Spark job: set spec.measure to Brokers, or delete topics"
        )
        return WaitReason("TooManyTopics", message)
    return None


def job_of(
    spec: RebalanceSpec,
    topics: Sequence[str],
    brokers: Sequence[Broker],
    pinned: Pinned = NONE_PINNED,
    *,
    has_limits: bool = True,
) -> RebalanceJob:
    """The request to the measuring job. `has_limits` is whether it should know what brokers may
    hold. An older Spark image refuses fields that it does not know, so what has no effect is left
    out: nodes with one broker each."""
    on_node = Counter(broker.node for broker in brokers if broker.node)
    has_shared_nodes = on_node.total() > len(on_node)
    return RebalanceJob(
        topics=tuple(topics),
        brokers=tuple(broker.broker_id for broker in brokers if broker.is_usable),
        racks={str(broker.broker_id): broker.rack for broker in brokers if broker.rack},
        nodes={str(broker.broker_id): broker.node for broker in brokers if broker.node}
        if has_shared_nodes
        else {},
        capacities={
            str(broker.broker_id): broker.capacity
            for broker in brokers
            if has_limits and broker.capacity != UNLIMITED
        },
        mode=spec.mode.value,
        named_brokers=spec.brokers,
        goals=spec.goals,
        excluded_topics=spec.excluded_topics,
        pinned_partitions=pinned_runs(pinned),
        bytes_per_second=spec.bytes_per_second,
        time_limit_ms=None if spec.time_limit is None else duration_ms(spec.time_limit),
    )
