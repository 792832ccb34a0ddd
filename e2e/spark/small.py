"""`BrokerCluster.spec.spark` and `spec.resources` for machines of a test's size."""

from typing import Any

# Little of each node is asked for: brokers, and several drivers, run beside each other.
CONF = {
    "spark.kubernetes.driver.request.cores": "200m",
    "spark.kubernetes.executor.request.cores": "200m",
}

# Pods that ask for no CPU get next to none while others of their node compute: brokers would lose
# their Leases whenever executors start.
BROKER_RESOURCES = {"requests": {"cpu": "400m", "memory": "256Mi"}}


def small_jobs(image: str, executors: int) -> dict[str, Any]:
    """A value of `BrokerCluster.spec.spark`: small plain Jobs, which are not retried."""
    return {
        "launcher": "Job",
        "image": image,
        "driver": {"memory": "512m"},
        "executor": {"instances": executors, "memory": "512m"},
        "sparkConf": CONF,
        "retries": 0,
    }
