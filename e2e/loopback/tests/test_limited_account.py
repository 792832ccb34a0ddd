"""An account that may only create Topics, Verifications and BrokerClusters: what it gets by trying.

A real API server judges its rights, and a real operator, which may do far more, acts on what it
wrote. It reads no Secret of somebody else's and changes no object of somebody else's, with and
without the chart's ValidatingAdmissionPolicies.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.layout import CHECKOUT
from e2e.loopback.cluster import NAMESPACE, WithoutBrokers
from e2e.main.limited_account import LIMIT_S, Limited, can

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

POLICIES = CHECKOUT / "charts" / "chiplog-operator" / "policies"
ADMISSION = "admissionregistration.k8s.io/v1"


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Limited]:
    with WithoutBrokers(tmp_path / "cluster") as one:
        found = Limited(Kubectl(one.server.administrator(), NAMESPACE))
        found.begin()
        yield found


CLUSTER = {"replicas": 1, "storage": {"size": "1Gi"}}
REFERENCE = {"name": "own"}
AGENT = {"spark.driver.extraJavaOptions": "-agentpath:/opt/x.so"}


def test_it_reads_and_changes_nothing_of_others(limited: Limited) -> None:
    # The operator's own judgement: nobody judges at admission.
    limited.create("BrokerCluster", "own", **CLUSTER, spark={"image": "evil:1"})
    chosen: dict[str, tuple[dict[str, Any], str]] = {
        "image": ({"image": "evil:1"}, "spec.spark.image"),
        "account": ({"serviceAccountName": "powerful"}, "spec.spark.serviceAccountName"),
        "agent": ({"sparkConf": AGENT}, "spec.spark.sparkConf[spark.driver.extraJavaOptions]"),
    }
    for name, (spark, _) in chosen.items():
        limited.create("Verification", name, clusterRef=REFERENCE, spark=spark)
    limited.create("Verification", "by-cluster", clusterRef=REFERENCE)
    # Objects of others that have the names of what a cluster would make.
    limited.create("BrokerCluster", "payments", **CLUSTER)
    limited.create("Topic", "orders", clusterRef={"name": "payments"}, partitions=1)

    limited.has_condition("brokercluster", "payments", "payments-internal")
    for name, (_, field) in chosen.items():
        limited.has_condition("verification", name, field, "remove it")
    limited.has_condition(
        "verification", "by-cluster", "in BrokerCluster own: spec.spark.image is evil:1"
    )
    limited.has_nothing()

    # What it has no right to create, it is not given by a kind of ours either.
    scale = {"deploymentRef": {"name": "shop"}, "max": 9, "lagPerReplica": 1}
    said = limited.refused("ConsumerGroup", "shop", clusterRef=REFERENCE, scale=scale)
    assert "cannot create resource" in said

    # With the chart's policies it is refused at once.
    install(limited.kubectl, "spark", allowedImages=["fine:1"], allowedServiceAccounts=[])

    def judged() -> bool:
        said = limited.refused(
            "Verification", "late", clusterRef=REFERENCE, spark={"image": "evil:1"}
        )
        return "spec.spark.image is evil:1, and you may not create pods in namespace" in said

    eventually("the policy is in force", judged, LIMIT_S)
    account = {"serviceAccountName": "powerful"}
    said = limited.refused("Rebalance", "late", clusterRef=REFERENCE, spark=account)
    assert "cannot create resource" in said
    said = limited.refused("Verification", "late", clusterRef=REFERENCE, spark=account)
    assert "spec.spark.serviceAccountName is powerful" in said
    said = limited.refused("BrokerCluster", "late", **CLUSTER, spark={"image": "evil:1"})
    assert "spec.spark.image is evil:1" in said
    limited.create("Verification", "allowed", clusterRef=REFERENCE, spark={"image": "fine:1"})

    # Who may make pods may choose, and who may scale a Deployment may have it scaled.
    may = limited.kubectl
    may("create", "role", "pods", "--verb=create", "--resource=pods")
    may("create", "rolebinding", "pods", "--role=pods", f"--serviceaccount={NAMESPACE}:limited")
    eventually("the right counts", lambda: can(may, "create", "pods"), LIMIT_S)
    limited.create("Verification", "trusted", clusterRef=REFERENCE, spark={"image": "own:1"})

    install(may, "scaling")
    groups = ("--verb=create", "--resource=consumergroups.chiplog.dev")
    may("create", "role", "groups", *groups)
    may("create", "rolebinding", "groups", "--role=groups", f"--serviceaccount={NAMESPACE}:limited")

    def scaling_is_judged() -> bool:
        said = limited.refused("ConsumerGroup", "shop", clusterRef=REFERENCE, scale=scale)
        return "names Deployment shop, which you may not scale yourself" in said

    eventually("the other policy is in force", scaling_is_judged, LIMIT_S)
    limited.create("ConsumerGroup", "looks", clusterRef=REFERENCE)
    assert limited.theirs() == limited.before


def install(kubectl: Kubectl, name: str, **variables: list[str]) -> None:
    """A policy as the chart has it, bound everywhere."""
    spec = yaml.safe_load((POLICIES / f"{name}.yaml").read_text())
    if variables:
        spec["variables"] = [
            {"name": key, "expression": json.dumps(value)} for key, value in variables.items()
        ]
    binding = {"policyName": name, "validationActions": ["Deny"]}
    for kind, what in (
        ("ValidatingAdmissionPolicy", spec),
        ("ValidatingAdmissionPolicyBinding", binding),
    ):
        made = {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}, "spec": what}
        kubectl.apply(json.dumps(made))
