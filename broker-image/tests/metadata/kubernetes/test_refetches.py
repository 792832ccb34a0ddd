"""The operator orders a replica to be fetched anew: once, in one session, and never too many."""

from typing import Any

from chiplog_wire.protocol.errors import ErrorCode
from tests.metadata.kubernetes.brokers_kit import Brokers, run
from tests.metadata.kubernetes.test_damaged_while_running import fetched, told_of, with_records

RUN = "nightly-1"


def order(brokers: Brokers, broker_id: int, run: str = RUN, **changes: Any) -> None:
    """As the operator writes it."""
    topic = brokers.up[broker_id].broker._cluster.topic("orders")
    assert topic is not None
    found = brokers.api.objects["partitionmaps", f"c1.{topic.name}"]
    given = {
        "run": run,
        "topicId": found["spec"]["current"],
        "partition": 0,
        "session": brokers.up[broker_id].session,
    }
    brokers.operator.write_broker(broker_id, refetches=[given | changes])


def answers(brokers: Brokers, broker_id: int) -> list[tuple[str, str]]:
    return [(one.run, one.refusal) for one in brokers.status(broker_id).refetches]


def put_aside(brokers: Brokers, broker_id: int) -> int:
    return len(list((brokers.directory / f"{broker_id}/data").glob("orders-0.*-stray")))


def test_a_follower_is_fetched_again_once(brokers: Brokers) -> None:
    async def scenario() -> None:
        await with_records(brokers)
        order(brokers, 3)
        await brokers.eventually(lambda: answers(brokers, 3) == [(RUN, "")])
        await brokers.eventually(lambda: put_aside(brokers, 3) == 1)
        await brokers.eventually(lambda: told_of(brokers, 3) == [])
        await brokers.equal(5)
        await brokers.produce(1, b"5")
        await brokers.equal(6)

        # The same order, after it was withdrawn: what was done is not done again.
        copy = brokers.replicas(3)[0]
        brokers.operator.write_broker(3, refetches=[])
        await brokers.eventually(lambda: answers(brokers, 3) == [])
        order(brokers, 3)
        await brokers.eventually(lambda: answers(brokers, 3) == [(RUN, "")])
        assert brokers.replicas(3)[0] is copy
        assert put_aside(brokers, 3) == 1

    run(brokers, scenario)


def test_a_leader_resigns_before_anything_is_put_aside(brokers: Brokers) -> None:
    async def scenario() -> None:
        await with_records(brokers)
        order(brokers, 1)
        await brokers.eventually(lambda: answers(brokers, 1) == [(RUN, "")])
        assert brokers.replicas(1) == [None]
        assert await fetched(brokers, 1) is ErrorCode.kafka_storage_error
        assert [one[2] for one in told_of(brokers, 1)] == [False]
        assert put_aside(brokers, 1) == 0
        brokers.lead(2, isr=(2, 3))
        await brokers.settled(2)
        await brokers.equal(5)
        assert put_aside(brokers, 1) == 1

    run(brokers, scenario)


def test_what_is_not_for_it_or_could_lose_something_is_refused(brokers: Brokers) -> None:
    async def scenario() -> None:
        await with_records(brokers)
        before = brokers.replicas(3)[0]
        order(brokers, 3, session=99)
        order(brokers, 3, run="another-topic", topicId="AAAAAAAAAAAAAAAAAAAACQ")
        unknown = "this broker does not know the partition"
        await brokers.eventually(lambda: answers(brokers, 3) == [("another-topic", unknown)])

        brokers.lead(1, minIsr=3)
        await brokers.settled(1)
        order(brokers, 3, run="too-few")
        few = "only 2 other replicas are in sync, and 3 are required"
        await brokers.eventually(lambda: answers(brokers, 3) == [("too-few", few)])

        brokers.lead(None, minIsr=1)
        await brokers.eventually(lambda: before is not None and before.following is None)
        order(brokers, 3, run="no-leader")
        empty_group = "the partition has no leader"
        await brokers.eventually(lambda: answers(brokers, 3) == [("no-leader", empty_group)])
        assert brokers.replicas(3)[0] is before
        assert put_aside(brokers, 3) == 0

    run(brokers, scenario)
