"""Maps whose changes a full disk refuses in part are applied again, and delay no others."""

import errno
from functools import partial
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.metadata.kubernetes import maps
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.storage.damage import Damage, DamageState
from chiplog_broker.storage.names import (
    DAMAGED_REPLICAS,
    HIGH_WATERMARKS_BEFORE_TRUNCATION,
    TopicPartition,
)
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, run

if TYPE_CHECKING:
    from tests.metadata.kubernetes.conftest import MemberKit

OTHER_ID = "CCCCCCCCCCCCCCCCCCCCCQ"


def test_a_lost_end_is_over_once_there_is_room_again(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = TopicPartition("orders", 0)

    async def scenario() -> None:
        await brokers.begin_with(b"0", b"1")
        directory = brokers.up[2].broker._directory
        path = brokers.directory / "2/data" / HIGH_WATERMARKS_BEFORE_TRUNCATION
        brokers.lead(1, isr=(1, 3))
        await brokers.settled(1)
        # As a start of broker 2 stores it that has cut the log.
        await directory._checkpoints.high_watermarks_before_truncation.put(orders, 2)
        refusals = 0
        real = SystemDisk.replace

        async def replace(self: SystemDisk, name: str, data: bytes) -> None:
            nonlocal refusals
            if name == HIGH_WATERMARKS_BEFORE_TRUNCATION and "/2/" in str(self._root / name):
                refusals += 1
                raise OSError(errno.ENOSPC, "no room")
            await real(self, name, data)

        with monkeypatch.context() as full:
            full.setattr(SystemDisk, "replace", replace)
            brokers.lead(1, isr=ALL)
            await brokers.settled(1)
            await brokers.eventually(lambda: refusals > 0)
        for _ in range(3):  # there is room, and its maps are applied again and again
            brokers.lead(1, isr=ALL)
            await brokers.settled(1)
        await brokers.produce(1, b"2")
        await brokers.equal(3)
        await brokers.stop(2)  # in order
        assert "orders" not in path.read_text(), "the next start reports a lost end"

    run(brokers, scenario)


def test_a_topic_that_waits_for_room_does_not_delay_the_leaderships_of_others(
    member: "MemberKit", monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = SystemDisk.replace

    async def refuse(disk: SystemDisk, path: str, data: bytes) -> None:
        if path == DAMAGED_REPLICAS and is_full:
            refused.append(path)
            raise OSError(errno.ENOSPC, "no room")
        await replace(disk, path, data)

    is_full: list[bool] = []
    refused: list[str] = []
    monkeypatch.setattr(SystemDisk, "replace", refuse)
    monkeypatch.setattr(maps, "RETRY_S", 600.0)

    def leads_others(epoch: int) -> bool:
        replica = member.broker._replicas.get("others", 0)
        return replica is not None and replica.leader_epoch == epoch

    async def scenario() -> None:
        async with member.admitted(1):
            member.operator.write_map("orders", [member.partition(1, 0)])
            await member.eventually(lambda: member.broker._replicas.get("orders", 0) is not None)
            # As after a refetch that is complete: the mark is to be removed.
            mark = Damage(member.replica().log.topic_id, DamageState.REFETCHING)
            await member.broker._directory.damage.put(TopicPartition("orders", 0), mark)
            is_full.append(True)
            for epoch in range(1, 4):
                refused.clear()
                member.operator.write_map("orders", [member.partition(1, epoch)])
                await member.eventually(lambda: refused)
                member.operator.write_map("others", [member.partition(1, epoch)], topic_id=OTHER_ID)
                await member.eventually(partial(leads_others, epoch))

    member.run(scenario)
