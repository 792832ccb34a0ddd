"""A cluster's brokers: whether all is well, load, latency, replication, disks."""

from typing import Final

from charts.dashboards.board import Board, Line, Row, Variable, lines, number

CHOSEN: Final = 'namespace="$namespace",cluster="$cluster"'
BROKERS: Final = f'job="chiplog-brokers",{CHOSEN}'
VARIABLES: Final = (
    Variable(name="namespace", selector="kafka_brokers", label="namespace"),
    Variable(name="cluster", selector='kafka_brokers{namespace="$namespace"}', label="cluster"),
)
"""The variables of every dashboard about one cluster."""

_POD: Final = "{{pod}}"
_TOPIC_METRICS: Final = "kafka_server_brokertopicmetrics"
_REPLICAS: Final = "kafka_server_replicamanager"


def by_broker(metric: str) -> Line:
    """The line of each broker for a gauge, summed over the broker's series."""
    return Line(f"sum by (pod) ({metric}{{{CHOSEN}}})", _POD)


def rate_by_broker(metric: str) -> Line:
    """The line of each broker for a counter's growth per second."""
    return Line(f"sum by (pod) (rate({metric}{{{CHOSEN}}}[$__rate_interval]))", _POD)


def p99_by_broker(histogram: str, more: str = "") -> Line:
    """The line of each broker for the p99 of a histogram of durations. `more` are further label
    matchers, after a comma."""
    buckets = f"{histogram}_bucket{{{CHOSEN}{more}}}[$__rate_interval]"
    return Line(f"histogram_quantile(0.99, sum by (pod, le) (rate({buckets})))", _POD)


def of_cluster(function: str, metric: str) -> str:
    """The query for a metric of the chosen cluster, aggregated by a function like max or sum."""
    return f"{function}({metric}{{{CHOSEN}}})"


