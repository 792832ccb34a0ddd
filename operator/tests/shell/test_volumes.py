"""Volume claims are deleted only over exactly what was decided from, and never by accident."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Forbidden, Manifest, Unavailable
from chiplog_kube.manifests import ObjectKey
from tests.shell.memory_api import Call
from tests.shell.test_system import CLUSTER, NAMESPACE, prepare

REPLICAS = 3


def storage(*, delete_claim: bool) -> dict[str, Any]:
    return {"size": "1Gi", "deleteClaim": delete_claim}


async def start(bench: Any, *, delete_claim: bool = False) -> None:
    """Three brokers with pods and claims, and a topic that is on all of them."""
    await prepare(bench)
    await bench.apply_cluster(storage=storage(delete_claim=delete_claim))
    await bench.apply_topic("orders", partitions=2, replicas=REPLICAS)
    await bench.clock.advance(1)
    await bench.start_brokers()
    for number in (1, 2, 3):
        await add_pod(bench, number)
        await add_claim(bench, number)
    await bench.live(4.5)


def meta_of(bench: Any, number: int, name: str) -> dict[str, Any]:
    """Name and labels of an object of a broker, as its StatefulSet's controller makes it."""
    template = bench.one(kinds.STATEFUL_SETS, f"{CLUSTER}-broker-{number}")["spec"]["template"]
    return {**template["metadata"], "namespace": NAMESPACE, "name": name}


async def add_pod(bench: Any, number: int) -> None:
    owner = bench.one(kinds.STATEFUL_SETS, f"{CLUSTER}-broker-{number}")
    meta = meta_of(bench, number, f"{CLUSTER}-broker-{number}-0")
    meta["ownerReferences"] = [{"kind": "StatefulSet", "uid": owner["metadata"]["uid"]}]
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    manifest = {"metadata": meta, "spec": {"nodeName": f"node-{number}"}, "status": status}
    await bench.api.create(kinds.PODS, manifest, field_manager="kubelet")


