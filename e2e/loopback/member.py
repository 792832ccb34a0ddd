"""One of several brokers on this machine: `python -m e2e.loopback.member NAMES ADDRESS API ACCOUNT
…`.

It runs the unchanged broker, and replaces what a pod would have:

  * NAMES is a JSON file with the address of each broker pod's DNS name, as there is no DNS; *
  ADDRESS is this broker's own, as all internal listeners have the same port; * API is the port of
  the API server on this machine, ACCOUNT a directory like a ServiceAccount volume. A kubeconfig
  would load a library that brokers in pods do not need, which would distort measurements.

The further arguments are the broker's own.
"""

import asyncio
import json
import sys
from asyncio import BaseProtocol
from collections.abc import Mapping
from pathlib import Path
from ssl import SSLContext
from typing import TypeVar

import uvloop

from chiplog_broker.errors import CannotStart
from chiplog_broker.logging_setup import set_up
from chiplog_broker.main import Addresses, arguments, host_and_port, serve
from chiplog_broker.member import member
from chiplog_broker.ports.net import SystemNet
from chiplog_broker.process import keep_freed_memory, raise_open_file_limit
from chiplog_kube.connection import in_cluster
from e2e.kafka.ports import LOOPBACK

P = TypeVar("P", bound=BaseProtocol)


class NamedNet(SystemNet):
    """TCP connections with a table of names in place of DNS."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    async def connect(self, protocol: P, host: str, port: int, tls: SSLContext | None = None) -> P:
        return await super().connect(protocol, self.names.get(host, host), port, tls)


def main() -> None:
    """Run the broker as `chiplog_broker.main.main` does, with the replacements above."""
    names_file, address, api, account, *given = sys.argv[1:]
    options = arguments(given)
    set_up(options.log_level)
    raise_open_file_limit()
    addresses = Addresses(
        host_and_port("--health-address", options.health_address),
        host_and_port("--metrics-address", options.metrics_address),
    )
    try:
        names = json.loads(Path(names_file).read_text())
        server = {"KUBERNETES_SERVICE_HOST": LOOPBACK, "KUBERNETES_SERVICE_PORT": api}
        connection = in_cluster(server, Path(account))
        broker = member(options, NamedNet(names), address, connection)
        keep_freed_memory(broker.shares.freed_bytes)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(broker, addresses))
    except CannotStart as problem:
        sys.exit(f"chiplog-broker: {problem}")


if __name__ == "__main__":
    main()
