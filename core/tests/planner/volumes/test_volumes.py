"""Volumes that cannot grow: refused before anything is changed, and what they have reached."""

from dataclasses import replace

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.conditions import Condition
from chiplog_core.observed.volumes import size_reached
from chiplog_core.observed.world import ClaimState
from chiplog_core.quantities import Quantity
from tests.planner.model import Kubernetes

RIGID = frozenset({"local"})


def claim(broker_id: int, requested: str = "1Gi", capacity: str | None = "1Gi") -> ClaimState:
    return ClaimState(
        name=f"data-demo-broker-{broker_id}-0",
        requested=Quantity(requested),
        capacity=None if capacity is None else Quantity(capacity),
        storage_class="local",
    )


def running() -> Kubernetes:
    kubernetes = Kubernetes()
    kubernetes.claims = {BrokerId(number): claim(number) for number in (1, 2, 3)}
    kubernetes.run()
    return kubernetes


def ready(kubernetes: Kubernetes) -> Condition:
    return next(one for one in kubernetes.cluster.status.conditions if one.type == "Ready")


def test_a_size_that_the_class_cannot_give_is_refused_and_nothing_is_applied() -> None:
    kubernetes = running()
    kubernetes.configure(storage={"size": "2Gi"})
    kubernetes.settle(rigid_classes=RIGID)

    assert not kubernetes.plan(rigid_classes=RIGID).may_apply
    assert ready(kubernetes).reason == "NotSupported"
    assert ready(kubernetes).message == (
        "spec.storage.size is 2Gi, but StorageClass local does not allow volume expansion: "
        "set it back to 1Gi, or set allowVolumeExpansion of the StorageClass to true if its "
        "provisioner can expand volumes"
    )
    assert kubernetes.cluster.status.volume_size == "1Gi"

    kubernetes.configure(storage={"size": "1Gi"})
    kubernetes.settle(rigid_classes=RIGID)
    assert kubernetes.plan(rigid_classes=RIGID).may_apply
    assert ready(kubernetes).reason == "Ready"


def test_a_size_that_some_volumes_have_is_not_refused_where_it_cannot_be_taken_back() -> None:
    """As where volumes of a class that cannot expand were replaced by larger ones one by one."""
    kubernetes = running()
    kubernetes.claims = {**kubernetes.claims, BrokerId(3): claim(3, "2Gi", "2Gi")}
    kubernetes.configure(storage={"size": "2Gi"})
    kubernetes.settle(rigid_classes=RIGID)

    assert kubernetes.cluster.status.volume_size == "2Gi"
    assert kubernetes.plan(rigid_classes=RIGID).may_apply, ready(kubernetes).message


def test_a_class_that_expands_or_is_not_known_is_tried() -> None:
    kubernetes = running()
    kubernetes.configure(storage={"size": "2Gi"})
    kubernetes.settle()

    assert kubernetes.plan().may_apply
    assert ready(kubernetes).reason == "Ready"


@pytest.mark.parametrize(
    ("claims", "reached"),
    [
        ([], None),
        ([claim(1, "2Gi", None)], None),
        ([claim(1), claim(2, "2Gi", "2Gi"), claim(3)], "2Gi"),
        ([claim(1, "2Gi", "1Gi")], "1Gi"),  # asked for in vain
        ([claim(1, "1G", "1Gi")], "1G"),  # the provisioner rounded up
    ],
)
def test_what_the_volumes_have_reached(claims: list[ClaimState], reached: str | None) -> None:
    by_id = {BrokerId(number): one for number, one in enumerate(claims, start=1)}
    world = replace(Kubernetes().world(), claims=by_id)

    assert size_reached(world) == reached
