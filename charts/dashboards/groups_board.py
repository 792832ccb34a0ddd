"""Consumer groups of a cluster: how far they are behind, who is in them, how fast they are."""

from typing import Final

from charts.dashboards.board import Board, Line, Row, Variable, lines, number
from charts.dashboards.cluster_board import CHOSEN, VARIABLES

GROUPS: Final = f'{CHOSEN},consumergroup=~"$group"'
_GROUP: Final = "{{consumergroup}}"
_TOPIC: Final = "{{consumergroup}} {{topic}}"

_STATE: Final = Row(
    "State",
    (
        number("Groups", f"count(kafka_consumergroup_members{{{GROUPS}}})"),
        number("Members", f"sum(kafka_consumergroup_members{{{GROUPS}}})"),
        number("Lag in records", f"sum(kafka_consumergroup_lag_sum{{{GROUPS}}})"),
        number(
            "Oldest record not consumed",
            f"max(kafka_consumergroup_lag_seconds{{{GROUPS}}})",
            unit="s",
        ),
        number(
            "Objectives missed",
            f"count(chiplog_consumergroup_lag_objective_met{{{GROUPS}}} == 0) or vector(0)",
            red_from=1,
        ),
        number(
            "Groups without members",
            f"count(kafka_consumergroup_members{{{GROUPS}}} == 0) or vector(0)",
        ),
    ),
)
_LAG: Final = Row(
    "Lag",
    (
        lines(
            "Lag in records, by group",
            Line(f"sum by (consumergroup) (kafka_consumergroup_lag_sum{{{GROUPS}}})", _GROUP),
            width=12,
        ),
        lines(
            "Lag in records, by topic",
            Line(
                f"sum by (consumergroup, topic) (kafka_consumergroup_lag_sum{{{GROUPS}}})", _TOPIC
            ),
            width=12,
        ),
        lines(
            "Age of the oldest record not consumed",
            Line(f"max by (consumergroup) (kafka_consumergroup_lag_seconds{{{GROUPS}}})", _GROUP),
            unit="s",
            width=12,
            about="Computed from the records' timestamps.",
        ),
        lines(
            "The twenty partitions with the largest lag",
            Line(
                f"topk(20, max by (consumergroup, topic, partition)"
                f" (kafka_consumergroup_lag{{{GROUPS}}}))",
                "{{consumergroup}} {{topic}}-{{partition}}",
            ),
            width=12,
        ),
    ),
)
_WORK: Final = Row(
    "Work",
    (
        lines(
            "Committed",
            Line(
                "sum by (consumergroup, topic)"
                f" (rate(kafka_consumergroup_current_offset_sum{{{GROUPS}}}[$__rate_interval]))",
                _TOPIC,
            ),
            unit="wps",
            about="Committed records per second. A reset to lower offsets shows as a peak.",
        ),
        lines(
            "Written to their topics",
            Line(
                "sum by (topic) (rate(kafka_server_brokertopicmetrics_messagesin_total"
                f"{{{CHOSEN}}}[$__rate_interval]) and on (topic)"
                f" kafka_consumergroup_lag_sum{{{GROUPS}}})",
                "{{topic}}",
            ),
            unit="wps",
        ),
        lines(
            "Members",
            Line(f"max by (consumergroup) (kafka_consumergroup_members{{{GROUPS}}})", _GROUP),
        ),
    ),
)

BOARD: Final = Board(
    name="groups",
    title="Chiplog / Consumer groups",
    about="Consumer groups of a cluster.",
    variables=(
        *VARIABLES,
        Variable(
            name="group",
            selector=f"kafka_consumergroup_members{{{CHOSEN}}}",
            label="consumergroup",
            is_many=True,
        ),
    ),
    rows=(_STATE, _LAG, _WORK),
)
