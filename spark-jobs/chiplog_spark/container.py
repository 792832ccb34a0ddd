"""The entry point of the image: runs `driver`, `executor`, or any other program.

Spark's Kubernetes backend starts pods with one of the first two as their first argument, and passes
most other settings in the environment (`org.apache.spark.deploy.k8s.Constants`). Only the standard
library is imported, because an executor is a JVM and must not wait for Python. The exit code is 64
if a variable is missing that Spark always sets.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

USAGE: Final = 64
"""`EX_USAGE` of sysexits.h: it was not started by Spark."""

BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
BACKEND_OPTIONS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
JAVA_OPTION: Final = re.compile("SPARK_JAVA_OPT_([0-9]+)")


class NotStartedBySpark(Exception):  # noqa: N818 - named for what it says
    """A variable is missing that Spark, or the manifest of the driver, sets."""


def command(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The program that the container runs, with its arguments.

    The first argument is `driver`, `executor`, or the name of any other program. Raises
    `NotStartedBySpark`.
    """
    role, *rest = arguments or [""]
    match role:
        case "driver":
            return [*_submit(environment), *rest]
        case "executor":
            return _executor(environment)
        case "":
            raise NotStartedBySpark(
                "the first argument must be driver, executor or the name of a program"
            )
        case _:
            return [*arguments]


def _submit(environment: Mapping[str, str]) -> list[str]:
    """The beginning of the command line of a driver: `spark-submit`, in this container."""
    address = _variable(environment, "SPARK_DRIVER_BIND_ADDRESS")
    return [
        *(f"{_variable(environment, 'SPARK_HOME')}/bin/spark-submit", "--deploy-mode", "client"),
        *("--conf", f"spark.driver.bindAddress={address}"),
    ]


def _executor(environment: Mapping[str, str]) -> list[str]:
    """The command line of an executor: a JVM with Spark's backend for Kubernetes."""
    memory = _variable(environment, "SPARK_EXECUTOR_MEMORY")
    # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …: Spark passes the options of the JVM in this order.
    matches = ((JAVA_OPTION.fullmatch(name), value) for name, value in environment.items())
    numbered_options = sorted((int(match[1]), value) for match, value in matches if match)
    return [
        f"{_variable(environment, 'JAVA_HOME')}/bin/java",
        *(option for _, option in numbered_options),
        *(f"-Xms{memory}", f"-Xmx{memory}"),
        *("-cp", class_path(environment), BACKEND),
        *(
            argument
            for option, variable in BACKEND_OPTIONS.items()
            for argument in (option, _variable(environment, variable))
        ),
    ]


def class_path(environment: Mapping[str, str]) -> str:
    """The class path; the configuration directory comes first, so that its files override those in
    jars."""
    parts = (
        environment.get("SPARK_CONF_DIR", ""),
        environment.get("SPARK_CLASSPATH", ""),
        f"{_variable(environment, 'SPARK_HOME')}/jars/*",
        environment.get("HADOOP_CONF_DIR", ""),
    )
    return ":".join(part for part in parts if part)


def _variable(environment: Mapping[str, str], name: str) -> str:
    """The value of an environment variable; raises `NotStartedBySpark` if it has none."""
    if value := environment.get(name):
        return value
    raise NotStartedBySpark(
        f"environment variable {name} is not set: Spark sets it in the pods that it starts"
    )


def main() -> NoReturn:
    """Replace this process by the program that its arguments and environment ask for."""
    try:
        program = command(sys.argv[1:], os.environ)
    except NotStartedBySpark as problem:
        sys.stderr.write(f"chiplog spark: {problem}\n")
        sys.exit(USAGE)
    os.execvp(program[0], program)  # noqa: S606 - that is what it is for


if __name__ == "__main__":
    main()
