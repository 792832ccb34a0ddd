"""The volume of a broker that was removed is deleted, by a recorded decision."""

from dataclasses import replace

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import DeleteClaim, Replace
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_status import ReplicaReport
from chiplog_core.naming import labels
from chiplog_core.observed.world import ClaimState, PodState, StatefulSetState
from tests.planner.copying import Copying
from tests.planner.model import Kubernetes
from tests.planner.objects import topic

GONE = BrokerId(3)
STORAGE = {"size": "1Gi", "deleteClaim": True}


def scaled_in(*, delete_claim: bool = True) -> Kubernetes:
    """Broker 3 was removed; its claim is still there."""
    storage = {**STORAGE, "deleteClaim": delete_claim}
    kubernetes = Copying(3, storage=storage)
    kubernetes.apply(topic(partitions=3, replicas=2))
    kubernetes.run()
    owner = kubernetes.cluster.metadata.uid
    claims = {
        broker_id: ClaimState(
            name=f"data-demo-broker-{broker_id}-0",
            uid=f"claim-{broker_id}",
            owners=frozenset({owner}),
        )
        for broker_id in kubernetes.brokers
    }
    kubernetes.configure(2, storage=storage)
    kubernetes.settle()
    assert kubernetes.brokers[GONE].spec.retired
    del kubernetes.pods[GONE]
    kubernetes.claims = claims
    return kubernetes


def steps(kubernetes: Kubernetes, **changes: object) -> list[object]:
    """What the plan does about the claim of broker 3."""
    return [
        one
        for one in kubernetes.plan(**changes).actions
        if isinstance(one, DeleteClaim)
        or (isinstance(one, Replace) and isinstance(one.resource, Broker))
    ]


def test_the_decision_is_recorded_before_it_is_carried_out() -> None:
    kubernetes = scaled_in()

    (record,) = steps(kubernetes)
    assert isinstance(record, Replace)
    assert isinstance(record.resource, Broker)
    removal = record.resource.spec.claim_removal
    assert removal is not None
    assert (removal.claim_name, removal.claim_uid) == ("data-demo-broker-3-0", "claim-3")
    kubernetes.do(record)

    (deletion,) = steps(kubernetes)
    assert isinstance(deletion, DeleteClaim)
    assert (deletion.claim_name, deletion.claim_uid) == ("data-demo-broker-3-0", "claim-3")
    assert deletion.basis.brokers[kubernetes.brokers[GONE].metadata.name] == (
        kubernetes.brokers[GONE].metadata.resource_version
    )
    kubernetes.settle()
    assert sorted(kubernetes.claims) == [1, 2]
    assert [one.claim_uid for one in kubernetes.deleted_claims] == ["claim-3"]


def test_another_claim_of_that_name_needs_a_record_of_its_own() -> None:
    kubernetes = scaled_in()
    kubernetes.execute(steps(kubernetes))  # type: ignore[arg-type]
    claim = kubernetes.claims[GONE]
    kubernetes.claims = {**kubernetes.claims, GONE: replace(claim, uid="another")}
    (record,) = steps(kubernetes)
    assert isinstance(record, Replace)


def test_false_keeps_it() -> None:
    assert steps(scaled_in(delete_claim=False)) == []


def test_false_after_the_decision_keeps_it() -> None:
    kubernetes = scaled_in()
    kubernetes.execute(steps(kubernetes))  # type: ignore[arg-type]
    kubernetes.configure(2, storage={**STORAGE, "deleteClaim": False})
    kubernetes.settle()
    assert GONE in kubernetes.claims


@pytest.mark.parametrize(
    "unknown",
    [
        {"is_complete": False},
        {"unreadable_maps": frozenset({"demo.other"})},
        {"unreadable_brokers": {"demo-4": "is from the future"}},
        {"pods": {GONE: PodState(name="demo-broker-3-0", uid="pod-3")}},
        {"stateful_sets": {GONE: StatefulSetState(name="demo-broker-3")}},
    ],
)
@pytest.mark.parametrize("is_recorded", [False, True])
def test_what_may_still_be_used_is_kept(unknown: dict[str, object], is_recorded: bool) -> None:
    kubernetes = scaled_in()
    if is_recorded:
        kubernetes.execute(steps(kubernetes))  # type: ignore[arg-type]
    assert not [
        one
        for one in steps(kubernetes, **unknown)
        if isinstance(one, DeleteClaim) or (isinstance(one, Replace) and _is_removal(one))
    ]


def _is_removal(action: Replace) -> bool:
    assert isinstance(action.resource, Broker)
    return action.resource.spec.claim_removal is not None


@pytest.mark.parametrize("fields", [{"owners": frozenset({"another"})}, {"deleting": True}])
def test_a_claim_that_is_not_the_clusters_or_goes_already_is_left(
    fields: dict[str, object],
) -> None:
    kubernetes = scaled_in()
    claim = replace(kubernetes.claims[GONE], **fields)  # type: ignore[arg-type]
    kubernetes.claims = {**kubernetes.claims, GONE: claim}
    assert steps(kubernetes) == []


def test_a_map_that_names_the_broker_again_keeps_it() -> None:
    """As after a restore of etcd: nothing else about it has to be in doubt."""
    kubernetes = scaled_in()
    kubernetes.execute(steps(kubernetes))  # type: ignore[arg-type]
    found = kubernetes.maps["orders"]
    (generation,) = found.spec.generations
    first = generation.partitions[0]
    first = replace(first, replicas=(*first.replicas, GONE))
    generation = replace(generation, partitions=(first, *generation.partitions[1:]))
    restored = replace(found, spec=replace(found.spec, generations=(generation,)))
    assert steps(kubernetes, maps={**kubernetes.maps, "orders": restored}) == []


def test_a_newer_report_that_names_the_broker_keeps_it() -> None:
    kubernetes = scaled_in()
    kubernetes.execute(steps(kubernetes))  # type: ignore[arg-type]
    (generation,) = kubernetes.maps["orders"].spec.generations
    state = generation.partitions[0]
    report = ReplicaReport(
        topic_id=generation.topic_id,
        partition=state.partition,
        leader_epoch=type(state.leader_epoch)(state.leader_epoch + 1),
        partition_epoch=state.partition_epoch,
        isr=state.isr,
        replicas=(*state.replicas, GONE),
        log_end_offset=0,  # type: ignore[arg-type]
    )
    status = replace(kubernetes.brokers[BrokerId(1)].status, replica_reports=(report,))
    kubernetes.status(1, status)
    assert steps(kubernetes) == []


def test_brokers_that_compare_their_disks_are_waited_for() -> None:
    kubernetes = scaled_in()
    kubernetes.execute(steps(kubernetes))  # type: ignore[arg-type]
    deletions = [one for one in steps(kubernetes, maps_check="new") if isinstance(one, DeleteClaim)]
    assert deletions == []


def test_a_paused_cluster_and_one_that_is_deleted_are_left_alone() -> None:
    kubernetes = scaled_in()
    kubernetes.execute(steps(kubernetes))  # type: ignore[arg-type]
    meta = kubernetes.cluster.metadata
    for changed in (
        replace(meta, annotations={labels.PAUSE: "true"}),
        replace(meta, deletion_timestamp=kubernetes.now),
    ):
        kubernetes.cluster = replace(kubernetes.cluster, metadata=changed)
        assert steps(kubernetes) == []
