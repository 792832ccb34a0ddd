"""Two releases of the operator for one namespace, with the rights of the chart and no others."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from chiplog_core.naming import labels, names
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.layout import CHECKOUT
from e2e.kafka.ports import LOOPBACK, free_ports
from e2e.loopback.child import Child
from e2e.loopback.cluster import NAMESPACE, OPERATOR_NAMESPACE, LoopbackCluster

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

RULES = CHECKOUT / "charts" / "chiplog-operator" / "rules"
SECOND, TENANT, ACCOUNT = "team-a", "tenant", "chiplog-operator"
LIMIT_S = 60


class OnlyApi(LoopbackCluster):
    """An API server that knows Chiplog's kinds."""

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.running.enter_context(self.server)
        self._define()


def rules(*files: str) -> list[Any]:
    return [rule for file in files for rule in yaml.safe_load((RULES / f"{file}.yaml").read_text())]


def grant(kubectl: Kubectl, watched: str) -> None:
    """What the chart grants an operator in kubectl's namespace; `watched` is empty for all."""
    of = kubectl.namespace
    kubectl("create", "serviceaccount", ACCOUNT)
    cluster: tuple[str, ...] = ("cluster",) if watched else ("cluster", "namespaced", "secrets")
    granted = [("ClusterRole", f"{of}-operator", "", cluster), ("Role", "own", of, ("own",))]
    if watched:
        granted.append(("Role", f"{of}-operator", watched, ("namespaced", "secrets")))
    for kind, name, namespace, files in granted:
        about = {"name": name, **({"namespace": namespace} if namespace else {})}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": of}
        common = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": about}
        for one in (
            {**common, "kind": kind, "rules": rules(*files)},
            {**common, "kind": f"{kind}Binding", "roleRef": role, "subjects": [subject]},
        ):
            Kubectl(kubectl.kubeconfig, namespace or of).apply(json.dumps(one))


@contextmanager
def operator(cluster: OnlyApi, namespace: str, watched: str) -> Iterator[tuple[Child, str]]:
    """The process of a pod, and where its probes ask."""
    health, metrics = (f"{LOOPBACK}:{port}" for port in free_ports(2))
    token = cluster.server.account_token(namespace, ACCOUNT)
    pod = {
        "POD_NAME": f"{namespace}-0",
        "POD_UID": f"uid-of-{namespace}",
        "POD_NAMESPACE": namespace,
        "POD_SERVICE_ACCOUNT": ACCOUNT,
    }
    command: list[str | Path] = [
        *("env", *(f"{name}={value}" for name, value in pod.items())),
        *(sys.executable, "-m", "chiplog_operator"),
        *("--kubeconfig", cluster.server.kubeconfig(namespace, token)),
        *("--watch-namespaces", watched),
        *("--health-address", health, "--metrics-address", metrics),
        *("--broker-image", "none", "--spark-image", "none"),
    ]
    child = Child(command, cluster.directory / f"{namespace}.log")
    child.start()
    try:
        yield child, health
    finally:
        child.kill()


def readiness(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def claim_as_tenant(kubectl: Kubectl) -> None:
    """A Lease of the same form as an operator's, by somebody who may edit that namespace."""
    kubectl("create", "serviceaccount", ACCOUNT)
    notes = {labels.WATCHES: "*", labels.WATCHES_AS: ACCOUNT}
    about = {"name": names.OPERATOR_LEASE, "annotations": notes}
    spec = {"holderIdentity": "x", "leaseDurationSeconds": 8}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    kubectl.apply(json.dumps({**lease, "metadata": about, "spec": spec}))


def test_a_second_operator_does_nothing_and_says_why(tmp_path: Path) -> None:
    with OnlyApi(tmp_path / "cluster") as cluster:
        kubeconfig = cluster.server.administrator()
        first, second, tenant = (
            Kubectl(kubeconfig, namespace) for namespace in (OPERATOR_NAMESPACE, SECOND, TENANT)
        )
        for one in (second, tenant):
            one("create", "namespace", one.namespace)
        grant(first, NAMESPACE)
        grant(second, "")
        claim_as_tenant(tenant)
        with operator(cluster, OPERATOR_NAMESPACE, NAMESPACE) as (child, address):
            active = (200, "active\n")
            eventually("it is active", lambda: readiness(address) == active, LIMIT_S)
            assert "other_operators_unknown" not in child.output.read_text()
            about = first.get("lease", names.OPERATOR_LEASE)["metadata"]
            assert about["annotations"] == {
                labels.WATCHES: NAMESPACE,
                labels.WATCHES_AS: ACCOUNT,
            }
            with operator(cluster, SECOND, "") as (late, late_address):
                says = f"operator in namespace {OPERATOR_NAMESPACE} also watches namespace "

                def says_why() -> bool:
                    status, why = readiness(late_address)
                    assert (status, says in why) == (503, True), (status, why, late.tail())
                    return True

                eventually("the second is not ready, and says why", says_why, LIMIT_S)
                (event,) = second.get("events")["items"]
                assert event["reason"] == "AnotherOperator"
                assert event["involvedObject"]["uid"] == f"uid-of-{SECOND}"
                assert says in event["message"]
                assert "another_operator" in late.output.read_text()
                assert second.get("leases")["items"] == []
            assert readiness(address) == active

        # Of Leases it may list those of operators, in all namespaces, and no others.
        account = f"--as=system:serviceaccount:{OPERATOR_NAMESPACE}:{ACCOUNT}"
        everywhere = ("get", "leases", "--all-namespaces", "-o", "name", account)
        selector = f"--field-selector=metadata.name={names.OPERATOR_LEASE}"
        assert set(first(*everywhere, selector).split()) == {
            f"lease.coordination.k8s.io/{names.OPERATOR_LEASE}"
        }
        assert "forbidden" in first.fails(*everywhere)
