"""Applications for the tests of this folder."""

from chiplog_core.model.pod import TaintEffect, Toleration, TolerationOperator
from chiplog_core.model.spark import SparkDriver, SparkExecutor, SparkSettings
from chiplog_core.model.spark_scheduling import (
    BatchScheduler,
    NodeAffinity,
    NodeOperator,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    SparkAffinity,
    SparkMonitoring,
    SparkScheduling,
)
from chiplog_core.quantities import Quantity
from chiplog_core.spark.application import Application, Job, Owner, Volume, VolumeKind
from chiplog_core.spark.settings import PodDefaults, Run, application

RUN = Run(
    name="orders-proof-1a2b3c4d",
    namespace="data",
    owner=Owner(
        api_version="chiplog.dev/v1alpha1",
        kind="Verification",
        name="orders-proof",
        uid="6ad24b4c-6a26-4d4c-9a37-8f3f2f1f7a10",
    ),
    job=Job.VERIFY,
    labels={"chiplog.dev/spark-job": "orders-proof", "chiplog.dev/spark-kind": "Verification"},
)

DEFAULTS = PodDefaults(image="chiplog/spark:1")

PLAIN = application(RUN, SparkSettings(), DEFAULTS)
"""An application for which a user has said nothing."""

RICH = application(
    Run(
        name="orders-export-77aa88bb",
        namespace="data",
        owner=Owner(
            api_version="chiplog.dev/v1alpha1",
            kind="Export",
            name="orders-export",
            uid="0c6b9f0e-24f5-4a55-8a6b-1f3c6e2c9d11",
        ),
        job=Job.EXPORT,
        labels={"chiplog.dev/spark-job": "orders-export"},
        volumes=(
            Volume(name="sasl", kind=VolumeKind.SECRET, source="orders-reader", path="/etc/sasl"),
            Volume(
                name="zone",
                kind=VolumeKind.CLAIM,
                source="raw-zone",
                path="/zone",
                read_only=False,
            ),
        ),
        active_deadline_s=7_200,
    ),
    SparkSettings(
        image="registry.example/spark:2",
        service_account_name="readers",
        spark_conf={
            "spark.driver.memoryOverhead": "256m",
            "spark.executor.memoryOverhead": "1g",
            "spark.kubernetes.driver.limit.cores": "2",
            "spark.kubernetes.driver.node.selector.disk": "ssd",
            "spark.kubernetes.driver.request.cores": "200m",
            "spark.kubernetes.executor.limit.cores": "3",
            "spark.kubernetes.executor.request.cores": "500m",
            "spark.kubernetes.node.selector.zone": "a",
            "spark.kubernetes.node.selector.pool": "a$(b)",
            "spark.kubernetes.scheduler.name": "yunikorn",
            "spark.sql.shuffle.partitions": "8",
        },
        retries=0,
    ),
    PodDefaults(image="chiplog/spark:1", image_pull_secrets=("pull",)),
)
"""An application for which a user has said all there is to say."""

PLACED = application(
    RUN,
    SparkSettings(
        driver=SparkDriver(cpu_limit=Quantity("1500m")),
        executor=SparkExecutor(cpu_limit=Quantity("2")),
        scheduling=SparkScheduling(
            tolerations=(
                Toleration(key="spark", operator=TolerationOperator.EXISTS),
                Toleration(key="spot", value="yes", effect=TaintEffect.NO_SCHEDULE),
            ),
            affinity=SparkAffinity(
                node_affinity=NodeAffinity(
                    required_during_scheduling_ignored_during_execution=NodeSelector(
                        node_selector_terms=(
                            NodeSelectorTerm(
                                match_expressions=(
                                    NodeSelectorRequirement(
                                        key="pool", operator=NodeOperator.IN, values=("spark",)
                                    ),
                                )
                            ),
                        )
                    )
                )
            ),
            priority_class_name="batch",
            batch_scheduler=BatchScheduler.YUNIKORN,
            queue="root.data",
        ),
        monitoring=SparkMonitoring(prometheus=True, event_log_directory="s3a://logs/spark-events"),
    ),
    DEFAULTS,
)
"""An application whose cluster says where and when its jobs run."""

ALL: dict[str, Application] = {"plain": PLAIN, "rich": RICH, "placed": PLACED}
