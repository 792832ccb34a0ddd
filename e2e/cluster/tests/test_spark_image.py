"""The image of the Spark jobs runs jobs on what was left of Spark, as the user it has in a pod.

Without Kubernetes: containers are started by buildah. That driver and executor find each other in
a cluster is shown by the lane's other tests.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chiplog_core.spark.requests import JobKind, Request, ResultPlace
from e2e import measured
from e2e.cluster import spark_image
from e2e.cluster.images import buildah
from e2e.cluster.shell import CommandFailed

# A hang guard: the first time, the image is built.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

PROBE = Path(__file__).parent / "programs" / "spark_probe.py"
NOBODY = "127.0.0.1:9"
ENTRY = ("python3", "-m", "chiplog_spark.container")
SMALL = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
PACKED_LIMIT_MB = 450


@dataclass
class Container:
    """A container of the image, with a directory that both sides write to."""

    name: str
    directory: Path

    def run(self, *arguments: str, **environment: str) -> str:
        """What a program printed in it; raises `CommandFailed`."""
        given = [f"{name}={value}" for name, value in environment.items()]
        return buildah(
            *("run", "--volume", f"{self.directory}:/shared", self.name, "--", "env", *given),
            *("SPARK_LOCAL_IP=127.0.0.1", *ENTRY, *arguments),
            timeout_s=600,
        )

    def drive(self, conf: Mapping[str, str], kind: JobKind = JobKind.VERIFICATION) -> str:
        """Run the probe as a pod's driver would be run."""
        request = Request(
            kind=kind,
            application="probe-1",
            namespace="shop",
            bootstrap=NOBODY,
            result=ResultPlace(config_map="probe-1-result"),
            job={"folder": "/shared/data"},
        )
        (self.directory / "request.json").write_text(request.to_json())
        settings = {**SMALL, **conf}
        return self.run(
            *("driver", "--driver-memory", "512m"),
            *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
            *("/shared/probe.py", "/shared/request.json", "/shared/result.json"),
            SPARK_DRIVER_BIND_ADDRESS="127.0.0.1",
        )

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / "result.json").read_text())
        return found


@pytest.fixture(scope="module")
def built() -> str:
    image = spark_image.build()
    packed_mb = image.archive.stat().st_size / 1e6
    measured.note(f"image {image.name}: {packed_mb:.0f} MB packed (limit {PACKED_LIMIT_MB})")
    assert packed_mb < PACKED_LIMIT_MB
    return image.reference


@pytest.fixture
def container(built: str, tmp_path: Path) -> Iterator[Container]:
    tmp_path.chmod(0o777)
    (tmp_path / "probe.py").write_bytes(PROBE.read_bytes())
    name = buildah("from", "--pull-never", built).strip().splitlines()[-1]
    try:
        yield Container(name, tmp_path)
    finally:
        buildah("rm", name)


def test_a_job_reads_shuffles_streams_and_writes_parquet(container: Container) -> None:
    container.drive({"spark.master": "local[2]"})
    result = container.result()
    assert (result["state"], result["reason"]) == ("Succeeded", "Probed")
    assert result["summary"] == {
        "user": 185,
        "batch": 4_000,
        "keys": 1_000,
        "stream": 1_000,
        "python": [3, 11],
        "spark": "4.2.0",
    }


def test_a_refusal_is_the_containers_exit_code(container: Container) -> None:
    with pytest.raises(CommandFailed) as failed:
        container.drive({"spark.master": "local[1]"}, JobKind.EXPORT)
    assert failed.value.status == 3
    assert container.result()["reason"] == "InvalidRequest"


def test_the_driver_gets_as_far_as_the_api_server(container: Container) -> None:
    """All that speaks to Kubernetes is there: only nobody listens."""
    conf = {
        "spark.master": f"k8s://https://{NOBODY}",
        "spark.kubernetes.container.image": "none",
        "spark.kubernetes.driver.pod.name": "none",
    }
    with pytest.raises(CommandFailed):
        container.drive(conf)
    result = container.result()
    assert result["reason"] == "JobCrashed"
    assert f"Connection refused: /{NOBODY}" in result["message"]


def test_an_executor_gets_as_far_as_its_driver(container: Container) -> None:
    with pytest.raises(CommandFailed) as failed:
        container.run(
            "executor",
            SPARK_DRIVER_URL=f"spark://CoarseGrainedScheduler@{NOBODY}",
            SPARK_EXECUTOR_ID="1",
            SPARK_EXECUTOR_CORES="1",
            SPARK_EXECUTOR_MEMORY="512m",
            SPARK_APPLICATION_ID="spark-1",
            SPARK_EXECUTOR_POD_IP="127.0.0.1",
            SPARK_RESOURCE_PROFILE_ID="0",
            SPARK_EXECUTOR_POD_NAME="probe-exec-1",
        )
    assert f"Failed to connect to /{NOBODY}" in failed.value.output


def test_the_user_of_a_pod_can_read_the_jobs_and_change_nothing(container: Container) -> None:
    listed = container.run("sh", "-c", "id -u; stat -c '%U %a' / /opt/chiplog/jobs/*.py")
    user, of_root, root_mode, *jobs = listed.split()
    assert (user, of_root, jobs) == ("185", "root", ["root", "644"] * 3)
    # Which of the two depends on the store that the image was built in.
    assert root_mode in {"555", "755"}
