"""The process: options, the Lease, signals, exit status.

Exit status 2 says that the operator cannot start with what it was given; the one line on
standard error names what and the remedy. Status 1 is a lost Lease or a fault: Kubernetes starts
the process again, and it begins as a standby.
"""

import argparse
import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from chiplog_core.operator_lease.lease import Claim
from chiplog_core.spark.choices import Allowed
from chiplog_core.version import VERSION
from chiplog_kube.connection import Connection, NoConnection
from chiplog_kube.finding import find
from chiplog_kube.http_api import HttpKubeApi
from chiplog_operator.caches import Caches
from chiplog_operator.clock import SystemClock
from chiplog_operator.groups.loop import GroupPorts
from chiplog_operator.groups.port import HttpGroupsPort
from chiplog_operator.http import CannotStart, Health, serve_health, serve_metrics
from chiplog_operator.leadership import Leadership, LeaseLost
from chiplog_operator.logs import set_up
from chiplog_operator.metrics import Metrics
from chiplog_operator.other_leases import OtherLeases, as_watches
from chiplog_operator.other_operators import OtherOperators
from chiplog_operator.standby import ConflictReporter, Pod
from chiplog_operator.system import Settings, System
from chiplog_operator.writes import NotActive

logger = logging.getLogger(__name__)

DEFAULT_NAMESPACE = "chiplog-system"
LAST_WORDS_S = 2.0
"""Time for a process that must end to write its last log lines and close connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the operator process."""

    kubeconfig: Path | None
    namespace: str
    watch_namespaces: tuple[str, ...]
    health_address: str
    metrics_address: str
    log_level: str
    broker_image: str
    spark_image: str
    spark_allowed: Allowed

    @property
    def watches(self) -> str:
        """The watched namespaces, in the form in which the Lease has them."""
        return as_watches(self.watch_namespaces)


def options(given: Sequence[str] | None = None) -> Options:
    """The options from the command line and the environment."""
    parser = argparse.ArgumentParser(
        prog="chiplog-operator", description="Runs Chiplog clusters on Kubernetes."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="kubeconfig file; default: the pod's ServiceAccount",
    )
    parser.add_argument(
        "--namespace",
        default=os.environ.get("POD_NAMESPACE", DEFAULT_NAMESPACE),
        help="namespace of the operator's own Lease",
    )
    parser.add_argument(
        "--watch-namespaces",
        default="",
        metavar="NAME,…",
        help="namespaces to watch for clusters and topics; default: all namespaces",
    )
    parser.add_argument(
        "--health-address",
        default="0.0.0.0:8080",
        metavar="HOST:PORT",
        help="address on which probes are answered; default: %(default)s",
    )
    parser.add_argument(
        "--metrics-address",
        default="0.0.0.0:9404",
        metavar="HOST:PORT",
        help="address on which Prometheus reads metrics; default: %(default)s",
    )
    parser.add_argument(
        "--log-level",
        default="info",
        choices=["debug", "info", "warning", "error"],
        help="least severe level that is logged; default: %(default)s",
    )
    parser.add_argument(
        "--broker-image",
        default=os.environ.get("CHIPLOG_BROKER_IMAGE", ""),
        help="image of brokers for clusters that do not set one (CHIPLOG_BROKER_IMAGE)",
    )
    parser.add_argument(
        "--spark-image",
        default=os.environ.get("CHIPLOG_SPARK_IMAGE", ""),
        help="image of Spark jobs for clusters that do not set one (CHIPLOG_SPARK_IMAGE)",
    )
    parser.add_argument(
        "--spark-allowed-images",
        default="",
        metavar="IMAGE,…",
        help="images that everybody may use for Spark jobs, in addition to --spark-image",
    )
    parser.add_argument(
        "--spark-allowed-service-accounts",
        default="",
        metavar="NAMESPACE/NAME,…",
        help="ServiceAccounts that everybody may use for Spark jobs in their namespaces",
    )
    parser.add_argument(
        "--spark-judged-at-admission",
        action="store_true",
        help="also accept other images and ServiceAccounts: a ValidatingAdmissionPolicy of the "
        "operator's chart checks that their author may create pods in the namespace",
    )
    parsed = vars(parser.parse_args(given))
    allowed = Allowed(
        images=frozenset(
            filter(None, (parsed["spark_image"], *_listed(parsed.pop("spark_allowed_images"))))
        ),
        service_accounts=frozenset(_listed(parsed.pop("spark_allowed_service_accounts"))),
        is_judged_at_admission=parsed.pop("spark_judged_at_admission"),
    )
    namespaces = _listed(parsed.pop("watch_namespaces"))
    return Options(**parsed, watch_namespaces=namespaces, spark_allowed=allowed)


def _listed(text: str) -> tuple[str, ...]:
    """The entries of a comma-separated list."""
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


