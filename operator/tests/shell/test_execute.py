"""Carrying out plans: conflicts, order, giving up, and what admin clients are told."""

import asyncio
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import (
    Announce,
    Create,
    DeleteMap,
    EventType,
    Replace,
    Report,
    RequestRestarts,
    RestartPod,
    SetMetadata,
    WriteTopic,
)
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import PartitionMap, PartitionMapSpec
from chiplog_core.model.topic import TopicStatus
from chiplog_core.naming import api as chiplog_api
from chiplog_core.naming import labels
from chiplog_core.observed.world import WriteResult
from chiplog_kube import kinds
from chiplog_kube.api import Forbidden, Invalid, Unavailable
from chiplog_operator import execute
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.execute import Executor
from chiplog_operator.maps_checks import MapsChecks
from chiplog_operator.parsed import metadata_of
from chiplog_operator.waking import Wake
from chiplog_operator.write_results import WriteResults
from chiplog_operator.writes import NotActive
from tests.shell.memory_api import MemoryApi

KEY = ClusterKey("shop", "demo")


class Deaf:
    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


@pytest.fixture
def shell(bench: Any) -> Any:
    """The executor with what it works on."""

    class Shell:
        meter = bench.metrics
        caches = Caches(Deaf(), Deaf())
        results = WriteResults(bench.clock)
        checks = MapsChecks(map("look-{}".format, count(1)).__next__, Deaf())
        executor = Executor(
            bench.api,
            caches,
            results,
            checks=checks,
            clock=bench.clock,
            authority=bench.authority,
            instance="op",
            meter=meter,
        )

    return Shell()


def broker(number: int) -> Broker:
    return Broker(
        metadata=Metadata(name=f"demo-{number}", namespace="shop"),
        spec=BrokerSpec(
            cluster="demo",
            cluster_id="c",
            broker_id=BrokerId(number),
            intent=BrokerIntent.SERVE,
        ),
    )


def a_map() -> PartitionMap:
    """Of a topic of which nothing is left."""
    spec = PartitionMapSpec(
        cluster="demo", topic_name="orders", min_isr=1, durability=Durability.FSYNC
    )
    return PartitionMap(metadata=Metadata(name="demo.orders", namespace="shop"), spec=spec)


async def made(bench: Any, number: int) -> Broker:
    stored = await bench.api.create(
        kinds.BROKERS, broker(number).to_manifest(), field_manager="test"
    )
    return Broker.from_manifest(stored)


def fenced(one: Broker) -> Broker:
    return replace(one, spec=replace(one.spec, fenced=True))


def test_a_write_goes_into_the_cache_before_any_watch_tells(bench: Any, shell: Any) -> None:
    outcome = bench.run(shell.executor.execute(KEY, [Create(resource=broker(1))]))
    assert outcome.is_complete
    assert shell.caches[kinds.BROKERS].get("shop", "demo-1")["metadata"]["uid"]


def test_what_exists_is_taken_as_it_is(bench: Any, shell: Any) -> None:
    async def scenario() -> Any:
        await bench.api.create(kinds.BROKERS, fenced(broker(1)).to_manifest(), field_manager="test")
        return await shell.executor.execute(KEY, [Create(resource=broker(1))])

    assert bench.run(scenario()).is_complete
    assert shell.caches[kinds.BROKERS].get("shop", "demo-1")["spec"]["fenced"] is True


def test_a_conflict_is_read_anew_and_stops_nothing(bench: Any, shell: Any) -> None:
    async def scenario() -> Any:
        first, second = await made(bench, 1), await made(bench, 2)
        await bench.api.patch(
            kinds.BROKERS, "shop", "demo-1", {"spec": {"rack": "r"}}, field_manager="x"
        )
        actions = [Replace(resource=fenced(first)), Replace(resource=fenced(second))]
        return await shell.executor.execute(KEY, actions)

    outcome = bench.run(scenario())
    assert (outcome.conflicts, outcome.done) == (1, 1)
    assert shell.caches[kinds.BROKERS].get("shop", "demo-1")["spec"]["rack"] == "r"
    assert bench.one(kinds.BROKERS, "demo-2")["spec"]["fenced"] is True


def test_one_that_is_gone_leaves_the_cache(bench: Any, shell: Any) -> None:
    async def scenario() -> Any:
        one = await made(bench, 1)
        shell.caches[kinds.BROKERS].put(bench.one(kinds.BROKERS, "demo-1"))
        await bench.api.delete(kinds.BROKERS, "shop", "demo-1")
        return await shell.executor.execute(KEY, [Replace(resource=fenced(one))])

    assert bench.run(scenario()).conflicts == 1
    assert len(shell.caches[kinds.BROKERS]) == 0


