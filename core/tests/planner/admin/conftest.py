"""A cluster that admin clients ask, with an API server that keeps what is written."""

import copy
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chiplog_core.admin.answers import Verdict, from_answer
from chiplog_core.admin.bodies import to_body
from chiplog_core.admin.operations import OperatorRequest
from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import (
    BrokerId,
    Incarnation,
    LeaderEpoch,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    TopicId,
)
from chiplog_core.model.actions import WriteTopic, WriteUser
from chiplog_core.model.admin import AdminAnswer, AdminRequest
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.broker_status import BrokerStatus
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import (
    Generation,
    PartitionMap,
    PartitionMapSpec,
    PartitionState,
)
from chiplog_core.model.topic import Topic
from chiplog_core.model.user import User
from chiplog_core.observed.world import Unreadable, World, WriteResult
from chiplog_core.planner.admin.requests import AdminPlan, answer_requests
from chiplog_core.planner.moves.throttles import ClientThrottles, throttled_broker, throttled_map

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
NAMESPACE = "kafka"
CLUSTER = {
    "apiVersion": "chiplog.dev/v1alpha1",
    "kind": "BrokerCluster",
    "metadata": {"name": "prod", "namespace": NAMESPACE, "uid": "cluster"},
    "spec": {
        "replicas": 3,
        "storage": {"size": "1Gi"},
        "config": {"num.partitions": 4},
        "allowedTopicNamespaces": ["team"],
    },
}
BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
MODELS: dict[str, type[Topic | User]] = {"Topic": Topic, "User": User}


def incarnation(broker_id: BrokerId) -> Incarnation:
    return Incarnation(f"{broker_id:032x}")


def broker(broker_id: BrokerId) -> Broker:
    return Broker(
        metadata=Metadata(name=f"prod-{broker_id}", namespace=NAMESPACE),
        spec=BrokerSpec(
            cluster="prod",
            cluster_id="id",
            broker_id=broker_id,
            admitted_incarnation=incarnation(broker_id),
            session=Session(1),
            intent=BrokerIntent.SERVE,
        ),
        status=BrokerStatus(incarnation=incarnation(broker_id)),
    )


def partition_map(name: str, owner_uid: str | None, topic_id: TopicId, count: int) -> PartitionMap:
    states = tuple(
        PartitionState(
            partition=PartitionIndex(index),
            replicas=(BrokerId(1),),
            isr=(ReplicaRef(BrokerId(1), Session(1)),),
            leader=ReplicaRef(BrokerId(1), Session(1)),
            leader_epoch=LeaderEpoch(0),
            partition_epoch=PartitionEpoch(0),
        )
        for index in range(count)
    )
    spec = PartitionMapSpec(
        cluster="prod",
        topic_name=name,
        owner_uid=owner_uid,
        current=topic_id,
        min_isr=1,
        durability=Durability.FSYNC,
        generations=(Generation(topic_id=topic_id, partitions=states),),
    )
    return PartitionMap(metadata=Metadata(name=f"prod.{name}", namespace=NAMESPACE), spec=spec)


