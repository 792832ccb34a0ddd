"""The Broker definition.

Only the operator and the broker itself write these objects. The rules are a second lock on what
must never go back, whatever bug or hand-made patch tries.
"""

from chiplog_core.model.broker import Broker
from crds.schema.definition import AGE, Column, Definition
from crds.schema.rules import Rule, RuleReason

# A broker that was never admitted has none: what has its default is left out of a manifest.
_SESSION = "(has({0}.session) ? {0}.session : 0)"

BROKER = Definition(
    model=Broker,
    columns=(
        Column("Cluster", "string", ".spec.cluster", "The BrokerCluster it belongs to."),
        Column("Id", "integer", ".spec.brokerId", "Its id, as Kafka clients see it."),
        Column("Session", "integer", ".spec.session", "Number of the admitted process."),
        Column("Intent", "string", ".spec.intent", "What the operator has decided to do with it."),
        Column("Fenced", "boolean", ".spec.fenced", "Whether it is known or judged to be dead."),
        Column("Rack", "string", ".spec.rack", "Rack of the node it runs on."),
        Column("Tail", "string", ".status.directories[*].tail", "What its start found."),
        Column("Draining", "boolean", ".status.draining", "Whether it is about to stop."),
        AGE,
        Column("Retired", "boolean", ".spec.retired", "Whether it is gone for good.", wide=True),
        Column("Version", "string", ".status.version", "Version of its software.", wide=True),
        Column(
            "Usable bytes",
            "integer",
            ".status.directories[*].usableBytes",
            "Space left on its volume.",
            wide=True,
        ),
        Column("Message", "string", ".status.message", "What it says of itself.", wide=True),
    ),
    rules={
        "spec": (
            Rule(
                "self.cluster == oldSelf.cluster && self.brokerId == oldSelf.brokerId",
                "spec.cluster and spec.brokerId say who the broker is and cannot be changed",
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
                "spec.retired cannot be taken back: use a new broker id",
                reason=RuleReason.FORBIDDEN,
                field=".retired",
            ),
        ),
    },
)
