"""What the operator asks for before it decides: disks compared with the maps there are (R6)."""

import asyncio
import copy
from typing import TYPE_CHECKING, Any, cast

import pytest

from chiplog_broker.metadata.kubernetes import status_limits
from chiplog_broker.metadata.kubernetes.maps_check import FIRST_BACKOFF_S
from chiplog_broker.metadata.kubernetes.topic_views import uuid_of
from chiplog_broker.ports.clock import SystemClock
from chiplog_core.ids import TopicId
from chiplog_core.model.broker_status import Tail
from chiplog_core.naming.labels import RENEWAL

if TYPE_CHECKING:
    from tests.metadata.kubernetes.conftest import MemberKit

ORDERS = ("partitionmaps", "c1.orders")


def told_first(member: "MemberKit", since: int = 0) -> dict[str, Any]:
    """All that was written of the status up to, and with, the first answer."""
    told: dict[str, Any] = {}
    for plural, patch in member.api.patches[since:]:
        if plural == "brokers" and "mapsChecked" not in told:
            told |= cast("dict[str, Any]", patch["status"])
    return told


def test_a_new_name_is_answered_after_all_maps_were_listed(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 5)])
        async with member.admitted(1):
            assert member.operator.status.maps_checked is None
            member.operator.write_broker(mapsCheck="one")
            await member.eventually(lambda: member.operator.status.maps_checked == "one")
            assert not member.operator.status.replica_reports
            member.operator.write_broker(mapsCheck="two")
            await member.eventually(lambda: member.operator.status.maps_checked == "two")

    member.run(scenario)


def test_what_only_a_list_shows_is_reported_with_the_answer(member: "MemberKit") -> None:
    """The watch never tells that etcd was restored."""

    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 4)])
        older = copy.deepcopy(member.api.objects[ORDERS])
        member.operator.write_map("orders", [member.partition(1, 5)])
        async with member.admitted(1):
            member.api.objects[ORDERS] = older
            before = len(member.api.patches)
            member.operator.write_broker(mapsCheck="one")
            await member.eventually(lambda: member.operator.status.maps_checked == "one")
            (report,) = told_first(member, before)["replicaReports"]
            assert (report["leaderEpoch"], report["partitionEpoch"]) == (5, 5)

    member.run(scenario)


def test_a_map_that_is_missing_is_reported_with_the_answer(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 4)])
        async with member.admitted(1):
            del member.api.objects[ORDERS]
            before = len(member.api.patches)
            member.operator.write_broker(mapsCheck="one")
            await member.eventually(lambda: member.operator.status.maps_checked == "one")
            assert len(told_first(member, before)["replicaReports"]) == 1

    member.run(scenario)


def test_no_answer_while_maps_cannot_be_listed(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 4)])
        async with member.admitted(1):
            member.api.unlisted.add("partitionmaps")
            member.operator.write_broker(mapsCheck="one")
            await asyncio.sleep(0.1)
            assert member.operator.status.maps_checked is None
            member.api.unlisted.clear()
            await member.eventually(lambda: member.operator.status.maps_checked == "one")

    member.run(scenario)


def test_no_answer_that_could_not_hold_all_reports(
    member: "MemberKit", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_limits, "MAX_ENTRIES", 1)
    monkeypatch.setattr(status_limits, "MIN_ENTRIES", 1)

    async def scenario() -> None:
        older = [member.partition(1, 4, index) for index in range(2)]
        newer = [member.partition(1, 5, index) for index in range(2)]
        member.operator.write_map("orders", newer)
        async with member.admitted(1):
            member.operator.write_map("orders", older)
            await member.eventually(lambda: member.operator.status.replica_reports)
            member.operator.write_broker(mapsCheck="one")
            await asyncio.sleep(0.1)
            assert member.operator.status.maps_checked is None
            assert len(member.operator.status.replica_reports) == 1

    member.run(scenario)


def test_the_next_process_answers_for_itself(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_broker(mapsCheck="one")
        async with member.admitted(1):
            await member.eventually(lambda: member.operator.status.maps_checked == "one")
        async with member.starting():
            assert member.operator.status.maps_checked is None

    member.run(scenario)


def test_maps_on_an_older_copy_of_the_volume_are_not_known_better(member: "MemberKit") -> None:
    """The topic was deleted and another made of its name since the copy: no tombstone is left."""

    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1):
            await member.eventually(lambda: member.replica().is_leader)
            await member.eventually(lambda: member.operator.status.session == 1)
        lease = member.api.objects["leases", "c1-1"]
        lease["metadata"]["annotations"] = {RENEWAL: "999"}
        member.operator.remove_map("orders")
        other = "CCCCCCCCCCCCCCCCCCCCCQ"
        member.operator.write_map("orders", [member.partition(2, 0)], topic_id=other)
        async with member.admitted(2):
            await member.eventually(lambda: member.replica().is_leader)
            assert member.replica().log.topic_id == uuid_of(TopicId.from_text(other))
            assert not member.store._maps.regressed
        aside = [one.name for one in (member.directory / "data").iterdir() if "stray" in one.name]
        assert len(aside) == 1, "what the copy holds of the deleted topic stays, for people"

    member.run(scenario)


def test_an_object_that_went_back_does_not_end_the_process(member: "MemberKit") -> None:
    """It is admitted anew, above both, and its disk counts as intact: it has lost nothing."""

    async def scenario() -> None:
        async with member.admitted(1):
            await member.eventually(lambda: member.operator.status.session == 1)
            older = copy.deepcopy(member.api.objects["brokers", "c1-1"])
        await member.crash()
        member.machine.boot = "boot-2"
        (member.directory / "data/.kafka_cleanshutdown").unlink()
        member.change_kept_session(fsync_only=False)
        async with member.starting() as start:
            (directory,) = member.operator.status.directories
            assert (directory.tail, directory.intact_since) == (Tail.SUSPECT, 2)
            member.operator.admit(2)
            await start
            await member.eventually(lambda: member.operator.status.session == 2)
            incarnation = member.operator.status.incarnation
            older["spec"]["mapsCheck"] = "one"
            member.api.objects["brokers", "c1-1"] = older
            member.operator.write_broker(rack="r")
            await member.eventually(lambda: member.operator.status.incarnation == incarnation)
            await member.eventually(lambda: member.operator.status.maps_checked == "one")
            (directory,) = member.operator.status.directories
            assert (directory.tail, directory.intact_since) == (Tail.INTACT, 2)
            assert member.operator.status.session == 2
            member.operator.admit(3)
            await member.eventually(lambda: member.operator.status.session == 3)
            assert not member.store.registration.deposed.done()

    member.run(scenario)


class FrozenClock(SystemClock):
    """Time passes only in a pause."""

    def __init__(self) -> None:
        self.pauses_s: list[float] = []

    def monotonic_s(self) -> float:
        return sum(self.pauses_s)

    async def sleep(self, seconds: float) -> None:
        self.pauses_s.append(seconds)
        await asyncio.sleep(0)


def test_maps_that_change_while_they_are_compared_do_not_delay_the_answer_more_each_time(
    member: "MemberKit", monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 4)])
        async with member.admitted(1):
            clock, compared = FrozenClock(), [False] * 8 + [True]
            monkeypatch.setattr(member.store._check, "_clock", clock)
            monkeypatch.setattr(
                member.store._maps, "has_compared_all", lambda _listed: compared.pop(0)
            )
            member.operator.write_broker(mapsCheck="one")
            await member.eventually(lambda: member.operator.status.maps_checked == "one")
            assert clock.pauses_s == [FIRST_BACKOFF_S] * 8

    member.run(scenario)
