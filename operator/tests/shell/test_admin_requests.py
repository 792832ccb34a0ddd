"""How soon an admin client's request is answered where nothing else happens in the cluster."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from chiplog_core.admin.bodies import to_body
from chiplog_core.admin.config_change import Change, ConfigChange
from chiplog_core.admin.operations import ConfigureTopic, CreateTopic, GrowTopic, Operation
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Forbidden
from tests.shell.memory_api import Call

AT_ONCE_S = 0.5
"""Five times what four rounds take that come one after another."""
RETENTION = (ConfigChange(Change.SET, "retention.ms", "5000"),)


async def start(bench: Any) -> None:
    await bench.apply_cluster()
    await bench.apply_topic("orders", partitions=2)
    await bench.clock.advance(1)
    await bench.start_brokers()
    await bench.live(9)


async def answer_to(bench: Any, operation: Operation) -> Mapping[str, Any]:
    """The answer that is there a moment after a broker asked; empty where there is none."""
    op, body = to_body(operation)
    deadline = bench.clock.now() + timedelta(seconds=30)
    request = {"id": "r1", "principal": "User:ada", "op": op.value, "body": body}
    request["deadline"] = deadline.isoformat().replace("+00:00", "Z")
    await bench.brokers[1]._patch_status({"requests": [request]})
    await bench.clock.advance(AT_ONCE_S)
    answers = bench.one(kinds.BROKERS, "demo-1")["spec"].get("answers", [])
    return answers[0]["results"][0] if answers else {}


@pytest.mark.parametrize(
    "operation",
    [
        CreateTopic(name="new", partitions=3, validate_only=True),
        GrowTopic(name="orders", partitions=6, validate_only=True),
        ConfigureTopic(name="orders", changes=RETENTION, validate_only=True),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_what_is_only_validated_is_answered_at_once(bench: Any, operation: Operation) -> None:
    async def scenario() -> Mapping[str, Any]:
        async with bench.running():
            await start(bench)
            return await answer_to(bench, operation)

    answer = bench.run(scenario())
    assert answer.get("errorCode") == 0
    if isinstance(operation, CreateTopic):
        assert (answer["partitions"], answer["replicas"]) == (3, 1)
    assert [one["metadata"]["name"] for one in bench.api.all_of(kinds.TOPICS)] == ["orders"]


def test_what_the_api_server_refuses_is_answered_at_once(bench: Any) -> None:
    def refuse(call: Call) -> ApiError | None:
        return Forbidden("quota") if (call.kind, call.verb) == ("Topic", "create") else None

    async def scenario() -> Mapping[str, Any]:
        async with bench.running():
            await start(bench)
            bench.api.fault = refuse
            return await answer_to(bench, CreateTopic(name="new"))

    answer = bench.run(scenario())
    assert (answer.get("errorCode"), answer.get("errorMessage")) == (44, "quota")
