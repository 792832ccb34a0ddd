"""`--config` and `--user`: brokers with TLS and logins, and what is said where they refuse."""

import json
import socket
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from chiplog_cli.kubernetes import Kubernetes
from chiplog_cli.librdkafka import connecting
from chiplog_cli.security import Reached, Security
from chiplog_cli.target import ENVIRONMENT
from e2e.clients.by_librdkafka import QUIET
from e2e.clients.secured import ADMIN, MTLS, OPEN, PASSWORD, SCRAM, SCRAM_PLAIN, SecuredBroker
from tests.commands.kube_server import serving, write_kubeconfig
from tests.commands.program import Chiplog, runs, written
from tests.views.objects import broker_cluster, topic

WRONG = "not-the-password"
STORE_PASSWORD = "of-the-store"  # noqa: S105 - of a test
MODULE = "org.apache.kafka.common.security.{}LoginModule required"
SCRAM_MODULE, PLAIN_MODULE = MODULE.format("scram.Scram"), MODULE.format("plain.Plain")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as one:
        yield one


def jaas(module: str, password: str) -> str:
    """As the operator writes it into a User's Secret."""
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    return f'{module} username="{ADMIN}" password="{quoted}";'


def trust(broker: SecuredBroker) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(broker.ca)}


def scram(broker: SecuredBroker, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": jaas(SCRAM_MODULE, password),
        **trust(broker),
    }


def ways(broker: SecuredBroker, directory: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """Listener and properties of every way to connect."""
    pem_file = directory / "user.pem"
    pem_file.write_bytes(broker.client.both)
    p12, truststore = directory / "user.p12", directory / "ca.p12"
    encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    key = serialization.load_pem_private_key(broker.client.key, None)
    certificate = x509.load_pem_x509_certificate(broker.client.certificate)
    ca = x509.load_pem_x509_certificate(broker.servers.pem)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    p12.write_bytes(pkcs12.serialize_key_and_certificates(b"u", key, certificate, None, encryption))
    truststore.write_bytes(
        pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(ca, b"ca")], encryption)
    )
    one_line = " ".join(broker.servers.pem.decode().split("\n"))
    return {
        "scram": (SCRAM, scram(broker)),
        "scram without TLS": (
            SCRAM_PLAIN,
            scram(broker) | {"security.protocol": "SASL_PLAINTEXT"},
        ),
        "plain": (
            SCRAM,
            scram(broker)
            | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas(PLAIN_MODULE, PASSWORD)},
        ),
        "certificate": (
            MTLS,
            {
                "security.protocol": "SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(pem_file),
                **trust(broker),
            },
        ),
        "PKCS #12": (
            MTLS,
            {
                "security.protocol": "SSL",
                "ssl.keystore.location": str(p12),  # JKS, the default, reads PKCS #12, too
                "ssl.keystore.password": STORE_PASSWORD,
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.location": str(truststore),
                "ssl.truststore.password": STORE_PASSWORD,
            },
        ),
        "text": (
            MTLS,
            {
                "security.protocol": "SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": " ".join(broker.client.key.decode().split("\n")),
                "ssl.keystore.certificate.chain": " ".join(
                    broker.client.certificate.decode().split("\n")
                ),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": one_line,
                "ssl.endpoint.identification.algorithm": "",
            },
        ),
    }


@pytest.mark.parametrize(
    "way", ["scram", "scram without TLS", "plain", "certificate", "PKCS #12", "text"]
)
def test_every_command_connects(
    secured: SecuredBroker, alone: Chiplog, tmp_path: Path, way: str
) -> None:
    listener, properties = ways(secured, tmp_path)[way]
    at = f"--bootstrap-server={secured.address(listener)}"
    config = written(tmp_path / "client.properties", properties)
    name = f"of-{way.replace(' ', '-').replace('#', '')}"

    def done(*arguments: str, stdin: str = "", option: str = "--config") -> str:
        result = alone(*arguments, at, option, config, stdin=stdin)
        assert (result.exit_code, PASSWORD in result.output) == (0, False), result.output
        return result.stdout

    created = done(
        "topics", "create", name, "--config=retention.ms=86400000", option="--command-config"
    )
    assert created == f"Created topic {name}.\n"
    done("topics", "alter", name, "--partitions=2", option="--command-config")
    assert name in done("topics", "list")
    assert "retention.ms=86400000" in done("topics", "describe", name)
    done("produce", name, stdin="a\nb\n")
    read = done("consume", name, "--group=g", "--from-beginning", "--max-messages=2")
    assert len(read.splitlines()) == 2
    done("groups", "describe", "g")
    done("groups", "reset", "g", f"--topic={name}", "--to-earliest", "--execute")
    done("offsets", "get", name)
    done("check")
    done("status")
    done("top", "--iterations=1")
    done("groups", "delete", "g")
    done("topics", "delete", name)


