"""Objects that have the name of one of ours and are somebody else's: never taken, never changed."""

import base64
from copy import deepcopy
from typing import Any

import pytest

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.kinds import Kind
from chiplog_operator.apply import KIND_OF, Applied
from chiplog_operator.certificates.keeper import READ_AGAIN_S
from chiplog_operator.resources import build
from chiplog_operator.resources.settings import BuildSettings
from tests.shell.test_apply import IDS, Shell
from tests.shell.test_certificates import GIVEN, kafka_tls

LISTENERS = [
    {"name": "plain", "type": "internal", "port": 9092},
    {"name": "external", "type": "nodeport", "port": 9094},
    {
        "name": "sni",
        "type": "ingress",
        "port": 9095,
        "tls": True,
        "configuration": {
            "hostTemplate": "broker-{nodeId}.example.com",
            "bootstrap": {"host": "kafka.example.com"},
            "brokerCertChainAndKey": GIVEN,
        },
    },
]
"""Listeners with which a cluster has objects of every kind."""
DONE = Applied(requeue_after_s=READ_AGAIN_S)
"""Everything is made; the certificate that the user gives is read again."""
SETTINGS = BuildSettings(
    broker_image="chiplog/broker:1",
    internal_password="-",  # noqa: S106
    operator_namespace="chiplog-system",
)
STRIMZI = {
    "apiVersion": "kafka.strimzi.io/v1",
    "kind": "Kafka",
    "name": "demo",
    "uid": "strimzi-1",
    "controller": True,
}


@pytest.fixture
def shell(bench: Any) -> Shell:
    return Shell(bench)


async def made(shell: Shell) -> BrokerCluster:
    """A cluster whose user has given its brokers a certificate."""
    given = kafka_tls(shell.bench)
    if not any(
        one["metadata"]["name"] == given["metadata"]["name"] for one in secrets(shell.bench)
    ):
        await shell.bench.api.create(kinds.SECRETS, given, field_manager="user")
    return await shell.cluster(listeners=LISTENERS)


def secrets(bench: Any) -> list[Manifest]:
    found: list[Manifest] = bench.api.all_of(kinds.SECRETS)
    return found


def own(bench: Any, kind: Kind) -> list[Manifest]:
    """The objects of a kind, without the certificate of the user."""
    found = bench.api.all_of(kind)
    return [one for one in found if one["metadata"]["name"] != GIVEN["secretName"]]


def wanted_of(cluster: BrokerCluster) -> list[Manifest]:
    return build.manifests(cluster, IDS, SETTINGS)


def foreign(manifest: Manifest, **metadata: Any) -> Manifest:
    """An object of somebody else that has this one's name."""
    about = manifest["metadata"]
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": {"name": about["name"], "namespace": about["namespace"], **metadata},
        **({"data": {"key": "c2VjcmV0"}} if manifest["kind"] in {"Secret", "ConfigMap"} else {}),
    }


def without_version(manifest: Manifest) -> Manifest:
    copy = deepcopy(manifest)
    del copy["metadata"]["resourceVersion"]
    return copy


STRANGERS: dict[str, dict[str, Any]] = {
    "without labels": {},
    "of Helm": {"labels": {labels.MANAGED_BY: "Helm"}},
    "of Strimzi": {"ownerReferences": [STRIMZI]},
    "with the cluster's label": {"labels": {labels.CLUSTER: "demo"}},
    "of another cluster of ours": {
        "labels": {labels.MANAGED_BY: labels.OPERATOR, labels.CLUSTER: "other"}
    },
    "with our labels and another owner": {
        "labels": {labels.MANAGED_BY: labels.OPERATOR, labels.CLUSTER: "demo"},
        "ownerReferences": [STRIMZI],
    },
}


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
def test_what_somebody_else_has_is_left_as_it_is(bench: Any, stranger: dict[str, Any]) -> None:
    """Each object of a cluster in turn, of every kind that the operator makes."""

    async def one(number: int) -> str:
        await bench.api.delete(kinds.BROKER_CLUSTERS, "shop", "demo")
        for kind in (*build.KINDS, kinds.EVENTS):
            for old in bench.api.all_of(kind):
                await bench.api.delete(kind, "shop", old["metadata"]["name"])
        shell = Shell(bench)
        cluster = await made(shell)
        manifest = wanted_of(cluster)[number]
        kind = KIND_OF[manifest["kind"]]
        name = manifest["metadata"]["name"]
        theirs = await bench.api.create(kind, foreign(manifest, **stranger), field_manager="them")
        applied = await shell.apply(cluster)
        await shell.apply(cluster)
        assert bench.one(kind, name) == theirs, f"{kind.kind} {name} was taken"
        assert any(f"{kind.kind} {name} " in problem for problem in applied.problems)
        sets = [one for one in bench.api.all_of(kinds.STATEFUL_SETS) if one != theirs]
        expected = 1 if kind is kinds.STATEFUL_SETS else 0
        assert len(sets) == expected, f"brokers run beside somebody else's {kind.kind} {name}"
        return kind.kind

    async def scenario() -> set[str]:
        numbers = range(len(wanted_of(await made(Shell(bench)))))
        return {await one(number) for number in numbers}

    assert bench.run(scenario()) == {kind.kind for kind in build.KINDS}


