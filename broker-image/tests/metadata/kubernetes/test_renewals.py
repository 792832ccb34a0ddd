"""A volume that was put back to an older copy is found out by the number in the Lease."""

import asyncio
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import pytest

from chiplog_broker.metadata.kubernetes.outages import Outages
from chiplog_broker.metadata.kubernetes.process import Process
from chiplog_broker.metadata.kubernetes.renewals import (
    RENEWAL_FILE,
    Renewals,
    published_as,
)
from chiplog_core.ids import BrokerId, Incarnation
from chiplog_core.naming.labels import RENEWAL
from chiplog_kube.api import KubeApi, NotFound, Unavailable
from tests.storage.memory_disk import ManualClock, MemoryDisk

if TYPE_CHECKING:
    from collections.abc import Coroutine

PROCESS = Process(
    cluster="demo", namespace="demo", broker_id=BrokerId(1), incarnation=Incarnation("0" * 32)
)


class Leases:
    """An API server that has one Lease, when it answers."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)

    async def get(self, *_: Any) -> object:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def lease(annotation: str | None) -> dict[str, object]:
    annotations = {} if annotation is None else {RENEWAL: annotation}
    return {"metadata": {"name": "demo-1", "annotations": annotations}}


def run(work: "Coroutine[Any, Any, Any]") -> Any:
    return asyncio.run(work)


async def count(renewals: Renewals, disk: MemoryDisk, number: int) -> None:
    """Until the disk holds that number."""
    task = asyncio.get_running_loop().create_task(renewals.run())
    for _ in range(1_000):
        if renewals.durable == number:
            break
        await renewals.store_next_number()
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert int(bytes(disk.content(RENEWAL_FILE))) >= number


async def compared(disk: MemoryDisk, *answers: object) -> tuple[bool, Renewals]:
    clock = ManualClock()
    renewals = Renewals(disk, clock)
    api = cast("KubeApi", Leases(*answers))
    return await renewals.compare(api, PROCESS, Outages(clock, Mock())), renewals


@pytest.mark.parametrize(
    ("stored", "published", "is_older"),
    [
        pytest.param(b"7\n", "7", False, id="the same"),
        pytest.param(b"8\n", "7", False, id="a number that was not published any more"),
        pytest.param(b"6\n", "7", True, id="a number less"),
        pytest.param(None, "7", True, id="a copy from before the first number"),
        pytest.param(None, None, False, id="a broker that never counted"),
        pytest.param(b"7\n", None, False, id="a Lease that was made again"),
        pytest.param(b"\xff7\n", "7", True, id="a file that does not read"),
        pytest.param(b"7\n", "seven", False, id="an annotation that does not read"),
    ],
)
def test_a_disk_is_compared_with_what_was_published(
    stored: bytes | None, published: str | None, is_older: bool
) -> None:
    disk = MemoryDisk()
    if stored is not None:
        run(disk.replace(RENEWAL_FILE, stored))

    assert run(compared(disk, lease(published)))[0] is is_older


def test_it_waits_until_the_lease_can_be_read() -> None:
    disk = MemoryDisk()
    run(disk.replace(RENEWAL_FILE, b"3\n"))

    is_older, _ = run(compared(disk, Unavailable("away"), TimeoutError(), lease("4")))

    assert is_older


def test_without_a_lease_nothing_was_published() -> None:
    assert run(compared(MemoryDisk(), NotFound("demo-1")))[0] is False


def test_numbers_continue_above_both() -> None:
    """What was found out stays found out until the broker is admitted, and then is over."""
    disk = MemoryDisk()
    run(disk.replace(RENEWAL_FILE, b"3\n"))
    is_older, renewals = run(compared(disk, lease("9")))
    assert is_older
    assert renewals.durable is None
    assert published_as(renewals.durable) == {}
    assert bytes(disk.content(RENEWAL_FILE)) == b"3\n"

    run(count(renewals, disk, 10))

    assert published_as(10) == {"metadata": {"annotations": {RENEWAL: "10"}}}
    assert run(compared(disk, lease("10")))[0] is False


def test_a_number_that_is_not_durable_is_not_published() -> None:
    disk = MemoryDisk()
    _, renewals = run(compared(disk, lease(None)))
    for _ in range(3):
        disk.fail_next("replace", 28, RENEWAL_FILE)

    run(count(renewals, disk, 4))

    assert renewals.durable == 4


def test_a_renewal_publishes_what_was_made_durable_just_before_it() -> None:
    async def scenario() -> list[int | None]:
        _, renewals = await compared(MemoryDisk(), lease("4"))
        await renewals.store_next_number()
        seen = [renewals.durable]
        task = asyncio.get_running_loop().create_task(renewals.run())
        await asyncio.sleep(0)
        for _ in range(3):
            await renewals.store_next_number()
            seen.append(renewals.durable)
        task.cancel()
        await asyncio.wait([task])
        return seen

    assert run(scenario()) == [None, 5, 6, 7]


def test_a_disk_that_hangs_does_not_end_the_lease() -> None:
    class Hanging(MemoryDisk):
        async def replace(self, path: str, content: bytes) -> None:
            await asyncio.sleep(3600)

    async def scenario() -> int | None:
        _, renewals = await compared(Hanging(), lease("4"))
        task = asyncio.get_running_loop().create_task(renewals.run())
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await renewals.store_next_number()
        task.cancel()
        await asyncio.wait([task])
        return renewals.durable

    assert run(scenario()) is None
