"""Every API that is advertised is served, and nothing else has a handler."""

from typing import Any, cast

from chiplog_broker.fetch_sessions.cache import FetchSessionCache
from chiplog_broker.handlers.table import Parts, handler_table
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_wire.protocol.apis import APIS


def test_the_table_of_handlers_is_the_table_of_apis() -> None:
    nothing = cast("Any", None)
    cluster = ClusterView("cluster", 1)
    metrics, sessions = RequestMetrics(), FetchSessionCache(1, lambda: 1)
    rest = metrics, sessions, *[nothing] * 10
    parts = Parts(cluster, nothing, nothing, nothing, nothing, {}, "/data", *rest)
    assert set(handler_table(parts)) == set(APIS)
