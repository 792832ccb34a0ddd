"""Kafka's own tools change users of a cluster on Kubernetes: what they set stands in User objects,
and the reverse."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chiplog_wire.scram import Mechanism, salted_password
from chiplog_wire.verifiers import read_verifier
from e2e import measured
from e2e.clients.by_librdkafka import QUIET
from e2e.cluster.kubectl import eventually
from e2e.kafka.tools import run_tool
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.security.secured import Credentials, user
from e2e.security.tests.test_on_kubernetes import can_log_in

pytestmark = [pytest.mark.security, pytest.mark.timeout(300)]

USERS = "users.chiplog.dev"
PASSWORD, SECOND = "of-a-client-4711", "of-a-client-4712"
WAIT_S = 30


class Tools:
    """Kafka's tools, as the administrator uses them: with the certificate of a super user."""

    def __init__(self, account: Credentials) -> None:
        self.account = account
        keystore = account.directory / "user.p12"
        keystore.write_bytes(account.entries["user.p12"])
        self.file = account.directory / "admin.properties"
        lines = (
            "security.protocol=SSL",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={account.ca}",
            "ssl.keystore.type=PKCS12",
            f"ssl.keystore.location={keystore}",
            f"ssl.keystore.password={account.entries['user.password'].decode()}",
        )
        self.file.write_text("\n".join(lines))

    def __call__(self, name: str, *arguments: str, check: bool = True) -> str:
        where = ("--bootstrap-server", self.account.bootstrap("mtls"))
        config = ("--command-config", str(self.file))
        return run_tool(name, *where, *config, *arguments, check=check)

    def acls(self, *arguments: str, check: bool = True) -> str:
        return self("kafka-acls.sh", *arguments, check=check)

    def configs(self, name: str, *arguments: str, check: bool = True) -> str:
        entity = ("--entity-type", "users", "--entity-name", name)
        return self("kafka-configs.sh", *entity, *arguments, check=check)

    def set_password(self, name: str, password: str) -> None:
        self.configs(name, "--alter", "--add-config", f"SCRAM-SHA-512=[password={password}]")


@pytest.fixture
def tools(cluster: BrokerClusterUnderTest, tmp_path: Path) -> Iterator[Tools]:
    kubectl = cluster.kubectl
    before = set(names_of(cluster))
    kubectl.apply(yaml.safe_dump(user("admin", "tls")))
    cluster.wait_ready(USERS, "admin")
    yield Tools(Credentials(cluster, "admin", tmp_path / "admin"))
    left = set(names_of(cluster)) - before
    kubectl("delete", USERS, *left, "--ignore-not-found")


def names_of(cluster: BrokerClusterUnderTest) -> list[str]:
    return [one["metadata"]["name"] for one in cluster.kubectl.get(USERS)["items"]]


def settings(tools: Tools, name: str, password: str) -> dict[str, Any]:
    """A client that knows the password."""
    return {
        "bootstrap.servers": tools.account.bootstrap("scram"),
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": name,
        "sasl.password": password,
        "ssl.ca.location": tools.account.ca,
        **QUIET,
    }


def becomes(what: str, holds: Callable[[], bool]) -> float:
    return eventually(what, holds, WAIT_S, every_s=0.2)


