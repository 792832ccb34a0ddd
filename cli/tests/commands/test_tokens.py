"""`--config` with OAUTHBEARER: tokens in files and from issuers, and what is said without one."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from chiplog_cli import tokens
from chiplog_cli.errors import CannotDo
from chiplog_cli.facts import TopicPartition
from chiplog_cli.librdkafka.connecting import Connection
from chiplog_cli.librdkafka.consuming import Reading, reading
from chiplog_cli.librdkafka.groups import LibrdkafkaAdmin
from chiplog_cli.librdkafka.producing import Destination, RecordProducer
from chiplog_cli.librdkafka.renewing import TokenRenewal
from chiplog_cli.security import Security, Tls, TokenEndpoint, TokenFile, TokenLogin
from e2e.clients.issuer import CLIENT_ID, CLIENT_SECRET, TokenIssuer
from e2e.clients.token_broker import ADMIN, TokenBroker
from e2e.kafka.certificates import Authority
from tests.commands.kube_server import serving, write_kubeconfig
from tests.commands.program import Chiplog, written
from tests.views.objects import broker_cluster

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{PACKAGE}.OAuthBearerLoginModule required"
URL = "sasl.oauthbearer.token.endpoint.url"
SHORT_S = 3
"""How long short tokens are valid; the broker accepts them a second longer."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenIssuer]:
    with TokenIssuer.running() as one:
        yield one


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, issuer: TokenIssuer) -> Iterator[TokenBroker]:
    with TokenBroker(tmp_path_factory.mktemp("tokens"), issuer) as one:
        yield one


@pytest.fixture(autouse=True)
def no_tokens_of_before(issuer: TokenIssuer) -> None:
    """Each test begins like a new process."""
    tokens._of_issuers.clear()
    issuer.requests.clear()


def shared(broker: TokenBroker) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.ca),
    }


def by_file(broker: TokenBroker, path: Path, token: str) -> dict[str, str]:
    path.write_text(f"{token}\n")
    return shared(broker) | {URL: path.as_uri()}


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def by_issuer(broker: TokenBroker) -> dict[str, str]:
    """With the keys of Kafka 4.1."""
    return shared(broker) | {
        URL: f"{broker.issuer.url}/token",
        "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
    }


def ways(broker: TokenBroker, directory: Path) -> dict[str, dict[str, str]]:
    """The properties of every way to get a token."""
    # As Java needs them.
    java = {
        "sasl.jaas.config": f"{MODULE} ;",
        "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
    }
    options = f'clientId="{CLIENT_ID}" clientSecret="{quoted(CLIENT_SECRET)}" scope="read write"'
    return {
        "file": by_file(broker, directory / "a token", broker.issuer.token(ADMIN)) | java,
        "client credentials": by_issuer(broker)
        | {"sasl.oauthbearer.scope": "read write", "sasl.oauthbearer.header.urlencode": "true"},
        "options of the login module": shared(broker)
        | java
        | {
            URL: f"{broker.issuer.url}/token",
            "sasl.jaas.config": f'{MODULE} {options} extension_cluster="one";',
        },
    }


def test_every_command_connects(broker: TokenBroker, alone: Chiplog, tmp_path: Path) -> None:
    config = written(tmp_path / "client.properties", ways(broker, tmp_path)["file"])
    at = f"--bootstrap-server={broker.address}"

    def done(*arguments: str, stdin: str = "", option: str = "--config") -> str:
        result = alone(*arguments, at, option, config, stdin=stdin)
        assert (result.exit_code, "--config" in result.stderr) == (0, False), result.output
        return result.stdout

    created = done("topics", "create", "mine", option="--command-config")
    assert created == "Created topic mine.\n"
    done("produce", "mine", stdin="a\nb\n")
    read = done("consume", "mine", "--group=g", "--from-beginning", "--max-messages=2")
    assert len(read.splitlines()) == 2
    done("groups", "describe", "g")
    done("offsets", "get", "mine")
    done("transactions", "list")
    done("check")
    done("status")
    done("top", "--iterations=1")
    done("topics", "delete", "mine")


@pytest.mark.parametrize("way", ["client credentials", "options of the login module"])
def test_an_issuer_gives_one_token_for_all_connections_of_a_command(
    broker: TokenBroker, alone: Chiplog, tmp_path: Path, way: str
) -> None:
    config = written(tmp_path / "client.properties", ways(broker, tmp_path)[way])
    checked = alone("check", f"--bootstrap-server={broker.address}", "--config", config)
    assert (checked.exit_code, checked.stderr) == (0, ""), checked.output
    form = {"grant_type": "client_credentials", "scope": "read write"}
    assert broker.issuer.requests == [form]


