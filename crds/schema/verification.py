"""The Verification definition."""

from chiplog_core.model.verification import Verification
from crds.schema.definition import AGE, MESSAGE, READY, REASON, Column, Definition
from crds.schema.rules import Rule, RuleReason

VERIFICATION = Definition(
    model=Verification,
    columns=(
        Column("Cluster", "string", ".spec.clusterRef.name", "The BrokerCluster that it verifies."),
        Column("Phase", "string", ".status.phase", "Current phase."),
        Column(
            "Violations",
            "integer",
            ".status.violationsTotal",
            "Violations that the last completed run found.",
        ),
        Column(
            "Verified",
            "string",
            '.status.conditions[?(@.type=="Verified")].status',
            "Whether the last completed run found no violations.",
        ),
        Column(
            "Records",
            "integer",
            ".status.coverage.records",
            "Records that the last completed run read, over all replicas.",
        ),
        Column(
            "Last success",
            "date",
            ".status.lastSuccess",
            "When the last run without violations ended.",
        ),
        READY,
        REASON,
        AGE,
        Column("Schedule", "string", ".spec.schedule", "Schedule of the runs.", wide=True),
        Column("Next run", "string", ".status.nextRun", "When the next run is due.", wide=True),
        Column(
            "Bytes",
            "integer",
            ".status.coverage.bytes",
            "Bytes that the last completed run read, over all replicas.",
            wide=True,
        ),
        Column(
            "Application",
            "string",
            ".status.application.name",
            "The Spark application of the last run.",
            wide=True,
        ),
        Column(
            "State",
            "string",
            ".status.application.state",
            "State of the Spark application of the last run.",
            wide=True,
        ),
        MESSAGE,
    ),
    rules={
        "spec": (
            Rule(
                "self.clusterRef == oldSelf.clusterRef",
                "spec.clusterRef cannot be changed: delete this Verification and create one for "
                "the other cluster",
                reason=RuleReason.FORBIDDEN,
                field=".clusterRef",
            ),
            Rule(
                "!has(self.topicSelector) || !has(self.topics) || size(self.topics) == 0",
                "spec.topics and spec.topicSelector are both set: remove one of them",
                reason=RuleReason.FORBIDDEN,
                field=".topicSelector",
            ),
            Rule(
                "!has(self.timeLimit) || !self.timeLimit.matches('^0+[a-z]+$')",
                "spec.timeLimit is zero: raise it, or remove it for no limit",
                field=".timeLimit",
            ),
        ),
        "spec.topicSelector": (
            Rule(
                "size(self.matchLabels) > 0",
                "spec.topicSelector.matchLabels selects nothing: add a label, or remove "
                "topicSelector to verify all topics",
                field=".matchLabels",
            ),
        ),
    },
)
