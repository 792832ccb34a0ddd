"""`chiplog check`: the exit status says whether the cluster works."""

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.clients.standalone import StandaloneBroker
from tests.commands.kube_server import serving, write_kubeconfig
from tests.commands.program import Chiplog
from tests.views.objects import broker_cluster, condition, topic

READY, NOT_READY = condition("Ready"), condition("Ready", "False", "NoLeader")


def cluster(broker: StandaloneBroker, *conditions: Any, replicas: int = 1) -> dict[str, Any]:
    status = {"conditions": list(conditions), "observedGeneration": 1}
    found = broker_cluster({"external": broker.bootstrap}, **status)
    found["spec"]["replicas"] = replicas
    return found


def of_release(name: str, release: str, *conditions: Any) -> dict[str, Any]:
    found = topic(name, conditions=conditions)
    found["metadata"]["labels"] = {"release": release}
    found["status"]["observedGeneration"] = 1
    return found


def checks(said: str) -> dict[str, str | None]:
    return {one["check"]: one["problem"] for one in json.loads(said)["checks"]}


def test_a_broker_by_itself(chiplog: Chiplog, broker: StandaloneBroker) -> None:
    done = chiplog("check")
    assert done.exit_code == 0, done.output
    assert f"broker 1 at {broker.bootstrap} answers" in done.stdout
    assert "every partition has a leader" in done.stdout


def test_no_broker(alone: Chiplog) -> None:
    done = alone("check", "--bootstrap-server=127.0.0.1:1")
    assert done.exit_code == 1
    assert "a broker answers" in done.stdout
    assert "127.0.0.1:1: Connection refused" in done.stdout


def test_a_cluster_on_kubernetes(broker: StandaloneBroker, alone: Chiplog, tmp_path: Path) -> None:
    topics = [of_release("orders", "mine", READY), of_release("theirs", "other", NOT_READY)]
    with serving([cluster(broker, READY)], topics) as server:
        config = write_kubeconfig(tmp_path / "config", server, "shop")
        given = ("check", "--cluster=demo", f"--kubeconfig={config}", "-o", "json")
        mine, all_ = alone(*given, "--selector=release=mine"), alone(*given)
    assert (mine.exit_code, all_.exit_code) == (0, 1)
    assert set(checks(mine.stdout)) == {
        "BrokerCluster shop/demo is Ready",
        "Topic shop/orders is Ready",
        "1 brokers",
        f"broker 1 at {broker.bootstrap} answers",
        "every partition has a leader",
    }
    assert checks(all_.stdout)["Topic shop/theirs is Ready"] == "NoLeader: Ready is NoLeader."


OF_CLUSTER = "BrokerCluster shop/demo is Ready"


@pytest.mark.parametrize(
    ("conditions", "changes", "problem"),
    [
        ([], {}, (OF_CLUSTER, "has not reconciled")),
        ([READY], {"generation": 2}, (OF_CLUSTER, "has not reconciled")),
        ([NOT_READY], {}, (OF_CLUSTER, "NoLeader")),
        ([READY], {"replicas": 3}, ("3 brokers", "only 1 of 3 brokers are registered")),
    ],
)
def test_what_is_not_in_order(
    broker: StandaloneBroker,
    alone: Chiplog,
    tmp_path: Path,
    conditions: list[Any],
    changes: dict[str, int],
    problem: tuple[str, str],
) -> None:
    one = cluster(broker, *conditions, replicas=changes.get("replicas", 1))
    one["metadata"]["generation"] = changes.get("generation", 1)
    with serving([one], [topic("orders")]) as server:
        config = write_kubeconfig(tmp_path / "config", server, "shop")
        given = ("--cluster=demo", f"--kubeconfig={config}", "-o", "json", "--wait=100ms")
        done = alone("check", *given)
    assert done.exit_code == 1
    what, why = problem
    assert why in str(checks(done.stdout)[what])


def test_a_cluster_that_is_not_there(alone: Chiplog, tmp_path: Path) -> None:
    with serving([], []) as server:
        config = write_kubeconfig(tmp_path / "config", server, "shop")
        done = alone("check", "--cluster=demo", f"--kubeconfig={config}")
    assert done.exit_code == 1
    assert "there is no BrokerCluster 'demo' in namespace 'shop'" in done.stdout


def test_options_of_kubernetes_go_with_a_cluster(chiplog: Chiplog) -> None:
    refused = chiplog("check", "--selector=a=b")
    assert refused.exit_code == 2
    assert "need --cluster" in refused.stderr