def test_the_heaviest_goes_first_and_reports_last(bench: Any, shell: Any) -> None:
    async def scenario() -> list[tuple[str, str]]:
        brokers = [await made(bench, number) for number in range(1, 5)]
        bench.api.calls.clear()
        announce = Announce(
            kind="Broker",
            api_version="chiplog.dev/v1alpha1",
            metadata=brokers[0].metadata,
            type=EventType.NORMAL,
            reason="Why",
            message="m" * 5000,
        )
        light = [Replace(resource=fenced(one), weight=index) for index, one in enumerate(brokers)]
        await shell.executor.execute(KEY, [announce, Create(resource=broker(9)), *light])
        return [(call.verb, call.name) for call in bench.api.writes()]

    calls = bench.run(scenario())
    assert [name for _, name in calls[:5]] == ["demo-4", "demo-3", "demo-2", "demo-1", "demo-9"]
    (event,) = bench.api.all_of(kinds.EVENTS)
    assert (event["reason"], len(event["message"])) == ("Why", 1024)
    assert event["involvedObject"]["name"] == "demo-1"


def test_a_server_that_is_away_ends_the_plan(bench: Any, shell: Any) -> None:
    async def scenario() -> Any:
        brokers = [await made(bench, number) for number in range(1, 41)]
        bench.api.fault = lambda _: Unavailable("away")
        bench.api.calls.clear()
        return await shell.executor.execute(KEY, [Replace(resource=fenced(one)) for one in brokers])

    outcome = bench.run(scenario())
    assert outcome.unavailable
    assert not outcome.is_complete
    assert len(bench.api.calls) <= 16


def test_a_long_plan_gives_way_to_something_urgent(bench: Any, shell: Any) -> None:
    async def scenario() -> Any:
        brokers = [await made(bench, number) for number in range(1, 41)]

        def slow(call: Any) -> None:
            bench.clock.jump(0.05)

        bench.api.fault = slow
        actions = [Replace(resource=fenced(one)) for one in brokers]
        woken = Wake(bench.clock)
        woken.set(urgent=True)
        return await shell.executor.execute(KEY, actions, woken)

    outcome = bench.run(scenario())
    assert outcome.given_up
    assert 0 < outcome.done < 10


def test_without_the_lease_nothing_is_written(bench: Any, shell: Any) -> None:
    bench.authority.held = False
    with pytest.raises(NotActive):
        bench.run(shell.executor.execute(KEY, [Create(resource=broker(1))]))
    assert bench.api.calls == []


async def topic(bench: Any, name: str = "orders", cluster: str = "demo") -> Metadata:
    manifest = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "Topic",
        "metadata": {"namespace": "shop", "name": name, "finalizers": [labels.TOPIC_FINALIZER]},
        "spec": {"clusterRef": {"name": cluster}},
    }
    return metadata_of(await bench.api.create(kinds.TOPICS, manifest, field_manager="kubectl"))


async def surroundings(bench: Any) -> None:
    """What a Topic's deletion is compared with."""
    await bench.apply_cluster()
    for kind, name in ((kinds.DEFINITIONS, "topics.chiplog.dev"), (kinds.NAMESPACES, "shop")):
        await bench.api.create(kind, {"metadata": {"name": name}}, field_manager="t")


async def deleted_topic(bench: Any) -> Metadata:
    """A Topic as it is after a user deleted it."""
    about = await topic(bench)
    await bench.api.delete(kinds.TOPICS, "shop", about.name)
    return metadata_of(bench.one(kinds.TOPICS, about.name))


def test_a_tombstone_is_written_only_for_a_topic_that_is_being_deleted(
    bench: Any, shell: Any
) -> None:
    async def scenario() -> tuple[Any, Any]:
        one, about = await made(bench, 1), await topic(bench)
        await surroundings(bench)
        action = Replace(resource=fenced(one), deleted_topic=about)
        before = await shell.executor.execute(KEY, [action])
        await bench.api.delete(kinds.TOPICS, "shop", "orders")
        about = metadata_of(bench.one(kinds.TOPICS, "orders"))
        action = Replace(resource=fenced(one), deleted_topic=about)
        return before, await shell.executor.execute(KEY, [action])

    before, after = bench.run(scenario())
    assert (before.conflicts, before.done) == (1, 0)
    assert (after.conflicts, after.done) == (0, 1)


