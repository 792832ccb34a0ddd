"""`spec.reset` of a ConsumerGroup: planned, refused, done once however often it is applied."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from e2e.clients.group_member import wait_until
from e2e.clients.group_members import LibrdkafkaMember
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.consumer_groups import GroupUnderTest, committed, produce, read_all
from e2e.main.setting_up import NewTopic

pytestmark = [pytest.mark.main, pytest.mark.timeout(300)]

PARTITIONS = 3
OLD, NEW = 10, 5
"""Records in each partition, before and since the moment that a reset goes to."""
SINCE = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def group(
    cluster: BrokerClusterUnderTest, request: pytest.FixtureRequest
) -> Iterator[GroupUnderTest]:
    """A ConsumerGroup of the test's own, deleted after it."""
    name = request.node.name.removeprefix("test_").replace("_", "-")[:50]
    one = GroupUnderTest(cluster.kubectl, cluster.name, name)
    yield one
    one.delete()


def write(cluster: BrokerClusterUnderTest, topic: str) -> None:
    since_ms = int(SINCE.timestamp() * 1000)
    produce(cluster.bootstrap, topic, PARTITIONS, OLD, since_ms - 60_000)
    produce(cluster.bootstrap, topic, PARTITIONS, NEW, since_ms)


def everywhere(topic: str, offset: int) -> dict[tuple[str, int], int]:
    return {(topic, partition): offset for partition in range(PARTITIONS)}


def test_to_a_timestamp_applied_three_times_it_replays_once(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic, group: GroupUnderTest
) -> None:
    topic, bootstrap = new_topic("replayed", PARTITIONS, replicas=3), cluster.bootstrap
    write(cluster, topic)
    assert read_all(bootstrap, group.name, topic).total() == PARTITIONS * (OLD + NEW)
    reset: dict[str, object] = {
        "id": "replay-1",
        "strategy": "to-datetime",
        "datetime": SINCE.isoformat().replace("+00:00", "Z"),
        "dryRun": True,
    }

    group.apply(reset=reset)
    planned = group.wait_reset("Planned", "replay-1")
    assert [(one["offset"], one["newOffset"]) for one in planned["offsets"]] == [
        (OLD + NEW, OLD)
    ] * PARTITIONS
    assert committed(bootstrap, group.name) == everywhere(topic, OLD + NEW)

    done = reset | {"dryRun": False}
    group.apply(reset=done)
    status = group.wait_reset("Done", "replay-1")
    assert status["offsets"] == planned["offsets"]
    assert committed(bootstrap, group.name) == everywhere(topic, OLD)
    assert read_all(bootstrap, group.name, topic).total() == PARTITIONS * NEW

    # The same manifest again; and once more for an object that knows of no reset.
    group.apply(reset=done)
    time.sleep(3)
    assert group.wait_reset("Done", "replay-1")["time"] == status["time"]
    group.delete()
    group.apply(reset=done)
    group.wait_reset("Done", "replay-1")
    assert committed(bootstrap, group.name) == everywhere(topic, OLD + NEW)
    assert read_all(bootstrap, group.name, topic).total() == 0

    # Another reset needs another id, as the API server says already.
    other = {**done, "strategy": "to-earliest"}
    del other["datetime"]
    with pytest.raises(Exception, match="was changed under the same id"):
        group.apply(reset=other)
    group.apply(reset={**other, "id": "replay-2"})
    group.wait_reset("Done", "replay-2")
    assert committed(bootstrap, group.name) == everywhere(topic, 0)


def test_members_are_in_the_way_until_they_may_be_fenced(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic, group: GroupUnderTest
) -> None:
    topic, bootstrap = new_topic("fenced", PARTITIONS, replicas=3), cluster.bootstrap
    write(cluster, topic)
    everything = PARTITIONS * (OLD + NEW)
    member = LibrdkafkaMember(bootstrap, group.name, topic).start()
    try:
        wait_until("all is read", [member], lambda: len(member.read) == everything)
        eventually(
            "all is committed",
            lambda: committed(bootstrap, group.name) == everywhere(topic, OLD + NEW),
            20,
        )
        reset = {"id": "again", "strategy": "to-earliest", "dryRun": False}

        group.apply(reset=reset)
        refused = group.wait_reset("Refused", "again")
        assert "the group has 1 member" in refused["message"]
        assert committed(bootstrap, group.name) == everywhere(topic, OLD + NEW)
        assert len(member.read) == everything

        group.apply(reset={**reset, "whileActive": "Fence"})
        done = group.wait_reset("Done", "again")
        assert [(one["offset"], one["newOffset"]) for one in done["offsets"]] == [
            (OLD + NEW, 0)
        ] * PARTITIONS
        # Its heartbeat is answered UNKNOWN_MEMBER_ID; it joins again by itself, and reads what is
        # committed now.
        wait_until("all is read again", [member], lambda: len(member.read) >= 2 * everything)
        eventually(
            "all is committed again",
            lambda: committed(bootstrap, group.name) == everywhere(topic, OLD + NEW),
            20,
        )
        assert len(member.read) == 2 * everything
    finally:
        member.stop()


def test_a_refused_reset_is_done_under_another_id(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic, group: GroupUnderTest
) -> None:
    topic, bootstrap = new_topic("waited-for", PARTITIONS, replicas=3), cluster.bootstrap
    write(cluster, topic)
    member = LibrdkafkaMember(bootstrap, group.name, topic).start()
    try:
        everything = PARTITIONS * (OLD + NEW)
        wait_until("all is read", [member], lambda: len(member.read) == everything)
        reset = {"id": "now", "strategy": "shift-by", "shiftBy": -2, "dryRun": False}
        group.apply(reset=reset)
        group.wait_reset("Refused", "now")
    finally:
        member.stop()
    group.apply(reset={**reset, "id": "later"})
    group.wait_reset("Done", "later")
    # Had the refused one run as well, by itself, it were four.
    assert committed(bootstrap, group.name) == everywhere(topic, OLD + NEW - 2)
