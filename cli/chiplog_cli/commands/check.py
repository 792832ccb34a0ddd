"""`chiplog check`."""

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from chiplog_cli import check_view
from chiplog_cli.errors import CannotDo
from chiplog_cli.facts import Broker, Cluster
from chiplog_cli.moments import length_ms
from chiplog_cli.options import checked, command
from chiplog_cli.printing import show
from chiplog_cli.security import Security
from chiplog_cli.session import Session, admin_of
from chiplog_core.telemetry.findings import Finding, are_ok

RETRY_S = 1.0


def register(app: typer.Typer) -> None:
    command(app, "check")(check)


def check(
    session: Session,
    *,
    selector: Annotated[
        str,
        typer.Option(metavar="LABELS", help="With --cluster: check only Topics with these labels."),
    ] = "",
    topics_in: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE",
            help="With --cluster: namespace of the Topics. Default: the "
            "namespace of the BrokerCluster.",
        ),
    ] = None,
    wait: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to wait until every check passes.")
    ] = "0s",
) -> None:
    """Check whether the cluster works; the exit status is 1 if a check fails. Every broker must
    answer, and every partition must have a leader. With --cluster the BrokerCluster and its
    Topics must also be Ready, for their newest specs. It writes nothing."""
    wait_s = checked(lambda: length_ms(wait), "--wait") / 1000
    if session.kubernetes is None and (selector or topics_in):
        raise typer.BadParameter(
            "--selector and --topics-in need --cluster: name the BrokerCluster with it"
        )
    until_s = time.monotonic() + wait_s
    while True:
        findings = list(_findings(session, selector, topics_in))
        if are_ok(findings) or time.monotonic() >= until_s:
            break
        time.sleep(RETRY_S)
    show(session.form, check_view.document(findings), lambda: check_view.text(findings))
    if not are_ok(findings):
        raise typer.Exit(1)


def _findings(session: Session, selector: str, topics_in: str | None) -> Iterator[Finding]:
    """The findings about the brokers and partitions, and with --cluster also about the objects on
    Kubernetes. The other parameters select Topics: labels and namespace."""
    wanted = 0
    if session.kubernetes is not None:
        from chiplog_cli import kube_view  # noqa: PLC0415 - with all of Chiplog's resources

        try:
            described = session.kubernetes.describe_some(selector, topics_in)
        except CannotDo as error:
            yield Finding("the API server returns the BrokerCluster and its Topics", str(error))
            return
        yield from kube_view.readiness(described)
        wanted = described.cluster.spec.replicas
    try:
        yield from _of_brokers(session, wanted)
    except CannotDo as error:
        yield Finding("a broker answers", str(error))


def _of_brokers(session: Session, wanted: int) -> Iterator[Finding]:
    """The findings about each broker, and about all partitions. `wanted` is the number of brokers
    in the BrokerCluster's spec; 0 without one. Raises `CannotDo` if no broker answers."""
    connection = session.new_connection()
    admin = admin_of(connection)
    cluster = admin.describe_cluster()
    if wanted:
        yield check_view.of_number(wanted, cluster)
    for broker in cluster.brokers:
        yield check_view.of_broker(
            broker, cluster, _answer_of(session, broker, connection.security)
        )
    yield check_view.of_partitions(admin.describe_topics(admin.topic_names()))


def _answer_of(session: Session, broker: Broker, security: Security) -> Cluster | CannotDo:
    """What this broker answers to a Metadata request, or its error."""
    try:
        return session.admin_at(broker, security).describe_cluster()
    except CannotDo as error:
        return error
