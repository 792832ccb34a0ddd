"""Jobs of a cluster whose listeners ask for credentials connect as a User of it."""

import json
from typing import Any

import pytest

from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from tests.shell.conftest import CLUSTER, NAMESPACE, Bench
from tests.shell.test_users import SECURE, apply_user
from tests.shell.test_verifications import Spark


@pytest.fixture
def it(bench: Bench) -> Spark:
    bench.keeps_users = True
    return Spark(bench)


async def secure(it: Spark, user: str | None) -> None:
    """Listeners that ask for credentials, and perhaps the User of jobs."""
    spec = {**SECURE, "spark": {"launcher": "Job", "user": user}}
    await it.bench.api.patch(
        kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER, {"spec": spec}, field_manager="kubectl"
    )
    await it.bench.live(3)


def request_of(it: Spark, job: Manifest) -> dict[str, Any]:
    name = f"{job['metadata']['name']}-request"
    found: dict[str, Any] = json.loads(
        it.bench.one(kinds.CONFIG_MAPS, name)["data"]["request.json"]
    )
    return found


def secrets_of(pod: dict[str, Any]) -> dict[str, str]:
    """The Secrets that a pod mounts, by the name of the volume."""
    volumes = {one["name"]: one for one in pod["volumes"] if "secret" in one}
    return {name: str(one["secret"]["secretName"]) for name, one in volumes.items()}


@pytest.mark.parametrize(
    ("kind", "port", "mounted", "connection"),
    [
        (
            "tls",
            9093,
            {"chiplog-user": "jobs", "chiplog-cluster-ca": "demo-cluster-ca-cert"},
            {
                "tls": True,
                "caFile": "/etc/chiplog/cluster-ca/ca.crt",
                "certificateFile": "/etc/chiplog/user/user.crt",
                "keyFile": "/etc/chiplog/user/user.key",
            },
        ),
        (
            "scram-sha-512",
            9095,
            {"chiplog-user": "jobs"},
            {"login": {"username": "jobs", "passwordFile": "/etc/chiplog/user/password"}},
        ),
    ],
)
def test_a_job_waits_for_its_user_and_mounts_its_secret(
    it: Spark, kind: str, port: int, mounted: dict[str, str], connection: dict[str, Any]
) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await secure(it, "jobs")
            await it.apply(topics=["orders"])
            await it.bench.live(20)
            assert it.jobs() == []
            assert it.ready() == ("False", "UserNotReady")
            await apply_user(it.bench, "jobs", kind)
            await it.bench.live(30)
            (job,) = it.jobs()
            request = request_of(it, job)
            assert request["bootstrap"] == f"demo-kafka-bootstrap.shop.svc:{port}"
            assert request["connection"] == connection
            driver = job["spec"]["template"]["spec"]
            name = job["metadata"]["name"]
            template = it.bench.one(kinds.CONFIG_MAPS, f"{name}-executor")["data"]["pod.json"]
            for pod in (driver, json.loads(template)["spec"]):
                found = secrets_of(pod)
                found.pop("chiplog-result-key", None)
                assert found == mounted

    it.bench.run(scenario())


def test_without_a_user_no_listener_lets_the_job_in(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await secure(it, None)
            await it.apply(topics=["orders"])
            await it.bench.live(20)
            assert it.jobs() == []
            assert it.ready() == ("False", "NoListener")
            said = it.status()["conditions"][0]["message"]
            assert "set spec.spark.user to a User of the cluster" in said

    it.bench.run(scenario())
