"""The operator's connection to a broker's health port, as both really are: who is there, and the
end of a process that is killed.
"""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop

from chiplog_core.ids import BrokerId, Incarnation
from chiplog_core.naming import ports
from chiplog_core.observed.processes import Identity
from chiplog_core.planner.leadership.refusals import is_refusal
from chiplog_operator.clock import SystemClock
from chiplog_operator.health_port import IncarnationProbe, SystemNet
from chiplog_operator.refusals import Refusals
from chiplog_operator.waking import Wake

HOST = "127.0.0.1"
ME = Incarnation("0123456789abcdef" * 2)
BROKER = f"""
import asyncio, uvloop
from chiplog_broker.server.health import Health
from chiplog_broker.server.http import serve_health

async def main():
    runner = await serve_health(Health(incarnation="{ME}"), "{HOST}", 0)
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

uvloop.run(main())
"""


def run(scenario: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(scenario, timeout=120))


def test_a_broker_that_is_killed_ends_its_connection_and_refuses_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", BROKER, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        monkeypatch.setattr(ports, "HEALTH", port)
        whom = Identity(broker_id=BrokerId(1), incarnation=ME, pod_uid="u", address=HOST)
        nobody: Any = None
        clock = SystemClock()
        watching = Refusals(SystemNet(), nobody, nobody, nobody, clock=clock, changed=Wake(clock))

        connection = await SystemNet().connect(IncarnationProbe(), HOST, port)
        assert await connection.incarnation() == ME
        ended = asyncio.ensure_future(connection.ended())
        assert not is_refusal(await watching._attempts(whom))
        assert not ended.done()
        process.send_signal(signal.SIGKILL)
        await ended
        assert is_refusal(await watching._attempts(whom))
        await process.wait()

    run(scenario())
