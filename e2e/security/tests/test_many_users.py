"""Many Users that are applied at once have their credentials soon, and the last one can log in."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import measured
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest, is_ready
from e2e.security.secured import Credentials, user
from e2e.security.tests.test_on_kubernetes import can_log_in

pytestmark = [pytest.mark.security, pytest.mark.timeout(900)]

MANY, LIMIT_S = 500, 60
COUNT = MANY if is_full() else 50
LABEL = "e2e.chiplog.dev/many"
TYPES = ("tls", "scram-sha-512")


def manifests(count: int) -> Iterator[Manifest]:
    """Users with a certificate and with a password, each with some rules."""
    for number in range(count):
        rules = (
            ("topic", f"orders-{number}", ["Read", "Write", "Describe"]),
            ("topic", f"bills-{number}", ["Read", "Describe"]),
            ("group", f"of-{number}", ["Read"]),
        )
        one = user(f"many-{number:03}", TYPES[number % 2], *rules)
        one["metadata"]["labels"] = {LABEL: "true"}
        yield one


def users(kubectl: Kubectl) -> list[Manifest]:
    found: list[Manifest] = kubectl.get("users.chiplog.dev", "-l", LABEL)["items"]
    return found


def test_many_users_that_are_applied_at_once_are_ready_soon(
    cluster: BrokerClusterUnderTest, tmp_path: Path
) -> None:
    kubectl, before = cluster.kubectl, cluster.broker_pods()
    wanted = list(manifests(COUNT))
    last = [one["metadata"]["name"] for one in wanted[-len(TYPES) :]]
    began_s = time.monotonic()
    try:
        kubectl.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted}))
        applied_s = time.monotonic() - began_s

        def all_ready() -> bool:
            waiting = [one["metadata"]["name"] for one in users(kubectl) if not is_ready(one)]
            assert not waiting, f"{len(waiting)} are not Ready, like {waiting[:3]}"
            return True

        # Each look at all of them is work for the API server, too.
        eventually("all are Ready", all_ready, 5 * LIMIT_S, every_s=1)
        ready_s = time.monotonic() - began_s
        accounts = [Credentials(cluster, name, tmp_path / name).librdkafka() for name in last]
        eventually("the last can log in", lambda: all(map(can_log_in, accounts)), 5 * LIMIT_S)
        took_s = time.monotonic() - began_s
    finally:
        deleted_s = time.monotonic()
        kubectl("delete", "users.chiplog.dev", "-l", LABEL, "--wait=false", timeout_s=300)
    eventually("they are gone", lambda: not users(kubectl), 5 * LIMIT_S, every_s=1)
    eventually("brokers are given none of them", lambda: not listed(kubectl), 5 * LIMIT_S)
    gone_s = time.monotonic() - deleted_s
    # Nobody can take back a certificate; a password ends with its User.
    eventually("the last is locked out", lambda: not can_log_in(accounts[-1]), 5 * LIMIT_S)
    eventually("no Secret is left", lambda: not left(kubectl), 5 * LIMIT_S, every_s=1)
    assert cluster.broker_pods() == before, "no broker restarts for Users"
    measured.note(
        f"{COUNT} Users: all Ready and the last logged in {took_s:.1f} s after kubectl apply began "
        f"(limit {LIMIT_S} s for {MANY}): applied after {applied_s:.1f} s, Ready after "
        f"{ready_s:.1f} s; deleted, and unknown to brokers, after {gone_s:.1f} s"
    )
    assert took_s < 5 * LIMIT_S


def listed(kubectl: Kubectl) -> list[str]:
    """The names of these Users in the list that brokers read."""
    spec = kubectl.get("accesslists.chiplog.dev", "demo")["spec"]
    names = (one["name"] for one in spec.get("users", ()))
    return [name for name in names if name.startswith("many-")]


def left(kubectl: Kubectl) -> list[str]:
    """The Secrets of these Users."""
    names = kubectl("get", "secrets", "-o", "name").split()
    return [one for one in names if one.startswith("secret/many-")]
