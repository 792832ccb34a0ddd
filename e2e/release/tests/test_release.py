"""A release is whole, and an empty virtual environment is all that it needs."""

import json
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml

from charts.versions import CHARTS, chart_version
from chiplog_core.version import VERSION
from e2e.clients.by_kafka_python import KafkaPython
from e2e.clients.client import Record
from e2e.cluster import layout
from e2e.cluster.shell import run
from e2e.release import build, chart_archive
from e2e.release.installed import Environment, InstalledBroker
from e2e.release.registry import Registry

pytestmark = [pytest.mark.dist, pytest.mark.timeout(1200)]

TEST_RUNNERS_AND_OTHERS = {"kopf", "pytest", "hypothesis", "mypy", "pyspark", "ruff"}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` writes."""
    directory = tmp_path_factory.mktemp("release") / "dist"
    build.release(directory)
    return directory


@pytest.fixture(scope="module")
def environment(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    directory = tmp_path_factory.mktemp("environment") / "venv"
    return Environment.make(directory, release / build.WHEEL, ("cli", "broker"))


def test_it_holds_these_files_and_their_sums(release: Path) -> None:
    archives = {build.archive(chart) for chart in CHARTS}
    files = {build.WHEEL, build.SOURCES, build.DEFINITIONS, build.BILL, *archives}
    assert {path.name for path in release.iterdir()} == {*files, build.SUMS}
    summed = run("sha256sum", "--check", "--strict", build.SUMS, cwd=release).splitlines()
    assert {line.partition(":")[0] for line in summed} == files


def test_the_wheel_has_every_program_and_no_test(release: Path) -> None:
    with zipfile.ZipFile(release / build.WHEEL) as wheel:
        names = wheel.namelist()
        about = message_from_bytes(wheel.read(f"chiplog-{VERSION}.dist-info/METADATA"))
    packages = {path.name for path in layout.CHECKOUT.glob("*/chiplog_*") if path.is_dir()}
    assert {name.partition("/")[0] for name in names} == {*packages, f"chiplog-{VERSION}.dist-info"}
    assert not [name for name in names if "tests/" in name]
    assert about["Version"] == VERSION
    assert not [one for one in about.get_all("Requires-Dist", []) if "extra ==" not in one]


def test_the_sources_make_the_same_wheel(release: Path, tmp_path: Path) -> None:
    with tarfile.open(release / build.SOURCES) as archive:
        archive.extractall(tmp_path, filter="data")
    directory = tmp_path / f"chiplog-{VERSION}"
    build.python_packages(tmp_path / "again", directory, ["wheel"])
    with (
        zipfile.ZipFile(release / build.WHEEL) as ours,
        zipfile.ZipFile(tmp_path / "again" / build.WHEEL) as again,
    ):
        assert {name: ours.read(name) for name in ours.namelist()} == {
            name: again.read(name) for name in again.namelist()
        }


@pytest.mark.parametrize("chart", CHARTS)
def test_helm_reads_a_chart_back_from_a_registry(release: Path, tmp_path: Path, chart: str) -> None:
    with Registry() as registry:
        tag = chart_archive.read(release / build.archive(chart), registry, f"elsewhere/{chart}")
        chart_archive.helm(
            str(tmp_path),
            *("pull", f"oci://{registry.address}/elsewhere/{chart}", "--version", tag),
            *("--plain-http", "--untar", "--untardir", str(tmp_path / "pulled")),
        )
    assert tag == chart_version(VERSION)
    pulled, source = tmp_path / "pulled" / chart, layout.CHECKOUT / "charts" / chart
    files = {path.relative_to(pulled) for path in pulled.rglob("*") if path.is_file()}
    assert files >= {path.relative_to(source) for path in source.rglob("templates/**/*.yaml")}
    for path in files - {Path("Chart.yaml")}:  # helm sorts what is in it
        assert (pulled / path).read_bytes() == (source / path).read_bytes()
    about = yaml.safe_load((pulled / "Chart.yaml").read_text())
    assert about == yaml.safe_load((source / "Chart.yaml").read_text())


def test_definitions_are_one_file(release: Path) -> None:
    found = list(yaml.safe_load_all((release / build.DEFINITIONS).read_text()))
    files = sorted((layout.CHECKOUT / "crds").glob("*.yaml"))
    assert found == [yaml.safe_load(path.read_text()) for path in files]


def test_the_bill_names_what_the_programs_are_locked_to(release: Path) -> None:
    bill = json.loads((release / build.BILL).read_text())
    about = bill["metadata"]["component"]
    assert (about["type"], about["name"], about["version"]) == ("application", "chiplog", VERSION)
    locked = "\n".join(lock.read_text() for lock in build.LOCKS)
    purls = [one["purl"] for one in bill["components"]]
    assert len(purls) == len(set(purls)) > 20
    for one in bill["components"]:
        assert f"{one['name']}=={one['version']}" in locked
    assert {"kopf", "confluent-kafka", "uvloop", "pyspark"} <= {
        one["name"] for one in bill["components"]
    }


def test_nobody_else_comes_along(environment: Environment) -> None:
    packages = environment.packages()
    assert {"chiplog", "confluent-kafka", "uvloop"} <= packages
    assert not packages & TEST_RUNNERS_AND_OTHERS


@pytest.mark.parametrize("program", ["chiplog", "chiplog-broker", "kubectl-chiplog"])
def test_programs_say_their_version(environment: Environment, program: str) -> None:
    assert environment(program, "--version").split()[1:] == [VERSION]


def test_a_record_goes_in_and_comes_out(environment: Environment, tmp_path: Path) -> None:
    broker = InstalledBroker(tmp_path / "broker")
    broker.environment = environment
    with broker:
        at = f"--bootstrap-server={broker.bootstrap}"
        environment("chiplog", "topics", "create", "orders", "--partitions=1", at)
        KafkaPython().produce(broker.bootstrap, "orders", [Record(b"from kafka-python", b"k")])
        environment("chiplog", "produce", "orders", at, input_text="from chiplog\n")

        read = ("orders", "--from-beginning", "--max-messages=2", "--timeout-ms=20000", at)
        assert environment("chiplog", "consume", *read).splitlines() == [
            "Partition:0\tOffset:0\tk\tfrom kafka-python",
            "Partition:0\tOffset:1\tnull\tfrom chiplog",
        ]
        found = KafkaPython().consume(broker.bootstrap, "orders", 0, 2)
        assert [one.record.value for one in found] == [b"from kafka-python", b"from chiplog"]
