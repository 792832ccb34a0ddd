"""A whole operator that runs Verifications, with an API server in memory and no Spark."""

import json
from base64 import b64decode
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from chiplog_core.model.verification import Verification
from chiplog_core.spark.application import APPLICATION_LABEL
from chiplog_core.spark.signing import signature
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Forbidden, Manifest, Unavailable
from chiplog_operator.spark.collector import VerificationsCollector
from tests.shell.conftest import CLUSTER, NAMESPACE, Bench
from tests.shell.memory_api import Call, Fault
from tests.shell.test_groups import Running

WRITES = {"create", "patch", "apply"}
COVERAGE = {"topics": 1, "partitions": 1, "replicas": 3, "records": 300, "bytes": 4_000}


class Spark:
    """A cluster with a topic, and whoever runs Jobs."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.board = bench.verifications = VerificationsCollector()
        bench.api.missing_kinds = {"SparkApplication"}

    async def begin(self) -> None:
        running = Running(self.bench)
        self.bench.groups = None
        await running.begin()

    async def apply(self, name: str = "all", **spec: Any) -> None:
        manifest = {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "Verification",
            "metadata": {"namespace": NAMESPACE, "name": name},
            "spec": {"clusterRef": {"name": CLUSTER}, **spec},
        }
        await self.bench.api.create(kinds.VERIFICATIONS, manifest, field_manager="kubectl")
        await self.bench.live(3)

    async def change(self, name: str = "all", **spec: Any) -> None:
        await self.bench.api.patch(
            kinds.VERIFICATIONS, NAMESPACE, name, {"spec": spec}, field_manager="kubectl"
        )

    def status(self, name: str = "all") -> dict[str, Any]:
        found: dict[str, Any] = self.bench.one(kinds.VERIFICATIONS, name).get("status", {})
        return found

    def ready(self, name: str = "all") -> tuple[str, str]:
        return self.bench.ready(kinds.VERIFICATIONS, name)

    def jobs(self, kind: Any = kinds.JOBS) -> list[Manifest]:
        return self.bench.api.all_of(kind)

    async def report(self, job: Manifest, **status: Any) -> None:
        """What the Job's controller says."""
        await self.bench.api.patch(
            kinds.JOBS,
            NAMESPACE,
            job["metadata"]["name"],
            {"status": status},
            field_manager="kcm",
            subresource="status",
        )

    async def answer(self, job: Manifest, **result: Any) -> None:
        """What the driver writes before it ends."""
        name = job["metadata"]["name"]
        told = {
            "version": 1,
            "application": name,
            "state": "Succeeded",
            "reason": "Verified",
            "summary": {"coverage": COVERAGE},
            **result,
        }
        text, key = json.dumps(told), key_of(self.bench.one(kinds.SECRETS, f"{name}-result-key"))
        signed = signature(key, name, text)
        patch = {"data": {"result.json": text, "result.signature": signed}}
        await self.bench.api.patch(
            kinds.CONFIG_MAPS, NAMESPACE, f"{name}-result", patch, field_manager="driver"
        )

    def made_for_runs(self) -> list[str]:
        """Everything that carries an application's label."""
        kinds_of = (kinds.CONFIG_MAPS, kinds.SERVICE_ACCOUNTS, kinds.ROLES, kinds.ROLE_BINDINGS)
        found = [one for kind in (*kinds_of, kinds.JOBS, kinds.SECRETS) for one in self.jobs(kind)]
        labelled = [one for one in found if APPLICATION_LABEL in one["metadata"].get("labels", {})]
        return [one["metadata"]["name"] for one in labelled]

    def events(self) -> list[str]:
        found = self.bench.api.all_of(kinds.EVENTS)
        about = [one for one in found if one["involvedObject"]["kind"] == "Verification"]
        return [one["reason"] for one in about]

    def scraped(self) -> str:
        registry = CollectorRegistry()
        registry.register(self.board)
        return generate_latest(registry).decode()


def key_of(secret: Manifest) -> str:
    """What a driver mounts."""
    return b64decode(secret["data"]["key"]).decode()


