"""`--cluster`: the BrokerCluster on Kubernetes says where its brokers are, and how it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.clients.standalone import StandaloneBroker
from tests.commands.kube_server import serving, write_kubeconfig
from tests.commands.program import Chiplog, runs
from tests.views.objects import broker_cluster, condition, topic

CREDENTIAL: dict[str, Any] = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "kind": "ExecCredential",
    "status": {"token": "of-the-cloud"},
}
TOPICS = [
    topic("orders", conditions=[condition("Ready")]),
    topic("theirs", namespace="team", reference_namespace="shop"),
]


def cluster(broker: StandaloneBroker) -> dict[str, Any]:
    """Its inside cannot be reached from here; what its external listener says can."""
    return broker_cluster(
        {"plain": "demo-kafka-bootstrap.shop.svc:9092", "external": broker.bootstrap},
        conditions=[condition("Ready")],
    )


def test_brokers_are_found(broker: StandaloneBroker, chiplog: Chiplog, tmp_path: Path) -> None:
    with serving([cluster(broker)], []) as server:
        config = write_kubeconfig(tmp_path / "config", server, "shop")
        by_name = runs({"KUBECONFIG": str(config)})
        listed = by_name("topics", "list", "--cluster", "demo")
        assert (listed.exit_code, listed.stdout) == (0, chiplog("topics", "list").stdout)
        before = by_name("-n", "shop", "--cluster", "demo", "topics", "list")
        assert before.stdout == listed.stdout, "the options may stand before the command"


def test_options_behind_the_command_win(
    broker: StandaloneBroker, alone: Chiplog, tmp_path: Path
) -> None:
    with serving([cluster(broker)], []) as server:
        config = write_kubeconfig(tmp_path / "config", server, "elsewhere")
        given = ("--cluster", "demo", f"--kubeconfig={config}")
        assert alone("-n", "wrong", "topics", "list", *given, "-n", "shop").exit_code == 0


def test_a_listener_that_cannot_be_reached(
    broker: StandaloneBroker, alone: Chiplog, tmp_path: Path
) -> None:
    unreachable = broker_cluster({"plain": "demo-kafka-bootstrap.shop.invalid:9092"})
    with serving([unreachable], []) as server:
        config = write_kubeconfig(tmp_path / "config", server, "shop")
        refused = alone("topics", "list", "--cluster=demo", f"--kubeconfig={config}")
    assert refused.exit_code == 1
    assert refused.stderr.startswith(
        "chiplog: --cluster demo: no broker can be reached (demo-kafka-bootstrap.shop.invalid:9092"
    )
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("readable", "shown"), [(None, ["orders", "theirs"]), ("shop", ["orders"])]
)
def test_status_is_what_the_operator_says(
    broker: StandaloneBroker,
    alone: Chiplog,
    tmp_path: Path,
    readable: str | None,
    shown: list[str],
) -> None:
    """Also for who may list Topics only in the cluster's own namespace."""
    with serving([cluster(broker)], TOPICS, readable=readable) as server:
        config = write_kubeconfig(tmp_path / "config", server, "shop")
        given = ("--cluster=demo", f"--kubeconfig={config}")
        told = json.loads(alone("status", *given, "-o", "json").stdout)
        text = alone("status", *given).stdout
    assert [one["topic"] for one in told["topicObjects"]] == shown
    assert [one["type"] for one in told["conditions"]] == ["Ready"]
    assert "BrokerCluster:     shop/demo" in text
    assert "Ready      True    2026-01-31T12:00:00Z  AsSpec  Ready is AsSpec." in text


def test_a_cluster_that_is_not_there(
    broker: StandaloneBroker, alone: Chiplog, tmp_path: Path
) -> None:
    with serving([cluster(broker)], []) as server:
        config = write_kubeconfig(tmp_path / "config", server, "elsewhere")
        refused = alone("status", "--cluster=demo", f"--kubeconfig={config}")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "chiplog: --cluster: there is no BrokerCluster 'demo' in namespace 'elsewhere': "
        "`kubectl get brokerclusters -A` lists all; set its namespace with -n\n"
    )


def test_no_api_server(alone: Chiplog, tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", "shop")
    refused = alone("status", "--cluster=demo", f"--kubeconfig={config}")
    assert refused.exit_code == 1
    assert "request to the API server http://127.0.0.1:1 failed" in refused.stderr
    assert "check --kubeconfig and --context" in refused.stderr
    nothing = alone("status", "--cluster=demo", f"--kubeconfig={tmp_path / 'none'}")
    assert nothing.exit_code == 1
    assert "use --kubeconfig FILE" in nothing.stderr


def test_a_context_and_a_login_program(
    broker: StandaloneBroker, alone: Chiplog, tmp_path: Path
) -> None:
    """As clouds have them: several contexts, and a program that says who we are."""
    program = tmp_path / "cloud"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(CREDENTIAL)}'\n")
    program.chmod(0o700)
    login = {"exec": {"apiVersion": CREDENTIAL["apiVersion"], "command": str(program)}}
    with serving([cluster(broker)], [], token=CREDENTIAL["status"]["token"]) as server:
        config = write_kubeconfig(tmp_path / "config", server, "shop", user=login, context="cloud")
        nobody = write_kubeconfig(tmp_path / "nobody", server, "shop")
        by_context = runs({"KUBECONFIG": f"{nobody}:{config}"})
        found = by_context("status", "--cluster=demo", "--context=cloud")
        refused = by_context("status", "--cluster=demo")
        unknown = by_context("status", "--cluster=demo", "--context=moon")
        program.write_text("#!/bin/sh\necho 'run cloud login first' >&2; exit 1\n")
        failed = by_context("topics", "list", "--cluster=demo", "--context=cloud")
    assert (found.exit_code, found.stderr) == (0, "")
    assert "BrokerCluster:     shop/demo" in found.stdout
    assert (refused.exit_code, "failed: who?" in refused.stderr) == (1, True)
    assert "has no context named 'moon'; available: c, cloud: use --kubeconfig" in unknown.stderr
    assert failed.exit_code == 1
    assert f"the login program '{program}' failed: " in failed.stderr
    assert "run cloud login first" in failed.stderr
    assert failed.stderr.count("\n") == 1
    nowhere = alone("status", "--cluster=demo", "--context=cloud")
    assert "--context cloud: there is no kubeconfig" in nowhere.stderr