def main() -> None:
    """Run an operator until SIGTERM or SIGINT."""
    chosen = options()
    set_up(chosen.log_level)
    try:
        if not chosen.broker_image:
            raise CannotStart("no image for brokers: set --broker-image or CHIPLOG_BROKER_IMAGE")
        connection = find(chosen.kubeconfig)
        import uvloop  # noqa: PLC0415 - a process that cannot start need not load it

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            sys.exit(runner.run(serve(chosen, connection)))
    except (CannotStart, NoConnection) as problem:
        sys.stderr.write(f"chiplog-operator: {problem}\n")
        sys.exit(2)


async def serve(chosen: Options, connection: Connection) -> int:
    """Wait for the Lease, run the operator until a signal ends it, and return the exit status."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    instance = os.environ.get("POD_NAME") or socket.gethostname()
    health, metrics = Health(), Metrics()
    async with AsyncExitStack() as begun:
        probes = await serve_health(health, chosen.health_address)
        begun.push_async_callback(probes.cleanup)
        scraped = await serve_metrics(metrics, chosen.metrics_address)
        begun.push_async_callback(scraped.cleanup)
        api = await begun.enter_async_context(HttpKubeApi(connection, meter=metrics.requests))
        me = f"{instance}_{secrets.token_hex(8)}"
        aside = ConflictReporter(
            api, health, Pod(instance, chosen.namespace, os.environ.get("POD_UID", ""))
        )
        claim = Claim(watches=chosen.watches, account=os.environ.get("POD_SERVICE_ACCOUNT", ""))
        other_operators = OtherOperators(
            api, SystemClock(), OtherLeases(chosen.namespace, claim), aside
        )
        leadership = Leadership(
            api, SystemClock(), chosen.namespace, me, other_operators=other_operators
        )
        begun.push_async_callback(leadership.release)
        work = loop.create_task(
            _lead(chosen, connection, api, leadership, _Signs(health, metrics, stopping))
        )
        stop = loop.create_task(stopping.wait())
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        return await _ended(work, is_wanted=stopping.is_set())


@dataclass(frozen=True, slots=True)
class _Signs:
    """How others see the state of the process, and make it stop."""

    health: Health
    metrics: Metrics
    stopping: asyncio.Event


async def _lead(
    chosen: Options,
    connection: Connection,
    api: HttpKubeApi,
    leadership: Leadership,
    signs: _Signs,
) -> None:
    """Wait for the Lease as a standby, then run as the active operator. Ends only by an error."""
    await leadership.acquire()
    signs.health.is_leader = True
    signs.metrics.set_active(is_leader=True)
    settings = Settings(
        instance=leadership.me,
        broker_image=chosen.broker_image,
        spark_image=chosen.spark_image,
        spark_allowed=chosen.spark_allowed,
        operator_namespace=os.environ.get("POD_NAMESPACE", ""),
        namespaces=chosen.watch_namespaces,
    )
    clock = SystemClock()
    async with HttpGroupsPort(clock) as port, asyncio.TaskGroup() as group:
        system = System(
            api,
            settings,
            clock=clock,
            authority=leadership,
            meter=signs.metrics,
            groups=GroupPorts(port=port, figures_listener=signs.metrics.groups),
            spark=signs.metrics.verifications,
            keeps_users=True,
        )
        signs.metrics.objects.show(system.caches)
        group.create_task(_keep(leadership), name="lease")
        group.create_task(system.run(), name="system")
        group.create_task(
            _watch_users(chosen, connection, system.caches, signs.stopping), name="kopf"
        )


async def _keep(leadership: Leadership) -> None:
    """Renew the Lease until it is lost. Then end this process, because another one may be
    active."""
    try:
        await leadership.keep()
    except LeaseLost:
        _end_soon()
        raise


def _end_soon() -> None:
    """End this process in a moment, even if other tasks are still busy. The time is for its last
    log lines."""
    asyncio.get_running_loop().call_later(LAST_WORDS_S, os._exit, 1)


async def _watch_users(
    chosen: Options, connection: Connection, caches: Caches, stopping: asyncio.Event
) -> None:
    """Watch users' objects with Kopf."""
    # A standby needs no Kopf, and saves its memory.
    from chiplog_operator import kopf_settings  # noqa: PLC0415

    def ended() -> None:
        # Happens if a CRD is deleted while Kopf lists its objects. A process that keeps the Lease
        # without watching users' objects is worse than none.
        if not stopping.is_set():
            logger.critical("watch_ended")
            _end_soon()

    await kopf_settings.run(connection, caches, chosen.watch_namespaces, stopping.set, ended)
    if not stopping.is_set():
        raise RuntimeError("Kopf ended unexpectedly")


async def _ended(work: "asyncio.Task[None]", *, is_wanted: bool) -> int:
    """Cancel the work, log why it ended, and return the exit status. That is 0 only after a signal
    (`is_wanted`)."""
    work.cancel()
    try:
        await work
    except asyncio.CancelledError:
        logger.info("stopped")
        return 0 if is_wanted else 1
    except BaseException as error:
        reasons = list(_causes(error))
        if any(isinstance(reason, LeaseLost | NotActive) for reason in reasons):
            logger.error("lease_lost", extra={"error": "; ".join(map(str, reasons))})
        else:
            logger.critical("failed", exc_info=error)
    return 1


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The single exceptions in an exception group."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error