def test_properties_that_are_not_used_are_named(
    secured: SecuredBroker, alone: Chiplog, tmp_path: Path
) -> None:
    properties = {**scram(secured), "acks": "all", "ssl.provider": "x"}
    config = written(tmp_path / "client.properties", properties)
    given = ("--bootstrap-server", secured.address(SCRAM), "--config", config)
    before = alone(*given, "topics", "list")
    assert (before.exit_code, before.stderr) == (
        0,
        f"chiplog: --config {config}: not used: acks, ssl.provider\n",
    )


@pytest.mark.parametrize(
    ("listener", "changed", "message"),
    [
        (
            SCRAM,
            {"sasl.jaas.config": jaas(SCRAM_MODULE, WRONG)},
            "the login failed: ",
        ),
        (SCRAM, {"sasl.mechanism": "SCRAM-SHA-256"}, "it has no sasl.mechanism SCRAM-SHA-256"),
        (SCRAM, {"ssl.truststore.location": "OTHER"}, "its certificate is refused: "),
        (MTLS, {"security.protocol": "SSL"}, "certificate required"),
        (SCRAM, {"security.protocol": "SSL"}, "the listener needs a login"),
        (SCRAM_PLAIN, {"security.protocol": "PLAINTEXT"}, "the listener needs a login"),
        (SCRAM, {"security.protocol": "PLAINTEXT"}, "TLS"),
        (SCRAM_PLAIN, {}, "TLS fails: "),
        (OPEN, {}, "the listener has no login"),
    ],
)
def test_what_is_refused_is_said_with_the_reason(
    secured: SecuredBroker,
    alone: Chiplog,
    tmp_path: Path,
    listener: str,
    changed: Mapping[str, str],
    message: str,
) -> None:
    other = secured.clients.write(tmp_path / "other") / "ca.crt"
    changed = {key: str(other) if value == "OTHER" else value for key, value in changed.items()}
    config = written(tmp_path / "client.properties", {**scram(secured), **changed})
    given = ("--bootstrap-server", secured.address(listener), "--config", config)
    refused = alone("topics", "list", *given)
    assert refused.exit_code == 1
    assert message in refused.stderr
    assert refused.stderr.startswith("chiplog: --bootstrap-server: no broker lets this client in (")
    assert refused.stderr.count("\n") == 1
    assert WRONG not in refused.output
    assert PASSWORD not in refused.output


def test_a_certificate_for_another_host(
    secured: SecuredBroker, alone: Chiplog, tmp_path: Path
) -> None:
    _, port = secured.address(SCRAM).split(":")
    config = written(tmp_path / "client.properties", scram(secured))
    by_name = ("--bootstrap-server", f"localhost:{port}", "--config")
    refused = alone("topics", "list", *by_name, config)
    assert "Hostname mismatch" in refused.stderr
    unchecked = scram(secured) | {"ssl.endpoint.identification.algorithm": ""}
    config = written(tmp_path / "unchecked.properties", unchecked)
    assert alone("topics", "list", *by_name, config).exit_code == 0


def test_without_credentials_the_remedy_is_named(secured: SecuredBroker) -> None:
    for listener in (SCRAM, SCRAM_PLAIN, MTLS, OPEN):
        refused = runs({ENVIRONMENT: secured.address(listener)})("topics", "list")
        assert refused.exit_code == 1
        assert "use --config FILE with security.protocol" in refused.stderr


def test_a_user_without_permission_gets_a_remedy(
    secured: SecuredBroker, alone: Chiplog, tmp_path: Path
) -> None:
    config = written(tmp_path / "nobody.properties", {"security.protocol": "SSL", **trust(secured)})
    given = ("--bootstrap-server", secured.address(OPEN), "--config", config)
    refused = alone("topics", "create", "new", *given[:2], "--command-config", config)
    assert refused.exit_code == 1
    assert "AUTHORIZATION_FAILED" in refused.stderr
    assert "the user needs a rule that allows it" in refused.stderr


