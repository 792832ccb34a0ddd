"""The ConsumerGroup definition."""

from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.validate.consumer_group import PARAMETER_OF
from crds.schema.definition import AGE, MESSAGE, READY, REASON, ROOT, Column, Definition
from crds.schema.rules import Rule, RuleReason, unchanged

_GROUP_ID = "(has({0}.spec.groupId) ? {0}.spec.groupId : {0}.metadata.name)"
_SAME_RESET = " && ".join(
    f"({unchanged(f'self.{field}')})" for field in ("strategy", "topics", *PARAMETER_OF.values())
)


def _parameter_rules() -> list[Rule]:
    """The rules that each reset strategy has its own parameter, and no other one."""
    rules = []
    for strategy, field in PARAMETER_OF.items():
        rules.append(
            Rule(
                f"self.strategy != '{strategy}' || has(self.{field})",
                f"reset strategy {strategy} needs {field}: add it",
                reason=RuleReason.REQUIRED,
                field=f".{field}",
            )
        )
        rules.append(
            Rule(
                f"self.strategy == '{strategy}' || !has(self.{field})",
                f"{field} is only for reset strategy {strategy}: remove it",
                reason=RuleReason.FORBIDDEN,
                field=f".{field}",
            )
        )
    return rules


CONSUMER_GROUP = Definition(
    model=ConsumerGroup,
    columns=(
        Column("Cluster", "string", ".spec.clusterRef.name", "The BrokerCluster it belongs to."),
        Column("State", "string", ".status.state", "The group's state, as Kafka calls it."),
        Column("Members", "integer", ".status.memberCount", "Number of consumers."),
        Column("Lag", "integer", ".status.totalLag", "Total number of records not yet consumed."),
        Column("Max lag", "integer", ".status.maxLag", "Largest lag of a partition, in records."),
        READY,
        REASON,
        AGE,
        Column(
            "Lag seconds",
            "integer",
            ".status.maxLagSeconds",
            "Age of the oldest record not yet consumed.",
            wide=True,
        ),
        Column(
            "Within objective",
            "string",
            '.status.conditions[?(@.type=="LagWithinObjective")].status',
            "Whether the lag is within spec.maxLag.",
            wide=True,
        ),
        Column("Reset", "string", ".status.reset.state", "State of the last reset.", wide=True),
        MESSAGE,
    ),
    rules={
        ROOT: (
            Rule(
                f"{_GROUP_ID.format('self')} == {_GROUP_ID.format('oldSelf')}",
                "spec.groupId cannot be changed: a group cannot be renamed; create another "
                "ConsumerGroup",
                reason=RuleReason.FORBIDDEN,
                field=".spec.groupId",
            ),
        ),
        "spec": (
            Rule(
                "self.clusterRef == oldSelf.clusterRef",
                "spec.clusterRef cannot be changed: delete this ConsumerGroup and create one for "
                "the other cluster",
                reason=RuleReason.FORBIDDEN,
                field=".clusterRef",
            ),
        ),
        "spec.reset": (
            *_parameter_rules(),
            Rule(
                f"self.id != oldSelf.id || ({_SAME_RESET})",
                "spec.reset was changed under the same id, and each id runs only once: set "
                "another id",
                reason=RuleReason.FORBIDDEN,
                field=".id",
            ),
        ),
        "spec.maxLag": (
            Rule(
                "has(self.records) || has(self.seconds)",
                "spec.maxLag is empty: set records or seconds, or both",
                reason=RuleReason.REQUIRED,
            ),
        ),
        "spec.scale": (
            Rule(
                "self.min <= self.max",
                "spec.scale.min is above max: lower it, or raise max",
                field=".min",
            ),
        ),
    },
)
