"""The PartitionMap definition.

Only the operator writes these objects, and nearly all that must hold of them spans two states or
two objects. The few rules here are a second lock against a bug or a hand-made patch. That epochs
never decrease is not among them: to compare the partitions of two states the API server would
have to merge their lists by key, which makes every write of a large map three times slower.
"""

from chiplog_core.model.partition_map import PartitionMap
from crds.schema.definition import AGE, Column, Definition
from crds.schema.rules import Rule, RuleReason

PARTITION_MAP = Definition(
    model=PartitionMap,
    columns=(
        Column("Cluster", "string", ".spec.cluster", "The BrokerCluster it belongs to."),
        Column("Topic", "string", ".spec.topicName", "Name of the topic for Kafka clients."),
        Column("Topic id", "string", ".spec.current", "Id of the current topic with this name."),
        Column(
            "Min ISR",
            "integer",
            ".spec.minIsr",
            "In-sync replicas that must have a record before it is acknowledged.",
        ),
        Column("Durability", "string", ".spec.durability", "Durability of acknowledged records."),
        Column("Fence", "string", ".spec.fence.purpose", "Why the topic refuses writes."),
        Column(
            "Hibernated",
            "boolean",
            ".spec.hibernated",
            "Whether elections and ISR changes are frozen.",
        ),
        AGE,
        Column("Owner", "string", ".spec.ownerUID", "uid of the Topic object.", wide=True),
    ),
    rules={
        "spec": (
            Rule(
                "self.cluster == oldSelf.cluster && self.topicName == oldSelf.topicName",
                "spec.cluster and spec.topicName identify the topic and cannot be changed",
                reason=RuleReason.FORBIDDEN,
                field=".topicName",
            ),
            Rule(
                "!has(self.current) || "
                "(has(self.generations) && self.generations.exists(g, g.topicId == self.current))",
                "spec.current must be the topicId of one of spec.generations",
                field=".current",
            ),
        ),
        "spec.generations[].partitions[]": (
            Rule(
                "!has(self.leader) || self.leader in self.isr",
                "the leader must be one of isr, in the same session",
                field=".leader",
            ),
            Rule(
                "!has(self.removing) || self.removing.size() < self.replicas.size()",
                "removing must leave at least one of replicas",
                field=".removing",
            ),
        ),
    },
)
