"""How the kubelet asks a broker how it is.

A broker that recovers its logs after a crash may need hours, and killing it then would only make
it begin again: until `/startupz` answers, nothing else is asked. `/livez` fails only where the
process no longer does anything, and even then it gets time: a slow disk is no reason to kill.
`/readyz` is what the PodDisruptionBudget counts by.
"""

HEALTH_PORT_NAME = "health"
DAY_S = 86_400
STARTUP_PERIOD_S = 1


def probes() -> dict[str, object]:
    """The three probes of the broker's container. The startup probe allows a day, because the
    recovery of logs after a crash may take hours."""
    return {
        "startupProbe": _probe(
            "/startupz", period_s=STARTUP_PERIOD_S, timeout_s=5, failures=DAY_S // STARTUP_PERIOD_S
        ),
        "readinessProbe": _probe("/readyz", period_s=5, timeout_s=5, failures=3),
        "livenessProbe": _probe("/livez", period_s=10, timeout_s=10, failures=6),
    }


def _probe(path: str, *, period_s: int, timeout_s: int, failures: int) -> dict[str, object]:
    """One HTTP probe of the health port."""
    return {
        "httpGet": {"path": path, "port": HEALTH_PORT_NAME},
        "periodSeconds": period_s,
        "timeoutSeconds": timeout_s,
        "failureThreshold": failures,
    }
