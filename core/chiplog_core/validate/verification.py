"""Rules for verifications."""

from collections.abc import Iterator

from chiplog_core.cron import read_cron
from chiplog_core.durations import duration_ms
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.verification import Repair, Verification
from chiplog_core.problems import Problem, Reason
from chiplog_core.validate.spark_conf import check_spark


def check_verification(verification: Verification) -> tuple[Problem, ...]:
    """Problems with a Verification itself."""
    return tuple(
        problem for rule in (_topics, _schedule, _limits, _spark) for problem in rule(verification)
    )


def check_verification_in_cluster(
    verification: Verification, cluster: BrokerCluster
) -> tuple[Problem, ...]:
    """Problems with a Verification in the cluster that it names."""
    return (
        *not_allowed(verification.metadata.namespace, cluster, "verifications"),
        *_repair_from_elsewhere(verification, cluster),
    )


def _repair_from_elsewhere(verification: Verification, cluster: BrokerCluster) -> Iterator[Problem]:
    """A problem if a Verification in another namespace than the cluster's asks for repairs.

    A user of that namespace could forge the result of its job, and so make the cluster's brokers
    replace undamaged replicas.
    """
    own = cluster.metadata.namespace
    if verification.spec.repair is not Repair.NONE and verification.metadata.namespace != own:
        yield Problem(
            "spec.repair",
            f"is {verification.spec.repair}, but the cluster is in another namespace, {own}",
            f"set it to None, or create the Verification in namespace {own}",
            Reason.NOT_ALLOWED,
        )


def not_allowed(namespace: str, cluster: BrokerCluster, what: str) -> tuple[Problem, ...]:
    """The problem if the cluster does not accept objects from this namespace. `what` is what the
    objects are called in the message, like "rebalances"."""
    if cluster.allows(namespace):
        return ()
    return (
        Problem(
            "spec.clusterRef",
            f"names {cluster.metadata.name}, which does not accept {what} from namespace "
            f"{namespace}",
            f"add {namespace} to that cluster's spec.allowedTopicNamespaces",
        ),
    )


def check_verification_change(before: Verification, after: Verification) -> tuple[Problem, ...]:
    """Problems with changing a Verification from `before` to `after`."""
    if before.spec.cluster_ref == after.spec.cluster_ref:
        return ()
    remedy = "delete this Verification and create one for the other cluster"
    return (Problem("spec.clusterRef", "cannot be changed", remedy),)


def _topics(verification: Verification) -> Iterator[Problem]:
    """Problems with the selection of topics."""
    spec = verification.spec
    if spec.topic_selector is None:
        return
    if spec.topics:
        message = "is set together with spec.topics"
        yield Problem("spec.topicSelector", message, "remove one of them")
    if not spec.topic_selector.match_labels:
        remedy = "add a label, or remove topicSelector to verify all topics"
        yield Problem("spec.topicSelector.matchLabels", "selects nothing", remedy)


def _schedule(verification: Verification) -> Iterator[Problem]:
    """Problems with the schedule."""
    schedule = verification.spec.schedule
    if schedule is None:
        return
    try:
        read_cron(schedule)
    except ValueError as error:
        remedy = "write minute, hour, day, month and day of the week, like 0 3 * * 0"
        yield Problem("spec.schedule", str(error), remedy)


def _limits(verification: Verification) -> Iterator[Problem]:
    """Problems with time limits."""
    limit = verification.spec.time_limit
    if limit is not None and duration_ms(limit) == 0:
        remedy = "raise it, or remove it for no limit"
        yield Problem("spec.timeLimit", "is zero", remedy)


def _spark(verification: Verification) -> Iterator[Problem]:
    """Problems with the settings for the Spark job."""
    if verification.spec.spark is not None:
        yield from check_spark(verification.spec.spark)
