"""The Verification definition."""

from chiplog_core.model.verification import Verification
from crds.schema.definition import AGE, MESSAGE, READY, REASON, Column, Definition
from crds.schema.rules import Rule, RuleReason

VERIFICATION = Definition(
    model=Verification,
    columns=(
        Column("Cluster", "string", ".spec.clusterRef.name", "The BrokerCluster it is about."),
        Column("Phase", "string", ".status.phase", "Where it stands."),
        Column("Violations", "integer", ".status.violationsTotal", "Found by the last run."),
        Column(
            "Verified",
            "string",
            '.status.conditions[?(@.type=="Verified")].status',
            "Whether the last completed run found nothing wrong.",
        ),
        Column("Records", "integer", ".status.coverage.records", "Read by the last run."),
        Column("Last success", "date", ".status.lastSuccess", "When nothing wrong was found last."),
        READY,
        REASON,
        AGE,
        Column("Schedule", "string", ".spec.schedule", "When it runs.", wide=True),
        Column("Next run", "string", ".status.nextRun", "When the next run is due.", wide=True),
        Column("Bytes", "integer", ".status.coverage.bytes", "Read by the last run.", wide=True),
        Column(
            "Application",
            "string",
            ".status.application.name",
            "The Spark application of the last run.",
            wide=True,
        ),
        Column("State", "string", ".status.application.state", "How far that has come.", wide=True),
        MESSAGE,
    ),
    rules={
        "spec": (
            Rule(
                "self.clusterRef == oldSelf.clusterRef",
                "spec.clusterRef cannot be changed: delete this Verification and make one for the "
                "other cluster",
                reason=RuleReason.FORBIDDEN,
                field=".clusterRef",
            ),
            Rule(
                "!has(self.topicSelector) || !has(self.topics) || size(self.topics) == 0",
                "spec.topics and spec.topicSelector both choose topics: remove one of them",
                reason=RuleReason.FORBIDDEN,
                field=".topicSelector",
            ),
            Rule(
                "!has(self.timeLimit) || !self.timeLimit.matches('^0+[a-z]+$')",
                "spec.timeLimit is no time at all: raise it, or remove it for no limit",
                field=".timeLimit",
            ),
        ),
        "spec.topicSelector": (
            Rule(
                "size(self.matchLabels) > 0",
                "spec.topicSelector.matchLabels chooses nothing: name a label, or remove "
                "topicSelector for all topics",
                field=".matchLabels",
            ),
        ),
    },
)
