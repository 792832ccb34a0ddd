"""A whole operator on an API server in memory, with the real planner and brokers that pretend."""

import asyncio
from typing import Any

import pytest

from chiplog_core.naming import names
from chiplog_core.naming.labels import MANIFEST_HASH, TOPIC_FINALIZER
from chiplog_core.topic_name import CONSUMER_OFFSETS
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Forbidden, Invalid, Unavailable
from tests.shell.memory_api import Call

NAMESPACE, CLUSTER = "shop", "demo"


async def prepare(bench: Any) -> None:
    """What Kubernetes has before anybody asks for a cluster."""
    for kind, name in ((kinds.DEFINITIONS, "topics.chiplog.dev"), (kinds.NAMESPACES, NAMESPACE)):
        manifest = {"metadata": {"name": name}}
        await bench.api.create(kind, manifest, field_manager="test")


async def start(bench: Any) -> None:
    """A cluster of three brokers that serve, and a topic."""
    await prepare(bench)
    await bench.apply_cluster()
    await bench.apply_topic("orders", partitions=6)
    await bench.clock.advance(1)
    await bench.start_brokers()
    await bench.live(4.5)


def test_a_cluster_and_a_topic_come_into_being(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)

    bench.run(scenario())
    assert bench.ready(kinds.TOPICS, "orders") == ("True", "Ready")
    assert sorted(bench.leaders("orders")) == ["1@1", "1@1", "2@1", "2@1", "3@1", "3@1"]
    assert bench.one(kinds.TOPICS, "orders")["metadata"]["finalizers"] == [TOPIC_FINALIZER]
    sets = [one["metadata"]["name"] for one in bench.api.all_of(kinds.STATEFUL_SETS)]
    assert sets == [f"demo-broker-{number}" for number in (1, 2, 3)]


