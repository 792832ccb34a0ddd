"""Where the first hour is spent on Kubernetes."""

import pytest

from e2e.clients.first_hour.lesson import Place
from e2e.main.broker_cluster import BrokerClusterUnderTest


@pytest.fixture
def place(cluster: BrokerClusterUnderTest) -> Place:
    """The cluster that all tests share, from outside."""
    return Place(cluster.bootstrap, replicas=3)