@dataclass
class Kubernetes:
    """The objects of one cluster. `world` is what an operator sees of them."""

    cluster: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(CLUSTER))
    topics: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    users: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    maps: dict[str, PartitionMap] = field(default_factory=dict)
    brokers: dict[BrokerId, Broker] = field(
        default_factory=lambda: {broker_id: broker(broker_id) for broker_id in BROKERS}
    )
    results: dict[str, WriteResult] = field(default_factory=dict)
    unreadable: tuple[Unreadable, ...] = ()
    created: list[str] = field(default_factory=list)
    """Names of the Topics that were ever made, in their order."""
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def world(self) -> World:
        cluster = BrokerCluster.from_manifest(self.cluster)
        return World(
            metadata=cluster.metadata,
            cluster=cluster,
            brokers=dict(self.brokers),
            maps=dict(self.maps),
            topics=tuple(Topic.from_manifest(manifest) for manifest in self.topics.values()),
            users=tuple(User.from_manifest(manifest) for manifest in self.users.values()),
            unreadable=self.unreadable,
            write_results=dict(self.results),
            managed_fields={
                manifest["metadata"]["uid"]: manifest["metadata"].get("managedFields")
                for manifest in (*self.topics.values(), *self.users.values())
            },
        )

    def plan(self, now: datetime = NOW) -> AdminPlan:
        return answer_requests(self.world(), now)

    # What clients and brokers do

    def ask(self, operation: OperatorRequest, broker_id: int = 1, wait_s: int = 30) -> str:
        op, body = to_body(operation)
        request = AdminRequest(
            id=f"r{next(self.numbers)}",
            principal="User:ANONYMOUS",
            op=op,
            body=body,
            deadline=NOW + timedelta(seconds=wait_s),
        )
        self.set_requests(broker_id, (*self.requests(broker_id), request))
        return request.id

    def requests(self, broker_id: int) -> tuple[AdminRequest, ...]:
        return self.brokers[BrokerId(broker_id)].status.requests

    def set_requests(self, broker_id: int, requests: tuple[AdminRequest, ...]) -> None:
        old = self.brokers[BrokerId(broker_id)]
        status = replace(old.status, requests=requests)
        self.brokers[BrokerId(broker_id)] = replace(old, status=status)

    def answers(self) -> dict[str, Verdict]:
        """What is published, by the request's id."""
        return {
            answer.id: from_answer(answer)
            for one in self.brokers.values()
            for answer in one.spec.answers
        }

    # What kubectl does

    def apply(
        self,
        name: str,
        namespace: str = NAMESPACE,
        owned: Iterable[tuple[str, Mapping[str, object]]] = (),
        annotations: Mapping[str, str] | None = None,
        **spec: object,
    ) -> dict[str, Any]:
        """A Topic, with the managers of its fields as (manager, fieldsV1)."""
        reference = {"name": "prod", "namespace": NAMESPACE}
        manifest = {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "Topic",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "annotations": dict(annotations or {}),
                "managedFields": [
                    {"manager": manager, "operation": "Update", "fieldsV1": fields}
                    for manager, fields in owned
                ],
            },
            "spec": {"clusterRef": reference, **spec},
        }
        assert self.create(manifest)
        return manifest

    def made(self, name: str, count: int = 2, **spec: Any) -> dict[str, Any]:
        """A Topic of which the planner has made everything there is to make."""
        manifest = self.apply(name, **spec)
        self.adopt(Topic.from_manifest(manifest), count)
        return manifest

    def adopt(self, topic: Topic, count: int = 2) -> None:
        """Make a Topic's PartitionMap."""
        topic_id = TopicId((next(self.numbers) + 1).to_bytes(16, "big"))
        name = topic.topic_name
        self.maps[name] = partition_map(name, topic.metadata.uid, topic_id, count)

    # What the API server does

    def create(self, manifest: dict[str, Any]) -> bool:
        metadata = manifest["metadata"]
        identity = (metadata["namespace"], metadata["name"])
        kind = manifest["kind"]
        objects = self.objects(kind)
        if identity in objects:
            return False
        MODELS[kind].from_manifest(manifest)
        metadata["uid"] = f"uid-{next(self.numbers)}"
        metadata["resourceVersion"] = str(next(self.numbers))
        objects[identity] = manifest
        self.created.append(metadata["name"])
        return True

    def objects(self, kind: str) -> dict[tuple[str, str], dict[str, Any]]:
        return {"Topic": self.topics, "User": self.users}[kind]

    def carry_out(self, write: WriteTopic | WriteUser) -> None:
        """As the operator's shell does it; a conflict is no result."""
        assert sum((write.create is not None, write.patch is not None, write.delete)) == 1
        identity = (write.metadata.namespace, write.metadata.name)
        kind = "User" if isinstance(write, WriteUser) else "Topic"
        stored = self.objects(kind).get(identity)
        if isinstance(write, WriteTopic) and write.dry_run:
            self.results[write.request_id] = WriteResult(accepted=True)
        elif write.create is not None:
            if self.create(copy.deepcopy(dict(write.create))):
                self.results[write.request_id] = WriteResult(accepted=True)
        elif stored is not None and self.is_version(stored, write):
            if isinstance(write, WriteUser) and write.delete:
                del self.users[identity]
            else:
                self._change(stored, write)
            self.results[write.request_id] = WriteResult(accepted=True)

    def is_version(self, stored: dict[str, Any], write: WriteTopic | WriteUser) -> bool:
        found = stored["metadata"]["uid"], stored["metadata"]["resourceVersion"]
        return found == (write.metadata.uid, write.metadata.resource_version)

    def _change(self, stored: dict[str, Any], write: WriteTopic | WriteUser) -> None:
        if write.patch is not None:
            merge(stored, write.patch)
        else:
            stored["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
        stored["metadata"]["resourceVersion"] = str(next(self.numbers))
        MODELS[stored["kind"]].from_manifest(stored)

    def publish(self, answers: Mapping[BrokerId, tuple[AdminAnswer, ...]]) -> None:
        for broker_id, given in answers.items():
            old = self.brokers[broker_id]
            self.brokers[broker_id] = replace(old, spec=replace(old.spec, answers=given))

    def settle(self) -> None:
        """Plan, write, publish until nothing changes."""
        for _round in range(50):
            before = self.answers(), len(self.created)
            plan = self.plan()
            for write in plan.writes:
                self.carry_out(write)
            self.publish(plan.answers)
            if self.throttle(plan.throttles):
                continue
            if not plan.writes and before == (self.answers(), len(self.created)):
                return
        raise AssertionError("the plans do not come to rest")

    def throttle(self, throttles: ClientThrottles) -> bool:
        """Write what the planner writes for throttles; returns whether anything was."""
        for name, found in self.maps.items():
            spec = throttled_map(found.spec, throttles)
            self.maps[name] = replace(found, spec=spec)
        for broker_id, one in self.brokers.items():
            self.brokers[broker_id] = replace(one, spec=throttled_broker(one.spec, throttles))
        return bool(throttles.of_topics or throttles.of_brokers)

    def outcome(self, operation: OperatorRequest, broker_id: int = 1) -> Verdict:
        """Ask and settle."""
        request_id = self.ask(operation, broker_id)
        self.settle()
        return self.answers()[request_id]


def merge(target: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """RFC 7396."""
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, Mapping):
            merge(target.setdefault(name, {}), value)
        else:
            target[name] = value


@pytest.fixture
def kubernetes() -> Kubernetes:
    return Kubernetes()


@pytest.fixture(scope="session")
def new_kubernetes() -> type[Kubernetes]:
    """For tests that need a new one for each example."""
    return Kubernetes


@pytest.fixture(scope="session")
def key_of() -> Any:
    """The name under which a broker's request is known to all."""
    return lambda broker_id, request_id: f"{incarnation(BrokerId(broker_id))}.{request_id}"
