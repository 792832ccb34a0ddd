"""`BrokerCluster.spec.spark` for machines of a test's size."""

from typing import Any

# Little of each node is asked for: brokers, and several drivers, run beside each other.
CONF = {
    "spark.kubernetes.driver.request.cores": "200m",
    "spark.kubernetes.executor.request.cores": "200m",
}


def small_jobs(image: str, executors: int) -> dict[str, Any]:
    """Plain Jobs, which are tried once."""
    return {
        "launcher": "Job",
        "image": image,
        "driver": {"memory": "512m"},
        "executor": {"instances": executors, "memory": "512m"},
        "sparkConf": CONF,
        "retries": 0,
    }
