"""The users of a run: their User objects, and what these mean."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import ObjectKey
from e2e.sim.api_store import ApiStore
from e2e.sim.kubelet import CLUSTER, NAMESPACE
from e2e.sim.users.history import Intent, Right

READ: Final = "Read"
WRITE: Final = "Write"
DESCRIBE: Final = "Describe"
OPERATIONS: Final = (READ, WRITE, DESCRIBE)
TOPICS: Final = ("orders", "clicks")
PASSWORD: Final = "scram-sha-512"  # noqa: S105 - a type of authentication
CERTIFICATE: Final = "tls"
RIGHTS: Final = frozenset((operation, topic) for operation in (READ, WRITE) for topic in TOPICS)


def implied(rights: Iterable[Right]) -> frozenset[Right]:
    """The rights, and those that follow from them: who may read or write may describe."""
    found = frozenset(rights)
    return found | {(DESCRIBE, topic) for operation, topic in found if operation in {READ, WRITE}}


@dataclass(slots=True, kw_only=True)
class Account:
    """One user."""

    name: str
    type: str
    allowed: frozenset[Right] = RIGHTS
    """What its rules allow."""
    denied: frozenset[Right] = frozenset()
    """What other rules of it deny."""
    exists: bool = False
    passwords: list[str] = field(default_factory=list)
    """All that it ever had, the present one last."""
    quotas: dict[str, int] = field(default_factory=dict)

    @property
    def principal(self) -> str:
        return f"User:{self.name}" if self.type == PASSWORD else f"User:CN={self.name}"

    @property
    def rights(self) -> frozenset[Right]:
        """What it may do. A rule that denies only what others imply denies that, too."""
        return implied(self.allowed) - self.denied

    @property
    def password(self) -> str:
        return self.passwords[-1] if self.passwords else ""


class Accounts:
    """Writes User objects, and notes what they mean."""

    def __init__(self, store: ApiStore, now_s: Callable[[], float], intents: list[Intent]) -> None:
        self._store = store
        self._now_s = now_s
        self._intents = intents
        self.all: dict[str, Account] = {}

    def add(self, name: str, type_: str) -> Account:
        """A new user, whose User object is created."""
        account = self.all[name] = Account(name=name, type=type_)
        self.create(account)
        return account

    def create(self, account: Account) -> None:
        """Create the User object, with another password than an earlier one."""
        if account.type == PASSWORD:
            self._draw_password(account)
        account.exists = True
        self._store.create(kinds.USERS, self._manifest(account))
        self._note(account)

    def delete(self, account: Account) -> None:
        account.exists = False
        self._store.delete(kinds.USERS, ObjectKey(NAMESPACE, account.name))
        self._note(account)

    def collect(self, uid: str, name: str) -> None:
        """Delete the Secret of a User that was deleted, as Kubernetes' garbage collector does."""
        secret = self._store.peek(kinds.SECRETS, NAMESPACE, name)
        owners = [] if secret is None else secret["metadata"].get("ownerReferences", [])
        if any(one["uid"] == uid for one in owners):
            self._store.delete(kinds.SECRETS, ObjectKey(NAMESPACE, name))

    def change(self, account: Account) -> None:
        """Write the User object as the account is now."""
        spec = self._manifest(account)["spec"]
        self._store.patch(kinds.USERS, ObjectKey(NAMESPACE, account.name), {"spec": spec})
        self._note(account)

    def change_password(self, account: Account) -> None:
        """Give the user another password."""
        self._draw_password(account)
        self.change(account)

    def uid(self, account: Account) -> str:
        """The uid of the User object; empty if there is none."""
        found = self._store.peek(kinds.USERS, NAMESPACE, account.name)
        return "" if found is None else str(found["metadata"]["uid"])

    def _draw_password(self, account: Account) -> None:
        """Create a Secret with a new password, which the User names from now on."""
        account.passwords.append(f"{account.name}-{len(account.passwords) + 1}")
        meta = {"namespace": NAMESPACE, "name": _given(account)}
        data = {"password": b64encode(account.password.encode()).decode()}
        self._store.create(kinds.SECRETS, {"metadata": meta, "type": "Opaque", "data": data})

    def _note(self, account: Account) -> None:
        rights = account.rights if account.exists else frozenset()
        intent = Intent(self._now_s(), account.name, account.exists, rights, account.password)
        self._intents.append(intent)

    def _manifest(self, account: Account) -> Manifest:
        authentication: dict[str, Any] = {"type": account.type}
        if account.type == PASSWORD:
            reference = {"name": _given(account), "key": "password"}
            authentication["password"] = {"valueFrom": {"secretKeyRef": reference}}
        rules = [
            {
                "type": type_,
                "resource": {"type": "topic", "name": topic},
                "operations": [operation],
            }
            for type_, rights in (("allow", account.allowed), ("deny", account.denied))
            for operation, topic in sorted(rights)
        ]
        return {
            "apiVersion": kinds.USERS.api_version,
            "kind": kinds.USERS.kind,
            "metadata": {"namespace": NAMESPACE, "name": account.name},
            "spec": {
                "clusterRef": {"name": CLUSTER},
                "authentication": authentication,
                "authorization": {"type": "simple", "acls": rules},
                "quotas": dict(account.quotas),
            },
        }


def _given(account: Account) -> str:
    """The Secret with the account's present password."""
    return f"{account.name}-given-{len(account.passwords)}"


def entry(secret: Manifest | None, name: str) -> bytes:
    """The value of an entry of a Secret; empty if there is none."""
    return b64decode(((secret or {}).get("data") or {}).get(name) or "")
