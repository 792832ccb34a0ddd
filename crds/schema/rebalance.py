"""The Rebalance definition."""

from chiplog_core.model.rebalance import Rebalance, RebalanceMode
from crds.schema.definition import AGE, MESSAGE, READY, REASON, Column, Definition
from crds.schema.rules import Rule, RuleReason

_IS_FULL = f"(!has(self.mode) || self.mode == '{RebalanceMode.FULL}')"
_NAMES_BROKERS = "(has(self.brokers) && size(self.brokers) > 0)"

REBALANCE = Definition(
    model=Rebalance,
    columns=(
        Column("Cluster", "string", ".spec.clusterRef.name", "The BrokerCluster it is about."),
        Column("State", "string", ".status.state", "Where it stands."),
        Column(
            "Leader moves",
            "integer",
            ".status.proposal.numLeaderMovements",
            "Leaderships that would move.",
        ),
        Column(
            "Replica moves",
            "integer",
            ".status.proposal.numReplicaMovements",
            "Replicas that would move.",
        ),
        Column("Moved", "integer", ".status.moves.done", "Leaderships that are moved."),
        READY,
        REASON,
        AGE,
        Column(
            "Proposal", "string", ".status.proposal.id", "For spec.approvedProposal.", wide=True
        ),
        Column(
            "Score before",
            "integer",
            ".status.proposal.onDemandBalancednessScoreBefore",
            "How even the load is, of 100.",
            wide=True,
        ),
        Column(
            "Score after",
            "integer",
            ".status.proposal.onDemandBalancednessScoreAfter",
            "How even it would be, of 100.",
            wide=True,
        ),
        MESSAGE,
    ),
    rules={
        "spec": (
            Rule(
                "self.clusterRef == oldSelf.clusterRef",
                "spec.clusterRef cannot be changed: delete this Rebalance and make one for the "
                "other cluster",
                reason=RuleReason.FORBIDDEN,
                field=".clusterRef",
            ),
            Rule(
                f"{_IS_FULL} || {_NAMES_BROKERS}",
                "spec.brokers is missing: name the brokers that the mode is about",
                reason=RuleReason.REQUIRED,
                field=".brokers",
            ),
            Rule(
                f"!{_IS_FULL} || !{_NAMES_BROKERS}",
                "spec.brokers is only for modes that add or remove: remove it, or set spec.mode",
                reason=RuleReason.FORBIDDEN,
                field=".brokers",
            ),
            Rule(
                "!has(self.timeLimit) || !self.timeLimit.matches('^0+[a-z]+$')",
                "spec.timeLimit is no time at all: raise it, or remove it for no limit",
                field=".timeLimit",
            ),
        ),
    },
)