_STATE: Final = Row(
    "State",
    (
        number("Matches its spec", of_cluster("max", "chiplog_brokercluster_ready"), red_below=1),
        number("Brokers", of_cluster("max", "kafka_brokers")),
        number("Brokers that answer", f"sum(up{{{BROKERS}}})", red_below=1),
        number(
            "Active operators",
            of_cluster("sum", "kafka_controller_kafkacontroller_activecontrollercount"),
            red_below=1,
            red_from=2,
        ),
        number("Partitions", of_cluster("sum", f"{_REPLICAS}_leadercount")),
        number(
            "Free space on the fullest disk",
            f"min(chiplog_broker_disk_free_bytes{{{CHOSEN}}}"
            f" / chiplog_broker_disk_size_bytes{{{CHOSEN}}})",
            unit="percentunit",
            red_below=0.15,
        ),
        number(
            "Offline partitions",
            of_cluster("max", "kafka_controller_kafkacontroller_offlinepartitionscount"),
            red_from=1,
        ),
        number(
            "Under min ISR", of_cluster("sum", f"{_REPLICAS}_underminisrpartitioncount"), red_from=1
        ),
        number(
            "Under-replicated",
            of_cluster("sum", f"{_REPLICAS}_underreplicatedpartitions"),
            red_from=1,
        ),
        number(
            "Damaged replicas", of_cluster("sum", "chiplog_broker_damaged_replicas"), red_from=1
        ),
        number(
            "Halted replicas",
            of_cluster("sum", "kafka_server_replicafetchermanager_failedpartitionscount"),
            red_from=1,
        ),
        number(
            "Isolated partitions",
            of_cluster("sum", "chiplog_broker_isolated_partitions"),
            red_from=1,
        ),
    ),
)
_LOAD: Final = Row(
    "Load",
    (
        lines("Written", rate_by_broker(f"{_TOPIC_METRICS}_bytesin_total"), unit="Bps"),
        lines("Read", rate_by_broker(f"{_TOPIC_METRICS}_bytesout_total"), unit="Bps"),
        lines("Records", rate_by_broker(f"{_TOPIC_METRICS}_messagesin_total"), unit="wps"),
        lines(
            "Requests",
            Line(
                "sum by (request) (rate(kafka_network_requestmetrics_totaltime_seconds_count"
                f"{{{CHOSEN}}}[$__rate_interval]))",
                "{{request}}",
            ),
            unit="reqps",
        ),
        lines("Leaders", by_broker(f"{_REPLICAS}_leadercount")),
        lines("Connections", by_broker("kafka_server_socket_server_metrics_connection_count")),
    ),
)
_LATENCY: Final = Row(
    "Latency (p99)",
    (
        lines(
            "Produce requests",
            p99_by_broker("kafka_network_requestmetrics_totaltime_seconds", ',request="Produce"'),
            unit="s",
            about="Time until the answer. With acks=all, it includes the wait until all in-sync "
            "replicas have the records.",
        ),
        lines(
            "Fetch requests",
            p99_by_broker("kafka_network_requestmetrics_totaltime_seconds", ',request="Fetch"'),
            unit="s",
            about="Time until the answer. It includes the wait for records, up to the client's "
            "fetch.max.wait.ms.",
        ),
        lines("Syncs of the disk", p99_by_broker("chiplog_broker_sync_seconds"), unit="s"),
        lines(
            "Event loop",
            p99_by_broker("chiplog_broker_event_loop_lag_seconds"),
            unit="s",
            about="How late timers run in the broker's event loop. Every request waits as long.",
        ),
        lines("Waiting produce requests", by_broker("chiplog_broker_waiting_produces")),
        lines("Waiting fetch requests", by_broker("chiplog_broker_waiting_fetches")),
    ),
)
_REPLICATION: Final = Row(
    "Replication",
    (
        lines("Under-replicated", by_broker(f"{_REPLICAS}_underreplicatedpartitions")),
        lines("At min ISR", by_broker(f"{_REPLICAS}_atminisrpartitioncount")),
        lines(
            "Lag of the slowest replica, in records",
            Line(f"max by (pod) (kafka_server_replicafetchermanager_maxlag{{{CHOSEN}}})", _POD),
        ),
        lines("ISR shrinks", rate_by_broker(f"{_REPLICAS}_isrshrinks_total"), unit="ops"),
        lines("ISR expansions", rate_by_broker(f"{_REPLICAS}_isrexpands_total"), unit="ops"),
        lines("Replicas", by_broker(f"{_REPLICAS}_partitioncount")),
        lines(
            "Partitions being reassigned", by_broker(f"{_REPLICAS}_reassigningpartitions"), width=12
        ),
        lines(
            "Left to copy",
            by_broker("chiplog_broker_reassignment_bytes_left"),
            unit="bytes",
            width=12,
            about="What new replicas of reassigned partitions still have to fetch from a leader.",
        ),
    ),
)
_DISK: Final = Row(
    "Disk",
    (
        lines("Free", by_broker("chiplog_broker_disk_free_bytes"), unit="bytes"),
        lines("Logs", by_broker("kafka_log_log_size"), unit="bytes"),
        lines(
            "Dirtiest compacted log",
            Line(
                f"max by (pod) (kafka_log_logcleanermanager_max_dirty_percent{{{CHOSEN}}})",
                _POD,
            ),
            unit="percent",
        ),
        lines("Read by scrubs", rate_by_broker("chiplog_broker_scrubbed_bytes_total"), unit="Bps"),
        lines(
            "Read by compaction",
            rate_by_broker("chiplog_broker_compaction_read_bytes_total"),
            unit="Bps",
        ),
        lines(
            "Written by compaction",
            rate_by_broker("chiplog_broker_compaction_written_bytes_total"),
            unit="Bps",
        ),
    ),
)


def processes(selector: str) -> Row:
    """The row with CPU, memory and open files of a job's processes."""
    cpu = f"rate(process_cpu_seconds_total{{{selector}}}[$__rate_interval])"
    return Row(
        "Processes",
        (
            lines("CPU", Line(cpu, _POD), unit="none", about="CPU cores in use by each process."),
            lines(
                "Memory", Line(f"process_resident_memory_bytes{{{selector}}}", _POD), unit="bytes"
            ),
            lines("Open files", Line(f"process_open_fds{{{selector}}}", _POD)),
        ),
    )


BOARD: Final = Board(
    name="cluster",
    title="Chiplog / Cluster",
    about="The brokers of one cluster: load, latency, replication and disks.",
    variables=VARIABLES,
    rows=(_STATE, _LOAD, _LATENCY, _REPLICATION, _DISK, processes(BROKERS)),
)