def test_no_tombstone_for_a_topic_whose_policy_was_changed_after_its_deletion(
    bench: Any, shell: Any
) -> None:
    async def scenario() -> Any:
        one = await made(bench, 1)
        await surroundings(bench)
        action = Replace(resource=fenced(one), deleted_topic=await deleted_topic(bench))
        retain = {"spec": {"deletionPolicy": "Retain"}}
        await bench.api.patch(kinds.TOPICS, "shop", "orders", retain, field_manager="kubectl")
        return await shell.executor.execute(KEY, [action])

    assert bench.run(scenario()).conflicts == 1
    assert "fenced" not in bench.one(kinds.BROKERS, "demo-1")["spec"]
    assert shell.caches[kinds.TOPICS].get("shop", "orders")["spec"]["deletionPolicy"] == "Retain"


def test_no_tombstone_where_the_cluster_went_first(bench: Any, shell: Any) -> None:
    """As kubectl delete -f does with a file of both, before any watch tells."""

    async def scenario() -> Any:
        one = await made(bench, 1)
        await surroundings(bench)
        shell.caches[kinds.BROKER_CLUSTERS].put(bench.one(kinds.BROKER_CLUSTERS, "demo"))
        action = Replace(resource=fenced(one), deleted_topic=await deleted_topic(bench))
        await bench.api.delete(kinds.BROKER_CLUSTERS, "shop", "demo")
        return await shell.executor.execute(KEY, [action])

    assert bench.run(scenario()).conflicts == 1
    assert "fenced" not in bench.one(kinds.BROKERS, "demo-1")["spec"]
    assert shell.caches[kinds.BROKER_CLUSTERS].get("shop", "demo") is None


def test_a_map_that_somebody_else_still_holds_is_not_taken_for_gone(bench: Any, shell: Any) -> None:
    async def scenario() -> Any:
        manifest = a_map().to_manifest()
        manifest["metadata"]["finalizers"] = ["example.org/backup"]
        stored = await bench.api.create(kinds.PARTITION_MAPS, manifest, field_manager="test")
        shell.caches[kinds.PARTITION_MAPS].put(stored)
        resource = PartitionMap.from_manifest(stored)
        return await shell.executor.execute(KEY, [DeleteMap(resource=resource)])

    assert bench.run(scenario()).is_complete
    assert shell.caches[kinds.PARTITION_MAPS].get("shop", "demo.orders") is not None


def test_no_broker_is_retired_by_what_the_watch_has_not_told_yet(bench: Any, shell: Any) -> None:
    async def scenario() -> tuple[Any, Any]:
        one = await made(bench, 1)
        await bench.api.create(kinds.PARTITION_MAPS, a_map().to_manifest(), field_manager="other")
        retired = Replace(resource=replace(one, spec=replace(one.spec, retired=True)))
        before = await shell.executor.execute(KEY, [retired])
        assert shell.caches[kinds.PARTITION_MAPS].get("shop", "demo.orders") is not None
        return before, await shell.executor.execute(KEY, [retired])

    before, after = bench.run(scenario())
    assert (before.conflicts, after.conflicts) == (1, 0)
    assert bench.one(kinds.BROKERS, "demo-1")["spec"]["retired"] is True


def test_a_conflict_after_a_restored_backup_is_not_for_ever(bench: Any, shell: Any) -> None:
    """The cache has a version that the restored server has not reached yet."""

    async def scenario() -> Any:
        one = await made(bench, 1)
        newer = bench.one(kinds.BROKERS, "demo-1")
        newer["metadata"]["resourceVersion"] = "1000"
        shell.caches[kinds.BROKERS].put(newer)
        there = replace(one, metadata=replace(one.metadata, resource_version="1000"))
        await shell.executor.execute(KEY, [Replace(resource=fenced(there))])
        known = Broker.from_manifest(shell.caches[kinds.BROKERS].get("shop", "demo-1"))
        return await shell.executor.execute(KEY, [Replace(resource=fenced(known))])

    assert bench.run(scenario()).is_complete


def test_the_last_finalizer_takes_the_topic_out_of_the_cache(bench: Any, shell: Any) -> None:
    async def scenario() -> None:
        await topic(bench)
        await bench.api.delete(kinds.TOPICS, "shop", "orders")
        ending = bench.one(kinds.TOPICS, "orders")
        shell.caches[kinds.TOPICS].put(ending)
        action = SetMetadata(kind=chiplog_api.TOPIC, metadata=metadata_of(ending), finalizers=())
        assert (await shell.executor.execute(KEY, [action])).is_complete

    bench.run(scenario())
    assert len(shell.caches[kinds.TOPICS]) == 0