def test_the_condition_names_the_object_and_the_remedy(bench: Any, shell: Shell) -> None:
    async def scenario() -> Applied:
        cluster = await made(shell)
        secret = next(one for one in wanted_of(cluster) if one["kind"] == "Secret")
        await bench.api.create(kinds.SECRETS, foreign(secret), field_manager="them")
        return await shell.apply(cluster)

    (problem,) = bench.run(scenario()).problems
    assert problem.startswith("Secret demo-internal is not this BrokerCluster's")
    assert "delete it, or choose another name" in problem


def test_somebody_elses_password_is_never_used(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await made(shell)
        secret = next(one for one in wanted_of(cluster) if one["kind"] == "Secret")
        theirs = foreign(secret) | {"data": {"password": base64.b64encode(b"theirs").decode()}}
        await bench.api.create(kinds.SECRETS, theirs, field_manager="them")
        await shell.apply(cluster)
        await bench.api.delete(kinds.SECRETS, "shop", "demo-internal")
        assert await shell.apply(cluster) == DONE

    bench.run(scenario())
    made_ = bench.one(kinds.SECRETS, "demo-internal")["data"]["password"]
    assert base64.b64decode(made_) != b"theirs"
    assert len(bench.api.all_of(kinds.STATEFUL_SETS)) == 2


def test_a_volume_of_somebody_else_is_not_mounted(bench: Any, shell: Shell) -> None:
    """A StatefulSet takes whatever claim has the name of its own."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-demo-broker-2-0", "namespace": "shop"},
    }

    async def scenario() -> Applied:
        cluster = await made(shell)
        await bench.api.create(kinds.VOLUME_CLAIMS, claim, field_manager="them")
        return await shell.apply(cluster)

    (problem,) = bench.run(scenario()).problems
    assert "PersistentVolumeClaim data-demo-broker-2-0 " in problem
    names = [one["metadata"]["name"] for one in bench.api.all_of(kinds.STATEFUL_SETS)]
    assert names == ["demo-broker-1"]


def left_behind(owner: str) -> list[dict[str, Any]]:
    """The owners of what a BrokerCluster left that is not there any more."""
    if owner == "none":
        return []
    return [
        {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "BrokerCluster",
            "name": "demo",
            "uid": "of-a-former-life",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


@pytest.mark.parametrize("owner", ["none", "the one before"])
def test_a_cluster_that_is_applied_again_adopts_what_it_left(
    bench: Any, shell: Shell, owner: str
) -> None:
    """As after `--cascade=orphan`, a restore from a backup, and before the garbage collector."""

    async def scenario() -> dict[str, str]:
        cluster = await made(shell)
        await shell.apply(cluster)
        uids = {}
        for kind in build.KINDS:
            for one in own(bench, kind):
                patch = {"metadata": {"ownerReferences": left_behind(owner)}}
                await bench.api.patch(
                    kind, "shop", one["metadata"]["name"], patch, field_manager="gc"
                )
                uids[one["metadata"]["name"] + kind.kind] = one["metadata"]["uid"]
        password = bench.one(kinds.SECRETS, "demo-internal")["data"]
        another = Shell(bench)
        assert await another.apply(cluster) == DONE
        assert bench.one(kinds.SECRETS, "demo-internal")["data"] == password
        return uids

    uids = bench.run(scenario())
    for kind in build.KINDS:
        for one in own(bench, kind):
            assert uids[one["metadata"]["name"] + kind.kind] == one["metadata"]["uid"]
            (reference,) = one["metadata"]["ownerReferences"]
            assert reference["uid"] != "of-a-former-life"


@pytest.mark.parametrize("kind", build.KINDS, ids=lambda kind: kind.kind)
def test_one_that_appears_while_ours_is_made_wins(bench: Any, shell: Shell, kind: Kind) -> None:
    async def scenario() -> None:
        cluster = await made(shell)
        manifest = next(one for one in wanted_of(cluster) if one["kind"] == kind.kind)
        theirs = foreign(manifest)
        asked = []

        def race(call: Any) -> None:
            is_it = (call.kind, call.name) == (kind.kind, manifest["metadata"]["name"])
            if is_it and call.verb == "create" and call.field_manager == labels.OPERATOR:
                asked.append(call)
                bench.api._store.create(kind, theirs, manager="them")
                bench.api.fault = lambda _: None

        bench.api.fault = race
        await shell.apply(cluster)
        assert asked, "it was never made"
        await shell.apply(cluster)
        found = bench.one(kind, manifest["metadata"]["name"])
        assert "ownerReferences" not in found["metadata"]
        assert "labels" not in found["metadata"]

    bench.run(scenario())


def test_one_that_takes_the_place_of_ours_unseen_is_not_written_to(
    bench: Any, shell: Shell
) -> None:
    """The cache still has ours: the uid in the apply keeps it from another object."""

    async def scenario() -> None:
        cluster = await made(shell)
        await shell.apply(cluster)
        name = "demo-kafka-bootstrap"
        service = next(one for one in wanted_of(cluster) if one["metadata"]["name"] == name)
        await bench.api.delete(kinds.SERVICES, "shop", name)
        theirs = await bench.api.create(kinds.SERVICES, foreign(service), field_manager="them")
        bench.clock.jump(700)
        applied = await shell.applier.apply(cluster, IDS, {})
        assert applied.is_unfinished
        assert bench.one(kinds.SERVICES, name) == theirs

    bench.run(scenario())
