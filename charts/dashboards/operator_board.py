"""The operator: the objects that it manages, its reconciliations, its queue and its requests."""

from typing import Final

from charts.dashboards.board import Board, Line, Row, lines, number
from charts.dashboards.cluster_board import processes

OPERATORS: Final = 'job="chiplog-operator"'
_PREFIX: Final = "chiplog_operator"
_RECONCILIATION_METRICS: Final = f"{_PREFIX}_reconciliations"
_CLUSTER: Final = "{{namespace}}/{{name}}"


def rate_by(labels: str, metric: str) -> str:
    """The query for a counter's growth per second, summed by these labels."""
    return f"sum by ({labels}) (rate({metric}[$__rate_interval]))"


def p99_by(labels: str, histogram: str) -> str:
    """The query for the p99 of a histogram of durations, by these labels; all together if empty."""
    rates = rate_by(f"{labels}, le".removeprefix(", "), f"{histogram}_bucket")
    return f"histogram_quantile(0.99, {rates})"


def managed(kind: str) -> str:
    """The query for the number of objects of a kind that the active operator manages."""
    return f'sum(max by (namespace, name) ({_PREFIX}_resources{{kind="{kind}"}}))'


_STATE: Final = Row(
    "State",
    (
        number("Active", f"sum({_PREFIX}_leader)", red_below=1, red_from=2),
        number("Clusters", managed("BrokerCluster")),
        number("Topics", managed("Topic")),
        number("Consumer groups", managed("ConsumerGroup")),
        number("Paused", f"sum(max by (kind, namespace, name) ({_PREFIX}_resources_paused))"),
        number(
            "Clusters that do not match their specs",
            "count(max by (namespace, cluster) (chiplog_brokercluster_ready) == 0) or vector(0)",
            red_from=1,
        ),
        number("Waiting changes", f"sum({_PREFIX}_queue_length)"),
        number(
            "Unclean elections",
            "sum(increase(kafka_controller_controllerstats_uncleanleaderelections_total"
            "[$__range]))",
            red_from=1,
            about="Unclean elections in the shown time range.",
        ),
        number(
            "Running rebalances",
            'sum(chiplog_rebalance_state{state="Rebalancing"}) or vector(0)',
        ),
        number(
            "Violations found",
            "sum(max by (namespace, name, check) (chiplog_verification_violations)) or vector(0)",
            red_from=1,
            about="Violations that the last completed run of each Verification found.",
        ),
    ),
)
_RECONCILIATIONS: Final = Row(
    "Reconciliations",
    (
        lines(
            "Reconciliations",
            Line(rate_by("namespace, name", f"{_RECONCILIATION_METRICS}_total"), _CLUSTER),
            unit="ops",
        ),
        lines(
            "Failed reconciliations",
            Line(
                f"{rate_by('namespace, name', f'{_RECONCILIATION_METRICS}_failed_total')}"
                f" or 0 * {rate_by('namespace, name', f'{_RECONCILIATION_METRICS}_total')}",
                _CLUSTER,
            ),
            unit="ops",
        ),
        lines(
            "Duration (p99)",
            Line(
                p99_by("namespace, name", f"{_RECONCILIATION_METRICS}_duration_seconds"), _CLUSTER
            ),
            unit="s",
        ),
        lines(
            "Wait before a reconciliation (p99)",
            Line(p99_by("", f"{_PREFIX}_queue_seconds"), "wait"),
            unit="s",
        ),
        lines(
            "Actions of the last plan",
            Line(f"max by (namespace, name) ({_PREFIX}_plan_actions)", _CLUSTER),
        ),
        lines(
            "Actions", Line(rate_by("action", f"{_PREFIX}_actions_total"), "{{action}}"), unit="ops"
        ),
    ),
)
_API: Final = Row(
    "API server",
    (
        lines(
            "Requests",
            Line(
                rate_by("verb, resource", f"{_PREFIX}_api_requests_total"),
                "{{verb}} {{resource}}",
            ),
            unit="reqps",
        ),
        lines(
            "Answers",
            Line(rate_by("code", f"{_PREFIX}_api_requests_total"), "{{code}}"),
            unit="reqps",
        ),
        lines(
            "Duration (p99)",
            Line(p99_by("verb", f"{_PREFIX}_api_request_duration_seconds"), "{{verb}}"),
            unit="s",
        ),
    ),
)
BOARD: Final = Board(
    name="operator",
    title="Chiplog / Operator",
    about="The operator and all clusters that it manages.",
    variables=(),
    rows=(_STATE, _RECONCILIATIONS, _API, processes(OPERATORS)),
)
