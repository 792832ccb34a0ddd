"""A Spark application takes no name of somebody else's, and removes nothing but its own."""

from typing import Any

import pytest

from chiplog_core.model.spark import SparkLauncher
from chiplog_core.naming import labels
from chiplog_core.spark.application import APPLICATION_LABEL, Application, Job, Owner, Size
from chiplog_core.spark.requests import JobKind, Request, ResultPlace
from chiplog_kube import kinds
from chiplog_kube.kinds import Kind
from chiplog_operator.spark.applications import LAUNCHED, Applications
from chiplog_operator.writes import NameTaken

NAME = "all-12345678"
SIZE = Size(cores=1, memory_mib=512, overhead_mib=384, cpu_request="1")
APPLICATION = Application(
    name=NAME,
    namespace="shop",
    owner=Owner(
        api_version="chiplog.dev/v1alpha1", kind="Verification", name="all", uid="uid-of-all"
    ),
    job=Job.VERIFY,
    image="chiplog/spark:1",
    driver=SIZE,
    executor=SIZE,
    executors=1,
    service_account=f"{NAME}-driver",
    retries=1,
    ttl_s=600,
    labels={labels.MANAGED_BY: labels.OPERATOR},
)
REQUEST = Request(
    kind=JobKind.VERIFICATION,
    application=NAME,
    namespace="shop",
    bootstrap="demo-kafka-bootstrap.shop.svc:9092",
    result=ResultPlace(config_map=f"{NAME}-result"),
    job={"topics": ["orders"]},
)
TAKEN: dict[str, tuple[Kind, str]] = {
    "request": (kinds.CONFIG_MAPS, f"{NAME}-request"),
    "result": (kinds.CONFIG_MAPS, f"{NAME}-result"),
    "template": (kinds.CONFIG_MAPS, f"{NAME}-executor"),
    "account of the driver": (kinds.SERVICE_ACCOUNTS, f"{NAME}-driver"),
    "account of the executors": (kinds.SERVICE_ACCOUNTS, f"{NAME}-executor"),
    "role": (kinds.ROLES, f"{NAME}-driver"),
    "binding": (kinds.ROLE_BINDINGS, f"{NAME}-driver"),
    "job": (kinds.JOBS, NAME),
}


def foreign(kind: Kind, name: str) -> dict[str, Any]:
    about = {"name": name, "namespace": "shop", "labels": {labels.MANAGED_BY: "Helm"}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": about}


@pytest.mark.parametrize(("kind", "name"), TAKEN.values(), ids=TAKEN)
def test_what_somebody_else_has_is_left_as_it_is(bench: Any, kind: Kind, name: str) -> None:
    async def scenario() -> None:
        theirs = await bench.api.create(kind, foreign(kind, name), field_manager="them")
        applications = Applications(bench.api, bench.clock, lambda: "key")
        with pytest.raises(NameTaken, match=f"{kind.kind} {name} is not this application's"):
            await applications.launch(SparkLauncher.JOB, APPLICATION, REQUEST)
        assert bench.one(kind, name) == theirs
        jobs = [one for one in bench.api.all_of(kinds.JOBS) if one != theirs]
        assert jobs == [], "it runs beside somebody else's object"

    bench.run(scenario())


@pytest.mark.parametrize("launcher", LAUNCHED)
def test_somebody_elses_application_is_not_removed(bench: Any, launcher: SparkLauncher) -> None:
    kind = LAUNCHED[launcher]

    async def scenario() -> None:
        await bench.api.create(kind, foreign(kind, NAME), field_manager="them")
        await Applications(bench.api, bench.clock, lambda: "key").remove("shop", NAME, launcher)

    bench.run(scenario())
    assert bench.one(kind, NAME)


@pytest.mark.parametrize("launcher", LAUNCHED)
def test_a_launch_that_was_cut_short_is_finished(bench: Any, launcher: SparkLauncher) -> None:
    """All of it is there, of the object that asked or of what was launched; then it is removed."""
    kind = LAUNCHED[launcher]

    async def scenario() -> None:
        applications = Applications(bench.api, bench.clock, lambda: "key")
        await applications.launch(launcher, APPLICATION, REQUEST)
        before = bench.one(kind, NAME)
        await applications.launch(launcher, APPLICATION, REQUEST)
        assert bench.one(kind, NAME) == before
        request = bench.one(kinds.CONFIG_MAPS, f"{NAME}-request")
        (owner,) = request["metadata"]["ownerReferences"]
        assert owner["uid"] == before["metadata"]["uid"]
        assert before["metadata"]["labels"][APPLICATION_LABEL] == NAME
        await applications.remove("shop", NAME, launcher)

    bench.run(scenario())
    assert bench.api.all_of(kind) == []
