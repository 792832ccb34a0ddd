"""The Topic definition."""

from chiplog_core.config.topic_keys import MIN_INSYNC_REPLICAS
from chiplog_core.limits import MAX_TOPIC_NAME_LENGTH
from chiplog_core.model.topic import DeletionPolicy, GrowthStrategy, Topic
from chiplog_core.topic_name import INTERNAL_TOPICS, NAMES_OF_NO_TOPIC
from chiplog_core.validate.unbuilt import Feature, is_built
from crds.schema.definition import AGE, MESSAGE, READY, REASON, ROOT, Column, Definition
from crds.schema.rules import Rule, RuleReason, optional

_NAME = "(has({0}.spec.topicName) ? {0}.spec.topicName : {0}.metadata.name)"
_MIN_ISR = f"self.config.{MIN_INSYNC_REPLICAS.name.replace('.', '__dot__')}"
_REPARTITIONS = (
    "has(self.growth) && has(self.growth.strategy) && "
    f"self.growth.strategy == '{GrowthStrategy.REPARTITION}'"
)

# Repartition allows fewer partitions only once it is built. Until then, the number must not shrink:
# a later change to Append would leave the smaller number.
_IF_REPARTITIONED = f" || ({_REPARTITIONS})" if is_built(Feature.REPARTITION) else ""
_OR_REPARTITION = (
    ", or set spec.growth.strategy to Repartition" if is_built(Feature.REPARTITION) else ""
)

TOPIC = Definition(
    model=Topic,
    columns=(
        Column("Cluster", "string", ".spec.clusterRef.name", "The BrokerCluster it lives on."),
        Column("Partitions", "integer", ".spec.partitions", "Desired number of partitions."),
        Column("Replication factor", "integer", ".spec.replicas", "Desired number of replicas."),
        READY,
        REASON,
        AGE,
        Column(
            "Topic",
            "string",
            ".status.topicName",
            "Name of the topic for Kafka clients.",
            wide=True,
        ),
        Column(
            "Topic id", "string", ".status.topicId", "Id of the topic for Kafka clients.", wide=True
        ),
        MESSAGE,
    ),
    rules={
        ROOT: (
            Rule(
                f"has(self.spec.topicName) || size(self.metadata.name) <= {MAX_TOPIC_NAME_LENGTH}",
                "metadata.name is too long to be the topic's name: shorten it to "
                f"{MAX_TOPIC_NAME_LENGTH} characters, or set spec.topicName",
                reason=RuleReason.REQUIRED,
                field=".spec.topicName",
            ),
            Rule(
                f"{_NAME.format('self')} == {_NAME.format('oldSelf')}",
                "spec.topicName cannot be changed: a topic cannot be renamed; create another Topic",
                reason=RuleReason.FORBIDDEN,
                field=".spec.topicName",
            ),
        ),
        "spec": (
            Rule(
                "self.clusterRef == oldSelf.clusterRef",
                "spec.clusterRef cannot be changed: delete this Topic and create one for the "
                "other cluster",
                reason=RuleReason.FORBIDDEN,
                field=".clusterRef",
            ),
            Rule(
                "!has(self.partitions) || !has(oldSelf.partitions) || "
                f"self.partitions >= oldSelf.partitions{_IF_REPARTITIONED}",
                "spec.partitions cannot shrink: partitions cannot be removed; keep the "
                f"number{_OR_REPARTITION}",
                message_expression=(
                    "'spec.partitions cannot shrink from %d to %d: partitions cannot be removed; "
                    f"keep at least %d{_OR_REPARTITION}'.format(["
                    "oldSelf.partitions, self.partitions, oldSelf.partitions])"
                ),
                field=".partitions",
            ),
            Rule(
                optional(_MIN_ISR, f"!has(self.replicas) || int({_MIN_ISR}) <= self.replicas"),
                "min.insync.replicas is above spec.replicas, so no write with acks=all could "
                "succeed: lower it, or raise spec.replicas",
                field=".config",
            ),
            Rule(
                f"!has(self.trashTTL) || self.deletionPolicy == '{DeletionPolicy.TRASH}'",
                "spec.trashTTL is only for deletionPolicy Trash: remove it, or set "
                "spec.deletionPolicy to Trash",
                reason=RuleReason.FORBIDDEN,
                field=".trashTTL",
            ),
            Rule(
                f"!has(self.growth) || ({_REPARTITIONS}) || "
                "(!has(self.growth.partitioner) && !has(self.growth.maxReplay))",
                "growth.partitioner and growth.maxReplay are only for strategy Repartition: "
                "remove them",
                reason=RuleReason.FORBIDDEN,
                field=".growth",
            ),
            Rule(
                "!has(self.assignments) || !has(self.partitions) || "
                "self.assignments.all(a, a.partition < self.partitions)",
                "spec.assignments must name only partitions below spec.partitions, counted from "
                "0: remove the others, or raise spec.partitions",
                field=".assignments",
            ),
            Rule(
                "!has(self.assignments) || "
                "self.assignments.all(a, size(a.replicas) == size(self.assignments[0].replicas))",
                "all of spec.assignments must list the same number of brokers: add or remove "
                "brokers",
                field=".assignments",
            ),
            Rule(
                "!has(self.assignments) || !has(self.replicas) || "
                "self.assignments.all(a, size(a.replicas) == self.replicas)",
                "each of spec.assignments must list as many brokers as spec.replicas says: add or "
                "remove brokers",
                field=".assignments",
            ),
        ),
        "spec.topicName": (
            Rule(
                f"!(self in {[*NAMES_OF_NO_TOPIC]})",
                "'.' and '..' are not valid topic names: choose another",
            ),
            Rule(
                f"!(self in {[*INTERNAL_TOPICS]})",
                "spec.topicName is the reserved name of an internal topic: choose another",
                reason=RuleReason.FORBIDDEN,
            ),
        ),
    },
)
