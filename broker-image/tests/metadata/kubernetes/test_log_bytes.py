"""A broker reports the size of its replicas, by which the operator knows what fits elsewhere."""

import pytest

from chiplog_broker.metadata.kubernetes import status, store
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, run


def test_the_size_of_all_replicas_is_reported(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MEASURE_INTERVAL_S", 0.2)
    monkeypatch.setattr(status, "MIB", 1)

    def reported(broker_id: int) -> int | None:
        (directory,) = brokers.status(broker_id).directories
        return directory.log_bytes

    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"x" * 10_000)
        await brokers.equal(1)
        sizes = {one: brokers.up[one].replica().log.size_bytes for one in ALL}
        assert min(sizes.values()) > 10_000
        await brokers.eventually(lambda: {one: reported(one) for one in ALL} == sizes)

    run(brokers, scenario)
