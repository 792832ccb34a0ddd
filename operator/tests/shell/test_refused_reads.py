"""A whole operator, and a run that was refused a read by a broker that knows why."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.naming import names
from chiplog_kube import kinds
from tests.shell.conftest import CLUSTER, Bench
from tests.shell.test_repairs import Repairs
from tests.shell.test_verifications import COVERAGE

FILE = "orders-0/00000000000000000000.log"


class Refusing(Repairs):
    """Brokers that refuse to serve a replica, and tell of it."""

    async def remember(self, broker_id: int, **past: Any) -> None:
        """As a broker does that has found damage and is whole again."""
        name = names.broker(CLUSTER, BrokerId(broker_id))
        (directory,) = self.bench.one(kinds.BROKERS, name)["status"]["directories"]
        found = {
            "topic": "orders",
            "topicId": self.topic_id(),
            "partition": 0,
            "kind": "Truncated",
            "file": FILE,
            "offset": 500,
            "message": "the file ends 9 bytes too early",
            "foundAt": written(self.bench.clock.now()),
            "wholeAt": written(self.bench.clock.now()),
            **past,
        }
        await self.say(broker_id, directories=[{**directory, "damageHistory": [found]}])

    async def refuse(self, broker_id: int) -> None:
        """The run ends, and could not read this replica from its beginning on."""
        run = self.status()["application"]["name"]
        place = {"topic": "orders", "partition": 0, "replica": broker_id, "offset": 0}
        refused = [{**place, "topicId": self.topic_id(), "message": "KAFKA_STORAGE_ERROR"}]
        await self.answer(
            self.bench.one(kinds.JOBS, run),
            violations=[{**place, "check": "Crc", "message": "the broker refuses"}],
            violationsTotal=1,
            summary={"coverage": COVERAGE, "refused": refused},
        )
        await self.bench.live(6)

    def told(self) -> list[tuple[str, int, int]]:
        """Check, offset and replica of each violation."""
        found = self.status()["violations"]
        return [(one["check"], one["offset"], one["replica"]) for one in found]


def written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def it(bench: Bench) -> Refusing:
    return Refusing(bench)


def test_the_status_names_what_the_broker_has_found(it: Refusing) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            await it.apply(topics=["orders"])
            await it.remember(3)
            await it.bench.live(3)
            await it.refuse(3)
            assert it.told() == [("TruncatedTail", 500, 3)]
            (violation,) = it.status()["violations"]
            assert FILE in violation["message"]
            assert "9 bytes too early" in violation["message"]
            assert it.status()["violationsByCheck"] == [{"check": "TruncatedTail", "count": 1}]
        assert 'check="TruncatedTail"' in it.scraped()
        assert it.events() == ["RunBegun", "ViolationsFound"]

    it.bench.run(scenario())


def test_what_was_mended_before_the_run_is_not_what_it_was_refused_for(it: Refusing) -> None:
    async def scenario() -> None:
        async with it.bench.running():
            await it.begin()
            before = written(it.bench.clock.now() - timedelta(hours=1))
            await it.remember(3, foundAt=before, wholeAt=before)
            await it.apply(topics=["orders"])
            await it.refuse(3)
            assert it.told() == [("Crc", 0, 3)]

    it.bench.run(scenario())
