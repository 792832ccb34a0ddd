"""What the program itself says of a manifest: reading and every rule that needs no cluster."""

from typing import Any

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.resource import Resource
from chiplog_core.model.topic import Topic
from chiplog_core.model.user import User
from chiplog_core.model.verification import Verification
from chiplog_core.problems import InvalidManifest, Problem
from chiplog_core.validate.broker_cluster import check_cluster, check_cluster_change
from chiplog_core.validate.consumer_group import check_group, check_group_change
from chiplog_core.validate.rebalance import check_rebalance, check_rebalance_change
from chiplog_core.validate.topic import check_topic, check_topic_change
from chiplog_core.validate.user import check_user, check_user_change
from chiplog_core.validate.verification import check_verification, check_verification_change
from crds.tests.files import model_of


def problems_of(manifest: dict[str, Any], before: dict[str, Any] | None) -> tuple[Problem, ...]:
    """Every problem with a manifest, also as a change of what was there before."""
    try:
        value = model_of(manifest).from_manifest(manifest)
    except InvalidManifest as invalid:
        return invalid.problems
    if before is None:
        return _alone(value)
    return (*_alone(value), *_changed(model_of(before).from_manifest(before), value))


def _alone(value: Resource) -> tuple[Problem, ...]:  # noqa: PLR0911 - one for each kind
    match value:
        case Topic():
            return check_topic(value)
        case BrokerCluster():
            return check_cluster(value)
        case ConsumerGroup():
            return check_group(value)
        case Verification():
            return check_verification(value)
        case Rebalance():
            return check_rebalance(value)
        case User():
            return check_user(value)
        case _:
            return ()


def _changed(  # noqa: PLR0911 - one for each kind
    before: Resource, after: Resource
) -> tuple[Problem, ...]:
    match before, after:
        case Topic(), Topic():
            return check_topic_change(before, after)
        case BrokerCluster(), BrokerCluster():
            return check_cluster_change(before, after)
        case ConsumerGroup(), ConsumerGroup():
            return check_group_change(before, after)
        case Verification(), Verification():
            return check_verification_change(before, after)
        case Rebalance(), Rebalance():
            return check_rebalance_change(before, after)
        case User(), User():
            return check_user_change(before, after)
        case _:
            return ()
