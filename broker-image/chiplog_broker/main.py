"""The process: arguments, configuration, signals, exit status.

Exit status 2 says that the broker cannot start with what it was given; the one line on
standard error names what and the remedy.
"""

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from chiplog_broker.broker import Broker, Ports
from chiplog_broker.config_file import InvalidConfigFile, checked, listeners, parse_properties
from chiplog_broker.logging_setup import set_up
from chiplog_broker.memory import keep_freed_memory
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.server.http import serve_health, serve_metrics

log = logging.getLogger(__name__)


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
    try:
        broker = standalone(options.standalone, options.config)
        # uvloop halves the cost of a small request; the same code runs on plain asyncio.
        import uvloop  # noqa: PLC0415

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(broker, options.health_address, options.metrics_address))
    except (InvalidConfigFile, OSError, ValueError) as problem:
        sys.stderr.write(f"chiplog-broker: {problem}\n")
        sys.exit(2)


def standalone(folder: Path, config_file: Path | None) -> Broker:
    """A broker whose data and metadata lie in one folder."""
    settings = parse_properties(config_file.read_text()) if config_file else {}
    config = checked(settings)
    data, metadata = folder / "data", folder / "metadata"
    for path in (data, metadata):
        path.mkdir(parents=True, exist_ok=True)
    ports = Ports(SystemClock(), SystemRng(), SystemDisk(data), SystemDisk(metadata))
    return Broker(ports, config, listeners(config), str(data))


async def serve(broker: Broker, health_address: str, metrics_address: str) -> None:
    """Start, wait for a signal, stop."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    probes = await serve_health(broker.health, *host_and_port(health_address))
    try:
        await broker.start()
        metrics = await serve_metrics(broker.registry(), *host_and_port(metrics_address))
        await stopping.wait()
        await broker.stop()
        await metrics.cleanup()
    finally:
        await probes.cleanup()


def host_and_port(address: str) -> tuple[str, int]:
    """Of `host:port`. Raises `ValueError`."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        raise ValueError(f"{address!r} is no address: write HOST:PORT")
    return host, int(port)
