"""The program: every command under its name."""

import signal
import sys

import typer

from chiplog_cli.commands import (
    check,
    consume,
    groups,
    offsets,
    produce,
    status,
    top,
    topics,
    transactions,
)
from chiplog_cli.options import remember

ABOUT = """Manage topics, consumer groups and records of a Kafka-compatible cluster, like Chiplog.

Name the cluster by its brokers (--bootstrap-server) or, on Kubernetes, by its BrokerCluster
(--cluster). Every command prints a table, or JSON or YAML with -o.
"""

# Plain help starts in a third of the time that boxes and colours need.
app = typer.Typer(
    name="chiplog", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)
remember(app, ABOUT)
for module in (status, check, topics, groups, offsets, transactions, produce, consume, top):
    module.register(app)


def main() -> None:
    """Run `chiplog`, or `kubectl chiplog` if it is called by the name `kubectl-chiplog`."""
    # In a pod this is process 1, which the kernel does not end by default; and open connections
    # must be closed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app(prog_name="chiplog")
