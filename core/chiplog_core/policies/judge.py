"""What a cluster's policies say about a change of a topic, whether kubectl or a Kafka client makes
it.

A policy is for what is made or changed from now on: a topic that was there before it runs on, and
only what would break a policy again, or more than before, is refused. So a policy can be tightened
on a cluster with a thousand topics without any of them stopping.
"""

from dataclasses import dataclass

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.policies.rules import TopicFacts, Violation, violations
from chiplog_core.problems import Problem, Reason

TOLERATED = (
    "it was set before the policy and stays in force; a change that makes it worse is refused"
)
LEAVE_IT = ", or leave it as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What breaks a policy."""

    refused: tuple[Problem, ...] = ()
    """Why nothing of the change is done."""
    tolerated: tuple[Problem, ...] = ()
    """What the topic breaks already, and is no reason against the change."""


NOTHING_AGAINST_IT = Judgement()


def judge(cluster: BrokerCluster, wanted: TopicFacts, before: TopicFacts | None) -> Judgement:
    """Judge a topic that changes from `before` to `wanted`. `before` is None for a new topic."""
    known = (
        {}
        if before is None
        else {violation.policy: violation for violation in violations(cluster, before)}
    )
    refused, tolerated = [], []
    for found in violations(cluster, wanted):
        old = known.get(found.policy)
        if old is None:
            refused.append(_problem(found, found.remedy))
        elif found.excess > old.excess:
            refused.append(_problem(found, found.remedy + LEAVE_IT))
        else:
            tolerated.append(_problem(found, TOLERATED))
    return Judgement(refused=tuple(refused), tolerated=tuple(tolerated))


def _problem(found: Violation, remedy: str) -> Problem:
    return Problem(found.field, found.message, remedy, Reason.POLICY_VIOLATION)
