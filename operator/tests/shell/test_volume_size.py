"""A larger size: the StorageClass is asked before anything is written."""

from typing import Any

import pytest

from chiplog_kube import kinds
from tests.shell.test_system import CLUSTER, NAMESPACE, start


async def raise_size(bench: Any, size: str) -> None:
    await bench.api.patch(
        kinds.BROKER_CLUSTERS,
        NAMESPACE,
        CLUSTER,
        {"spec": {"storage": {"size": size}}},
        field_manager="kubectl",
    )
    await bench.live(3)


async def add_claim(bench: Any, number: int) -> None:
    found = bench.one(kinds.STATEFUL_SETS, f"{CLUSTER}-broker-{number}")
    sizes = {"storage": "1Gi"}
    manifest = {
        "metadata": {
            "namespace": NAMESPACE,
            "name": f"data-{CLUSTER}-broker-{number}-0",
            "labels": found["metadata"]["labels"],
        },
        "spec": {"storageClassName": "local", "resources": {"requests": sizes}},
        "status": {"phase": "Bound", "capacity": sizes},
    }
    await bench.api.create(kinds.VOLUME_CLAIMS, manifest, field_manager="kubelet")


async def add_class(bench: Any, **fields: Any) -> None:
    manifest = {"metadata": {"name": "local"}, **fields}
    await bench.api.create(kinds.STORAGE_CLASSES, manifest, field_manager="admin")


def sizes(bench: Any) -> tuple[set[str], set[str]]:
    """Of the StatefulSets' templates, and of the claims."""
    templates = {
        one["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
        for one in bench.api.all_of(kinds.STATEFUL_SETS)
    }
    claims = {
        one["spec"]["resources"]["requests"]["storage"]
        for one in bench.api.all_of(kinds.VOLUME_CLAIMS)
    }
    return templates, claims


@pytest.mark.parametrize("fields", [{}, {"allowVolumeExpansion": False}])
def test_a_class_that_cannot_expand_leaves_all_as_it_is(bench: Any, fields: Any) -> None:
    async def scenario() -> tuple[str, str]:
        async with bench.running():
            await start(bench)
            await add_class(bench, **fields)
            for number in (1, 2, 3):
                await add_claim(bench, number)
            await raise_size(bench, "2Gi")
            refused: tuple[str, str] = bench.ready(kinds.BROKER_CLUSTERS, CLUSTER)
            assert sizes(bench) == ({"1Gi"}, {"1Gi"})
            await raise_size(bench, "1Gi")
            await bench.live(3)
            return refused

    assert bench.run(scenario()) == ("False", "NotSupported")
    condition = bench.one(kinds.BROKER_CLUSTERS, CLUSTER)["status"]["conditions"][0]
    assert condition["reason"] != "NotSupported"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_class_that_can_or_that_nobody_can_read_is_tried(bench: Any, is_there: bool) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            if is_there:
                await add_class(bench, allowVolumeExpansion=True)
            for number in (1, 2, 3):
                await add_claim(bench, number)
            await raise_size(bench, "2Gi")

    bench.run(scenario())
    assert sizes(bench) == ({"2Gi"}, {"2Gi"})


def test_a_class_that_is_mended_is_seen(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await add_class(bench)
            for number in (1, 2, 3):
                await add_claim(bench, number)
            await raise_size(bench, "2Gi")
            assert sizes(bench) == ({"1Gi"}, {"1Gi"})
            mended = {"allowVolumeExpansion": True}
            await bench.api.patch(kinds.STORAGE_CLASSES, "", "local", mended, field_manager="admin")
            await bench.live(90)

    bench.run(scenario())
    assert sizes(bench) == ({"2Gi"}, {"2Gi"})
