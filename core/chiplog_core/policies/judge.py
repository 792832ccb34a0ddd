"""Whether a cluster's topic policies allow a change of a topic, by kubectl or by a Kafka client.

Policies apply to creations and changes. A topic that existed before a policy and violates it
continues to work; only a change that violates another policy, or violates one more than before, is
refused. So a policy can be tightened on a cluster with a thousand topics without stopping any.
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
    """The violations of policies by a change."""

    refused: tuple[Problem, ...] = ()
    """The reasons to refuse the whole change; empty if it is allowed."""
    tolerated: tuple[Problem, ...] = ()
    """Violations that existed before the change and do not get worse, so they do not prevent it."""


NOTHING_AGAINST_IT = Judgement()


def judge(cluster: BrokerCluster, wanted: TopicFacts, before: TopicFacts | None) -> Judgement:
    """Judge a topic that changes from `before` to `wanted`. `before` is None for a new topic."""
    old_violations: dict[str, Violation] = {}
    if before is not None:
        old_violations = {violation.policy: violation for violation in violations(cluster, before)}
    refused, tolerated = [], []
    for found in violations(cluster, wanted):
        old = old_violations.get(found.policy)
        if old is None:
            refused.append(_problem(found, found.remedy))
        elif found.excess > old.excess:
            refused.append(_problem(found, found.remedy + LEAVE_IT))
        else:
            tolerated.append(_problem(found, TOLERATED))
    return Judgement(refused=tuple(refused), tolerated=tuple(tolerated))


def _problem(found: Violation, remedy: str) -> Problem:
    return Problem(found.field, found.message, remedy, Reason.POLICY_VIOLATION)
