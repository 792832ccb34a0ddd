"""The process as a broker of a cluster: its options, its file, its listeners."""

import argparse
import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from chiplog_broker.broker import Broker
from chiplog_broker.config_file import InvalidConfigFile, member_config, member_listeners
from chiplog_broker.errors import CannotStart
from chiplog_broker.main import Addresses, arguments, serve
from chiplog_broker.member import member
from chiplog_broker.security.listener_security import ClientAuth
from chiplog_broker.server.health import Health
from chiplog_kube.connection import Connection
from e2e.kafka.certificates import Authority

CLUSTER = ["--cluster", "c1", "--broker-id", "3", "--data", "/data"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "one of the arguments --standalone --cluster is required"),
        (["--standalone", "/x", "--cluster", "c1"], "not allowed with argument"),
        (["--standalone", "/x", "--broker-id", "1"], "--broker-id needs --cluster"),
        (["--standalone", "/x", "--kubeconfig", "f"], "--kubeconfig needs --cluster"),
        (["--cluster", "c1", "--data", "/data"], "--cluster needs --broker-id"),
        (["--cluster", "c1", "--broker-id", "1"], "--cluster needs --data"),
        (["--cluster", "c1", "--broker-id", "0", "--data", "/d"], "--broker-id 0 is out of range"),
        (["--cluster", "c1", "--broker-id", "x", "--data", "/d"], "invalid int value"),
    ],
)
def test_options_that_do_not_go_together(
    given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments(given)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_outside_of_a_pod_the_address_of_the_api_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    options = arguments([*CLUSTER[:-1], str(tmp_path)])
    assert isinstance(options, argparse.Namespace)
    with pytest.raises(CannotStart, match="--kubeconfig"):
        member(options)


def with_credentials(directory: Path) -> list[str]:
    """The options of a member that has a password for other brokers."""
    secret = directory / "secret"
    secret.mkdir()
    for name in ("username", "password"):
        (secret / name).write_text("word")
    return [*CLUSTER[:-1], str(directory / "data"), "--credentials", str(secret)]


@pytest.mark.parametrize("given", [None, "given", "mounted"])
def test_a_member_uses_tls_with_others_if_it_has_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    ca, mounted = Authority.create(), tmp_path / "mounted"
    if given is not None:
        ca.write(ca.peer("demo-broker-3-0").write(tmp_path / given))
    monkeypatch.setattr("chiplog_broker.member.INTERNAL_TLS", mounted)
    options = with_credentials(tmp_path)
    if given == "given":
        options += ["--internal-tls", str(tmp_path / given)]
    broker = member(arguments(options), connection=Connection(server="http://127.0.0.1:1"))
    (internal,) = [one for one in broker._listeners if one.is_internal]
    assert (internal.tls is not None) is (given is not None)
    assert (broker.operator_tls is not None) is (given is not None)
    if internal.tls is not None:
        assert internal.tls.client_auth is ClientAuth.REQUIRED


def test_files_for_tls_with_others_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    options = with_credentials(tmp_path)
    options += ["--internal-tls", str(tmp_path / "absent")]
    with pytest.raises(CannotStart, match=r"^--internal-tls .*absent cannot be used"):
        member(arguments(options), connection=Connection(server="http://127.0.0.1:1"))


def test_a_member_has_the_id_it_is_given(tmp_path: Path) -> None:
    assert member_config(None, 3)["node.id"] == "3"
    file = tmp_path / "server.properties"
    file.write_text("node.id=4\n")
    with pytest.raises(InvalidConfigFile, match=r"node.id\] is 4, but --broker-id is 3"):
        member_config(file, 3)


def test_a_member_takes_the_names_of_its_cluster() -> None:
    config = {"listeners": "plain://10.1.2.3:9092,external://10.1.2.3:9094"}
    assert [(one.name, one.host, one.port) for one in member_listeners(config)] == [
        ("plain", "10.1.2.3", 9092),
        ("external", "10.1.2.3", 9094),
    ]
    assert [(one.name, one.port) for one in member_listeners({})] == [("plain", 9092)]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "has the name PLAINTEXT"),
        ({"listeners": "internal://0.0.0.0:9091"}, "the broker adds internal itself"),
        ({"listeners": "a-b://0.0.0.0:9092"}, "lower-case letters and digits"),
        ({"advertised.listeners": "plain://h:1"}, "is set by the operator in the Broker object"),
    ],
)
def test_listeners_of_a_member_that_are_refused(config: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigFile, match=message):
        member_listeners(config)


class Deposed(Broker):
    """Serves until another process has its place."""

    def __init__(self) -> None:
        self.health = Health()
        self.stopped = False

    async def start(self) -> None:
        self.health.started = True

    def exposition(self) -> Any:
        """Nobody scrapes it."""

    async def deposed(self) -> str:
        return "another process was admitted as this broker"

    async def stop(self) -> None:
        self.stopped = True


def test_a_deposed_process_stops_in_order_and_fails() -> None:
    broker = Deposed()
    addresses = Addresses(("127.0.0.1", 0), ("127.0.0.1", 0))
    with pytest.raises(CannotStart, match="another process was admitted"):
        asyncio.run(asyncio.wait_for(serve(broker, addresses), timeout=5))
    assert broker.stopped
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