def test_acls_passwords_and_quotas_of_tools_are_users_and_users_are_seen_by_tools(
    cluster: BrokerClusterUnderTest, operator: Operator, tools: Tools
) -> None:
    kubectl, before = cluster.kubectl, cluster.broker_pods()
    of_carol = ("--allow-principal", "User:carol", "--operation", "Read", "--operation", "Describe")
    tools.acls("--add", *of_carol, "--topic", "bills")
    tools.acls("--add", *of_carol, "--topic", "bills")  # which changes nothing
    shown = yaml.safe_load(kubectl("get", USERS, "carol", "-o", "yaml"))
    (rule,) = shown["spec"]["authorization"]["acls"]
    assert rule["resource"] == {"type": "topic", "name": "bills"}
    assert sorted(rule["operations"]) == ["Describe", "Read"]
    listed = tools.acls("--list", "--principal", "User:carol")
    assert "operation=READ" in listed
    assert "operation=DESCRIBE" in listed

    tools.set_password("carol", PASSWORD)
    shown = yaml.safe_load(kubectl("get", USERS, "carol", "-o", "yaml"))
    assert shown["spec"]["authentication"]["type"] == "scram-sha-512"
    carol = settings(tools, "carol", PASSWORD)
    login_s = becomes("carol can log in", lambda: can_log_in(carol))
    assert "SCRAM-SHA-512=iterations=4096" in tools.configs("carol", "--describe")
    check_secrets(cluster, operator, "carol", PASSWORD)

    tools.configs("carol", "--alter", "--add-config", "producer_byte_rate=1048576")
    shown = yaml.safe_load(kubectl("get", USERS, "carol", "-o", "yaml"))
    assert shown["spec"]["quotas"] == {"producerByteRate": 1_048_576}
    assert "producer_byte_rate=1048576.0" in tools.configs("carol", "--describe")
    tools.configs("carol", "--alter", "--delete-config", "producer_byte_rate")
    shown = yaml.safe_load(kubectl("get", USERS, "carol", "-o", "yaml"))
    assert "quotas" not in shown["spec"]

    tools.set_password("carol", SECOND)
    becomes(
        "the second password works",
        lambda: can_log_in(settings(tools, "carol", SECOND)),
    )
    assert not can_log_in(carol)

    # The reverse: what is applied is listed, and what a manifest sets, a tool does not change.
    kubectl.apply(yaml.safe_dump(user("dave", "scram-sha-512", ("group", "g", ["Read"]))))
    cluster.wait_ready(USERS, "dave")
    becomes("dave is listed", lambda: "User:dave" in tools.acls("--list"))
    assert "SCRAM-SHA-512" in tools.configs("dave", "--describe")
    refused = tools.acls(
        *("--remove", "--force", "--allow-principal", "User:dave"),
        *("--operation", "Read", "--group", "g"),
        check=False,
    )
    assert "is managed by kubectl" in refused
    assert "User:dave" in tools.acls("--list")

    tools.acls("--remove", "--force", *of_carol, "--topic", "bills")
    assert "User:carol" not in tools.acls("--list")
    tools.configs("carol", "--alter", "--delete-config", "SCRAM-SHA-512")
    assert "carol" not in names_of(cluster), "nothing is left of what the tools made"
    assert not can_log_in(settings(tools, "carol", SECOND))
    assert cluster.broker_pods() == before, "no broker restarts for a User"
    measured.note(f"a password of kafka-configs.sh works {login_s:.1f} s after the tool has ended")


def check_secrets(
    cluster: BrokerClusterUnderTest, operator: Operator, name: str, password: str
) -> None:
    """Neither the password nor anything that it can be replaced by is in an object besides Secrets,
    or in a log."""
    data = cluster.kubectl.get("secret", name)["data"]
    ((mechanism, credential),) = (
        item for value in data.values() for item in read_verifier(b64decode(value)).items()
    )
    assert mechanism is Mechanism.SCRAM_SHA_512
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    (keys,) = credential.keys
    secrets = {"the password": [password]}
    for what, value in (
        ("the salted password", salted),
        ("the stored key", keys.stored_key),
        ("the server key", keys.server_key),
    ):
        secrets[what] = [b64encode(value).decode(), value.hex()]
    shown = {
        kind: cluster.kubectl("get", kind, "-o", "yaml")
        for kind in (
            USERS,
            "brokers.chiplog.dev",
            "brokerclusters.chiplog.dev",
            "accesslists.chiplog.dev",
            "events",
            "configmaps",
            "pods",
        )
    }
    for kubectl in (cluster.kubectl, operator.kubectl):
        for pod in kubectl.get("pods")["items"]:
            one = pod["metadata"]["name"]
            shown[f"log of {one}"] = kubectl("logs", one, "--all-containers")
    assert len(shown) > len(cluster.pods())
    for what, texts in secrets.items():
        for where, text in shown.items():
            assert not any(secret in text for secret in texts), f"{what} is in {where}"
