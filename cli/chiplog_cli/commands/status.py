"""`chiplog status`."""

import typer

from chiplog_cli import status_view
from chiplog_cli.options import command
from chiplog_cli.printing import show
from chiplog_cli.session import Session


def register(app: typer.Typer) -> None:
    command(app, "status")(status)


def status(session: Session) -> None:
    """Show the state of the cluster, as its brokers report it. With --cluster, show it as the
    operator reports it on Kubernetes: conditions, listeners, Topics."""
    if session.kubernetes is not None:
        from chiplog_cli import kube_view  # noqa: PLC0415 - with all of Chiplog's resources

        described = session.kubernetes.describe()
        show(session.form, kube_view.document(described), lambda: kube_view.text(described))
        return
    admin = session.admin
    cluster = admin.describe_cluster()
    topics = admin.describe_topics(admin.topic_names())
    show(
        session.form,
        status_view.document(cluster, topics),
        lambda: status_view.text(cluster, topics),
    )
