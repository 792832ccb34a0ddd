"""The process: arguments, configuration, signals, exit status.

Exit status 2 says that the broker cannot start with what it was given; the one line on
standard error names what and the remedy.
"""

import argparse
import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from chiplog_broker.broker import Broker, Ports
from chiplog_broker.config_file import listeners, standalone_config
from chiplog_broker.errors import CannotStart
from chiplog_broker.logging_setup import set_up
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.process import keep_freed_memory, raise_open_file_limit
from chiplog_broker.server.http import serve_health, serve_metrics

logger = logging.getLogger(__name__)

MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the probes and Prometheus ask."""

    health: tuple[str, int]
    metrics: tuple[str, int]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="chiplog-broker", description="A broker of the Chiplog partitioned log."
    )
    parser.add_argument(
        "--standalone",
        metavar="DIR",
        type=Path,
        required=True,
        help="run alone, with data and metadata in DIR, which is made if it does not exist",
    )
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="a server.properties with Kafka's names"
    )
    parser.add_argument("--health-address", default="127.0.0.1:8080", metavar="HOST:PORT")
    parser.add_argument("--metrics-address", default="127.0.0.1:9404", metavar="HOST:PORT")
    parser.add_argument(
        "--log-level", default="info", choices=["debug", "info", "warning", "error"]
    )
    return parser.parse_args()


def main() -> None:
    """Run a broker until SIGTERM or SIGINT."""
    options = arguments()
    set_up(options.log_level)
    keep_freed_memory()
    raise_open_file_limit()
    try:
        addresses = Addresses(
            host_and_port("--health-address", options.health_address),
            host_and_port("--metrics-address", options.metrics_address),
        )
        broker = standalone(options.standalone, options.config)
        # uvloop halves the cost of a small request; the same code runs on plain asyncio.
        import uvloop  # noqa: PLC0415

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(broker, addresses))
    except CannotStart as problem:
        for line in str(problem).splitlines():
            sys.stderr.write(f"chiplog-broker: {line}\n")
        sys.exit(2)


def standalone(folder: Path, config_file: Path | None) -> Broker:
    """A broker whose data and metadata lie in one folder. Raises `CannotStart`."""
    config = standalone_config(config_file)
    data, metadata = folder / "data", folder / "metadata"
    try:
        ports = Ports(SystemClock(), SystemRng(), SystemDisk(data), SystemDisk(metadata))
    except OSError as error:
        raise CannotStart(
            f"--standalone {folder} cannot be used: {error.strerror}; name a directory that can "
            "be written"
        ) from error
    return Broker(ports, config, listeners(config), str(data))


async def serve(broker: Broker, addresses: Addresses) -> None:
    """Start, wait for a signal, stop. A signal during recovery ends it: nothing is lost by that."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    async with AsyncExitStack() as begun:
        health = await serve_health(broker.health, *addresses.health)
        begun.push_async_callback(health.cleanup)
        stop = loop.create_task(stopping.wait())
        start = loop.create_task(broker.start())
        await asyncio.wait({start, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not start.done():
            start.cancel()
            await asyncio.wait({start})
            logger.info("stopped_before_start")
            return
        await start
        begun.push_async_callback(broker.stop)
        metrics = await serve_metrics(broker.registry(), *addresses.metrics)
        begun.push_async_callback(metrics.cleanup)
        await stop


def host_and_port(option: str, address: str) -> tuple[str, int]:
    """Of `host:port`. Raises `CannotStart`."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > MAX_PORT:
        raise CannotStart(f"{option} {address!r} is no address: write HOST:PORT")
    return host, int(port)
