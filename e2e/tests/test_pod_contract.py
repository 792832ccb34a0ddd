"""What the operator tells a broker, the broker understands: the two share no code.

Arguments, `server.properties` and the secret's keys, each taken from the manifests as built and
read as the broker's process reads them.
"""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from chiplog_broker import main
from chiplog_broker.config_file import member_config, member_listeners
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.security.credentials import FileCredentials
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names
from chiplog_operator.resources.build import manifests
from chiplog_operator.resources.settings import BuildSettings
from e2e.cluster.layout import CHECKOUT

CLUSTERS = [CHECKOUT / "examples" / "orders.yaml", *(CHECKOUT / "crds/examples").glob("broker*")]
BROKER = BrokerId(7)
PASSWORD = "a secret word"  # noqa: S105 - of this test


def stem(path: Path) -> str:
    return path.stem


@pytest.fixture(params=CLUSTERS, ids=stem)
def cluster(request: pytest.FixtureRequest) -> BrokerCluster:
    manifest = next(iter(yaml.safe_load_all(request.param.read_text())))
    manifest["metadata"] |= {"namespace": "team", "uid": "1f3c"}
    return BrokerCluster.from_manifest(manifest)


@pytest.fixture
def made(cluster: BrokerCluster) -> dict[str, Any]:
    """One broker's manifests by kind."""
    settings = BuildSettings(broker_image="chiplog/broker:1", internal_password=PASSWORD)
    return {one["kind"]: one for one in manifests(cluster, [BROKER], settings)}


def test_the_broker_takes_the_pods_arguments(
    cluster: BrokerCluster, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (container,) = made["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    monkeypatch.setattr("sys.argv", ["chiplog-broker", *container["args"]])
    given = main.arguments()
    assert (given.cluster, given.broker_id) == (cluster.metadata.name, BROKER)
    assert given.data / "data" == Path(names.DATA_PATH)
    mounts = {mount["name"]: Path(mount["mountPath"]) for mount in container["volumeMounts"]}
    assert given.data == mounts["data"]
    assert given.credentials == mounts["internal"]
    assert given.config.parent == mounts["config"]
    assert given.config.name in made["ConfigMap"]["data"]
    assert str(given.termination_log) == container["terminationMessagePath"]
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    assert given.health_address.rpartition(":")[2] == ports["health"]
    assert given.metrics_address.rpartition(":")[2] == ports["metrics"]


def test_the_broker_reads_the_file_and_opens_the_pods_ports(
    made: dict[str, Any], tmp_path: Path
) -> None:
    ((name, text),) = made["ConfigMap"]["data"].items()
    (tmp_path / name).write_text(text)
    bound = member_listeners(member_config(tmp_path / name, BROKER))
    (container,) = made["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    own = {"tcp-internal", "health", "metrics", "operator"}
    assert {f"tcp-{one.name}": one.port for one in bound} == {
        name: port for name, port in ports.items() if name not in own
    }


def test_the_broker_reads_the_password(made: dict[str, Any], tmp_path: Path) -> None:
    for key, encoded in made["Secret"]["data"].items():
        (tmp_path / key).write_bytes(base64.b64decode(encoded))
    (credentials,) = FileCredentials(tmp_path, SystemClock()).accepted()
    assert credentials.password == PASSWORD