async def add_claim(bench: Any, number: int) -> None:
    meta = meta_of(bench, number, claim_name(number))
    meta["finalizers"] = ["kubernetes.io/pvc-protection"]
    manifest = {
        "metadata": meta,
        "spec": {"storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    }
    await bench.api.create(kinds.VOLUME_CLAIMS, manifest, field_manager="kubelet")


def claim_name(number: int) -> str:
    return f"data-{CLUSTER}-broker-{number}-0"


async def annotate(bench: Any, number: int, value: str | None = "true") -> None:
    patch = {"metadata": {"annotations": {labels.DELETE_POD_AND_PVC: value}}}
    name = f"{CLUSTER}-broker-{number}-0"
    await bench.api.patch(kinds.PODS, NAMESPACE, name, patch, field_manager="kubectl")


async def configure(bench: Any, **spec: Any) -> None:
    await bench.api.patch(
        kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER, {"spec": spec}, field_manager="kubectl"
    )


def deleting(bench: Any) -> list[str]:
    """The claims that are being deleted."""
    return sorted(
        one["metadata"]["name"]
        for one in bench.api.all_of(kinds.VOLUME_CLAIMS)
        if "deletionTimestamp" in one["metadata"]
    )


def owned(bench: Any) -> list[str]:
    """The claims that the cluster owns."""
    uid = bench.one(kinds.BROKER_CLUSTERS, CLUSTER)["metadata"]["uid"]
    return sorted(
        one["metadata"]["name"]
        for one in bench.api.all_of(kinds.VOLUME_CLAIMS)
        if uid in [owner["uid"] for owner in one["metadata"].get("ownerReferences") or []]
    )


def deletions(bench: Any) -> list[tuple[str, str]]:
    """The deletions of pods and claims, in order."""
    watched = {kinds.PODS.kind, kinds.VOLUME_CLAIMS.kind}
    calls = [one for one in bench.api.calls if one.verb == "delete" and one.kind in watched]
    return [(one.kind, one.name) for one in calls]


def events(bench: Any) -> set[str]:
    return {one["reason"] for one in bench.api.all_of(kinds.EVENTS)}


ALL = [claim_name(number) for number in (1, 2, 3)]
REBUILD = [
    ("PersistentVolumeClaim", claim_name(2)),
    ("Pod", f"{CLUSTER}-broker-2-0"),
]

# ---- a new volume on request ----


def test_the_claim_is_deleted_before_the_pod(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await annotate(bench, 2)
            await bench.live(1.5)

    bench.run(scenario())
    assert deletions(bench) == REBUILD
    assert deleting(bench) == [claim_name(2)]
    assert "VolumeRebuilt" in events(bench)


def test_an_operator_that_ends_in_between_is_followed_by_one_that_goes_on(bench: Any) -> None:
    async def scenario() -> None:
        bench.api.fault = lambda call: (
            Unavailable("this process is dead")
            if (call.verb, call.kind) == ("delete", "Pod")
            else None
        )
        async with bench.running():
            await start(bench)
            await annotate(bench, 2)
            await bench.live(3)
        assert deleting(bench) == [claim_name(2)]
        assert [one[0] for one in deletions(bench)][:2] == ["PersistentVolumeClaim", "Pod"]
        bench.api.fault = lambda _: None
        bench.api.calls.clear()
        async with bench.running():
            await bench.live(9)

    bench.run(scenario())
    assert deletions(bench) == [REBUILD[1]], "the claim is deleted once"


def test_one_that_holds_the_only_replica_is_refused(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.apply_topic("single", partitions=3, replicas=1)
            await bench.live(3)
            await annotate(bench, 2)
            await bench.live(6)

    bench.run(scenario())
    assert deletions(bench) == []
    conditions = bench.one(kinds.BROKER_CLUSTERS, CLUSTER)["status"]["conditions"]
    (refused,) = [one for one in conditions if one["type"] == "RebuildRefused"]
    assert refused["reason"] == "LastInSyncReplica"
    assert "single-" in refused["message"]
    assert "LastInSyncReplica" in events(bench)


Change = Callable[[Any], Awaitable[Any]]


async def remove_annotation(bench: Any) -> None:
    await annotate(bench, 2, None)


async def stop_another(bench: Any) -> None:
    name = f"{CLUSTER}-broker-3-0"
    condition = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await bench.api.patch(
        kinds.PODS, NAMESPACE, name, condition, field_manager="kubelet", subresource="status"
    )


async def change_a_map(bench: Any) -> None:
    name = f"{CLUSTER}.orders"
    patch = {"metadata": {"annotations": {"somebody": "was here"}}}
    await bench.api.patch(kinds.PARTITION_MAPS, NAMESPACE, name, patch, field_manager="test")


async def change_a_broker(bench: Any) -> None:
    patch = {"metadata": {"annotations": {"somebody": "was here"}}}
    await bench.api.patch(kinds.BROKERS, NAMESPACE, f"{CLUSTER}-1", patch, field_manager="test")


async def change_the_claims_label(bench: Any) -> None:
    patch = {"metadata": {"labels": {labels.BROKER_ID: "1"}}}
    await bench.api.patch(
        kinds.VOLUME_CLAIMS, NAMESPACE, claim_name(2), patch, field_manager="test"
    )


async def make_another_claim(bench: Any) -> None:
    patch = {"metadata": {"finalizers": None}}
    name = claim_name(2)
    await bench.api.patch(kinds.VOLUME_CLAIMS, NAMESPACE, name, patch, field_manager="test")
    await bench.api.delete(kinds.VOLUME_CLAIMS, NAMESPACE, name)
    await add_claim(bench, 2)


async def delete_anothers_claim(bench: Any) -> None:
    """`kubectl delete pvc`: the claim stays until its pod is gone, but so does its data."""
    await bench.api.delete(kinds.VOLUME_CLAIMS, NAMESPACE, claim_name(3))


async def pause(bench: Any) -> None:
    patch = {"metadata": {"annotations": {labels.PAUSE: "true"}}}
    await bench.api.patch(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER, patch, field_manager="kubectl")


async def disown_the_pod(bench: Any) -> None:
    patch: dict[str, Any] = {"metadata": {"ownerReferences": []}}
    name = f"{CLUSTER}-broker-2-0"
    await bench.api.patch(kinds.PODS, NAMESPACE, name, patch, field_manager="test")


async def annotate_the_template(bench: Any) -> None:
    annotations = {labels.DELETE_POD_AND_PVC: "true"}
    patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    name = f"{CLUSTER}-broker-2"
    await bench.api.patch(kinds.STATEFUL_SETS, NAMESPACE, name, patch, field_manager="kubectl")


async def disown_the_stateful_set(bench: Any) -> None:
    patch: dict[str, Any] = {"metadata": {"ownerReferences": []}}
    name = f"{CLUSTER}-broker-2"
    await bench.api.patch(kinds.STATEFUL_SETS, NAMESPACE, name, patch, field_manager="kubectl")


@pytest.mark.parametrize(
    "change",
    [
        remove_annotation,
        stop_another,
        change_a_map,
        change_a_broker,
        change_the_claims_label,
        make_another_claim,
        delete_anothers_claim,
        pause,
        disown_the_pod,
        annotate_the_template,
        disown_the_stateful_set,
    ],
)
def test_what_changed_after_the_decision_stops_it(bench: Any, change: Change) -> None:
    """The change happens when the executor begins to read again: no watch has told of it yet."""
    decided: list[Any] = []
    deleted: list[Any] = []

    async def scenario() -> None:
        async with bench.running() as system:
            await start(bench)
            execute = system.loops._parts.executor._volumes
            rebuild = type(execute).rebuild

            async def late(self: Any, cluster: Any, action: Any) -> Any:
                if not decided:
                    decided.append(action)
                    await change(bench)
                    before = len(deletions(bench))
                    try:
                        return await rebuild(self, cluster, action)
                    finally:
                        # Asserted outside: the operator goes on after errors of an action.
                        deleted.extend(deletions(bench)[before:])
                raise Forbidden("only the first attempt is looked at")

            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(type(execute), "rebuild", late)
                await annotate(bench, 2)
                await bench.live(1.5)

    bench.run(scenario())
    assert decided
    assert deleted == []


def test_a_claim_that_is_written_while_it_is_read_is_not_deleted(bench: Any) -> None:
    """The deletion names the resource version that was read."""
    refused = []

    def interfere(call: Call) -> ApiError | None:
        if (call.verb, call.kind, call.name) == ("delete", "PersistentVolumeClaim", claim_name(2)):
            refused.append(call)
            if len(refused) == 1:
                key = ObjectKey(NAMESPACE, claim_name(2))
                patch = {"metadata": {"annotations": {"somebody": "was here"}}}
                bench.api._store.patch(kinds.VOLUME_CLAIMS, key, patch, manager="somebody")
        return None

    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            bench.api.fault = interfere
            await annotate(bench, 2)
            while not refused:
                await bench.clock.advance(0.01)
            assert deleting(bench) == []
            await bench.live(3)

    bench.run(scenario())
    assert deleting(bench) == [claim_name(2)], "it was decided again"


# ---- who owns the claims ----


def test_the_cluster_owns_its_claims_while_the_field_is_true(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            assert owned(bench) == []
            await configure(bench, storage=storage(delete_claim=True))
            await bench.live(3)
            assert owned(bench) == ALL
            bench.api.calls.clear()
            await bench.live(30)
            assert [one for one in bench.api.writes() if one.kind == "PersistentVolumeClaim"] == []
            await configure(bench, storage=storage(delete_claim=False))
            await bench.live(3)
            assert owned(bench) == []

    bench.run(scenario())
    assert deletions(bench) == []


def test_claims_are_released_even_if_the_spec_is_refused_or_paused(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench, delete_claim=True)
            assert owned(bench) == ALL
            await configure(bench, storage=storage(delete_claim=False), config={"no.such.key": 1})
            await bench.live(3)
            assert bench.ready(kinds.BROKER_CLUSTERS, CLUSTER)[0] == "False"
            assert owned(bench) == []
            await configure(bench, storage=storage(delete_claim=True))
            await bench.live(3)
            assert owned(bench) == [], "a refused spec takes nothing"

    bench.run(scenario())


def test_other_owners_stay_and_earlier_clusters_of_the_name_do_not(bench: Any) -> None:
    earlier = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "BrokerCluster",
        "name": CLUSTER,
        "uid": "earlier",
    }
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "keep", "uid": "other"}

    def owners() -> list[Manifest]:
        found: list[Manifest] = bench.one(kinds.VOLUME_CLAIMS, claim_name(2))["metadata"][
            "ownerReferences"
        ]
        return found

    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            patch = {"metadata": {"ownerReferences": [earlier, other]}}
            await bench.api.patch(
                kinds.VOLUME_CLAIMS, NAMESPACE, claim_name(2), patch, field_manager="somebody"
            )
            await bench.live(3)
            assert owners() == [other]
            await configure(bench, storage=storage(delete_claim=True))
            await bench.live(3)

    bench.run(scenario())
    uid = bench.one(kinds.BROKER_CLUSTERS, CLUSTER)["metadata"]["uid"]
    assert owners() == [other, {**earlier, "uid": uid}]


def test_an_owner_that_cannot_be_set_is_reported(bench: Any) -> None:
    def refuse(call: Call) -> ApiError | None:
        is_claim = (call.verb, call.kind) == ("patch", "PersistentVolumeClaim")
        return Forbidden("no") if is_claim else None

    async def scenario() -> None:
        async with bench.running():
            bench.api.fault = refuse
            await start(bench, delete_claim=True)
            assert bench.ready(kinds.BROKER_CLUSTERS, CLUSTER) == ("False", "FailedApply")
            bench.api.fault = lambda call: Unavailable("busy") if refuse(call) is not None else None
            await bench.live(30)
            bench.api.fault = lambda _: None
            await bench.live(30)

    bench.run(scenario())
    assert owned(bench) == ALL


# ---- scale-in ----


async def scale_in(bench: Any, *, delete_claim: bool) -> None:
    """Broker 3 has nothing, so it is retired at once; pod and StatefulSet go."""
    await prepare(bench)
    await bench.apply_cluster(
        storage=storage(delete_claim=delete_claim),
        config={
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.num.partitions": 1,
        },
    )
    await bench.apply_topic("orders", partitions=2, replicas=1)
    await bench.clock.advance(1)
    await bench.start_brokers()
    for number in (1, 2, 3):
        await add_claim(bench, number)
    await bench.live(4.5)
    await configure(bench, replicas=2)
    del bench.brokers[3]  # its Lease goes with it
    await bench.live(9)
    broker = bench.one(kinds.BROKERS, f"{CLUSTER}-3")
    assert broker["spec"]["retired"] is True


@pytest.mark.parametrize("delete_claim", [False, True])
def test_the_claim_of_a_removed_broker(bench: Any, delete_claim: bool) -> None:
    async def scenario() -> None:
        async with bench.running():
            await scale_in(bench, delete_claim=delete_claim)
            await bench.live(9)

    bench.run(scenario())
    assert deleting(bench) == ([claim_name(3)] if delete_claim else [])
    removal = bench.one(kinds.BROKERS, f"{CLUSTER}-3")["spec"].get("claimRemoval")
    uid = bench.one(kinds.VOLUME_CLAIMS, claim_name(3))["metadata"]["uid"]
    expected = {"claimName": claim_name(3), "claimUID": uid} if delete_claim else None
    assert removal == expected
    assert ("VolumeDeleted" in events(bench)) is delete_claim


async def keep_claims(bench: Any) -> None:
    await configure(bench, storage=storage(delete_claim=False))


async def bring_back_a_pod(bench: Any) -> None:
    meta = {
        "namespace": NAMESPACE,
        "name": f"{CLUSTER}-broker-3-0",
        "labels": {labels.CLUSTER: CLUSTER, labels.BROKER_ID: "3"},
    }
    await bench.api.create(kinds.PODS, {"metadata": meta}, field_manager="somebody")


async def disown_the_claim(bench: Any) -> None:
    patch: dict[str, Any] = {"metadata": {"ownerReferences": []}}
    name = claim_name(3)
    await bench.api.patch(kinds.VOLUME_CLAIMS, NAMESPACE, name, patch, field_manager="test")


async def forget_the_decision(bench: Any) -> None:
    patch = {"spec": {"claimRemoval": None}}
    await bench.api.patch(kinds.BROKERS, NAMESPACE, f"{CLUSTER}-3", patch, field_manager="test")


async def delete_the_cluster(bench: Any) -> None:
    patch = {"metadata": {"finalizers": ["somebody/waits"]}}
    await bench.api.patch(
        kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER, patch, field_manager="somebody"
    )
    await bench.api.delete(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER)


@pytest.mark.parametrize(
    "change",
    [
        keep_claims,
        bring_back_a_pod,
        disown_the_claim,
        forget_the_decision,
        delete_the_cluster,
        change_a_map,
        change_a_broker,
        pause,
    ],
)
def test_what_changed_after_that_decision_stops_it(bench: Any, change: Change) -> None:
    decided: list[Any] = []

    async def scenario() -> None:
        async with bench.running() as system:
            volumes = type(system.loops._parts.executor._volumes)
            delete = volumes.delete_of_retired

            async def late(self: Any, cluster: Any, action: Any) -> Any:
                if not decided:
                    decided.append(action)
                    await change(bench)
                    return await delete(self, cluster, action)
                raise Forbidden("only the first attempt is looked at")

            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(volumes, "delete_of_retired", late)
                await scale_in(bench, delete_claim=True)
                await bench.live(6)

    bench.run(scenario())
    assert decided
    assert deleting(bench) == []