def test_no_property_is_reported_as_unused(
    broker: TokenBroker, alone: Chiplog, tmp_path: Path
) -> None:
    properties = by_issuer(broker) | {"sasl.login.connect.timeout.ms": "1"}
    config = written(tmp_path / "client.properties", properties)
    listed = alone("topics", "list", "--bootstrap-server", broker.address, "--config", config)
    assert listed.stderr == f"chiplog: --config {config}: not used: sasl.login.connect.timeout.ms\n"


def refusal(alone: Chiplog, broker: TokenBroker, path: Path, properties: Mapping[str, str]) -> str:
    """The only line that a command prints with these properties."""
    config = written(path / "client.properties", properties)
    refused = alone("topics", "list", "--bootstrap-server", broker.address, "--config", config)
    assert (refused.exit_code, refused.stdout) == (1, ""), refused.output
    assert refused.stderr.count("\n") == 1
    assert CLIENT_SECRET not in refused.stderr
    assert "eyJ" not in refused.stderr, "a token"
    return refused.stderr


def test_a_token_that_the_broker_refuses(
    broker: TokenBroker, alone: Chiplog, tmp_path: Path
) -> None:
    issue = broker.issuer.token
    for token in (issue(ADMIN, aud="web"), issue(ADMIN, iss="https://other.example")):
        wrong = by_file(broker, tmp_path / "token", token)
        said = refusal(alone, broker, tmp_path, wrong)
        assert "no broker lets this client in (" in said
        assert "the login failed: " in said
        assert "check that the token has the issuer and the audience of the listener" in said


