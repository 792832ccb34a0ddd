"""The operator: what it looks after, its rounds, its queue, and what it asks the API server."""

from typing import Final

from charts.dashboards.board import Board, Line, Row, lines, number
from charts.dashboards.cluster_board import processes

OPERATORS: Final = 'job="chiplog-operator"'
_PREFIX: Final = "chiplog_operator"
_ROUNDS: Final = f"{_PREFIX}_reconciliations"
_CLUSTER: Final = "{{namespace}}/{{name}}"


def rate_by(labels: str, metric: str) -> str:
    """A counter's growth a second."""
    return f"sum by ({labels}) (rate({metric}[$__rate_interval]))"


def slowest_by(labels: str, histogram: str) -> str:
    """The duration that 99 of 100 do not exceed."""
    rates = rate_by(f"{labels}, le".removeprefix(", "), f"{histogram}_bucket")
    return f"histogram_quantile(0.99, {rates})"


def looked_after(kind: str) -> str:
    """How many objects of a kind, by whoever is in charge."""
    return f'sum(max by (namespace, name) ({_PREFIX}_resources{{kind="{kind}"}}))'


_STATE: Final = Row(
    "State",
    (
        number("Active", f"sum({_PREFIX}_leader)", red_below=1, red_from=2),
        number("Clusters", looked_after("BrokerCluster")),
        number("Topics", looked_after("Topic")),
        number("Consumer groups", looked_after("ConsumerGroup")),
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
            about="By the last completed run of each Verification.",
        ),
    ),
)
_ROUND: Final = Row(
    "Reconciliations",
    (
        lines("Rounds", Line(rate_by("namespace, name", f"{_ROUNDS}_total"), _CLUSTER), unit="ops"),
        lines(
            "Failed reconciliations",
            Line(
                f"{rate_by('namespace, name', f'{_ROUNDS}_failed_total')}"
                f" or 0 * {rate_by('namespace, name', f'{_ROUNDS}_total')}",
                _CLUSTER,
            ),
            unit="ops",
        ),
        lines(
            "Duration (p99)",
            Line(slowest_by("namespace, name", f"{_ROUNDS}_duration_seconds"), _CLUSTER),
            unit="s",
        ),
        lines(
            "Wait before a reconciliation (p99)",
            Line(slowest_by("", f"{_PREFIX}_queue_seconds"), "wait"),
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
            Line(slowest_by("verb", f"{_PREFIX}_api_request_duration_seconds"), "{{verb}}"),
            unit="s",
        ),
    ),
)
BOARD: Final = Board(
    name="operator",
    title="Chiplog / Operator",
    about="The operator and all clusters that it manages.",
    variables=(),
    rows=(_STATE, _ROUND, _API, processes(OPERATORS)),
)
