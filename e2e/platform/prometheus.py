"""Debian's Prometheus on this machine: it scrapes pods, judges the chart's rules, and answers.

Kubernetes' discovery is compiled out of it, so a file names the targets; their labels are those
that docs/alerts.md asks for.
"""

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from e2e.cluster import layout
from e2e.cluster.console import step
from e2e.cluster.kubectl import eventually
from e2e.cluster.shell import run

PACKAGE: Final = "prometheus"
HOST: Final = "127.0.0.1"
SCRAPE_S: Final = 1
ANSWER_LIMIT_S: Final = 10
END_LIMIT_S: Final = 20


class Target(NamedTuple):
    """A pod's port, and what the scrape adds to each of its figures."""

    address: str
    labels: Mapping[str, str]


def program() -> Path:
    """The program, taken out of Debian's package: nothing is installed or started by it."""
    directory = layout.cache() / "tools" / PACKAGE
    found = directory / "usr" / "bin" / "prometheus"
    if not found.exists():
        with step(f"downloading {PACKAGE}"):
            directory.mkdir(parents=True, exist_ok=True)
            run("apt-get", "update", "-qq", timeout_s=300)
            run(
                "apt-get",
                "-qq",
                "-o",
                "APT::Sandbox::User=root",
                "download",
                PACKAGE,
                cwd=directory,
            )
            (archive,) = directory.glob("*.deb")
            run("dpkg-deb", "--extract", str(archive), str(directory))
    return found


class Prometheus:
    """A Prometheus process that runs inside this context manager, with its files in `directory`."""

    def __init__(self, directory: Path, port: int, rules: Mapping[str, Any]) -> None:
        self.directory, self.port = directory, port
        self.rules = rules
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.discovered({})
        (self.directory / "rules.yaml").write_text(json.dumps(self.rules))
        (self.directory / "prometheus.yml").write_text(json.dumps(configuration()))
        with (self.directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(str(program()), f"--web.listen-address={HOST}:{self.port}"),
                    *("--config.file=prometheus.yml", "--storage.tsdb.path=data"),
                ],
                cwd=self.directory,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        eventually("Prometheus is ready", self.is_ready, 30)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process is not None
        self.process.terminate()
        try:
            self.process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def is_ready(self) -> bool:
        return self._get("/-/ready") is not None

    def discovered(self, jobs: Mapping[str, Sequence[Target]]) -> None:
        """Replace the scrape targets of all jobs; jobs that are not named have none.

        Prometheus reads the files every second, so each is renamed into place when complete.
        """
        for job in ("chiplog-brokers", "chiplog-operator"):
            groups = [
                {"targets": [one.address], "labels": dict(one.labels)} for one in jobs.get(job, ())
            ]
            path = self.directory / f"{job}.json"
            making = path.with_suffix(".making")
            making.write_text(json.dumps(groups))
            making.rename(path)

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The vector that an instant query returns; the expression must not be a scalar."""
        answer = self._get(f"/api/v1/query?{urllib.parse.urlencode({'query': expr})}")
        assert answer is not None
        data = json.loads(answer)["data"]
        assert data["resultType"] == "vector", data
        found: list[dict[str, Any]] = data["result"]
        return found

    def up(self) -> dict[str, str]:
        """The health of each target: `host:port` -> up, down or unknown."""
        answer = self._get("/api/v1/targets?state=active")
        assert answer is not None
        targets = json.loads(answer)["data"]["activeTargets"]
        return {one["labels"]["instance"]: one["health"] for one in targets}

    def alerts(self, name: str) -> dict[str, list[dict[str, str]]]:
        """State (pending or firing) -> labels of each alert of that name."""
        answer = self._get("/api/v1/alerts")
        assert answer is not None
        found: dict[str, list[dict[str, str]]] = {"pending": [], "firing": []}
        for one in json.loads(answer)["data"]["alerts"]:
            if one["labels"]["alertname"] == name:
                found[one["state"]].append(one["labels"])
        return found

    def wait_firing(self, name: str, limit_s: float, **labels: str) -> float:
        """Wait until the alert fires with at least these labels; returns the seconds it took."""

        def fires() -> bool:
            firing = self.alerts(name)["firing"]
            return any(labels.items() <= one.items() for one in firing)

        return eventually(f"{name} fires", fires, limit_s, every_s=0.5)

    def wait_quiet(self, name: str, limit_s: float) -> float:
        """Wait until the alert neither fires nor is pending; returns the seconds it took."""

        def is_quiet() -> bool:
            found = self.alerts(name)
            assert not any(found.values()), found
            return True

        return eventually(f"{name} is over", is_quiet, limit_s, every_s=0.5)

    def _get(self, path: str) -> bytes | None:
        url = f"http://{HOST}:{self.port}{path}"
        with urllib.request.urlopen(url, timeout=ANSWER_LIMIT_S) as answer:
            content: bytes = answer.read()
            return content


def configuration() -> dict[str, Any]:
    """Prometheus' configuration: the two jobs of docs/alerts.md, with targets from files."""
    return {
        "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            {
                "job_name": job,
                "honor_labels": job == "chiplog-operator",
                "file_sd_configs": [{"files": [f"{job}.json"], "refresh_interval": "1s"}],
            }
            for job in ("chiplog-brokers", "chiplog-operator")
        ],
    }


class Scrape(NamedTuple):
    """A page, and how long it took."""

    seconds: float
    page: bytes


def scrape(address: str) -> Scrape:
    """Scrape as Prometheus does, on a new connection."""
    began_s = time.monotonic()
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
        page: bytes = answer.read()
    return Scrape(time.monotonic() - began_s, page)
