"""Where replicas of a topic lie, read from the map that brokers live by."""

import pytest

from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import places
from e2e.main.setting_up import NewTopic

pytestmark = [pytest.mark.main, pytest.mark.timeout(120)]

# Each broker leads as much as the others, and is followed by each of the others as often: what a
# broker led when it dies is shared by all that are left.
EXPECTED = [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2), (2, 1, 3), (3, 2, 1)]


def test_three_zones_and_three_replicas(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("user-activity", len(EXPECTED), replicas=3)
    assert [one.replicas for one in places(cluster, topic)] == EXPECTED