def test_a_label_is_added_beside_those_that_are_there(bench: Any, shell: Any) -> None:
    manifest = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"namespace": "shop", "name": "billing", "labels": {"team": "a"}},
        "spec": {"clusterRef": {"name": "demo"}},
    }

    async def scenario() -> tuple[Any, Any]:
        found = await bench.api.create(kinds.CONSUMER_GROUPS, manifest, field_manager="kubectl")
        action = SetMetadata(
            kind=chiplog_api.CONSUMER_GROUP,
            metadata=metadata_of(found),
            labels={labels.CLUSTER: "demo"},
        )
        first = await shell.executor.execute(KEY, [action])
        return first, await shell.executor.execute(KEY, [action])

    first, outdated = bench.run(scenario())
    assert first.is_complete
    assert outdated.conflicts == 1, "only over the version that was read"
    kept = bench.one(kinds.CONSUMER_GROUPS, "billing")["metadata"]
    assert kept["labels"] == {"team": "a", "chiplog.dev/cluster": "demo"}
    patches = [call for call in bench.api.writes() if call.verb == "patch"]
    assert {call.field_manager for call in patches} == {labels.OPERATOR}


def test_a_status_that_is_so_already_is_not_written(bench: Any, shell: Any) -> None:
    async def scenario() -> None:
        about = await topic(bench)
        report = Report(kind=chiplog_api.TOPIC, metadata=about, status=TopicStatus(partitions=3))
        await shell.executor.execute(KEY, [report])
        now = bench.one(kinds.TOPICS, "orders")
        bench.api.calls.clear()
        again = replace(report, metadata=metadata_of(now))
        assert (await shell.executor.execute(KEY, [again])).is_complete
        assert bench.api.writes() == []
        assert now["status"] == {"partitions": 3}

    bench.run(scenario())


def test_what_a_status_no_longer_says_goes(bench: Any, shell: Any) -> None:
    async def scenario() -> None:
        about = await topic(bench)
        full = TopicStatus(partitions=3, replicas=1, topic_name="orders")
        await shell.executor.execute(
            KEY, [Report(kind=chiplog_api.TOPIC, metadata=about, status=full)]
        )
        about = metadata_of(bench.one(kinds.TOPICS, "orders"))
        less = TopicStatus(partitions=4)
        await shell.executor.execute(
            KEY, [Report(kind=chiplog_api.TOPIC, metadata=about, status=less)]
        )

    bench.run(scenario())
    assert bench.one(kinds.TOPICS, "orders")["status"] == {"partitions": 4}


def test_only_this_very_pod_is_restarted(bench: Any, shell: Any) -> None:
    async def scenario() -> Any:
        pod = {"metadata": {"namespace": "shop", "name": "demo-broker-1-0"}}
        await bench.api.create(kinds.PODS, pod, field_manager="kubelet")
        action = RestartPod(
            broker_id=BrokerId(1), pod_name="demo-broker-1-0", pod_uid="older", reason="Because"
        )
        outcome = await shell.executor.execute(KEY, [action])
        assert len(bench.api.all_of(kinds.PODS)) == 1
        uid = bench.one(kinds.PODS, "demo-broker-1-0")["metadata"]["uid"]
        await shell.executor.execute(KEY, [replace(action, pod_uid=uid)])
        return outcome

    assert bench.run(scenario()).conflicts == 1
    assert bench.api.all_of(kinds.PODS) == []
    assert [one["reason"] for one in bench.api.all_of(kinds.EVENTS)] == ["Because"]


def test_a_restart_takes_the_request_for_it_away(bench: Any, shell: Any) -> None:
    asked = {labels.MANUAL_ROLLING_UPDATE: "true", "other": "kept"}

    async def scenario() -> None:
        for kind, name, annotations in (
            (kinds.PODS, "demo-broker-1-0", {}),
            (kinds.STATEFUL_SETS, "demo-broker-1", asked),
        ):
            meta = {"namespace": "shop", "name": name, "annotations": annotations}
            await bench.api.create(kind, {"metadata": meta}, field_manager="kubectl")
        action = RestartPod(
            broker_id=BrokerId(1),
            pod_name="demo-broker-1-0",
            pod_uid=bench.one(kinds.PODS, "demo-broker-1-0")["metadata"]["uid"],
            reason="ManualRollingUpdate",
            requested_by="demo-broker-1",
        )
        await shell.executor.execute(KEY, [action])

    bench.run(scenario())
    assert bench.api.all_of(kinds.PODS) == []
    kept = bench.one(kinds.STATEFUL_SETS, "demo-broker-1")["metadata"]["annotations"]
    assert kept == {"other": "kept"}


