"""A replica that a move adds waits for its throttle; everybody else does not."""

import asyncio

import pytest

from chiplog_broker.partitions.following import ISR_LANE
from chiplog_core.throttle.copying import Copying
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, run

IN_SYNC = (1, 2)
LISTS = {
    "leader.replication.throttled.replicas": "0:1",
    "follower.replication.throttled.replicas": "0:3",
}
RATES = {"leader.replication.throttled.rate": "1", "follower.replication.throttled.rate": "1"}
MOVES = {"chiplog.moves.throttled.rate": "1"}


def copied(brokers: Brokers) -> int:
    return brokers.up[3].replica().log.end_offset


def connections(brokers: Brokers) -> set[tuple[int, bool]]:
    """From whom broker 3 fetches, and whether copies."""
    fetching = brokers.up[3].broker.fetching
    assert fetching is not None
    return {(leader, lane != ISR_LANE) for leader, lane in fetching._fetchers}


@pytest.mark.parametrize(
    ("throttled", "lists", "config", "unlimited"),
    [
        pytest.param((1, 3), {}, MOVES, {"chiplog.moves.throttled.rate": None}, id="of the spec"),
        pytest.param((1,), LISTS, RATES, dict.fromkeys(RATES), id="a tool's, at the leader"),
        pytest.param((3,), LISTS, RATES, dict.fromkeys(RATES), id="a tool's, at the follower"),
    ],
)
def test_a_copy_waits_and_members_of_the_isr_do_not(
    brokers: Brokers,
    throttled: tuple[int, ...],
    lists: dict[str, str],
    config: dict[str, str],
    unlimited: dict[str, None],
) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        for broker_id in throttled:
            brokers.operator.write_broker(broker_id, config=config)
        brokers.lead(1, isr=IN_SYNC, replicas=IN_SYNC)
        await brokers.eventually(lambda: brokers.leads(1) and brokers.follows(2))
        for _ in range(10):
            await brokers.produce(1, bytes(100))
        adding = {"adding": [3]}
        brokers.lead(1, isr=IN_SYNC, state=adding, clientConfig=lists)
        await brokers.settled(1)
        await brokers.eventually(lambda: copied(brokers) > 0)
        for _ in range(10):
            await brokers.produce(1, bytes(100))
        await asyncio.sleep(0.7)  # longer than a fetch waits at the leader
        assert 0 < copied(brokers) < 5
        assert brokers.up[2].replica().log.end_offset == 20
        following = brokers.up[3].replica().following
        assert following is not None
        assert following.copying == Copying(bool(lists), bool(lists), is_added=True)
        assert connections(brokers) == {(1, True)}

        for broker_id in throttled:
            brokers.operator.write_broker(broker_id, config=unlimited)
        await brokers.equal(20)
        # The next map of the same epoch has it in the ISR.
        brokers.epoch -= 1
        brokers.lead(1, isr=ALL, state={**adding, "partitionEpoch": 99}, clientConfig=lists)
        await brokers.eventually(lambda: connections(brokers) == {(1, False)})
        await brokers.produce(1, b"to all")
        await brokers.equal(21)

    run(brokers, scenario)


def test_a_member_that_restarts_does_not_wait(brokers: Brokers) -> None:
    """The ISR still lists its earlier session, and the high watermark waits for it."""

    async def scenario() -> None:
        await brokers.start(*ALL)
        for broker_id in (1, 3):
            brokers.operator.write_broker(broker_id, config=RATES)
        brokers.lead(1, isr=(1, 3), clientConfig=LISTS)
        await brokers.settled(1)
        await brokers.produce(1, bytes(100))
        await brokers.stop(3)
        for _ in range(10):
            await brokers.produce(1, bytes(100), acks=1)
        await brokers.start(3)
        await brokers.equal(11)
        assert connections(brokers) == {(1, False)}

    run(brokers, scenario)
