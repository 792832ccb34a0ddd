"""A ServiceAccount that may only create Topics, Verifications and BrokerClusters.

In its namespace there are objects of other owners, with names that a BrokerCluster would use. The
account must not be able to change or read them through the operator.
"""

import json
from collections.abc import Mapping
from typing import Any

from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.shell import CommandFailed

LIMIT_S = 30
MAY = [
    {
        "apiGroups": ["chiplog.dev"],
        "resources": ["topics", "verifications", "brokerclusters"],
        "verbs": ["create", "get", "list"],
    }
]
# Objects of other owners.
THEIRS: list[dict[str, Any]] = [
    # Names that a BrokerCluster `payments` would use, and a Strimzi cluster of that name.
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "payments-internal"},
        "stringData": {"password": "of-the-shop"},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "payments-kafka-bootstrap"},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "shop"}},
    },
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "payments-broker-1"}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "payments-broker-1"}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "powerful"}},
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "shop"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "shop"}},
            "template": {
                "metadata": {"labels": {"app": "shop"}},
                "spec": {"containers": [{"name": "main", "image": "shop"}]},
            },
        },
    },
]


class Limited:
    """The account's actions, and checks that objects of other owners stay unchanged."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl
        self.before: dict[str, str] = {}
        """`theirs` when the test began."""

    @property
    def account(self) -> str:
        """Its user name for the API server."""
        return account_in(self.kubectl.namespace)

    def begin(self) -> None:
        """Create the account with its permissions, and the objects of other owners."""
        made: list[dict[str, Any]] = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "limited"}},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "limited"},
                "rules": MAY,
            },
        ]
        for one in (*made, *THEIRS):
            self.kubectl.apply(json.dumps(one))
        account = f"--serviceaccount={self.kubectl.namespace}:limited"
        self.kubectl("create", "rolebinding", "limited", "--role=limited", account)
        self.before = self.theirs()

    def theirs(self) -> dict[str, str]:
        """kind/name -> content of each object of another owner, without its status."""
        return {
            f"{one['kind']}/{one['metadata']['name']}": json.dumps(
                self._stored(one["kind"].lower(), one["metadata"]["name"]), sort_keys=True
            )
            for one in THEIRS
        }

    def _stored(self, kind: str, name: str) -> dict[str, Any]:
        """What must not change of an object: all but its status, and part of the metadata."""
        found: dict[str, Any] = self.kubectl.get(kind, name)
        about = found["metadata"]
        return {
            **{key: value for key, value in found.items() if key not in {"status", "metadata"}},
            "labels": about.get("labels"),
            "owners": about.get("ownerReferences"),
            "generation": about.get("generation"),
            "uid": about["uid"],
        }

    def create(self, kind: str, name: str, **spec: Any) -> None:
        """Create an object of Chiplog as the account."""
        manifest = self._manifest(kind, name, spec)
        self.kubectl("create", "--as", self.account, "-f", "-", input_text=manifest)

    def refused(self, kind: str, name: str, **spec: Any) -> str:
        """The message with which the account's object is refused; fails if it is accepted."""
        manifest = self._manifest(kind, name, spec)
        said = self.kubectl.fails("create", "--as", self.account, "-f", "-", input_text=manifest)
        return " ".join(said.split())

    def _manifest(self, kind: str, name: str, spec: Mapping[str, Any]) -> str:
        about = {"apiVersion": "chiplog.dev/v1alpha1", "kind": kind, "metadata": {"name": name}}
        return json.dumps({**about, "spec": spec})

    def has_condition(self, kind: str, name: str, *words: str) -> None:
        """Wait until the object's Ready is False and its conditions contain all these words."""

        def is_reported() -> bool:
            conditions = self.kubectl.get(kind, name).get("status", {}).get("conditions", [])
            messages = " ".join(f"{one['status']} {one.get('message', '')}" for one in conditions)
            assert all(word in messages for word in words), conditions
            return any(one["type"] == "Ready" and one["status"] == "False" for one in conditions)

        eventually(f"{kind} {name} has a condition with {words}", is_reported, LIMIT_S)

    def has_nothing(self) -> None:
        """Check that no other owner's object was changed, no pod runs, and no permission was
        gained."""
        assert self.theirs() == self.before
        assert self.kubectl.get("jobs")["items"] == []
        of_payments = self.kubectl.get("statefulsets", "-l", "chiplog.dev/cluster=payments")
        assert of_payments["items"] == [], (
            "a StatefulSet was created: its pods could mount other owners' objects"
        )
        for verb, what in (("get", "secrets"), ("create", "pods"), ("patch", "deployments")):
            assert not can(self.kubectl, verb, what)


def account_in(namespace: str) -> str:
    """The limited account's user name for the API server."""
    return f"system:serviceaccount:{namespace}:limited"


def can(kubectl: Kubectl, verb: str, what: str) -> bool:
    """Whether the account has this permission in the namespace."""
    account = account_in(kubectl.namespace)
    try:
        return kubectl("auth", "can-i", verb, what, "--as", account).strip() == "yes"
    except CommandFailed as failed:
        if failed.output.strip().endswith("no"):
            return False
        raise
