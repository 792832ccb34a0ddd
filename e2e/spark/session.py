"""The one SparkSession of a test run: a second one in a process would be the first again."""

import os
import sys
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from e2e.kafka import debian
from e2e.kafka.jars import jars
from e2e.kafka.java import SHORT_LIVED
from e2e.kafka.ports import LOOPBACK

CONNECTOR = Path(__file__).with_name("pom.xml")

CONF = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": " ".join(SHORT_LIVED),
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # One answer wherever the machine stands.
    "spark.sql.session.timeZone": "UTC",
    # A test asks for what a query did a moment ago.
    "spark.sql.streaming.metricsEnabled": "false",
    # Without the bar that counts tasks, the output is what failed.
    "spark.ui.showConsoleProgress": "false",
}


@cache
def local_session(threads: int = 2) -> SparkSession:
    """The process's SparkSession in local mode, on loopback only; its JVM ends with the process.

    `threads` counts in the first call only, which starts the JVM.
    """
    debian.program("java")
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    # Python workers of the same Python, with the packages that this process sees.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(one for one in sys.path if one)
    builder = SparkSession.builder.master(f"local[{threads}]").appName("tests")
    for name, value in CONF.items():
        builder = builder.config(name, value)
    session = builder.config("spark.jars", ",".join(connector())).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def connector() -> list[str]:
    """The jars of the source and sink for Kafka, by path."""
    return [str(one) for one in sorted(jars(CONNECTOR).glob("*.jar"))]
