"""An application as Spark's own configuration, for launchers that have no fields for it."""

from collections.abc import Mapping

from chiplog_core.spark.application import Application
from chiplog_core.validate import spark_conf

FIXED: Mapping[str, str] = {
    # Otherwise anybody who reaches the driver's port could send it tasks, which are code.
    "spark.authenticate": "true",
    # With this the driver needs no permission to create and delete ConfigMaps, which would include
    # every ConfigMap of the namespace. Executors get their configuration from the driver.
    "spark.kubernetes.executor.disableConfigMap": "true",
    # The Service is deleted with the driver's pod, and Spark creates no volume claims. Without
    # these settings the driver would need the permission to delete both.
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
}
"""Spark configuration of every application that users cannot change. `access.py` relies on it: it
grants no permissions for the functions that are turned off here."""


def described(application: Application) -> dict[str, str]:
    """The Spark configuration that follows from the application's fields: ServiceAccounts, sizes
    and images."""
    accounts = "spark.kubernetes.authenticate.{}.serviceAccountName"
    return {
        accounts.format("driver"): application.service_account,
        accounts.format("executor"): application.executor_service_account,
        **_sizes(application),
        **_images(application),
    }


def _sizes(application: Application) -> dict[str, str]:
    """Sizes of driver and executors, as Spark configuration."""
    driver, executor = application.driver, application.executor
    properties = {
        "spark.driver.cores": str(driver.cores),
        "spark.driver.memory": driver.memory,
        spark_conf.DRIVER_OVERHEAD: driver.overhead,
        spark_conf.DRIVER_CPU_REQUEST: driver.cpu_request,
        spark_conf.DRIVER_CPU_LIMIT: driver.cpu_limit,
        "spark.executor.instances": str(application.executors),
        "spark.executor.cores": str(executor.cores),
        "spark.executor.memory": executor.memory,
        spark_conf.EXECUTOR_OVERHEAD: executor.overhead,
        spark_conf.EXECUTOR_CPU_REQUEST: executor.cpu_request,
        spark_conf.EXECUTOR_CPU_LIMIT: executor.cpu_limit,
    }
    return {key: value for key, value in properties.items() if value is not None}


def _images(application: Application) -> dict[str, str]:
    """The image of the pods and how it is pulled, as Spark configuration."""
    image = "spark.kubernetes.container.image"
    pulled = {
        image: application.image,
        f"{image}.pullPolicy": application.image_pull_policy.value,
    }
    if application.image_pull_secrets:
        pulled[f"{image}.pullSecrets"] = ",".join(application.image_pull_secrets)
    return pulled