def test_a_quiet_cluster_is_left_alone(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.live(6)
            bench.api.calls.clear()
            await bench.live(300)

    bench.run(scenario())
    mine = [call for call in bench.api.writes() if call.field_manager != "broker"]
    assert mine == []


def test_a_renewed_lease_causes_no_plan(bench: Any) -> None:
    async def scenario() -> tuple[int, int]:
        async with bench.running() as system:
            await start(bench)
            await bench.live(6)
            rounds = []
            parts = system.loops._parts
            observe = parts.observer.observe

            async def counted(*given: Any) -> Any:
                rounds.append(given)
                return await observe(*given)

            parts.observer.observe = counted
            await bench.live(50)
            return len(rounds), sum(broker.renewals for broker in bench.brokers.values())

    rounds, renewals = bench.run(scenario())
    assert renewals > 90
    assert rounds <= 1  # the periodic look


@pytest.mark.parametrize("is_last_one_done", [False, True])
@pytest.mark.parametrize("stop_after", range(0, 60, 2))
def test_an_operator_killed_at_any_write_is_harmless(
    bench: Any, stop_after: int, is_last_one_done: bool
) -> None:
    """Every prefix of what the operator writes, then another operator: the same result.

    Of the last write the first operator may or may not have learned that it was done.
    """
    writes = 0

    def is_dead(call: Any) -> ApiError | None:
        is_mine = call.verb not in {"get", "list", "watch"} and call.field_manager != "broker"
        return Unavailable("this process is dead") if is_mine and writes >= stop_after else None

    def count(call: Any) -> ApiError | None:
        nonlocal writes
        is_mine = call.field_manager != "broker"
        writes += is_mine
        is_last = is_mine and is_last_one_done and writes >= stop_after
        return Unavailable("this process is dead") if is_last else None

    async def scenario() -> None:
        await prepare(bench)
        await bench.apply_cluster()
        await bench.apply_topic("orders", partitions=6)
        bench.api.fault, bench.api.fault_after = is_dead, count
        async with bench.running():
            for _ in range(3):
                await bench.clock.advance(0.5)
                await try_to_start(bench)
                await serve_if_possible(bench)
        bench.api.fault = bench.api.fault_after = lambda _: None
        async with bench.running():
            await bench.clock.advance(2)
            await try_to_start(bench)
            await bench.live(9)

    bench.run(scenario())
    assert bench.ready(kinds.TOPICS, "orders") == ("True", "Ready")
    maps = [one["spec"]["topicName"] for one in bench.api.all_of(kinds.PARTITION_MAPS)]
    assert sorted(maps) == ["__consumer_offsets", "__transaction_state", "orders"]
    assert len(bench.api.all_of(kinds.BROKERS)) == 3
    assert [broker.session for broker in bench.brokers.values()] == [1, 1, 1]
    assert not [call for call in bench.api.calls if call.verb == "delete"]


async def try_to_start(bench: Any) -> None:
    if not bench.brokers and len(bench.api.all_of(kinds.BROKERS)) == 3:
        await bench.start_brokers()


async def serve_if_possible(bench: Any) -> None:
    if bench.brokers and len(bench.api.all_of(kinds.LEASES)) == 3:
        await bench.live(1.5)


def test_a_dead_process_is_known_by_its_termination_message(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            dead = bench.brokers[2]
            await bench.api.create(
                kinds.PODS, pod_that_ended(2, dead.incarnation), field_manager="kubelet"
            )
            await bench.clock.advance(0.2)
            fenced = bench.one(kinds.BROKERS, "demo-2")["spec"]
            assert fenced["fenced"] is True

    bench.run(scenario())
    assert sorted(one or "" for one in bench.leaders("orders")) == [
        "",
        "",
        "1@1",
        "1@1",
        "3@1",
        "3@1",
    ]


def pod_that_ended(number: int, incarnation: str) -> dict[str, Any]:
    ended = {"terminated": {"message": f"{incarnation}\n", "exitCode": 137, "reason": "Error"}}
    return {
        "metadata": {
            "namespace": NAMESPACE,
            "name": f"demo-broker-{number}-0",
            "labels": {"chiplog.dev/cluster": CLUSTER, "chiplog.dev/broker-id": str(number)},
        },
        "spec": {"nodeName": "node-a"},
        "status": {"containerStatuses": [{"name": "broker", "lastState": ended}]},
    }


def test_an_expired_lease_fences_and_a_renewed_one_admits_again(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.live(4.5, without=(2,))
            assert not bench.one(kinds.BROKERS, "demo-2")["spec"].get("fenced")
            await bench.live(4.5, without=(2,))
            assert bench.one(kinds.BROKERS, "demo-2")["spec"]["fenced"] is True
            await bench.live(6)

    bench.run(scenario())
    spec = bench.one(kinds.BROKERS, "demo-2")["spec"]
    assert (spec.get("fenced", False), spec["session"]) == (False, 2)
    assert bench.leaders("orders").count("2@2") == 2


def test_an_api_server_that_was_away_fences_nobody(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            before = bench.leaders("orders")
            bench.api.fault = lambda _: Unavailable("etcd is away")
            await bench.api.break_watches()
            await bench.clock.advance(120)
            bench.api.fault = lambda _: None
            await bench.live(15)
            assert bench.leaders("orders") == before

    bench.run(scenario())
    assert [broker.session for broker in bench.brokers.values()] == [1, 1, 1]


def test_a_paused_operator_fences_nobody(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            before = bench.leaders("orders")
            bench.clock.jump(60)
            await bench.live(15)
            assert bench.leaders("orders") == before

    bench.run(scenario())


def test_a_deleted_topic_goes_with_its_data_order(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.api.delete(kinds.TOPICS, NAMESPACE, "orders")
            await bench.live(4.5)

    bench.run(scenario())
    assert bench.api.all_of(kinds.TOPICS) == []
    spec = bench.one(kinds.PARTITION_MAPS, "demo.orders")["spec"]
    assert spec.get("current") is None
    assert len(spec["tombstones"]) == 1


@pytest.mark.parametrize("what", ["definition", "namespace"])
def test_topics_that_go_with_their_kind_or_namespace_keep_their_data(bench: Any, what: str) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            kind, name = {
                "definition": (kinds.DEFINITIONS, "topics.chiplog.dev"),
                "namespace": (kinds.NAMESPACES, NAMESPACE),
            }[what]
            await bench.api.patch(
                kind, "", name, {"metadata": {"finalizers": ["kubernetes"]}}, field_manager="k"
            )
            await bench.api.delete(kind, "", name)
            await bench.api.delete(kinds.TOPICS, NAMESPACE, "orders")
            await bench.live(4.5)

    bench.run(scenario())
    assert bench.api.all_of(kinds.TOPICS) == []
    spec = bench.one(kinds.PARTITION_MAPS, "demo.orders")["spec"]
    assert spec["current"]
    assert not spec.get("tombstones")


def test_a_topic_without_its_cluster_is_told_so_and_let_go(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.api.delete(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER)
            await bench.clock.advance(2)
            assert bench.ready(kinds.TOPICS, "orders") == ("False", "ClusterNotFound")
            await bench.api.delete(kinds.TOPICS, NAMESPACE, "orders")
            await bench.clock.advance(2)

    bench.run(scenario())
    assert bench.api.all_of(kinds.TOPICS) == []
    assert bench.one(kinds.PARTITION_MAPS, "demo.orders")["spec"]["current"]


def test_a_cluster_applied_again_goes_on_with_the_offsets_of_its_groups(bench: Any) -> None:
    def offsets() -> Any:
        return bench.one(kinds.PARTITION_MAPS, names.partition_map(CLUSTER, CONSUMER_OFFSETS))

    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            before = offsets()
            assert "ownerReferences" not in before["metadata"]
            await bench.api.delete(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER)
            await bench.clock.advance(2)
            assert offsets() == before
            await bench.apply_cluster()
            await bench.live(4.5)
            assert offsets()["spec"] == before["spec"]

    bench.run(scenario())
    status = bench.one(kinds.BROKER_CLUSTERS, CLUSTER)["status"]
    current = offsets()["spec"]["current"]
    assert status["consumerOffsets"] == {"topicId": current, "partitions": 50, "replicas": 3}
    assert status["transactionState"] | {"topicId": ""} == {
        "topicId": "",
        "partitions": 50,
        "replicas": 3,
    }


def test_what_people_delete_or_change_comes_back(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.api.delete(kinds.SERVICES, NAMESPACE, names.bootstrap_service(CLUSTER))
            await bench.api.patch(
                kinds.CONFIG_MAPS,
                NAMESPACE,
                names.broker_config(CLUSTER),
                {
                    "data": {"server.properties": "mine"},
                    "metadata": {"annotations": {MANIFEST_HASH: None}},
                },
                field_manager="kubectl",
            )
            await bench.live(4.5)

    bench.run(scenario())
    assert bench.one(kinds.SERVICES, names.bootstrap_service(CLUSTER))
    config = bench.one(kinds.CONFIG_MAPS, names.broker_config(CLUSTER))
    assert config["data"]["server.properties"] != "mine"


def test_an_operator_that_lost_its_lease_writes_nothing(bench: Any) -> None:
    async def scenario() -> Any:
        system = bench.system()
        bench.authority.held = False
        await prepare(bench)
        await bench.apply_cluster()
        bench.api.calls.clear()
        task = asyncio.create_task(system.run())
        await bench.clock.advance(5)
        assert task.done()
        return task.exception()

    error = bench.run(scenario())
    assert error is not None
    assert bench.api.writes() == []


def test_a_cluster_that_the_watch_forgot_is_asked_for_before_topics_are_let_go(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running() as system:
            await start(bench)
            # The watch says that the cluster went, and never that there is one again.
            cluster = bench.one(kinds.BROKER_CLUSTERS, CLUSTER)
            old = {"metadata": {**cluster["metadata"], "uid": "older"}}
            system.caches[kinds.BROKER_CLUSTERS]._objects.clear()
            system.caches[kinds.BROKER_CLUSTERS].remove(old)
            await bench.api.delete(kinds.TOPICS, NAMESPACE, "orders")
            await bench.live(4.5)

    bench.run(scenario())
    assert len(bench.one(kinds.PARTITION_MAPS, "demo.orders")["spec"]["tombstones"]) == 1


def test_a_topic_that_vanished_unseen_is_found_missing_by_a_list(bench: Any) -> None:
    """Its finalizer was stripped and the watch lost the deletion: a list corrects the cache."""

    async def scenario() -> None:
        async with bench.running() as system:
            await start(bench)
            phantom = bench.one(kinds.TOPICS, "orders")
            phantom["metadata"] |= {"name": "ghost", "uid": "ghost"}
            system.caches[kinds.TOPICS].put(phantom)
            await bench.live(90)
            assert system.caches[kinds.TOPICS].get(NAMESPACE, "ghost") is None

    bench.run(scenario())
    assert bench.ready(kinds.TOPICS, "orders") == ("True", "Ready")


def test_a_map_that_does_not_read_is_nobodys_business_and_others_go_on(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.apply_topic("later", partitions=1)
            await bench.live(3)
            odd = {"spec": {"minIsr": "two"}}
            for name in ("demo.orders", "demo.later"):
                await bench.api.patch(kinds.PARTITION_MAPS, NAMESPACE, name, odd, field_manager="x")
            before = bench.one(kinds.PARTITION_MAPS, "demo.orders")
            await bench.apply_topic("others", partitions=1)
            await bench.api.delete(kinds.TOPICS, NAMESPACE, "orders")
            await bench.live(6)
            assert bench.one(kinds.PARTITION_MAPS, "demo.orders") == before

    bench.run(scenario())
    assert bench.ready(kinds.TOPICS, "others") == ("True", "Ready")
    assert bench.ready(kinds.TOPICS, "later") == ("False", "InternalError")
    assert "deletionTimestamp" in bench.one(kinds.TOPICS, "orders")["metadata"]


def test_a_broker_that_does_not_read_stops_what_is_its_own(bench: Any) -> None:
    async def scenario() -> Any:
        async with bench.running():
            await start(bench)
            await bench.live(3)
            odd = {"spec": {"session": -1}}
            await bench.api.patch(kinds.BROKERS, NAMESPACE, "demo-2", odd, field_manager="x")
            before = bench.one(kinds.BROKERS, "demo-2")["spec"], bench.leaders("orders")
            await bench.live(60)
            now = bench.one(kinds.BROKERS, "demo-2")["spec"]
            assert (now, bench.leaders("orders")) == before
            assert bench.ready(kinds.BROKER_CLUSTERS, CLUSTER) == ("False", "BrokerUnreadable")
            await bench.live(15, without=(3,))
            return before[1]

    before = bench.run(scenario())
    assert bench.one(kinds.BROKERS, "demo-3")["spec"]["fenced"] is True
    lost = [leader if leader and not leader.startswith("3@") else None for leader in before]
    assert bench.leaders("orders") == lost
    assert len(bench.api.all_of(kinds.STATEFUL_SETS)) == 3


def test_what_is_refused_is_in_the_conditions_until_it_is_not(bench: Any) -> None:
    def quota(call: Any) -> Any:
        is_service = (call.verb, call.kind) == ("create", "Service")
        return Forbidden("exceeded quota: services") if is_service else None

    async def scenario() -> None:
        async with bench.running():
            bench.api.fault = quota
            await start(bench)
            await bench.live(3)
            assert bench.ready(kinds.BROKER_CLUSTERS, CLUSTER) == ("False", "FailedApply")
            bench.api.fault = lambda _: None
            await bench.live(15)
            _, reason = bench.ready(kinds.BROKER_CLUSTERS, CLUSTER)
            assert reason != "FailedApply"

    bench.run(scenario())


@pytest.mark.parametrize("how", ["paused", "refused"])
def test_what_is_paused_or_refused_is_not_applied(bench: Any, how: str) -> None:
    change: dict[str, Any] = {"spec": {"storage": {"size": "2Gi"}, "hibernate": True}}
    if how == "paused":
        annotations = {"chiplog.dev/pause-reconciliation": "true"}
        change = {"metadata": {"annotations": annotations}, "spec": {"storage": {"size": "2Gi"}}}

    async def scenario() -> Any:
        async with bench.running():
            await start(bench)
            await bench.live(3)
            before = [bench.api.all_of(kind) for kind in (kinds.STATEFUL_SETS, kinds.CONFIG_MAPS)]
            await bench.api.patch(
                kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER, change, field_manager="kubectl"
            )
            await bench.live(6)
            after = [bench.api.all_of(kind) for kind in (kinds.STATEFUL_SETS, kinds.CONFIG_MAPS)]
            return before, after

    before, after = bench.run(scenario())
    assert before == after


def test_a_waiting_topic_is_let_go_when_its_namespace_follows(bench: Any) -> None:
    """It was deleted while its cluster was paused; then the whole namespace goes."""

    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            pause = {"metadata": {"annotations": {"chiplog.dev/pause-reconciliation": "true"}}}
            await bench.api.patch(
                kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER, pause, field_manager="kubectl"
            )
            await bench.api.delete(kinds.TOPICS, NAMESPACE, "orders")
            await bench.live(3)
            assert bench.one(kinds.TOPICS, "orders")["metadata"]["finalizers"]
            ending = {"metadata": {"finalizers": ["kubernetes"]}}
            await bench.api.patch(kinds.NAMESPACES, "", NAMESPACE, ending, field_manager="x")
            await bench.api.delete(kinds.NAMESPACES, "", NAMESPACE)
            await bench.live(75)

    bench.run(scenario())
    assert bench.api.all_of(kinds.TOPICS) == []
    assert bench.one(kinds.PARTITION_MAPS, "demo.orders")["spec"].get("tombstones", []) == []


def test_a_topic_that_does_not_read_is_let_go_where_there_is_no_cluster(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            odd = {"spec": {"partitions": "many"}}
            await bench.api.patch(kinds.TOPICS, NAMESPACE, "orders", odd, field_manager="x")
            await bench.api.delete(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER)
            await bench.live(3)
            await bench.api.delete(kinds.TOPICS, NAMESPACE, "orders")
            await bench.live(3)

    bench.run(scenario())
    assert bench.api.all_of(kinds.TOPICS) == []


def test_a_refusal_that_is_another_one_each_time_is_told_of_now_and_then(bench: Any) -> None:
    """As by a webhook that puts the number of the request into what it says."""
    tries: list[Call] = []

    def refuse(call: Call) -> ApiError | None:
        if (call.verb, call.kind) != ("create", "Service"):
            return None
        assert len(tries) < 500, "it is tried again and again without a pause"
        tries.append(call)
        return Forbidden(f"denied, see request {len(tries)}")

    async def scenario() -> None:
        bench.api.fault = refuse
        async with bench.running():
            await prepare(bench)
            await bench.apply_cluster()
            await bench.live(60)
            assert bench.ready(kinds.BROKER_CLUSTERS, CLUSTER) == ("False", "FailedApply")
            bench.api.fault = lambda _: None
            await bench.live(12)
            assert bench.ready(kinds.BROKER_CLUSTERS, CLUSTER)[1] != "FailedApply"

    bench.run(scenario())
    told = [one for one in bench.api.all_of(kinds.EVENTS) if one["reason"] == "FailedApply"]
    assert 1 <= len(told) <= 7


def test_a_cluster_in_a_namespace_that_is_not_watched_is_anothers(bench: Any) -> None:
    async def scenario() -> None:
        bench.namespaces = ("elsewhere",)
        async with bench.running():
            await bench.apply_cluster()
            given = {"clusterRef": {"name": CLUSTER, "namespace": NAMESPACE}, "partitions": 1}
            mine = {
                "apiVersion": "chiplog.dev/v1alpha1",
                "kind": "Topic",
                "metadata": {"namespace": "elsewhere", "name": "orders"},
                "spec": given,
            }
            await bench.api.create(kinds.TOPICS, mine, field_manager="kubectl")
            await bench.live(3)

    bench.run(scenario())
    assert bench.api.all_of(kinds.BROKERS) == []
    assert bench.ready(kinds.TOPICS, "orders") == ("False", "ClusterNotFound")


def test_objects_that_do_not_read_are_told_so(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.apply_topic("odd", partitions="many")
            group = {
                "apiVersion": "chiplog.dev/v1alpha1",
                "kind": "ConsumerGroup",
                "metadata": {"namespace": NAMESPACE, "name": "odd"},
                "spec": {"clusterRef": {"name": CLUSTER}, "reset": "yes"},
            }
            await bench.api.create(kinds.CONSUMER_GROUPS, group, field_manager="kubectl")
            await bench.live(3)

    bench.run(scenario())
    assert bench.ready(kinds.TOPICS, "odd") == ("False", "InvalidConfig")
    assert bench.ready(kinds.CONSUMER_GROUPS, "odd") == ("False", "InvalidConfig")


def test_brokers_are_admitted_while_the_definition_of_topics_is_gone(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running() as system:
            await start(bench)
            bench.api.missing_kinds.add("Topic")
            system.caches[kinds.TOPICS].remove(bench.one(kinds.TOPICS, "orders"))
            await bench.start_brokers()
            await bench.live(30)

    bench.run(scenario())
    assert {one["spec"]["session"] for one in bench.api.all_of(kinds.BROKERS)} == {2}
    assert sorted(bench.leaders("orders")) == ["1@2", "1@2", "2@2", "2@2", "3@2", "3@2"]


@pytest.mark.parametrize("topics_first", [False, True])
def test_topics_that_go_with_their_cluster_keep_their_records(
    bench: Any, topics_first: bool
) -> None:
    """Also where the watch tells of the Topic's end before it tells of the cluster's."""

    def behind(call: Call) -> ApiError | None:
        is_late = topics_first and call.kind == "BrokerCluster" and call.verb in {"list", "watch"}
        return Unavailable("later") if is_late else None

    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.live(6)
            bench.api.fault = behind
            await bench.api.break_watches()
            await bench.live(6)
            await bench.api.delete(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER)
            await bench.api.delete(kinds.TOPICS, NAMESPACE, "orders")
            await bench.live(15)

    bench.run(scenario())
    spec = bench.one(kinds.PARTITION_MAPS, "demo.orders")["spec"]
    assert len(spec["generations"]) == 1
    assert not spec.get("tombstones")
    assert not bench.api.all_of(kinds.TOPICS), "it is held by nobody"


def test_what_hands_change_just_after_it_was_made_does_not_wait_for_the_next_look(
    bench: Any,
) -> None:
    """It is not taken back at once: two who insist would write all the time."""
    service = names.brokers_service(CLUSTER)

    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            away = {"spec": {"publishNotReadyAddresses": False}}
            await bench.api.patch(kinds.SERVICES, NAMESPACE, service, away, field_manager="hand")
            await bench.live(12)
            assert bench.one(kinds.SERVICES, service)["spec"]["publishNotReadyAddresses"]

    bench.run(scenario())


def test_a_pod_whose_claim_waits_for_it_to_be_scheduled_is_made_again(bench: Any) -> None:
    """The scheduler bound the pod by the claim before; the one there is now never gets a volume."""

    async def scenario() -> list[str]:
        async with bench.running():
            await start(bench)
            await bench.add_pod(2, "")
            pod = bench.one(kinds.PODS, "demo-broker-2-0")
            since = bench.clock.now().isoformat()
            placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
            status = {"phase": "Pending", "conditions": [placed]}
            parts = ({"spec": {"nodeName": "node-a"}}, ""), ({"status": status}, "status")
            for patch, subresource in parts:
                await bench.api.patch(
                    kinds.PODS,
                    NAMESPACE,
                    "demo-broker-2-0",
                    patch,
                    field_manager="scheduler",
                    subresource=subresource,
                )
            claim = {
                "metadata": {
                    "namespace": NAMESPACE,
                    "name": "data-demo-broker-2-0",
                    "labels": pod["metadata"]["labels"],
                    "creationTimestamp": since,
                },
                "spec": {},
                "status": {"phase": "Pending"},
            }
            await bench.api.create(kinds.VOLUME_CLAIMS, claim, field_manager="kubelet")
            await bench.live(3)
            assert bench.api.all_of(kinds.PODS)
            await bench.live(4.5)
            return [
                one["reason"]
                for one in bench.api.all_of(kinds.EVENTS)
                if one["involvedObject"]["kind"] == kinds.PODS.kind
            ]

    assert bench.run(scenario()) == ["VolumeNotBound"]
    assert not bench.api.all_of(kinds.PODS)


EXTERNAL = {"name": "external", "type": "nodeport", "port": 9094, "advertisedHost": "127.0.0.1"}
OUTSIDE = {
    "demo-kafka-external-bootstrap": 30_100,
    **{f"demo-broker-{number}-external": 30_100 + number for number in (1, 2, 3)},
}


async def allocate_node_ports(bench: Any) -> None:
    """As the API server does where a Service asks for none."""
    for name, port in OUTSIDE.items():
        found = bench.one(kinds.SERVICES, name)["spec"]["ports"]
        patch = {"spec": {"ports": [{**found[0], "nodePort": port}]}}
        await bench.api.patch(kinds.SERVICES, NAMESPACE, name, patch, field_manager="api")


def asked_ports(bench: Any) -> dict[str, int | None]:
    return {
        name: bench.one(kinds.SERVICES, name)["spec"]["ports"][0].get("nodePort")
        for name in OUTSIDE
    }


def test_a_cluster_made_again_asks_for_the_node_ports_it_had(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await prepare(bench)
            await bench.apply_cluster(listeners=[EXTERNAL])
            await bench.clock.advance(1)
            assert set(asked_ports(bench).values()) == {None}
            await allocate_node_ports(bench)
            await bench.start_brokers()
            await bench.live(4.5)
            await bench.api.delete(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER)
            for name in OUTSIDE:
                await bench.api.delete(kinds.SERVICES, NAMESPACE, name)
            await bench.clock.advance(5)
            await bench.apply_cluster(listeners=[EXTERNAL])
            await bench.clock.advance(5)

    bench.run(scenario())
    assert asked_ports(bench) == OUTSIDE


def test_a_node_port_that_somebody_has_taken_is_said_with_what_to_do(bench: Any) -> None:
    why = 'Service "demo-broker-1-external" is invalid: spec.ports[0].nodePort: Invalid value: '
    taken = Invalid(f"{why}30101: provided port is already allocated")

    def is_taken(call: Any) -> ApiError | None:
        return taken if call.name == "demo-broker-1-external" else None

    async def scenario() -> None:
        bench.api.fault = is_taken
        async with bench.running():
            await prepare(bench)
            await bench.apply_cluster(listeners=[EXTERNAL])
            await bench.clock.advance(5)

    bench.run(scenario())
    conditions = bench.one(kinds.BROKER_CLUSTERS, CLUSTER)["status"]["conditions"]
    (message,) = {one["message"] for one in conditions if one["type"] == "Ready"}
    assert "provided port is already allocated" in message
    assert "choose other ports with spec.listeners[].nodePortBase" in message
