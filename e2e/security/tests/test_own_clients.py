"""`examples/secure.yaml` as it stands: the command line and Spark jobs on a cluster that lets in
nobody without credentials."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml

from e2e.cluster import layout
from e2e.cluster.target import Target
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.main.setting_up import cluster_in
from e2e.spark.small import BROKER_RESOURCES, small_jobs
from e2e.spark.verifications import Verifications

pytestmark = [pytest.mark.security, pytest.mark.timeout(900)]

NAMESPACE = "e2e-own-clients"
EXAMPLE = layout.CHECKOUT / "examples" / "secure.yaml"
TOPIC, RECORDS = "orders", 20
RUN_LIMIT_S, COMMAND_LIMIT_S = 240, 60


@pytest.fixture(scope="module")
def cluster(
    target: Target, operator: Operator, spark_jobs_image: str
) -> Iterator[BrokerClusterUnderTest]:
    """The example, with jobs and brokers of a size for this machine."""
    first, *others = yaml.safe_load_all(EXAMPLE.read_text())
    first["spec"]["spark"] |= small_jobs(spark_jobs_image, executors=1)
    first["spec"]["resources"] = BROKER_RESOURCES
    operator.wait_whole()
    with cluster_in(target, NAMESPACE, yaml.safe_dump_all([first, *others])) as one:
        one.wait_ready("ct", TOPIC)
        for user in ("shop", "spark-jobs"):
            one.wait_ready("users.chiplog.dev", user)
        yield one


def chiplog(
    cluster: BrokerClusterUnderTest, *arguments: str, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    """The program, as somebody with a kubeconfig runs it."""
    kubectl = cluster.kubectl
    where = ("--kubeconfig", str(kubectl.kubeconfig), "-n", NAMESPACE, "--cluster", cluster.name)
    return subprocess.run(
        [sys.executable, "-m", "chiplog_cli", *arguments, *where],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=COMMAND_LIMIT_S,
        check=False,
    )


def test_the_command_line_and_a_job_are_users(cluster: BrokerClusterUnderTest) -> None:
    records = "".join(f"{number}\n" for number in range(RECORDS))
    produced = chiplog(cluster, "produce", TOPIC, "--user", "shop", stdin=records)
    assert produced.returncode == 0, produced.stderr
    read = chiplog(
        cluster,
        *("consume", TOPIC, "--user", "shop", "--group", "shop-1", "--from-beginning"),
        *("--max-messages", str(RECORDS)),
    )
    assert (read.returncode, len(read.stdout.splitlines())) == (0, RECORDS), read.stderr

    nobody = chiplog(cluster, "topics", "list")
    assert nobody.returncode == 1
    assert "listener 'external' needs TLS and a password: use --user NAME" in nobody.stderr
    other = chiplog(cluster, "groups", "describe", "billing", "--user", "shop")
    assert other.returncode == 1
    assert "GROUP_AUTHORIZATION_FAILED" in other.stderr

    verifications = Verifications(cluster.kubectl, cluster.name)
    verifications.apply("all", [TOPIC])
    followed = verifications.follow("all", RUN_LIMIT_S)
    assert followed.status["phase"] == "Succeeded", followed.status
    assert followed.status["coverage"]["records"] == 3 * RECORDS
