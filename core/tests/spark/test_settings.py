"""How an application comes about."""

import pytest

from chiplog_core.durations import Duration
from chiplog_core.model.pod import Toleration
from chiplog_core.model.spark import (
    SparkDriver,
    SparkExecutor,
    SparkLauncher,
    SparkOverrides,
    SparkSettings,
)
from chiplog_core.model.spark_scheduling import BatchScheduler, SparkMonitoring, SparkScheduling
from chiplog_core.quantities import Quantity
from chiplog_core.spark.application import KUEUE_LABEL, MAX_NAME_LENGTH, Application, Size
from chiplog_core.spark.choice import launch
from chiplog_core.spark.settings import (
    PodDefaults,
    Run,
    application,
    in_foreign_namespace,
    merged,
)


def test_what_the_object_says_wins_over_the_cluster_over_our_defaults(
    run: Run, defaults: PodDefaults
) -> None:
    cluster = SparkSettings(
        launcher=SparkLauncher.JOB,
        image="cluster:1",
        driver=SparkDriver(cores=2, memory="2g"),
        spark_conf={"spark.a": "cluster", "spark.b": "cluster", "spark.ui.enabled": "true"},
        retries=5,
        time_to_live=Duration("1h"),
    )
    overrides = SparkOverrides(
        image="object:1",
        driver=SparkDriver(cores=4),
        spark_conf={"spark.b": "object"},
        retries=0,
    )
    both = merged(cluster, overrides)
    made = application(run, both, defaults)
    assert both.launcher is SparkLauncher.JOB
    assert made.image == "object:1"
    assert (made.driver.cores, made.driver.memory) == (4, "1024m"), "a driver is taken whole"
    assert made.executors == SparkExecutor().instances
    assert made.retries == 0
    assert made.ttl_s == 3_600
    assert made.spark_conf == {
        "spark.a": "cluster",
        "spark.b": "object",
        "spark.ui.enabled": "true",
    }


def test_where_nothing_is_said_everything_is_resolved(
    run: Run, defaults: PodDefaults, plain: Application
) -> None:
    assert plain.image == defaults.image
    assert plain.service_account == plain.own_service_account == f"{run.name}-driver"
    assert plain.driver == Size(cores=1, memory_mib=1024, overhead_mib=409, cpu_request="1")
    assert plain.driver.pod_memory == "1433Mi"
    assert plain.ttl_s == 24 * 3_600
    assert merged(None, None) == SparkSettings()


def test_sizes_in_the_configuration_become_sizes(rich: Application) -> None:
    assert rich.driver == Size(
        cores=1, memory_mib=1024, overhead_mib=256, cpu_request="200m", cpu_limit="2"
    )
    assert rich.executor == Size(
        cores=1, memory_mib=1024, overhead_mib=1024, cpu_request="500m", cpu_limit="3"
    )
    assert not [key for key in rich.spark_conf if "memoryOverhead" in key or ".cores" in key]


def test_part_of_a_second_to_live_counts_as_one(run: Run, defaults: PodDefaults) -> None:
    settings = SparkSettings(time_to_live=Duration("1500ms"))
    assert application(run, settings, defaults).ttl_s == 2


@pytest.mark.parametrize("name", ["", "1a", "a-", "A", "a.b", "a" * (MAX_NAME_LENGTH + 1)])
def test_a_name_that_pods_cannot_have_is_our_fault(name: str, run: Run, plain: Application) -> None:
    with pytest.raises(ValueError, match="is not a valid application name"):
        Application(
            **{field: getattr(plain, field) for field in Application.__slots__} | {"name": name}
        )


def test_where_jobs_run_is_the_clusters_alone(run: Run, defaults: PodDefaults) -> None:
    scheduling = SparkScheduling(
        tolerations=(Toleration(key="spark"),),
        priority_class_name="batch",
        batch_scheduler=BatchScheduler.KUEUE,
        queue="data",
    )
    both = merged(SparkSettings(scheduling=scheduling), SparkOverrides())
    assert both.scheduling == scheduling
    assert "scheduling" not in SparkOverrides.__dataclass_fields__
    assert "monitoring" not in SparkOverrides.__dataclass_fields__
    made = application(run, both, defaults)
    assert made.launched_labels[KUEUE_LABEL] == "data"
    assert KUEUE_LABEL not in made.pod_labels


def test_a_clusters_priority_and_queue_are_not_spent_in_another_namespace() -> None:
    taint = Toleration(key="spark")
    scheduling = SparkScheduling(
        tolerations=(taint,),
        priority_class_name="batch",
        batch_scheduler=BatchScheduler.YUNIKORN,
        queue="data",
    )
    found = in_foreign_namespace(SparkSettings(scheduling=scheduling, retries=7))
    assert found == SparkSettings(scheduling=SparkScheduling(tolerations=(taint,)), retries=7)
    assert in_foreign_namespace(SparkSettings()) == SparkSettings()


def test_volcano_is_asked_by_kubeflows_operator(run: Run, defaults: PodDefaults) -> None:
    scheduling = SparkScheduling(
        batch_scheduler=BatchScheduler.VOLCANO, queue="data", priority_class_name="batch"
    )
    made = application(run, SparkSettings(scheduling=scheduling), defaults)
    spec = launch(SparkLauncher.KUBEFLOW, made).launched["spec"]
    assert spec["batchScheduler"] == "volcano"
    assert spec["batchSchedulerOptions"] == {"queue": "data", "priorityClassName": "batch"}
    none = launch(SparkLauncher.KUBEFLOW, application(run, SparkSettings(), defaults))
    assert "batchScheduler" not in none.launched["spec"]


def test_sparkconf_wins_over_a_limit_and_not_over_a_block(run: Run, defaults: PodDefaults) -> None:
    settings = SparkSettings(
        driver=SparkDriver(cpu_limit=Quantity("1")),
        spark_conf={
            "spark.kubernetes.driver.limit.cores": "3",
            "spark.ui.enabled": "false",
            "spark.ui.killEnabled": "true",
        },
        monitoring=SparkMonitoring(prometheus=True),
    )
    made = application(run, settings, defaults)
    assert made.driver.cpu_limit == "3"
    assert made.spark_conf["spark.ui.enabled"] == "true"
    assert made.spark_conf["spark.ui.killEnabled"] == "false"