def no_quota(tries: list[Call]) -> Fault:
    """No Job may be made; whoever tries is listed."""

    def refuse(call: Call) -> ApiError | None:
        if call.verb == "create" and call.kind == "Job":
            tries.append(call)
            return Forbidden("jobs.batch is forbidden: exceeded quota")
        return None

    return refuse


@pytest.fixture
def it(bench: Bench) -> Spark:
    return Spark(bench)


def test_a_verification_runs_as_a_job_and_is_told_of(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply(topics=["orders"])
            (job,) = it.jobs()
            name = job["metadata"]["name"]
            request = it.bench.one(kinds.CONFIG_MAPS, f"{name}-request")
            asked = json.loads(request["data"]["request.json"])
            assert asked["application"] == name
            assert asked["bootstrap"] == "demo-kafka-bootstrap.shop.svc:9092"
            assert asked["job"]["topics"] == ["orders"]
            assert it.bench.one(kinds.ROLES, f"{name}-driver")["rules"]
            assert request["metadata"]["ownerReferences"][0]["kind"] == "Job"
            assert job["metadata"]["ownerReferences"][0]["name"] == "all"
            assert it.status()["phase"] == "Pending"

            await it.report(job, active=1, ready=1)
            await it.bench.live(3)
            assert (it.status()["phase"], it.ready()) == ("Running", ("False", "Running"))
            told = {"version": 1, "application": name, "bytes": 7, "partitions": 1, "percent": 40}
            patch = {"data": {"progress.json": json.dumps(told | {"partitionsTotal": 3})}}
            await it.bench.api.patch(
                kinds.CONFIG_MAPS, NAMESPACE, f"{name}-result", patch, field_manager="driver"
            )
            await it.bench.live(3)
            assert it.status()["application"]["progress"]["percent"] == 40
            assert "7 bytes, 1 of 3 partitions" in it.status()["conditions"][0]["message"]

            await it.answer(job)
            await it.report(job, conditions=[{"type": "Complete", "status": "True"}])
            await it.bench.live(3)
            assert it.status()["phase"] == "Succeeded"
            assert it.status()["coverage"] == COVERAGE
            assert it.ready() == ("True", "Completed")

            await it.bench.live(120)
            assert len(it.jobs()) == 1
        assert it.events() == ["RunBegun", "NoViolations"]
        labels = '{cluster="demo",name="all",namespace="shop"}'
        assert f"chiplog_verification_failed{labels} 0.0" in it.scraped()
        assert f"chiplog_verification_records{labels} 300.0" in it.scraped()
        assert (
            f"chiplog_verification_last_success_timestamp_seconds{labels} 0.0" not in it.scraped()
        )

    it.bench.run(scenario())


def test_what_a_driver_is_told_is_signed_with_its_key(it: Spark) -> None:
    """Many may write ConfigMaps who may neither read Secrets nor make pods."""

    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply(topics=["orders"])
            (job,) = it.jobs()
            name = job["metadata"]["name"]
            key = key_of(it.bench.one(kinds.SECRETS, f"{name}-result-key"))
            for config_map, file in (("request", "request.json"), ("executor", "pod.json")):
                told = it.bench.one(kinds.CONFIG_MAPS, f"{name}-{config_map}")["data"]
                said = told[f"{file}.signature"]
                assert said == signature(key, name, told[file], file)

    it.bench.run(scenario())


def test_violations_reach_status_condition_event_and_metric(it: Spark) -> None:
    violation = {
        "check": "ReplicaMismatch",
        "topic": "orders",
        "partition": 0,
        "offset": 41,
        "replica": 2,
        "message": "another digest",
    }

    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply()
            (job,) = it.jobs()
            await it.answer(job, violations=[violation], violationsTotal=1)
            await it.bench.live(3)
            status = Verification.from_manifest(it.bench.one(kinds.VERIFICATIONS, "all")).status
            assert status.violations[0].offset == 41
            verified = next(one for one in status.conditions if one.type == "Verified")
            assert (verified.status.value, verified.reason) == ("False", "ViolationsFound")
            assert "on broker 2" in verified.message
            assert it.events()[-1] == "ViolationsFound"
            labels = 'cluster="demo",name="all",namespace="shop"'
            found = f'chiplog_verification_violations{{check="ReplicaMismatch",{labels}}} 1.0'
            assert found in it.scraped()

            await it.bench.api.delete(kinds.VERIFICATIONS, NAMESPACE, "all")
            await it.bench.live(3)
            assert labels not in it.scraped()

    it.bench.run(scenario())


def test_a_job_that_is_refused_is_told_of_and_not_tried_for_ever(it: Spark) -> None:
    tries: list[Call] = []

    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            it.bench.api.fault = no_quota(tries)
            await it.apply()
            await it.bench.live(60)
            assert it.ready() == ("False", "LaunchRefused")
            assert "exceeded quota" in it.status()["outcome"]["message"]
            assert len(tries) == 1
            assert it.made_for_runs() == []

    it.bench.run(scenario())


def test_a_webhook_that_is_away_is_told_of_and_waited_for(it: Spark) -> None:
    away = 'Internal error occurred: failed calling webhook "mutate.sparkoperator.k8s.io": refused'

    def refuse(call: Call) -> ApiError | None:
        return Unavailable(away) if (call.verb, call.kind) == ("create", "Job") else None

    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            it.bench.api.fault = refuse
            await it.apply()
            await it.bench.live(21)
            assert it.ready() == ("False", "NotMade")
            ready = it.status()["conditions"][0]["message"]
            assert away in ready
            assert "check that its webhook pods run" in ready
            it.bench.api.fault = lambda _: None
            await it.bench.live(21)
            assert len(it.jobs()) == 1
            assert it.ready() == ("False", "Pending")

    it.bench.run(scenario())


def test_refusals_are_kept_no_longer_than_their_applications_are_named(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running() as system:
            assert system.spark is not None
            await it.begin()
            it.bench.api.fault = no_quota([])
            await it.apply()
            for limit in ("1h", "2h", "3h"):
                await it.bench.live(21)
                assert it.ready() == ("False", "LaunchRefused")
                await it.change(timeLimit=limit)
            await it.bench.live(21)
            assert it.status()["runs"] == 4
            refused = set(system.spark._carrying_out._refusals)
            assert refused == {(NAMESPACE, it.status()["application"]["name"])}

            await it.bench.api.delete(kinds.VERIFICATIONS, NAMESPACE, "all")
            await it.bench.live(21)
            assert system.spark._carrying_out._refusals == {}

    it.bench.run(scenario())


def test_an_operator_that_dies_at_any_write_leaves_one_run(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
        for kind in ("Verification", "ConfigMap", "Role", "Job"):
            died: list[Call] = []

            def break_after(
                call: Call, kind: str = kind, died: list[Call] = died
            ) -> ApiError | None:
                if call.kind == kind and call.field_manager != "kubectl" and call.verb in WRITES:
                    died.append(call)
                    return Unavailable("the answer is lost")
                return None

            async with it.bench.running():
                it.bench.api.fault_after = break_after
                if not it.bench.api.all_of(kinds.VERIFICATIONS):
                    await it.apply()
                await it.bench.live(3)
            it.bench.api.fault_after = lambda _: None
        async with it.bench.running():
            await it.bench.live(9)
            (job,) = it.jobs()
            await it.answer(job)
            await it.bench.live(6)
            assert it.status()["runs"] == 1
            assert it.ready() == ("True", "Completed")

    it.bench.run(scenario())


def test_where_a_spark_operator_is_it_runs_the_job(it: Spark) -> None:
    it.bench.api.missing_kinds = set()

    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply()
            assert it.jobs() == []
            (made,) = it.jobs(kinds.KUBEFLOW_APPLICATIONS)
            assert made["spec"]["image"] == "chiplog/spark:test"
            application = it.status()["application"]
            assert (application["launcher"], application["kind"]) == (
                "Kubeflow",
                "SparkApplication",
            )

    it.bench.run(scenario())


def test_what_cannot_run_says_why_and_runs_when_it_can(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.apply()
            assert it.ready() == ("False", "ClusterNotFound")
            await it.begin()
            await it.bench.live(18)
            assert len(it.jobs()) == 1

            await it.apply("typo", topics=["order"])
            assert it.ready("typo") == ("False", "TopicNotFound")
            await it.apply("unread", topics=["no topic"])
            assert it.ready("unread") == ("False", "InvalidConfig")
            assert len(it.jobs()) == 1

    it.bench.run(scenario())


def test_a_job_in_a_namespace_that_the_cluster_does_not_allow_is_refused(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            manifest = {
                "apiVersion": "chiplog.dev/v1alpha1",
                "kind": "Verification",
                "metadata": {"namespace": "elsewhere", "name": "theirs"},
                "spec": {"clusterRef": {"name": CLUSTER, "namespace": NAMESPACE}},
            }
            await it.bench.api.create(kinds.VERIFICATIONS, manifest, field_manager="kubectl")
            await it.bench.live(3)
            assert it.ready("theirs") == ("False", "InvalidConfig")
            assert it.jobs() == []

    it.bench.run(scenario())


@pytest.mark.parametrize("forged", ["unsigned", "by another key", "of another run", "changed"])
def test_a_result_that_the_driver_did_not_sign_is_no_result(it: Spark, forged: str) -> None:
    """Who may write ConfigMaps does not decide what was found, and what is done about it."""

    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply(topics=["orders"], repair="Refetch")
            (job,) = it.jobs()
            name = job["metadata"]["name"]
            await it.report(job, active=1, ready=1)
            told = {
                "version": 1,
                "application": name,
                "state": "Succeeded",
                "reason": "Verified",
                "summary": {"coverage": COVERAGE},
            }
            text = json.dumps(told)
            key = key_of(it.bench.one(kinds.SECRETS, f"{name}-result-key"))
            said = {
                "unsigned": "",
                "by another key": signature("guessed", name, text),
                "of another run": signature(key, "another", text),
                "changed": signature(key, name, text + " "),
            }[forged]
            patch = {"data": {"result.json": text, "result.signature": said}}
            await it.bench.api.patch(
                kinds.CONFIG_MAPS, NAMESPACE, f"{name}-result", patch, field_manager="kubectl"
            )
            await it.bench.live(10)
            assert it.status()["phase"] in {"Pending", "Running"}, "it goes on"
            await it.report(job, conditions=[{"type": "Complete", "status": "True"}])
            await it.bench.live(10)
            assert it.ready() == ("False", "ResultNotOurs")
            assert "coverage" not in it.status()
            # The next run has another key.
            await it.change(topics=[])
            await it.bench.live(10)
            keys = {
                key_of(one)
                for one in it.bench.api.all_of(kinds.SECRETS)
                if "result-key" in one["metadata"]["name"]
            }
            assert len(keys) == 2

    it.bench.run(scenario())


def test_an_operator_that_reads_no_secrets_but_the_clusters_runs_jobs_without_keys(
    it: Spark,
) -> None:
    def refuse(call: Call) -> ApiError | None:
        is_key = call.kind == "Secret" and call.name.endswith("-result-key")
        return Forbidden("secrets is forbidden") if is_key else None

    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            it.bench.api.fault = refuse
            await it.apply(topics=["orders"])
            (job,) = it.jobs()
            name = job["metadata"]["name"]
            told = {"version": 1, "application": name, "state": "Succeeded", "reason": "Verified"}
            text = json.dumps({**told, "summary": {"coverage": COVERAGE}})
            patch = {"data": {"result.json": text}}
            await it.bench.api.patch(
                kinds.CONFIG_MAPS, NAMESPACE, f"{name}-result", patch, field_manager="driver"
            )
            await it.bench.live(10)
            assert it.ready() == ("True", "Completed")

    it.bench.run(scenario())


def test_a_repair_is_not_ordered_from_another_namespace(it: Spark) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.bench.api.patch(
                kinds.BROKER_CLUSTERS,
                NAMESPACE,
                CLUSTER,
                {"spec": {"allowedTopicNamespaces": ["*"]}},
                field_manager="kubectl",
            )
            manifest = {
                "apiVersion": "chiplog.dev/v1alpha1",
                "kind": "Verification",
                "metadata": {"namespace": "team-a", "name": "all"},
                "spec": {
                    "clusterRef": {"name": CLUSTER, "namespace": NAMESPACE},
                    "repair": "Refetch",
                },
            }
            await it.bench.api.create(kinds.VERIFICATIONS, manifest, field_manager="kubectl")
            await it.bench.live(10)
            assert it.jobs() == []
            assert it.ready() == ("False", "NotAllowed")

    it.bench.run(scenario())
