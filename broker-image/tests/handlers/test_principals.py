"""Whoever asks for a change is named to whoever carries it out."""

from typing import TYPE_CHECKING

from chiplog_broker.broker import Broker
from chiplog_broker.metadata.operations import Outcome
from chiplog_broker.metadata.standalone import StandaloneStore
from chiplog_core.admin.operations import Operation
from chiplog_wire.protocol.apis import ApiKey

if TYPE_CHECKING:
    import pytest

    from tests.conftest import Kit


def test_every_change_carries_its_principal(kit: "Kit", monkeypatch: "pytest.MonkeyPatch") -> None:
    asked: list[tuple[str, str]] = []
    submit = StandaloneStore.submit

    async def noted(self: StandaloneStore, operation: Operation, principal: str = "") -> Outcome:
        asked.append((type(operation).__name__, principal))
        return await submit(self, operation, principal)

    monkeypatch.setattr(StandaloneStore, "submit", noted)

    async def scenario() -> None:
        async with kit.running(auto_create_topics_enable="true") as client:
            await client.metadata()
            rename(kit.broker, "User:alice")
            await client.metadata("made", auto_create=True)
            await client.create("orders")
            await client.alter("orders", ("retention.ms", 0, "60000"))
            await client.delete("orders")
            types = client.types(ApiKey.CREATE_PARTITIONS)
            topic = types.CreatePartitionsTopic(name="made", count=2, assignments=None)
            request = types.CreatePartitionsRequest(
                topics=(topic,), timeout=kit.milliseconds(5000), validate_only=False
            )
            await client.ask(ApiKey.CREATE_PARTITIONS, request)

    kit.run(scenario)
    assert asked == [
        ("CreateTopic", "User:alice"),
        ("CreateTopic", "User:alice"),
        ("ConfigureTopic", "User:alice"),
        ("DeleteTopic", "User:alice"),
        ("GrowTopic", "User:alice"),
    ]


def rename(broker: Broker, principal: str) -> None:
    """As if all that are connected had logged in."""
    for acceptor in broker.acceptors:
        for connection in acceptor._connections:
            connection.peer.principal = principal
