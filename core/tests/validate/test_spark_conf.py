"""What users may give as Spark configuration, held against the keys that Spark itself knows."""

import importlib.util
import re
import zipfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.model.spark import (
    SparkDriver,
    SparkExecutor,
    SparkLauncher,
    SparkOverrides,
    SparkSettings,
)
from chiplog_core.model.spark_scheduling import BatchScheduler, SparkScheduling
from chiplog_core.validate import spark_conf
from chiplog_core.validate.spark_conf import check_spark, memory_mib


@cache
def keys_of_spark() -> frozenset[str]:
    """Every `spark.…` constant in the classes of Spark: core, Kubernetes module and SQL."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None, "PySpark is not installed"
    assert spec.origin is not None
    found: set[str] = set()
    folder = Path(spec.origin).parent / "jars"
    modules = ("core", "kubernetes", "catalyst")
    jars = [jar for name in modules for jar in folder.glob(f"spark-{name}_*.jar")]
    assert len(jars) == len(modules)
    for jar in jars:
        with zipfile.ZipFile(jar) as classes:
            for name in classes.namelist():
                if name.endswith(".class"):
                    constants = re.findall(rb"spark\.[A-Za-z0-9.]+", classes.read(name))
                    found.update(one.decode() for one in constants)
    return frozenset(found)


@pytest.fixture(scope="module")
def known() -> frozenset[str]:
    return keys_of_spark()


@pytest.mark.parametrize("key", sorted({*spark_conf.OURS, *spark_conf.GIVEN}))
def test_every_key_of_ours_is_one_of_sparks(key: str, known: frozenset[str]) -> None:
    # Keys under spark.kubernetes.authenticate. are put together when they are used.
    stem = "spark.kubernetes.authenticate.driver"
    assert key in known or (key.startswith(stem) and stem in known), f"Spark has no {key}"


@pytest.mark.parametrize("prefix", spark_conf.GIVEN_PREFIXES)
def test_every_prefix_of_ours_is_one_of_sparks(prefix: str, known: frozenset[str]) -> None:
    assert prefix in known


@pytest.mark.parametrize(
    ("key", "field", "remedy"),
    [
        (
            "spark.kubernetes.authenticate.driver.serviceAccountName",
            "spec.spark.sparkConf[spark.kubernetes.authenticate.driver.serviceAccountName]",
            "set spec.spark.serviceAccountName",
        ),
        ("spark.kubernetes.namespace", None, "runs in the namespace"),
        ("spark.executor.instances", None, "set spec.spark.executor.instances"),
        ("spark.kubernetes.container.image", None, "set spec.spark.image"),
        ("spark.jars.packages", None, "into an image of your own: spec.spark.image"),
        ("spark.kubernetes.driver.volumes.hostPath.root.mount.path", None, "remove it"),
        ("spark.kubernetes.driver.secrets.any", None, "remove it"),
        ("spark.kubernetes.executor.secretKeyRef.X", None, "remove it"),
        ("spark.kubernetes.executor.podTemplateFile", None, "remove it"),
        ("spark.kubernetes.driver.pod.featureSteps", None, "remove it"),
        ("spark.kubernetes.allocation.pods.allocator", None, "remove it"),
        ("spark.kubernetes.driver.limit.core", None, "did you mean"),
        # What runs code of the author's in a driver that may make pods:
        ("spark.driver.extraJavaOptions", None, "remove it"),
        ("spark.driver.defaultJavaOptions", None, "remove it"),
        ("spark.executor.extraJavaOptions", None, "remove it"),
        ("spark.driver.extraClassPath", None, "remove it"),
        ("spark.plugins", None, "remove it"),
        ("spark.extraListeners", None, "remove it"),
        ("spark.sql.extensions", None, "remove it"),
        ("spark.sql.catalog.x", None, "remove it"),
        ("spark.kubernetes.driverEnv.PYTHONPATH", None, "remove it"),
        ("spark.executorEnv.PYTHONPATH", None, "remove it"),
        ("spark.authenticate", None, "always on"),
        ("spark.hadoop.hadoop.security.credential.provider.path", None, "remove it"),
        ("spark.kerberos.keytab", None, "remove it"),
        # What makes its pods part of somebody else's Service, or lets them past a NetworkPolicy:
        ("spark.kubernetes.driver.label.app", None, "remove it"),
        ("spark.kubernetes.executor.label.app", None, "remove it"),
        ("spark.kubernetes.driver.annotation.x", None, "remove it"),
        ("sql.shuffle.partitions", None, "correct or remove it"),
        ("spark.sql.x\n", None, "correct or remove it"),
    ],
)
def test_what_ours_must_hold_is_refused_with_field_and_remedy(
    key: str, field: str | None, remedy: str
) -> None:
    (problem,) = check_spark(SparkSettings(spark_conf={key: "1"}))
    assert problem.field == (field or f"spec.spark.sparkConf[{key}]")
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("spark.driver.memoryOverhead", "much", "like 512m"),
        ("spark.kubernetes.executor.request.cores", "half", "like 100Gi or 500m"),
        ("spark.kubernetes.scheduler.name", "a\nb", "one line"),
    ],
)
def test_a_value_that_cannot_be_is_refused(key: str, value: str, said: str) -> None:
    (problem,) = check_spark(SparkOverrides(spark_conf={key: value}), "spec.here")
    assert problem.field == f"spec.here.sparkConf[{key}]"
    assert said in problem.remedy


def test_what_is_the_users_own_passes() -> None:
    given_conf = {
        "spark.sql.shuffle.partitions": "8",
        "spark.kubernetes.driver.request.cores": "200m",
        "spark.kubernetes.node.selector.disk": "ssd",
        "spark.executor.memoryOverhead": "512",
    }
    assert check_spark(SparkSettings(spark_conf=given_conf)) == ()


@pytest.mark.parametrize("memory", ["449m", "1k", "0g"])
def test_a_heap_below_sparks_own_bound_is_refused(memory: str) -> None:
    settings = SparkSettings(
        driver=SparkDriver(memory=memory), executor=SparkExecutor(memory=memory)
    )
    fields = [one.field for one in check_spark(settings)]
    assert fields == ["spec.spark.driver.memory", "spec.spark.executor.memory"]


def test_no_setting_is_no_problem() -> None:
    assert check_spark(SparkSettings()) == ()
    assert check_spark(SparkOverrides()) == ()


@pytest.mark.parametrize(
    ("text", "mib"), [("1g", 1024), ("512m", 512), ("512", 512), ("2t", 2 * 1024**2), ("5k", 0)]
)
def test_memory_is_read_as_spark_reads_it(text: str, mib: int) -> None:
    assert memory_mib(text) == mib


@given(st.dictionaries(st.text(max_size=60), st.text(max_size=20), max_size=5))
def test_every_configuration_gets_an_answer(given_conf: dict[str, str]) -> None:
    problems = check_spark(SparkSettings(spark_conf=given_conf))
    assert len(problems) <= len(given_conf)
    assert all(one.remedy and one.field.startswith("spec.spark.sparkConf[") for one in problems)


@pytest.mark.parametrize(
    ("launcher", "scheduling", "field"),
    [
        (
            SparkLauncher.AUTO,
            SparkScheduling(priority_class_name="system-cluster-critical"),
            "priorityClassName",
        ),
        (
            SparkLauncher.JOB,
            SparkScheduling(batch_scheduler=BatchScheduler.VOLCANO),
            "batchScheduler",
        ),
        (SparkLauncher.AUTO, SparkScheduling(queue="data"), "queue"),
    ],
)
def test_what_a_cluster_may_not_say_of_scheduling(
    launcher: SparkLauncher, scheduling: SparkScheduling, field: str
) -> None:
    (problem,) = check_spark(SparkSettings(launcher=launcher, scheduling=scheduling))
    assert problem.field == f"spec.spark.scheduling.{field}"
    mended = SparkScheduling(
        priority_class_name="batch", batch_scheduler=BatchScheduler.VOLCANO, queue="data"
    )
    assert check_spark(SparkSettings(launcher=SparkLauncher.KUBEFLOW, scheduling=mended)) == ()


@pytest.mark.parametrize(
    ("text", "mib"), [("512m", 512), ("2048k", 2), ("1g", 1024), ("1t", 1024**2), ("1k", 0)]
)
def test_memory_is_counted_in_mebibytes(text: str, mib: int) -> None:
    assert memory_mib(text) == mib


@pytest.mark.parametrize("text", ["", "g", "1.5g", "-1g", "1 g", "1p"])
def test_what_is_no_memory_is_named_with_how_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number followed by k, m, g or t, like 1g"):
        memory_mib(text)