def test_a_check_needs_to_see_all_topics_and_nothing_else(
    secured: SecuredBroker, alone: Chiplog, tmp_path: Path
) -> None:
    """As docs/users.md says of the User for `helm test`."""
    by_admin = written(tmp_path / "admin.properties", scram(secured))
    at_scram = f"--bootstrap-server={secured.address(SCRAM)}"
    config = written(tmp_path / "nobody.properties", {"security.protocol": "SSL", **trust(secured)})
    given = (f"--bootstrap-server={secured.address(OPEN)}", f"--config={config}")
    created = alone("topics", "create", "hidden", at_scram, f"--command-config={by_admin}")
    assert created.exit_code == 0, created.output
    which = (
        *(ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*"),
        *(AclOperation.DESCRIBE, AclPermissionType.ALLOW),
    )
    rule = AclBinding(*which)
    admin = AdminClient({**secured.as_admin(), **QUIET})
    assert "hidden" not in alone("topics", "list", *given).stdout
    admin.create_acls([rule])[rule].result(20)
    try:
        assert "hidden" in alone("topics", "list", *given).stdout
        checked = alone("check", *given)
        assert (checked.exit_code, checked.stderr) == (0, ""), checked.output
        assert "every partition has a leader" in checked.stdout
    finally:
        same = AclBindingFilter(*which)
        admin.delete_acls([same])[same].result(20)
        alone("topics", "delete", "hidden", at_scram, f"--config={by_admin}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("secret-word", "line 1: write key=value"),
        (
            "security.protocol=TLS",
            "security.protocol: TLS is not supported: set it to one of PLAIN",
        ),
        ("security.protocol=SASL_SSL", "sasl.mechanism: it is missing: set it to one of PLAIN"),
    ],
)
def test_a_file_that_cannot_be_used(
    alone: Chiplog, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    refused = alone("topics", "list", "--bootstrap-server=127.0.0.1:1", f"--config={file}")
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"chiplog: --config {file}: {message}")
    assert "secret-word" not in refused.stderr
    missing = alone("topics", "list", "--bootstrap-server=127.0.0.1:1", "--config=/none")
    assert missing.stderr == (
        "chiplog: --config /none: No such file or directory: correct the path\n"
    )


# ---- from Kubernetes ----


def cluster(broker: SecuredBroker, *names: str) -> dict[str, Any]:
    """A BrokerCluster with these listeners of the broker."""
    authentication = {MTLS: "tls", SCRAM: "scram-sha-512", SCRAM_PLAIN: "scram-sha-512"}
    manifest = broker_cluster({name: broker.address(name) for name in names})
    for listener in manifest["spec"]["listeners"]:
        name = listener["name"]
        listener["tls"] = name != SCRAM_PLAIN
        if name in authentication:
            listener["authentication"] = {"type": authentication[name]}
    for status in manifest["status"]["listeners"]:
        status["certificates"] = [broker.servers.pem.decode()]
    return manifest


def secrets(broker: SecuredBroker) -> list[dict[str, Any]]:
    """As the operator writes them for Users."""
    entries = {
        "shop": {"user.crt": broker.client.certificate, "user.key": broker.client.key},
        "billing": {"sasl.jaas.config": jaas(SCRAM_MODULE, PASSWORD).encode()},
        "wrong": {"sasl.jaas.config": jaas(SCRAM_MODULE, WRONG).encode()},
        "odd": {"sasl.jaas.config": b"of-somebody-else"},
        "empty": {},
    }
    return [
        {
            "metadata": {"name": name, "namespace": "shop"},
            "data": {key: b64encode(value).decode() for key, value in data.items()},
        }
        for name, data in entries.items()
    ]


@pytest.mark.parametrize("user", ["shop", "billing"])
def test_a_user_of_kubernetes(
    secured: SecuredBroker, alone: Chiplog, tmp_path: Path, user: str
) -> None:
    everything = cluster(secured, OPEN, MTLS, SCRAM)
    with serving([everything], [], secrets=secrets(secured)) as server:
        kubeconfig = write_kubeconfig(tmp_path / "config", server, "shop")
        by_user = ("--cluster=demo", f"--kubeconfig={kubeconfig}", f"--user={user}")
        made = alone("topics", "create", f"of-{user}", *by_user)
        assert made.stdout == f"Created topic of-{user}.\n", made.output
        assert json.loads(alone(*by_user, "topics", "list", "-o", "json").stdout) != []
        alone("topics", "delete", f"of-{user}", *by_user)


