"""DescribeGroups, ListGroups, DeleteGroups and FindCoordinator of a whole broker."""

from typing import TYPE_CHECKING

import pytest

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.coordinator.groups_kit import (
    OK,
    SUBSCRIBED_TO_ORDERS,
    Group,
    find_coordinator,
    listed,
    running,
)

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

NOT_FOUND = ErrorCode.group_id_not_found


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_every_version(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            group = Group(client)
            member = await group.be_alone()
            found = await Group(client, version=version).described()
            assert (found.error_code, found.group_state) == (OK, "Stable")
            assert (found.protocol_type, found.protocol_data) == ("consumer", "range")
            (one,) = found.members
            assert (one.member_id, one.client_host) == (member.member_id, "/127.0.0.1")
            assert (one.member_metadata, one.member_assignment) == (SUBSCRIBED_TO_ORDERS, b"all")
            await group.leave(member.member_id)
            found = await Group(client, version=version).described()
            assert (found.error_code, found.group_state, found.members) == (OK, "Empty", ())

    kit.run(scenario)


def test_a_group_that_rebalances_shows_its_members_only(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            group, newcomer = Group(client), Group(await kit.client(), version=3)
            await group.be_alone()
            await newcomer.send_join()
            while (found := await group.described()).group_state != "PreparingRebalance":
                pass
            assert (found.protocol_data, len(found.members)) == ("", 2)
            assert {one.member_metadata for one in found.members} == {b""}

    kit.run(scenario)


def test_a_group_that_is_named_often_is_described_once(kit: "Kit") -> None:
    """Its name takes two bytes, what it is answered with as much as its members brought along."""

    async def scenario() -> None:
        async with running(kit) as client:
            await Group(client).be_alone(metadata=bytes(500_000))
            types = client.types(ApiKey.DESCRIBE_GROUPS, 5)
            request = types.DescribeGroupsRequest(
                groups=("g",) * 20 + ("other",), include_authorized_operations=False
            )
            answer = await client.ask(ApiKey.DESCRIBE_GROUPS, request, 5)
            assert [one.group_id for one in answer.groups] == ["g", "other"]

    kit.run(scenario)


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_is_not_there_is_dead(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            found = await Group(client, version=version).described()
            code = NOT_FOUND if version == 6 else OK
            assert (found.error_code, found.group_state, found.members) == (code, "Dead", ())
            if version == 6:
                assert found.error_message == "Group g not found."
            assert await listed(client) == (OK, {})

    kit.run(scenario)


def test_groups_are_listed_by_state_and_type(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit, offsets_topic_num_partitions="3") as client:
            await client.create("orders")
            await Group(client, "simple").commit("orders", (0, 1))
            await Group(client, "stable").be_alone()
            await Group(client, "workers").join(protocol_type="connect")
            joining = Group(await kit.client(), "stable", version=3)
            simple, workers = ("Empty", ""), ("CompletingRebalance", "connect")
            everything = {"simple": simple, "stable": ("Stable", "consumer"), "workers": workers}
            assert await listed(client) == (OK, everything)
            assert await listed(client, states=("stable",)) == (
                OK,
                {"stable": ("Stable", "consumer")},
            )
            assert await listed(client, states=("Empty", "completingrebalance")) == (
                OK,
                {"simple": simple, "workers": workers},
            )
            assert await listed(client, states=("Unheard",)) == (OK, {})
            assert await listed(client, kinds=("Classic",)) == (OK, everything)
            assert await listed(client, kinds=("consumer", "share")) == (OK, {})
            await joining.send_join()
            while (await listed(client, states=("PreparingRebalance",)))[1] == {}:
                pass

    kit.run(scenario)


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await Group(client).be_alone()
            types = client.types(ApiKey.LIST_GROUPS, version)
            filters = {"states_filter": (), "types_filter": ()}
            fields = {4: ("states_filter",), 5: ("states_filter", "types_filter")}
            request = types.ListGroupsRequest(
                **{one: filters[one] for one in fields.get(version, ())}
            )
            answer = await client.ask(ApiKey.LIST_GROUPS, request, version)
            (found,) = answer.groups
            assert (answer.error_code, found.group_id, found.protocol_type) == (OK, "g", "consumer")

    kit.run(scenario)


def test_only_a_group_without_members_is_deleted(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            group = Group(client)
            assert await group.delete() is NOT_FOUND
            member = await group.be_alone()
            who = member.member_id, member.generation_id
            await group.commit("orders", (0, 5), member=who)
            assert await group.delete() is ErrorCode.non_empty_group
            await group.leave(member.member_id)
            assert await group.offsets() == {("orders", 0): (5, "", OK)}
            assert await group.delete() is OK
            assert await group.offsets() == {}
            assert await group.delete() is NOT_FOUND
            assert await listed(client) == (OK, {})
            again = await group.be_alone()
            assert again.generation_id == 1
        async with running(kit) as client:
            group = Group(client)
            while await group.state() == "":
                pass  # it is loading
            assert await group.heartbeat(again) is OK
            assert await group.offsets() == {}

    kit.run(scenario)


def test_a_group_that_is_named_twice_is_deleted_once(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            await Group(client).commit("orders", (0, 5))
            types = client.types(ApiKey.DELETE_GROUPS)
            request = types.DeleteGroupsRequest(groups_names=("g", "g", "x"))
            answer = await client.ask(ApiKey.DELETE_GROUPS, request)
            results = [(one.group_id, one.error_code) for one in answer.results]
            assert results == [("g", OK), ("g", NOT_FOUND), ("x", NOT_FOUND)]

    kit.run(scenario)


@pytest.mark.parametrize("version", range(6))
def test_any_broker_knows_the_coordinator(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            assert await find_coordinator(client, "g", version=version) == [(OK, 1)]
            assert await address(client, version) == kit.broker.addresses["PLAINTEXT"]
            elected = ErrorCode.coordinator_not_available
            kit.broker._cluster.remove("__consumer_offsets")
            assert await find_coordinator(client, "g", version=version) == [(elected, -1)]
            assert (await Group(client).described()).error_code == elected

    kit.run(scenario)


async def address(client: "Client", version: int) -> tuple[str, int]:
    types = client.types(ApiKey.FIND_COORDINATOR, version)
    if version >= 4:
        request = types.FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))
        (found,) = (await client.ask(ApiKey.FIND_COORDINATOR, request, version)).coordinators
    else:
        kind = {"key_type": 0} if version else {}
        request = types.FindCoordinatorRequest(key="g", **kind)
        found = await client.ask(ApiKey.FIND_COORDINATOR, request, version)
    return found.host, found.port


def test_groups_and_transactions_have_coordinators(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            assert await find_coordinator(client, "t", "u", key_type=1) == [(OK, 1), (OK, 1)]
            assert await find_coordinator(client, "g", "h") == [(OK, 1), (OK, 1)]
            invalid = ErrorCode.invalid_request
            assert await find_coordinator(client, "t", key_type=2) == [(invalid, -1)]
            assert await find_coordinator(client, "", key_type=1) == [(invalid, -1)]

    kit.run(scenario)
