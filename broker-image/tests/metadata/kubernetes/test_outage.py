"""The API server goes away: clients notice nothing, and the log has one line for it."""

import asyncio
import copy
import gc
import logging
import warnings
from typing import TYPE_CHECKING

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.naming import names
from chiplog_kube.kinds import BROKERS, LEASES
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.metadata.kubernetes.conftest import MemberKit


def test_the_data_plane_continues_and_catches_up(
    member: "MemberKit", caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1) as client:
            member.api.away = True
            await asyncio.sleep(0.3)
            (answer,) = await client.produce("orders", member.kit.batch(b"a"))
            assert answer.error_code == ErrorCode.none
            assert member.broker.health.readiness()[0]
            # What is written meanwhile is applied when the server is back.
            member.operator.write_map("orders", [member.partition(1, 1)])
            member.api.away = False
            await member.eventually(lambda: member.replica().leader_epoch == 1)
            await member.eventually(lambda: "api_server_available" in caplog.messages)

    with caplog.at_level(logging.INFO, "chiplog_broker"):
        member.run(scenario)
    assert caplog.messages.count("api_server_unavailable") == 1
    assert caplog.messages.count("api_server_available") == 1


def test_a_start_waits_for_the_api_server_and_says_so(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1):
            pass
        member.api.away = True
        broker = member.new_process()
        start = asyncio.create_task(broker.start())
        waits = "waiting for the Broker object c1-1"
        await member.eventually(lambda: waits in broker.health.startup()[1])
        assert not start.done()
        start.cancel()
        await asyncio.wait([start])
        member.api.away = False

    member.run(scenario)


def test_a_status_that_somebody_else_overwrote_is_written_again(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            await member.eventually(lambda: member.operator.status.session == 1)
            member.api.objects["brokers", "c1-1"]["status"]["directories"] = []
            member.operator.write_broker(rack="r")
            await member.eventually(lambda: member.operator.status.directories)

    member.run(scenario)


def test_a_status_at_rest_is_not_written(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            await member.eventually(lambda: member.operator.status.session == 1)
            await asyncio.sleep(0.1)
            before = sum(1 for plural, _ in member.api.patches if plural == "brokers")
            await asyncio.sleep(0.2)
            after = sum(1 for plural, _ in member.api.patches if plural == "brokers")
            assert after == before

    member.run(scenario)


def test_a_status_that_comes_late_overwrites_nothing_of_the_next_process(
    member: "MemberKit",
) -> None:
    """On its way to the API server while another process of this broker registers."""

    async def scenario() -> None:
        async with member.admitted(1):
            await member.eventually(lambda: member.operator.status.session == 1)
            held = member.api.hold_patches("brokers")
            member.store.disk_failed()
            await member.eventually(held.is_reached)
            other = copy.deepcopy(member.api.objects["brokers", "c1-1"])
            other["status"]["incarnation"] = "f" * 32
            member.api.put(BROKERS, other)
            held.let_go()
            assert "registered as this broker" in await member.broker.deposed()
            status = member.operator.status
            assert status.incarnation == "f" * 32
            assert all(directory.online for directory in status.directories)

    member.run(scenario)


def test_a_disk_that_fails_as_the_broker_ends_leaves_nothing_unawaited(
    member: "MemberKit",
) -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            await member.eventually(lambda: member.operator.status.session == 1)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                member.store.disk_failed()
                await member.store.stop()
                gc.collect()
            assert [str(one.message) for one in caught] == []

    member.run(scenario)


def test_successful_requests_count_as_contact_and_errors_do_not(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            authority = member.membership.authority
            begun_s = authority.answered_s
            await member.eventually(lambda: authority.answered_s > begun_s)
            member.api.away = True
            await member.eventually(lambda: authority.is_out)
            silent_s = authority.answered_s
            await asyncio.sleep(0.1)
            assert authority.answered_s == silent_s
            member.api.away = False
            await member.eventually(lambda: authority.answered_s > silent_s)
            # What a watch tells counts, whatever becomes of writes.
            held = member.api.hold_patches("leases")
            await member.eventually(held.is_reached)
            await member.eventually(lambda: len(member.api._watchers["brokers"]) == 1)
            silent_s = authority.answered_s
            member.operator.write_broker(rack="r")
            await member.eventually(lambda: authority.answered_s > silent_s)
            held.let_go()

    member.run(scenario)


def test_a_missing_lease_was_looked_up(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            authority = member.membership.authority
            member.api.remove(LEASES, names.broker_lease("c1", BrokerId(1)))
            since_s = asyncio.get_running_loop().time()
            await member.eventually(lambda: authority.answered_s > since_s)

    member.run(scenario)