def test_a_config_for_a_cluster_on_kubernetes(
    secured: SecuredBroker, alone: Chiplog, tmp_path: Path
) -> None:
    """The listener is one that fits it, and the CA need not be in it."""
    properties = {key: value for key, value in scram(secured).items() if "truststore" not in key}
    config = written(tmp_path / "client.properties", properties)
    with serving([cluster(secured, OPEN, MTLS, SCRAM)], []) as server:
        kubeconfig = write_kubeconfig(tmp_path / "config", server, "shop")
        given = ("--cluster=demo", f"--kubeconfig={kubeconfig}", f"--config={config}")
        listed = alone("topics", "list", *given)
        other = alone("topics", "list", *given, f"--listener={MTLS}")
    assert (listed.exit_code, listed.stderr) == (0, "")
    assert other.exit_code == 1
    assert "no listener for this client that fits security.protocol SASL_SSL" in other.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "listener 'mtls' needs TLS and a certificate: use --user NAME of a User with"),
        ((), "listener 'scram' needs TLS and a password: use --user NAME of a User with"),
        (("--user=nobody",), "--user: there is no Secret 'nobody' in namespace 'shop'"),
        (("--user=empty",), "the Secret 'empty' has neither a password nor a certificate"),
        (("--user=odd",), "the Secret 'odd' cannot be used"),
        (("--user=wrong",), "the login failed: "),
        (("--user=shop", "--listener=scram"), "listener 'scram' needs TLS and a password"),
    ],
)
def test_what_kubernetes_does_not_give(
    secured: SecuredBroker,
    alone: Chiplog,
    tmp_path: Path,
    options: tuple[str, ...],
    message: str,
) -> None:
    with serving([cluster(secured, MTLS, SCRAM)], [], secrets=secrets(secured)) as server:
        kubeconfig = write_kubeconfig(tmp_path / "config", server, "shop")
        given = ("--cluster=demo", f"--kubeconfig={kubeconfig}")
        refused = alone("topics", "list", *given, *options)
    assert refused.exit_code == 1
    assert message in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert WRONG not in refused.output
    assert "of-somebody-else" not in refused.output


def test_something_that_is_no_broker(alone: Chiplog) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)

        def answer() -> None:
            connected, _ = listening.accept()
            with connected:
                connected.recv(1000)
                connected.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        refused = alone("topics", "list", "--bootstrap-server", address)
        thread.join()
    assert refused.exit_code == 1
    assert f"({address}: it does not answer as a broker does)" in refused.stderr


@contextmanager
def slow_broker(answers_after_s: float) -> Iterator[str]:
    """The address of a broker that answers each request so late."""
    is_over = Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connected, _ = listening.accept()
            with connected:
                connected.recv(1000)
                if not is_over.wait(answers_after_s):
                    connected.sendall(2 * b"\0\0\0\4\0\0\0\0")
                is_over.wait(60)

        thread = Thread(target=answer)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            is_over.set()
            thread.join()


def test_a_broker_may_answer_until_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is busy is not refused sooner than --request-timeout says."""
    monkeypatch.setattr(connecting, "OTHERS_WAIT_S", 0.1)
    with slow_broker(1.0) as address:
        found = connecting.connect(address, "--bootstrap-server", timeout_s=60)
    assert found.bootstrap_servers == address


def test_a_broker_without_answer_does_not_keep_from_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connecting, "OTHERS_WAIT_S", 0.1)
    with slow_broker(50) as silent, slow_broker(0) as other:
        start_s = monotonic()
        connecting.connect(f"{silent},{other}", "--bootstrap-server", timeout_s=30)
        assert monotonic() - start_s < 25


def test_a_check_asks_the_api_server_once_a_round(
    secured: SecuredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It connects to all brokers with the same credentials and CAs, and in the next round with
    those that are there then."""
    asked = []
    reached = Kubernetes.reached

    def counted(self: Kubernetes, given: Security | None) -> Reached:
        asked.append(given)
        return reached(self, given)

    monkeypatch.setattr(Kubernetes, "reached", counted)
    topics, users = [topic("orders")], secrets(secured)
    with serving([cluster(secured, SCRAM)], topics, secrets=users) as server:
        kubeconfig = write_kubeconfig(tmp_path / "config", server, "shop")
        checked = runs({})(
            "check", "--cluster=demo", f"--kubeconfig={kubeconfig}", "--user=billing"
        )
    assert "broker 1 at " in checked.stdout
    assert asked == [None]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere OpenSSL needs a file on a disk")
def test_no_key_is_written_to_a_disk(
    secured: SecuredBroker, alone: Chiplog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is killed would leave it there, and pods may have no place for it."""
    listener, properties = ways(secured, tmp_path)["certificate"]
    config = written(tmp_path / "client.properties", properties)
    monkeypatch.setattr(tempfile, "tempdir", "/none")
    listed = alone(
        "topics", "list", f"--bootstrap-server={secured.address(listener)}", "--config", config
    )
    assert (listed.exit_code, listed.stderr) == (0, "")