def test_a_file_without_a_token_that_is_valid(
    broker: TokenBroker, alone: Chiplog, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    expired = by_file(broker, file, broker.issuer.token(ADMIN, valid_s=-1))
    begin = f"chiplog: {URL}: {file}: "
    said = refusal(alone, broker, tmp_path, expired)
    assert said.startswith(f"{begin}the token has expired: write a valid token into the file")
    opaque = by_file(broker, file, "e" * 40)
    assert f"{begin}there is no signed token (JWT): " in refusal(alone, broker, tmp_path, opaque)
    file.unlink()
    assert refusal(alone, broker, tmp_path, opaque) == (
        f"{begin}No such file or directory: correct the path\n"
    )


def test_an_issuer_that_gives_no_token(
    broker: TokenBroker, issuer: TokenIssuer, alone: Chiplog, tmp_path: Path
) -> None:
    properties = by_issuer(broker)
    begin = f"chiplog: {URL}: {issuer.url}/token: "
    secret = {"sasl.oauthbearer.client.credentials.client.secret": "another"}
    assert refusal(alone, broker, tmp_path, properties | secret) == (
        f"{begin}the answer is 401 invalid_client: check the client id, its secret and the scope\n"
    )
    issuer.is_down = True
    try:
        assert f"{begin}the answer is 503" in refusal(alone, broker, tmp_path, properties)
    finally:
        issuer.is_down = False
    nobody = {URL: "http://127.0.0.1:1/token"}
    assert "Connection refused: check the URL" in refusal(
        alone, broker, tmp_path, properties | nobody
    )


def test_an_issuer_is_asked_with_tls(broker: TokenBroker, alone: Chiplog, tmp_path: Path) -> None:
    """Its CA is that of the login module's options, as in Kafka: not the one of the brokers."""
    authority = Authority.create("issuers")
    ca = authority.write(tmp_path / "ca") / "ca.crt"
    stores = f'ssl.truststore.type="PEM" ssl.truststore.location="{ca}"'
    server = authority.server().write(tmp_path / "server")
    with broker.issuer.serving(server) as url:
        properties = by_issuer(broker) | {URL: f"{url}/token"}
        said = refusal(alone, broker, tmp_path, properties)
        trusting = properties | {"sasl.jaas.config": f"{MODULE} {stores};"}
        config = written(tmp_path / "client.properties", trusting)
        listed = alone("topics", "list", "--bootstrap-server", broker.address, "--config", config)
    assert "its certificate is refused: " in said
    assert "option ssl.truststore.location of sasl.jaas.config" in said
    assert (listed.exit_code, listed.stderr) == (0, "")


def test_a_listener_of_kubernetes_with_tokens(
    broker: TokenBroker, alone: Chiplog, tmp_path: Path
) -> None:
    manifest = broker_cluster({"pods": broker.address})
    (listener,) = manifest["spec"]["listeners"]
    listener["tls"] = True
    listener["authentication"] = {"type": "kubernetes-token", "audience": "demo.shop"}
    (status,) = manifest["status"]["listeners"]
    status["certificates"] = [broker.ca.read_text()]
    by_token = by_file(broker, tmp_path / "token", broker.issuer.token(ADMIN))
    properties = {key: value for key, value in by_token.items() if "truststore" not in key}
    config = written(tmp_path / "client.properties", properties)
    with serving([manifest], []) as server:
        kubeconfig = write_kubeconfig(tmp_path / "config", server, "shop")
        given = ("topics", "list", "--cluster=demo", f"--kubeconfig={kubeconfig}")
        without = alone(*given)
        listed = alone(*given, f"--config={config}")
    assert without.exit_code == 1
    assert "a token: use --config FILE with sasl.mechanism=OAUTHBEARER" in without.stderr
    assert (listed.exit_code, listed.stderr) == (0, "")


# ---- tokens that end ----


def connection(broker: TokenBroker, source: TokenFile | TokenEndpoint) -> Connection:
    security = Security(tls=Tls(authorities=broker.ca.read_text()), login=TokenLogin(source=source))
    return Connection(bootstrap_servers=broker.address, timeout_s=30, security=security)


@contextmanager
def renewed(broker: TokenBroker, path: Path) -> Iterator[None]:
    """Replace a short token in a file in time, as the kubelet does, while the block runs."""
    is_over = threading.Event()

    def write() -> None:
        new = path.with_name("new")
        new.write_text(broker.issuer.token(ADMIN, valid_s=SHORT_S))
        new.replace(path)

    def run() -> None:
        while not is_over.wait(SHORT_S / 6):
            write()

    write()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_client_outlives_the_token_in_a_file(broker: TokenBroker, tmp_path: Path) -> None:
    """While it is used, and while it is not."""
    file = tmp_path / "token"
    with renewed(broker, file):
        admin = LibrdkafkaAdmin(connection(broker, TokenFile(str(file))))
        ends_s = time.monotonic() + SHORT_S + 3
        while time.monotonic() < ends_s:
            admin.topic_names()
            time.sleep(0.2)
        time.sleep(SHORT_S + 2)
        admin.topic_names()


def test_a_client_requests_the_next_token_in_time(
    broker: TokenBroker, issuer: TokenIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer, "valid_s", float(SHORT_S))
    endpoint = TokenEndpoint(
        url=f"{issuer.url}/token", client_id=CLIENT_ID, client_secret=CLIENT_SECRET
    )
    admin = LibrdkafkaAdmin(connection(broker, endpoint))
    deadline_s = time.monotonic() + 60
    while len(issuer.requests) < 4:
        assert time.monotonic() < deadline_s, "no token is requested while the client is idle"
        time.sleep(0.1)
    admin.topic_names()


def test_a_token_is_used_until_it_ends_if_there_is_no_other(
    broker: TokenBroker, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(token := broker.issuer.token(ADMIN, valid_s=SHORT_S))
    login = TokenLogin(source=TokenFile(str(file)), extensions=(("a", "b"),))
    renewal = TokenRenewal(login, timeout_s=1)
    assert renewal("")[0] == token
    file.unlink()
    shown, expires_s, _, extensions = renewal("")
    assert (shown, extensions) == (token, {"a": "b"})
    time.sleep(max(0.0, expires_s - time.time()))
    with pytest.raises(CannotDo, match="No such file or directory"):
        renewal("")
    with pytest.raises(CannotDo, match="No such file or directory"):
        renewal.check()
    file.write_text(token := broker.issuer.token(ADMIN))
    assert renewal("")[0] == token
    renewal.check()


def test_a_consumer_ends_if_its_token_is_not_renewed(broker: TokenBroker, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(broker.issuer.token(ADMIN, valid_s=SHORT_S))
    connected = connection(broker, TokenFile(str(file)))
    wanted = Reading(topic="none", starts={TopicPartition("none", 0): 0}, silence_s=120)

    def read() -> None:
        with reading(connected, wanted) as records:
            file.unlink()
            list(records)

    with pytest.raises(CannotDo, match=f"{file}: No such file or directory"):
        read()


def test_a_producer_says_that_its_token_is_not_renewed(broker: TokenBroker, tmp_path: Path) -> None:
    """And how many records were acknowledged before."""
    file = tmp_path / "token"
    file.write_text(broker.issuer.token(ADMIN, valid_s=SHORT_S))
    producer = RecordProducer(connection(broker, TokenFile(str(file))), Destination(topic="ended"))
    file.unlink()
    producer.send(None, b"first")
    producer.finish()

    def write() -> None:
        ends_s = time.monotonic() + 60
        while time.monotonic() < ends_s:
            producer.send(None, b"next")
            time.sleep(0.1)

    with pytest.raises(CannotDo, match=f"{file}: No such file.* records were acknowledged"):
        write()
