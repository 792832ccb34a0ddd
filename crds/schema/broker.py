"""The Broker definition.

Only the operator and the broker itself write these objects. The rules are a second lock on what
must never go back, whatever bug or hand-made patch tries.
"""

from chiplog_core.model.broker import Broker
from crds.schema.definition import AGE, Column, Definition
from crds.schema.rules import Rule, RuleReason

# A broker that was never admitted has no session, because fields with defaults are left out.
_SESSION = "(has({0}.session) ? {0}.session : 0)"

BROKER = Definition(
    model=Broker,
    columns=(
        Column("Cluster", "string", ".spec.cluster", "The BrokerCluster it belongs to."),
        Column("Id", "integer", ".spec.brokerId", "The broker's id, as Kafka clients see it."),
        Column(
            "Session",
            "integer",
            ".spec.session",
            "Number of the admitted broker process, one higher with each admission.",
        ),
        Column("Intent", "string", ".spec.intent", "Desired state of the broker."),
        Column(
            "Fenced",
            "boolean",
            ".spec.fenced",
            "Whether the broker is fenced because it is dead or did not renew its Lease.",
        ),
        Column("Rack", "string", ".spec.rack", "Rack of the node it runs on."),
        Column("Node", "string", ".spec.node", "Node it runs on, or ran on last.", wide=True),
        Column(
            "Tail",
            "string",
            ".status.directories[*].tail",
            "intact, or suspect: acknowledged records may be missing on its disk.",
        ),
        Column("Draining", "boolean", ".status.draining", "Whether the broker is about to stop."),
        AGE,
        Column(
            "Retired", "boolean", ".spec.retired", "Whether the broker is gone for good.", wide=True
        ),
        Column(
            "Version", "string", ".status.version", "Version of the broker's software.", wide=True
        ),
        Column(
            "Usable bytes",
            "integer",
            ".status.directories[*].usableBytes",
            "Free space on the broker's volume.",
            wide=True,
        ),
        Column(
            "Message",
            "string",
            ".status.message",
            "What the broker reports about its state.",
            wide=True,
        ),
    ),
    rules={
        "spec": (
            Rule(
                "self.cluster == oldSelf.cluster && self.brokerId == oldSelf.brokerId",
                "spec.cluster and spec.brokerId identify the broker and cannot be changed",
                reason=RuleReason.FORBIDDEN,
                field=".brokerId",
            ),
            Rule(
                f"{_SESSION.format('self')} >= {_SESSION.format('oldSelf')}",
                "spec.session cannot decrease: a session number is never used twice",
                field=".session",
            ),
            Rule(
                f"{_SESSION.format('self')} > {_SESSION.format('oldSelf')} || "
                "!has(self.admittedIncarnation) || "
                "(has(oldSelf.admittedIncarnation) && "
                "self.admittedIncarnation == oldSelf.admittedIncarnation)",
                "spec.admittedIncarnation cannot change without a higher spec.session",
                field=".admittedIncarnation",
            ),
            Rule(
                "!has(oldSelf.retired) || !oldSelf.retired || (has(self.retired) && self.retired)",
                "spec.retired cannot be undone: use a new broker id",
                reason=RuleReason.FORBIDDEN,
                field=".retired",
            ),
        ),
    },
)
