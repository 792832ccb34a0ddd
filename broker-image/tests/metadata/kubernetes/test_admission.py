"""Sessions: admitted, admitted anew, replaced; and what is said of the data before."""

import asyncio
import copy
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.errors import CannotStart
from chiplog_broker.transaction_coordinator.producer_ids import COUNTER_BITS, SESSION_BITS
from chiplog_core.model.broker_status import Tail
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Client
    from tests.metadata.kubernetes.conftest import MemberKit


async def new_producer_id(member: "MemberKit", client: "Client") -> tuple[ErrorCode, int]:
    types = client.types(ApiKey.INIT_PRODUCER_ID)
    request = types.InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout=member.kit.milliseconds(1000),
        producer_id=-1,
        producer_epoch=-1,
    )
    answer = await client.ask(ApiKey.INIT_PRODUCER_ID, request)
    return ErrorCode(answer.error_code), answer.producer_id


def session_of(producer_id: int) -> int:
    return producer_id >> COUNTER_BITS & (1 << SESSION_BITS) - 1


def test_a_process_registers_and_serves_once_admitted(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.starting() as start:
            status = member.operator.status
            assert member.machine.told == [status.incarnation]
            assert (status.session, status.version) == (None, "1.2.3")
            assert not status.draining
            assert member.broker.health.incarnation == status.incarnation
            assert member.broker.health.startup() == (
                False,
                "waiting to be admitted by the operator",
            )
            await asyncio.sleep(0.05)
            assert not start.done(), "nobody may serve without a session"
            member.operator.admit(1)
            await start
            await member.eventually(lambda: member.operator.status.session == 1)
            assert member.broker.health.readiness() == (True, "ready")

    member.run(scenario)


def test_the_lease_is_renewed_before_admission_and_names_the_process(member: "MemberKit") -> None:
    async def scenario() -> None:
        lease = member.api.objects["leases", "c1-1"]
        async with member.starting():
            await member.eventually(
                lambda: "spec" in lease and member_lease(member).get("renewTime")
            )
            first = member_lease(member)
            assert first["holderIdentity"] == member.operator.status.incarnation
            assert first["leaseDurationSeconds"] == 6
            await member.eventually(lambda: member_lease(member)["renewTime"] != first["renewTime"])

    member.run(scenario)


def member_lease(member: "MemberKit") -> dict[str, Any]:
    spec: dict[str, Any] = member.api.objects["leases", "c1-1"]["spec"]
    return spec


def test_a_leader_of_another_session_does_not_lead(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(2) as client:
            (refused,) = await client.produce("orders", member.kit.batch(b"a"))
            assert refused.error_code == ErrorCode.not_leader_or_follower
            member.operator.write_map("orders", [member.partition(2, 1)])
            await member.eventually(lambda: member.replica().is_leader)
            (accepted,) = await client.produce("orders", member.kit.batch(b"a"))
            assert accepted.error_code == ErrorCode.none

    member.run(scenario)


def test_admitted_again_everything_follows_the_new_session(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1) as client:
            code, first = await new_producer_id(member, client)
            assert (code, session_of(first)) == (ErrorCode.none, 1)
            assert member.broker.health.readiness()[0]
            # Fenced because its Lease expired, and admitted again when it renewed.
            member.operator.write_broker(fenced=True)
            member.operator.admit(2)
            await member.eventually(lambda: member.operator.status.session == 2)
            assert not member.replica().is_leader
            ready, why = member.broker.health.readiness()
            assert not ready
            assert "orders-0" in why
            code, second = await new_producer_id(member, client)
            assert (code, session_of(second)) == (ErrorCode.none, 2)
            member.operator.write_map("orders", [member.partition(2, 1)])
            await member.eventually(lambda: member.broker.health.readiness()[0])
            kept = member.kept_session()
            assert (kept["session"], kept["intact_since"]) == (2, 1)

    member.run(scenario)


def test_a_process_in_whose_place_another_was_admitted_ends(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            ended = asyncio.create_task(member.broker.deposed())
            await asyncio.sleep(0.02)
            assert not ended.done()
            member.operator.write_broker(admittedIncarnation="f" * 32, session=2)
            assert "another process was admitted" in await ended

    member.run(scenario)


def test_a_process_in_whose_place_another_registers_ends(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            found = member.api.objects["brokers", "c1-1"]
            found["status"]["incarnation"] = "f" * 32
            member.operator.write_broker(rack="r")
            assert "registered as this broker" in await member.broker.deposed()

    member.run(scenario)


def test_the_other_process_that_was_there_before_does_not_end_it(member: "MemberKit") -> None:
    """A new process finds its predecessor's incarnation admitted: it only has to wait."""

    async def scenario() -> None:
        member.operator.write_broker(admittedIncarnation="a" * 32, session=7)
        async with member.admitted(8):
            assert member.broker._cluster.session == 8

    member.run(scenario)


def test_the_page_cache_vouches_for_the_tail_until_the_machine_restarts(
    member: "MemberKit",
) -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)], durability="PageCache")
        async with member.admitted(1):
            await member.eventually(lambda: not member.kept_session()["fsync_only"])
            await member.crash()
            (directory,) = member.operator.status.directories
            assert directory.intact_since == 1
            mark = member.directory / "data/.kafka_cleanshutdown"
        mark.unlink()
        async with member.starting():
            (directory,) = member.operator.status.directories
            assert (directory.tail, directory.intact_since) == (Tail.INTACT, 1)
        member.machine.boot = "boot-2"
        mark.unlink(missing_ok=True)
        async with member.starting():
            (directory,) = member.operator.status.directories
            assert (directory.tail, directory.intact_since) == (Tail.SUSPECT, 2)

    member.run(scenario)


def test_a_volume_of_another_broker_is_refused(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            pass
        member.change_kept_session(broker_id=2)
        with pytest.raises(CannotStart, match="belongs to broker 2"):
            await member.new_process().start()

    member.run(scenario)


def test_sigterm_says_draining_and_leaves_a_clean_mark(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1):
            pass
        left = member.operator.status
        assert left.draining
        assert (member.directory / "data/.kafka_cleanshutdown").exists()
        member.machine.boot = "boot-2"
        async with member.admitted(2):
            assert not member.operator.status.draining
            (directory,) = member.operator.status.directories
            assert (directory.tail, directory.intact_since) == (Tail.INTACT, 1)

    member.run(scenario)


def test_a_session_of_before_a_restored_backup_is_not_used_again(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(5):
            pass
        found = member.api.objects["brokers", "c1-1"]
        found["spec"] |= {"session": 3, "admittedIncarnation": "a" * 32}
        found["status"] = {}
        member.operator.write_broker(rack="r")
        async with member.starting() as start:
            await member.eventually(lambda: member.operator.status.session == 5)
            member.operator.admit(4)
            await asyncio.sleep(0.05)
            assert not start.done(), "session 4 had its process already"
            member.operator.admit(6)
            await start
            await member.eventually(lambda: member.operator.status.session == 6)

    member.run(scenario)


def test_a_status_from_a_restored_backup_is_written_again(member: "MemberKit") -> None:
    """Its version is lower than what this process wrote and saw since."""

    async def scenario() -> None:
        async with member.admitted(3):
            await member.eventually(lambda: member.operator.status.session == 3)
            restored = copy.deepcopy(member.api.objects["brokers", "c1-1"])
            restored["metadata"]["resourceVersion"] = "1"
            del restored["status"]["session"]
            member.api.objects["brokers", "c1-1"] = restored
            member.api.away = True
            await asyncio.sleep(0.05)
            member.api.away = False
            await member.eventually(lambda: member.operator.status.session == 3)

    member.run(scenario)