def pod(number: int, *, ready: str = "True") -> dict[str, Any]:
    """The pod of a broker, with the labels and the condition that the operator reads."""
    return {
        "metadata": {
            "namespace": "shop",
            "name": f"demo-broker-{number}-0",
            "labels": {labels.CLUSTER: "demo", labels.BROKER_ID: str(number)},
        },
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


@pytest.mark.parametrize(
    ("others", "is_restarted"),
    [
        ([pod(2), pod(3)], True),
        ([pod(2), pod(3, ready="False")], False),
        ([pod(2), {"metadata": {**pod(3)["metadata"], "finalizers": ["a/b"]}}], False),
        ([pod(2)], False),
    ],
)
def test_a_pod_is_restarted_only_if_all_the_others_are_up_at_that_moment(
    bench: Any, shell: Any, others: list[dict[str, Any]], is_restarted: bool
) -> None:
    """The plan may be from before another operator, or a drained node, stopped one of them."""

    async def scenario() -> Any:
        for one in (pod(1), *others):
            await bench.api.create(kinds.PODS, one, field_manager="kubelet")
        action = RestartPod(
            broker_id=BrokerId(1),
            pod_name="demo-broker-1-0",
            pod_uid=bench.one(kinds.PODS, "demo-broker-1-0")["metadata"]["uid"],
            reason="ConfigChangeRequiresRestart",
            must_be_ready=(BrokerId(2), BrokerId(3)),
        )
        return await shell.executor.execute(KEY, [action])

    outcome = bench.run(scenario())
    left = [one["metadata"]["name"] for one in bench.api.all_of(kinds.PODS)]
    assert ("demo-broker-1-0" not in left) is is_restarted
    assert outcome.conflicts == (not is_restarted)


def test_the_request_of_a_cluster_is_handed_on_and_removed(bench: Any, shell: Any) -> None:
    asked = {labels.MANUAL_ROLLING_UPDATE: "true", "other": "kept"}

    async def scenario() -> None:
        for kind, name, annotations in (
            (kinds.STATEFUL_SETS, "demo-broker-1", {}),
            (kinds.BROKER_CLUSTERS, "demo", asked),
        ):
            meta = {"namespace": "shop", "name": name, "annotations": annotations}
            await bench.api.create(kind, {"metadata": meta}, field_manager="kubectl")
        found = metadata_of(bench.one(kinds.BROKER_CLUSTERS, "demo"))
        for action in (
            RequestRestarts(stateful_sets=("demo-broker-1",)),
            SetMetadata(
                kind=chiplog_api.BROKER_CLUSTER,
                metadata=found,
                removed_annotations=(labels.MANUAL_ROLLING_UPDATE,),
            ),
        ):
            outcome = await shell.executor.execute(KEY, [action])
            assert outcome.is_complete

    bench.run(scenario())
    handed_on = bench.one(kinds.STATEFUL_SETS, "demo-broker-1")["metadata"]["annotations"]
    assert handed_on == {labels.MANUAL_ROLLING_UPDATE: "true"}
    left = bench.one(kinds.BROKER_CLUSTERS, "demo")["metadata"]["annotations"]
    assert left == {"other": "kept"}


def create_topic(cluster: str = "demo", *, dry_run: bool = False) -> WriteTopic:
    about = Metadata(name="orders", namespace="shop")
    manifest = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "Topic",
        "metadata": {"namespace": "shop", "name": "orders"},
        "spec": {"clusterRef": {"name": cluster}},
    }
    return WriteTopic(request_id="r1", metadata=about, create=manifest, dry_run=dry_run)


def results_of(bench: Any, shell: Any, *actions: WriteTopic) -> dict[str, WriteResult]:
    bench.run(shell.executor.execute(KEY, list(actions)))
    found: dict[str, WriteResult] = shell.results.of(KEY)
    return found


def test_an_admin_clients_topic_is_made_in_its_name(bench: Any, shell: Any) -> None:
    assert results_of(bench, shell, create_topic()) == {"r1": WriteResult(accepted=True)}
    assert [call.field_manager for call in bench.api.writes()] == [labels.KAFKA_ADMIN]
    assert len(shell.caches[kinds.TOPICS]) == 1


