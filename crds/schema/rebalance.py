"""The Rebalance definition."""

from chiplog_core.model.rebalance import Rebalance, RebalanceMeasure, RebalanceMode
from crds.schema.definition import AGE, MESSAGE, READY, REASON, Column, Definition
from crds.schema.rules import Rule, RuleReason

_IS_FULL = f"(!has(self.mode) || self.mode == '{RebalanceMode.FULL}')"
_NAMES_BROKERS = "(has(self.brokers) && size(self.brokers) > 0)"

_BY_SPARK = f"(!has(self.measure) || self.measure == '{RebalanceMeasure.SPARK}')"

REBALANCE = Definition(
    model=Rebalance,
    columns=(
        Column("Cluster", "string", ".spec.clusterRef.name", "The BrokerCluster that it balances."),
        Column("State", "string", ".status.state", "Current state of the Rebalance."),
        Column(
            "Leader moves",
            "integer",
            ".status.proposal.numLeaderMovements",
            "Leaderships that the proposal moves.",
        ),
        Column(
            "Replica moves",
            "integer",
            ".status.proposal.numReplicaMovements",
            "Replicas that the proposal moves.",
        ),
        Column("Moved", "integer", ".status.moves.done", "Leaderships that have been moved."),
        READY,
        REASON,
        AGE,
        Column(
            "Proposal",
            "string",
            ".status.proposal.id",
            "Id of the proposal, for spec.approvedProposal.",
            wide=True,
        ),
        Column(
            "Score before",
            "integer",
            ".status.proposal.onDemandBalancednessScoreBefore",
            "How evenly the load is balanced now, from 0 to 100.",
            wide=True,
        ),
        Column(
            "Score after",
            "integer",
            ".status.proposal.onDemandBalancednessScoreAfter",
            "How evenly the load would be balanced after the moves, from 0 to 100.",
            wide=True,
        ),
        MESSAGE,
    ),
    rules={
        "spec": (
            Rule(
                "self.clusterRef == oldSelf.clusterRef",
                "spec.clusterRef cannot be changed: delete this Rebalance and create one for the "
                "other cluster",
                reason=RuleReason.FORBIDDEN,
                field=".clusterRef",
            ),
            Rule(
                f"{_IS_FULL} || {_NAMES_BROKERS}",
                "spec.brokers is missing: list the brokers to add or remove",
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
                "spec.timeLimit is zero: raise it, or remove it for no limit",
                field=".timeLimit",
            ),
            *(
                Rule(
                    f"!has(self.{field}) || {_BY_SPARK}",
                    f"spec.{field} is only for spec.measure Spark: remove it, or set spec.measure "
                    "to Spark",
                    reason=RuleReason.FORBIDDEN,
                    field=f".{field}",
                )
                for field in ("spark", "bytesPerSecond")
            ),
        ),
    },
)
