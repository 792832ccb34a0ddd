"""The process: arguments, configuration, signals, exit status.

Exit status 2 means that the broker cannot start with its configuration; one line on standard error
names the setting and the remedy.
"""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from chiplog_broker.broker import Broker
from chiplog_broker.config_file import listeners, standalone_config
from chiplog_broker.directory_ports import directory_ports
from chiplog_broker.errors import CannotStart
from chiplog_broker.first_users import first_user
from chiplog_broker.full_collections import FullCollections
from chiplog_broker.logging_setup import set_up
from chiplog_broker.process import keep_freed_memory, raise_open_file_limit
from chiplog_broker.server.http import serve_health, serve_inquiries, serve_metrics
from chiplog_core.ids import MAX_BROKER_ID
from chiplog_core.naming.ports import OPERATOR as OPERATOR_PORT
from chiplog_core.version import VERSION

logger = logging.getLogger(__name__)

MAX_PORT = 65535
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - only the operator's certificate is accepted there


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses for probes, for Prometheus and for the operator."""

    health: tuple[str, int]
    metrics: tuple[str, int]
    operator: tuple[str, int] = (EVERY_ADDRESS, OPERATOR_PORT)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line, or of `given`. Ends the process if they are invalid."""
    parser = argparse.ArgumentParser(
        prog="chiplog-broker", description="A broker of the Chiplog partitioned log."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument(
        "--standalone",
        metavar="DIR",
        type=Path,
        help="run a standalone broker with data and metadata in DIR, which is created if it does "
        "not exist",
    )
    mode.add_argument(
        "--cluster", metavar="NAME", help="run as a broker of this BrokerCluster on Kubernetes"
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="a server.properties file with Kafka's configuration keys",
    )
    parser.add_argument(
        "--add-scram",
        metavar="USER",
        action="append",
        default=[],
        help="with --standalone: add a user, as kafka-storage.sh does: "
        "'SCRAM-SHA-512=[name=alice,password=secret]'. A credential that exists is not changed. "
        "May be given several times",
    )
    member = parser.add_argument_group("with --cluster")
    member.add_argument("--broker-id", metavar="N", type=int, help="id of this broker")
    member.add_argument(
        "--data", metavar="DIR", type=Path, help="directory of the volume for data and metadata"
    )
    member.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="kubeconfig file with the API server's address; needed outside of a pod",
    )
    member.add_argument(
        "--namespace", metavar="NS", help="namespace of the BrokerCluster; default: POD_NAMESPACE"
    )
    member.add_argument(
        "--credentials",
        metavar="DIR",
        type=Path,
        help="directory with the files username and password for the internal listener",
    )
    member.add_argument(
        "--internal-tls",
        metavar="DIR",
        type=Path,
        help="directory with the files tls.crt, tls.key and ca.crt, for TLS with other brokers and "
        "the operator",
    )
    member.add_argument(
        "--operator-address",
        default=f"{EVERY_ADDRESS}:{OPERATOR_PORT}",
        metavar="HOST:PORT",
        help="address for the operator's requests if there is TLS (%(default)s)",
    )
    member.add_argument(
        "--termination-log",
        metavar="FILE",
        type=Path,
        default=Path("/dev/termination-log"),
        help="file for the termination message, in which the broker writes its incarnation "
        "(%(default)s)",
    )
    parser.add_argument(
        "--health-address",
        default="127.0.0.1:8080",
        metavar="HOST:PORT",
        help="address for the probes /startupz, /readyz and /livez (%(default)s)",
    )
    parser.add_argument(
        "--metrics-address",
        default="127.0.0.1:9404",
        metavar="HOST:PORT",
        help="address for Prometheus' /metrics (%(default)s)",
    )
    parser.add_argument(
        "--log-level",
        default="info",
        choices=["debug", "info", "warning", "error"],
        help="lowest level of the lines that are logged (%(default)s)",
    )
    options = parser.parse_args(given)
    check_mode(parser, options)
    return options


MEMBER_OPTIONS = ("broker_id", "data", "kubeconfig", "namespace", "credentials", "internal_tls")


def check_mode(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the process with an error if options of both modes are mixed, or one is missing. The
    error names the option and the remedy."""
    names = {name: "--" + name.replace("_", "-") for name in MEMBER_OPTIONS}
    if options.cluster is None:
        given = [option for name, option in names.items() if getattr(options, name) is not None]
        if given:
            parser.error(f"{given[0]} needs --cluster: remove it, or add --cluster")
        return
    if options.add_scram:
        parser.error("--add-scram needs --standalone: remove it, or create a User object")
    for name in ("broker_id", "data"):
        if getattr(options, name) is None:
            parser.error(f"--cluster needs {names[name]}")
    if not 1 <= options.broker_id <= MAX_BROKER_ID:
        parser.error(f"--broker-id {options.broker_id} is out of range: use 1 to {MAX_BROKER_ID}")


def main() -> None:
    """Run a broker until SIGTERM or SIGINT."""
    options = arguments()
    set_up(options.log_level)
    raise_open_file_limit()
    FullCollections().begin()
    try:
        addresses = Addresses(
            host_and_port("--health-address", options.health_address),
            host_and_port("--metrics-address", options.metrics_address),
            host_and_port("--operator-address", options.operator_address),
        )
        if options.cluster is not None:
            from chiplog_broker.member import member  # noqa: PLC0415 - standalone starts without

            broker = member(options)
        else:
            broker = standalone(options.standalone, options.config, options.add_scram)
        keep_freed_memory(broker.shares.freed_bytes)
        # uvloop halves the cost of a small request; the same code runs on plain asyncio.
        import uvloop  # noqa: PLC0415

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(broker, addresses))
    except CannotStart as problem:
        for line in str(problem).splitlines():
            sys.stderr.write(f"chiplog-broker: {line}\n")
        sys.exit(2)


def standalone(
    directory: Path, config_file: Path | None, first_users: Sequence[str] = ()
) -> Broker:
    """A broker whose data and metadata are in one directory. `first_users` are those of
    `--add-scram`. Raises `CannotStart`."""
    config = standalone_config(config_file)
    ports = directory_ports("--standalone", directory)
    broker = Broker(ports, config, listeners(config), str(directory / "data"))
    broker.first_users = [first_user(one, ports.rng) for one in first_users]
    return broker


async def serve(broker: Broker, addresses: Addresses) -> None:
    """Start the broker, wait for SIGTERM or SIGINT, stop. A signal during the start cancels it,
    which loses nothing.

    Raises `CannotStart` if the broker cannot start, or must not continue.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    async with AsyncExitStack() as begun:
        inquiries, tls = broker.inquiries, broker.operator_tls
        health = await serve_health(
            broker.health, *addresses.health, inquiries if tls is None else None
        )
        begun.push_async_callback(health.cleanup)
        if inquiries is not None and tls is not None:
            operator = await serve_inquiries(inquiries, tls, *addresses.operator)
            begun.push_async_callback(operator.cleanup)
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
        metrics = await serve_metrics(broker.exposition(), *addresses.metrics)
        begun.push_async_callback(metrics.cleanup)
        ended = loop.create_task(broker.deposed())
        await asyncio.wait({ended, stop}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise CannotStart(f"this process must stop: {ended.result()}")
        ended.cancel()


def host_and_port(option: str, address: str) -> tuple[str, int]:
    """The host and the port of `host:port`. Raises `CannotStart`, whose message names `option`."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > MAX_PORT:
        raise CannotStart(f"{option} {address!r} is not an address: write HOST:PORT")
    return host, int(port)
