"""The request to the measuring job."""

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.manifest.writing import write
from chiplog_core.problems import InvalidManifest
from chiplog_core.rebalance.capacity import Capacity
from chiplog_core.rebalance.job import RebalanceJob
from chiplog_core.rebalance.measured import Broker
from chiplog_core.rebalance.settings import Mode, RebalanceRefused


def test_it_is_read_as_it_was_written() -> None:
    job = RebalanceJob(
        topics=("orders", "clicks"),
        brokers=(BrokerId(1), BrokerId(2)),
        racks={"1": "a", "3": "b"},
        nodes={"1": "n", "2": "n"},
        capacities={"2": Capacity(max_replicas=7, total_bytes=100, free_bytes=50)},
        mode="remove-brokers",
        named_brokers=(BrokerId(3),),
        excluded_topics="x.*",
        sample_records=10,
    )

    document = write(job)

    assert read(object_shape(RebalanceJob), document, "job", Unknown.REFUSE) == job
    assert document["namedBrokers"] == [3]
    assert job.settings().mode is Mode.REMOVE_BROKERS
    assert job.all_brokers() == (
        Broker(broker_id=BrokerId(1), rack="a", node="n"),
        Broker(broker_id=BrokerId(2), node="n", capacity=job.capacities["2"]),
        Broker(broker_id=BrokerId(3), rack="b", is_usable=False),
    )


def test_a_field_that_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidManifest, match=r"job\.sampleRecord"):
        read(object_shape(RebalanceJob), {"sampleRecord": 1}, "job", Unknown.REFUSE)


def test_a_wish_that_cannot_be_fulfilled_is_refused_by_name() -> None:
    with pytest.raises(RebalanceRefused, match="remove-disks"):
        RebalanceJob(mode="remove-disks").settings()
