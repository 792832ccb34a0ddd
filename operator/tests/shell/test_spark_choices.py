"""An operator that is asked to run jobs with an image, account or configuration of the asker's own.

Its own account may make pods in every namespace; whoever asks may not, and nothing runs for them.
"""

from typing import Any

import pytest

from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from tests.shell.conftest import CLUSTER, NAMESPACE, Bench
from tests.shell.test_verifications import Spark

OTHER = "team-b"


@pytest.fixture
def it(bench: Bench) -> Spark:
    return Spark(bench)


@pytest.mark.parametrize("kind", [kinds.VERIFICATIONS, kinds.REBALANCES])
@pytest.mark.parametrize(
    ("spark", "field"),
    [
        ({"image": "attacker/image:1"}, "spec.spark.image"),
        ({"serviceAccountName": "cluster-admin"}, "spec.spark.serviceAccountName"),
        (
            {"sparkConf": {"spark.driver.extraJavaOptions": "-agentpath:/opt/x.so"}},
            "spec.spark.sparkConf[spark.driver.extraJavaOptions]",
        ),
        (
            {"sparkConf": {"spark.kubernetes.driverEnv.PYTHONSTARTUP": "/opt/x.py"}},
            "spec.spark.sparkConf[spark.kubernetes.driverEnv.PYTHONSTARTUP]",
        ),
    ],
)
def test_nothing_is_run_with_what_its_asker_may_not_choose(
    it: Spark, kind: Any, spark: dict[str, Any], field: str
) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await apply(it, kind, "all", NAMESPACE, spark=spark)
            await it.bench.live(30)
            assert it.jobs() == []
            ready = ready_of(it.bench.one(kind, "all"))
            assert ready["status"] == "False"
            assert field in ready["message"]
            assert "remove it" in ready["message"]
            (event,) = events(it.bench, kind, "Warning")
            assert field in event["message"], "said once"

    it.bench.run(scenario())


def test_a_clusters_image_that_nobody_has_allowed_runs_nothing(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await set_spark(it, image="attacker/image:1")
            await it.apply(topics=["orders"])
            await it.bench.live(30)
            assert it.jobs() == []
            ready = ready_of(it.bench.one(kinds.VERIFICATIONS, "all"))
            assert ready["reason"] == "ClusterSettings"
            assert f"in BrokerCluster {CLUSTER}: spec.spark.image is" in ready["message"]
            assert len(events(it.bench, kinds.VERIFICATIONS, "Warning")) == 1
            # Taken back, it is run; level-triggered, so nobody has to touch the Verification.
            await set_spark(it, image=None)
            await it.bench.live(30)
            assert len(it.jobs()) == 1

    it.bench.run(scenario())


def test_a_clusters_image_and_account_never_run_in_somebody_elses_namespace(it: Spark) -> None:
    it.bench.spark_is_judged = True

    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.bench.api.patch(
                kinds.BROKER_CLUSTERS,
                NAMESPACE,
                CLUSTER,
                {
                    "spec": {
                        "allowedTopicNamespaces": [OTHER],
                        "spark": {"image": "cluster/image:1", "serviceAccountName": "runner"},
                    }
                },
                field_manager="kubectl",
            )
            reference = {"name": CLUSTER, "namespace": NAMESPACE}
            await apply(it, kinds.VERIFICATIONS, "away", OTHER, topics=["orders"], to=reference)
            await apply(it, kinds.VERIFICATIONS, "home", NAMESPACE, topics=["orders"])
            await it.bench.live(30)
            found = {one["metadata"]["namespace"]: pod_of(one) for one in it.jobs()}
            assert image_of(found[NAMESPACE]) == "cluster/image:1"
            assert found[NAMESPACE]["serviceAccountName"] == "runner"
            assert image_of(found[OTHER]) == "chiplog/spark:test"
            assert found[OTHER]["serviceAccountName"].startswith("away-")

    it.bench.run(scenario())


def test_what_the_api_server_has_judged_is_run(it: Spark) -> None:
    it.bench.spark_is_judged = True

    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply(topics=["orders"], spark={"image": "own:1"})
            await it.bench.live(30)
            (job,) = it.jobs()
            assert image_of(pod_of(job)) == "own:1"

    it.bench.run(scenario())


async def apply(
    it: Spark,
    kind: Any,
    name: str,
    namespace: str,
    to: dict[str, str] | None = None,
    **spec: Any,
) -> None:
    manifest = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": kind.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"clusterRef": to or {"name": CLUSTER}, **spec},
    }
    await it.bench.api.create(kind, manifest, field_manager="kubectl")


async def set_spark(it: Spark, **spark: Any) -> None:
    patch = {"spec": {"spark": spark}}
    await it.bench.api.patch(
        kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER, patch, field_manager="kubectl"
    )


def events(bench: Bench, kind: Any, type_: str) -> list[Manifest]:
    return [
        one
        for one in bench.api.all_of(kinds.EVENTS)
        if one["involvedObject"]["kind"] == kind.kind and one["type"] == type_
    ]


def ready_of(manifest: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = next(
        one for one in manifest["status"]["conditions"] if one["type"] == "Ready"
    )
    return found


def pod_of(job: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]["spec"]
    return found


def image_of(pod: dict[str, Any]) -> str:
    (container,) = pod["containers"]
    return str(container["image"])