def test_a_dry_run_leaves_nothing(bench: Any, shell: Any) -> None:
    assert results_of(bench, shell, create_topic(dry_run=True))["r1"].accepted
    assert bench.api.all_of(kinds.TOPICS) == []
    assert len(shell.caches[kinds.TOPICS]) == 0


@pytest.mark.parametrize("error", [Invalid("the schema says no"), Forbidden("no right")])
def test_a_refusal_is_the_last_word(bench: Any, shell: Any, error: Exception) -> None:
    bench.api.fault = lambda _: error
    refused = WriteResult(accepted=False, message=str(error))
    assert results_of(bench, shell, create_topic()) == {"r1": refused}


def test_no_answer_is_no_result(bench: Any, shell: Any) -> None:
    bench.api.fault_after = lambda _: Unavailable("broken after the write")
    assert results_of(bench, shell, create_topic()) == {}


def test_a_topic_that_exists_is_looked_at_again_unless_it_is_anothers(
    bench: Any, shell: Any
) -> None:
    bench.run(topic(bench))
    assert results_of(bench, shell, create_topic()) == {}
    assert len(shell.caches[kinds.TOPICS]) == 1


def test_an_object_name_of_another_cluster_is_refused(bench: Any, shell: Any) -> None:
    bench.run(topic(bench, cluster="other"))
    assert results_of(bench, shell, create_topic())["r1"].accepted is False


def test_patch_and_delete_hit_only_the_version_that_was_read(bench: Any, shell: Any) -> None:
    async def scenario() -> Any:
        about = await topic(bench)
        await bench.api.patch(
            kinds.TOPICS, "shop", "orders", {"spec": {"partitions": 2}}, field_manager="x"
        )
        old = WriteTopic(request_id="r", metadata=about, patch={"spec": {"partitions": 9}})
        gone = WriteTopic(request_id="d", metadata=about, delete=True)
        return await shell.executor.execute(KEY, [old, gone])

    assert bench.run(scenario()).conflicts == 2
    assert bench.one(kinds.TOPICS, "orders")["spec"]["partitions"] == 2
    assert shell.results.of(KEY) == {}


def test_another_clusters_object_of_that_name_is_told_of(bench: Any, shell: Any) -> None:
    """Nothing takes it over, and nobody waits for ever without a word."""
    theirs = broker(1).to_manifest()
    theirs["spec"]["cluster"] = "other"

    async def scenario() -> Any:
        before = await bench.api.create(kinds.BROKERS, theirs, field_manager="them")
        outcome = await shell.executor.execute(
            KEY, [Create(resource=one) for one in (broker(1), broker(2))]
        )
        assert bench.one(kinds.BROKERS, "demo-1") == before
        assert bench.one(kinds.BROKERS, "demo-2")
        return outcome

    (told,) = bench.run(scenario()).problems
    assert told.startswith(
        "Broker demo-1 is not this BrokerCluster's (it belongs to BrokerCluster shop/other)"
    )


def test_events_that_nobody_takes_hold_up_elections_only_once(
    bench: Any, shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where Events are stored by an etcd of their own, and that one is away."""
    announce = Announce(
        kind="BrokerCluster",
        api_version=chiplog_api.API_VERSION,
        metadata=Metadata(name="demo", namespace="shop", uid="uid-1"),
        type=EventType.NORMAL,
        reason="BrokerFenced",
        message="it is gone",
    )
    asked: list[str] = []
    create = MemoryApi.create

    async def without_events(api: Any, kind: Any, manifest: Any, **given: Any) -> Any:
        if kind is kinds.EVENTS:
            asked.append(manifest["reason"])
            await asyncio.Event().wait()
        return await create(api, kind, manifest, **given)

    monkeypatch.setattr(MemoryApi, "create", without_events)
    monkeypatch.setattr(execute, "EVENT_WITHIN_S", 0.01)

    async def scenario() -> None:
        async with asyncio.timeout(30):
            for number in range(1, 4):
                await shell.executor.execute(KEY, [announce, Create(resource=broker(number))])
        assert asked == ["BrokerFenced"]
        bench.clock.jump(execute.EVENTS_PAUSE_S)
        await shell.executor.execute(KEY, [announce])
        assert len(asked) == 2, "Events are made again when some time has passed"

    bench.run(scenario())
    assert len(bench.api.all_of(kinds.BROKERS)) == 3
