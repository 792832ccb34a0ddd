"""What to try on the demo's cluster: commands to copy. A test runs each of them unchanged."""

from dataclasses import dataclass
from textwrap import indent
from typing import Final

from e2e.cluster.target import Target
from e2e.main.broker_cluster import BrokerClusterUnderTest

BEGINNING: Final = "All checks passed. The cluster is left running."
INDENT: Final = "    "


@dataclass(frozen=True, slots=True)
class Step:
    """Shell commands to copy, and a sentence about their purpose."""

    about: str
    lines: str


STEPS: Final = (
    Step(
        "Write a record, and read five records:",
        """\
echo 'customer-7|{"item": "anchor"}' | chiplog produce orders --key-separator '|'
chiplog consume orders --from-beginning --max-messages 5""",
    ),
    Step(
        "Show the cluster's state as its brokers and as Kubernetes report it, and its traffic:",
        """\
chiplog status
chiplog status --cluster demo --namespace demo
chiplog top --iterations 2""",
    ),
    Step(
        "Let Spark read every replica and check that nothing is lost or damaged (about a minute):",
        """\
kubectl -n demo apply -f crds/examples/verification-minimal.yaml
kubectl -n demo wait verification/all-topics --for=condition=Verified --timeout=10m
kubectl -n demo get verifications""",
    ),
    Step(
        "Let Spark measure the brokers' load and propose moves, and approve them:",
        """\
kubectl -n demo apply -f examples/rebalance.yaml
kubectl -n demo wait rebalance/even-load --for=jsonpath={.status.state}=ProposalReady --timeout=10m
kubectl -n demo get rebalance even-load -o jsonpath='{.status.proposal.figures}{"\\n"}'
kubectl -n demo annotate rebalance even-load chiplog.dev/rebalance=approve""",
    ),
    Step(
        "Kill the leader of orders-0, shown as BROKER@SESSION; seconds later another broker leads:",
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
    """The commands that prepare a shell for the other steps: PATH and addresses."""
    return Step(
        "What to try next, in this directory. First prepare the shell that you use:",
        f"""\
make tools
export PATH="$PWD/.tools/bin:$PWD/.venv/bin:$PATH"
export KUBECONFIG={target.kubeconfig}
export CHIPLOG_BOOTSTRAP={cluster.bootstrap}""",
    )


def text(target: Target, cluster: BrokerClusterUnderTest) -> str:
    """All steps as text, which the demo prints at its end."""
    steps = (setting(target, cluster), *STEPS, END)
    parts = [
        f"\n{BEGINNING}",
        *(f"{step.about}\n{indent(step.lines, INDENT)}" for step in steps),
        "docs/tutorial.md explains these commands; docs/index.md links to all other pages.",
    ]
    return "\n\n".join(parts)
