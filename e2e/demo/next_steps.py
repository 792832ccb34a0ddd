"""What to try on the demo's cluster: commands to copy, each of which a test runs as it stands."""

from dataclasses import dataclass
from textwrap import indent
from typing import Final

from e2e.cluster.target import Target
from e2e.main.broker_cluster import BrokerClusterUnderTest

BEGINNING: Final = "All of it held, and the cluster is left running."
INDENT: Final = "    "


@dataclass(frozen=True, slots=True)
class Step:
    """Lines of a shell, and what they are for."""

    about: str
    lines: str


STEPS: Final = (
    Step(
        "Write a record, and read five:",
        """\
echo 'customer-7|{"item": "anchor"}' | chiplog produce orders --key-separator '|'
chiplog consume orders --from-beginning --max-messages 5""",
    ),
    Step(
        "How the cluster is, by what its brokers say, by what Kubernetes says, and at work:",
        """\
chiplog status
chiplog status --cluster demo --namespace demo
chiplog top --iterations 2""",
    ),
    Step(
        "Let Spark read every replica and prove that nothing is lost or damaged (about a minute):",
        """\
kubectl -n demo apply -f crds/examples/verification-minimal.yaml
kubectl -n demo wait verification/all-topics --for=condition=Verified --timeout=10m
kubectl -n demo get verifications""",
    ),
    Step(
        "Let Spark measure the load of the brokers and propose moves of leaders, and approve them:",
        """\
kubectl -n demo apply -f examples/rebalance.yaml
kubectl -n demo wait rebalance/even-load --for=jsonpath={.status.state}=ProposalReady --timeout=10m
kubectl -n demo get rebalance even-load -o jsonpath='{.status.proposal.figures}{"\\n"}'
kubectl -n demo annotate rebalance even-load chiplog.dev/rebalance=approve""",
    ),
    Step(
        "Kill the leader of orders-0 yourself (BROKER@SESSION); seconds later another one leads:",
        """\
leader() { kubectl -n demo get partitionmap demo.orders \\
  -o jsonpath='{.spec.generations[0].partitions[0].leader}{"\\n"}'; }
BROKER=$(leader); echo "$BROKER"
kubectl -n demo delete pod "demo-broker-${BROKER%@*}-0" --force
until NEW=$(leader); [ -n "$NEW" ] && [ "$NEW" != "$BROKER" ]; do sleep 1; done; echo $NEW""",
    ),
)
END: Final = Step("Stop everything:", "make cluster-down")


def setting(target: Target, cluster: BrokerClusterUnderTest) -> Step:
    """What the other commands need, once in a shell."""
    return Step(
        "What to try next, in this directory. Once in the shell that you use:",
        f"""\
make tools
export PATH="$PWD/.tools/bin:$PWD/.venv/bin:$PATH"
export KUBECONFIG={target.kubeconfig}
export CHIPLOG_BOOTSTRAP={cluster.bootstrap}""",
    )


def text(target: Target, cluster: BrokerClusterUnderTest) -> str:
    """All of them, for somebody who sees Chiplog for the first time."""
    steps = (setting(target, cluster), *STEPS, END)
    parts = [
        f"\n{BEGINNING}",
        *(f"{step.about}\n{indent(step.lines, INDENT)}" for step in steps),
        "docs/tutorial.md explains these; docs/index.md leads to everything else.",
    ]
    return "\n\n".join(parts)
