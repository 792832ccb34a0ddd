"""Which program a container of the image becomes."""

import subprocess
import sys

import pytest

from chiplog_spark.container import NotStartedBySpark, command

HOME = {"SPARK_HOME": "/spark", "JAVA_HOME": "/java"}
DRIVER = {**HOME, "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"}
EXECUTOR = {
    **HOME,
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "exec-3",
    "SPARK_JAVA_OPT_10": "-Dlast=a b",
    "SPARK_JAVA_OPT_2": "-Dsecond",
    "SPARK_JAVA_OPT_0": "-Dfirst",
}


def test_the_driver_is_spark_submit_in_client_mode() -> None:
    given = ["driver", "--properties-file", "/opt/spark/conf/spark.properties", "local:///job.py"]
    assert command(given, DRIVER) == [
        "/spark/bin/spark-submit",
        "--deploy-mode",
        "client",
        "--conf",
        "spark.driver.bindAddress=10.0.0.7",
        "--properties-file",
        "/opt/spark/conf/spark.properties",
        "local:///job.py",
    ]


def test_an_executor_is_java_with_its_options_in_their_order() -> None:
    found = command(["executor"], EXECUTOR)
    assert found[:4] == ["/java/bin/java", "-Dfirst", "-Dsecond", "-Dlast=a b"]
    assert found[4:8] == ["-Xms512m", "-Xmx512m", "-cp", "/spark/jars/*"]
    options = found[9:]
    assert dict(zip(options[::2], options[1::2], strict=True)) == {
        "--driver-url": "spark://CoarseGrainedScheduler@driver:7078",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.8",
        "--resourceProfileId": "0",
        "--podName": "exec-3",
    }


def test_configuration_comes_first_in_the_class_path() -> None:
    more = {"SPARK_CONF_DIR": "/conf", "SPARK_CLASSPATH": "/own/*", "HADOOP_CONF_DIR": "/hadoop"}
    found = command(["executor"], {**EXECUTOR, **more})
    assert found[found.index("-cp") + 1] == "/conf:/own/*:/spark/jars/*:/hadoop"


def test_any_other_program_is_itself() -> None:
    assert command(["python3", "-c", "1"], {}) == ["python3", "-c", "1"]


@pytest.mark.parametrize("name", ["SPARK_DRIVER_URL", "SPARK_EXECUTOR_MEMORY", "JAVA_HOME"])
def test_what_spark_always_says_is_missed_by_name(name: str) -> None:
    with pytest.raises(NotStartedBySpark, match=name):
        command(["executor"], {key: value for key, value in EXECUTOR.items() if key != name})


def test_without_an_argument_nothing_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chiplog_spark.container"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 64
    assert (
        done.stderr
        == "chiplog spark: the first argument must be driver, executor or the name of a program\n"
    )
