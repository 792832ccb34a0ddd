"""What `helm test` asks: does the operator work, do it and the brokers answer with their metrics?

    python3 -m chiplog_operator.release_check operator --namespace NAME --deployment NAME
    python3 -m chiplog_operator.release_check metrics --operator NAMES --brokers NAMES

Each prints a line for every thing that it checked. Exit status 1: one of them is not in order.
It only reads, with the rights of its pod, and waits for `--wait` seconds until all is in order.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from chiplog_core.naming import api as chiplog_api
from chiplog_core.naming import labels, names
from chiplog_core.operator_lease.lease import LeaseTimes
from chiplog_core.telemetry.build_info import BUILD_INFO
from chiplog_core.telemetry.findings import Finding, are_ok
from chiplog_core.version import VERSION
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, KubeApi, Manifest
from chiplog_kube.connection import NoConnection
from chiplog_kube.finding import find
from chiplog_kube.http_api import HttpKubeApi
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import key_of
from chiplog_operator.caches import USER_KINDS

OWN_KINDS = (
    *USER_KINDS,
    kinds.BROKERS,
    kinds.PARTITION_MAPS,
    kinds.ACCESS_LISTS,
    kinds.VERIFICATIONS,
    kinds.REBALANCES,
)
DISCOVERY = Kind(chiplog_api.API_VERSION, "APIResourceList", "", namespaced=False)
"""The request for the kinds of our API group that the API server serves. Every account may send
it."""
METRICS = "metrics"
"""The name of the port, as PodMonitors have it."""
ALL = "*"
RETRY_S = 1.0
RENEWED_WITHIN_S = LeaseTimes().renew_s + 0.5
SCRAPE_S = 10.0


@dataclass(frozen=True, slots=True)
class Job:
    """Pods that Prometheus scrapes under one name."""

    name: str
    labels: Mapping[str, str]
    may_be_none: bool = False
    """Whether the check passes if no such pod is running."""

    @property
    def selector(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.labels.items())


JOBS: Mapping[str, Job] = {
    "operator": Job("chiplog-operator", {labels.NAME: labels.OPERATOR}),
    "brokers": Job(
        "chiplog-brokers",
        {labels.NAME: "chiplog", labels.COMPONENT: labels.BROKER},
        may_be_none=True,
    ),
}
"""The jobs by their names in the PodMonitors of chiplog-monitoring."""


Look = Callable[[], Awaitable[list[Finding]]]

# ---- what counts as in order ----


def of_deployment(found: Manifest) -> Finding:
    """Whether all pods of the Deployment are ready and have its present template."""
    status = found.get("status") or {}
    wanted = int((found.get("spec") or {}).get("replicas") or 0)
    # A finding states what should be true; a problem says why it is not.
    what = f"Deployment {key_of(found).name} has {wanted} ready pods"
    if int(status.get("observedGeneration") or 0) < int(found["metadata"].get("generation") or 0):
        return Finding(what, "its controller has not handled the newest spec yet")
    ready, updated = (int(status.get(name) or 0) for name in ("readyReplicas", "updatedReplicas"))
    if min(ready, updated) < wanted:
        return Finding(what, f"{ready} are ready, {updated} are up to date")
    return Finding(what)


def of_lease(before: Manifest, after: Manifest) -> Finding:
    """Whether a process holds the operator's Lease and renewed it between two reads."""
    what = f"the Lease {names.OPERATOR_LEASE} is held"
    first, last = (definition.get("spec") or {} for definition in (before, after))
    if not last.get("holderIdentity"):
        return Finding(what, "no operator holds it")
    if first.get("renewTime") == last.get("renewTime"):
        return Finding(what, f"{last['holderIdentity']} does not renew it")
    return Finding(what)


def of_kinds(discovered: Manifest) -> Finding:
    """Whether the API server serves every kind of Chiplog. `discovered` is its APIResourceList."""
    served = {entry.get("name") for entry in discovered.get("resources") or []}
    missing = sorted(kind.plural for kind in OWN_KINDS if kind.plural not in served)
    return Finding(
        f"{len(OWN_KINDS)} kinds of {chiplog_api.GROUP} are served",
        f"missing: {', '.join(missing)}" if missing else "",
    )


def metrics_address(pod: Manifest) -> str | None:
    """The address of a running pod's metrics; None if it is not running or has no such port."""
    status = pod.get("status") or {}
    address = status.get("podIP")
    if status.get("phase") != "Running" or not address:
        return None
    host = f"[{address}]" if ":" in address else address
    for container in (pod.get("spec") or {}).get("containers") or []:
        for port in container.get("ports") or []:
            if port.get("name") == METRICS:
                return f"{host}:{port['containerPort']}"
    return None


def of_metrics(pod: Manifest, text: str) -> Finding:
    """Whether a pod's metrics in Prometheus' text form are Chiplog's."""
    key = key_of(pod)
    what = f"pod {key.namespace}/{key.name} serves its metrics"
    has_it = any(line.startswith(BUILD_INFO) for line in text.splitlines())
    return Finding(what, "" if has_it else f"the metric {BUILD_INFO} is missing")


# ---- asking ----


async def check_operator(api: KubeApi, namespace: str, deployment: str) -> list[Finding]:
    """Check the pods, the Lease and the kinds of a release."""
    found = await api.get(kinds.DEPLOYMENTS, namespace, deployment)
    before = await api.get(kinds.LEASES, namespace, names.OPERATOR_LEASE)
    await asyncio.sleep(RENEWED_WITHIN_S)
    after = await api.get(kinds.LEASES, namespace, names.OPERATOR_LEASE)
    served = await api.get(DISCOVERY, "", "")
    return [of_deployment(found), of_lease(before, after), of_kinds(served)]


async def check_metrics(api: KubeApi, job: Job, namespaces: str) -> list[Finding]:
    """Check the metrics of every running pod that a PodMonitor selects. `namespaces` are
    comma-separated names, or `*` for all."""
    pods = [
        pod
        for namespace in ([""] if namespaces == ALL else namespaces.split(","))
        for pod in (await api.list_(kinds.PODS, namespace, labels=job.selector)).items
    ]
    by_address = {address: pod for pod in pods if (address := metrics_address(pod)) is not None}
    is_missing = not by_address and not job.may_be_none
    problem = (
        f"no running pod matches {job.selector} and has a port {METRICS}" if is_missing else ""
    )
    count_finding = Finding(f"job {job.name} has {len(by_address)} pods", problem)
    return [
        count_finding,
        *await asyncio.gather(*(_scraped(pod, at) for at, pod in by_address.items())),
    ]


async def _scraped(pod: Manifest, address: str) -> Finding:
    """Request one pod's metrics, and return the finding about them."""
    timeout = aiohttp.ClientTimeout(total=SCRAPE_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"http://{address}/metrics") as answer,
        ):
            answer.raise_for_status()
            return of_metrics(pod, await answer.text())
    except (aiohttp.ClientError, TimeoutError) as error:
        key = key_of(pod)
        why = str(error) or "no answer in time"
        return Finding(f"pod {key.namespace}/{key.name} serves its metrics", why)


async def repeat_checks(run_checks: Look, wait_s: float) -> list[Finding]:
    """Repeat the checks until all pass, for at most `wait_s`. Returns the last findings."""
    clock = asyncio.get_running_loop()
    until_s = clock.time() + wait_s
    while True:
        try:
            findings = await run_checks()
        except ApiError as error:
            findings = [Finding("the API server answers", str(error))]
        if are_ok(findings) or clock.time() >= until_s:
            return findings
        await asyncio.sleep(RETRY_S)


def options(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="chiplog-release-check", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how long to wait until every check passes; default: %(default)s",
    )
    checks = parser.add_subparsers(dest="check", required=True)
    operator = checks.add_parser("operator", help="check the operator's pods, Lease and kinds")
    operator.add_argument("--namespace", required=True, help="namespace of the operator")
    operator.add_argument("--deployment", required=True, help="name of the operator's Deployment")
    metrics = checks.add_parser("metrics", help="check that pods serve their metrics")
    for name in JOBS:
        metrics.add_argument(
            f"--{name}",
            metavar="NAMESPACE,…",
            help=f"namespaces of the {name} to check; {ALL} for all",
        )
    return parser.parse_args(given)


async def run(chosen: Mapping[str, Any]) -> list[Finding]:
    """Run the chosen checks until all pass or the time is over."""
    async with HttpKubeApi(find(None)) as api:

        async def check() -> list[Finding]:
            if chosen["check"] == "operator":
                return await check_operator(api, chosen["namespace"], chosen["deployment"])
            return [
                finding
                for name, job in JOBS.items()
                if chosen[name]
                for finding in await check_metrics(api, job, chosen[name])
            ]

        return await repeat_checks(check, chosen["wait"])


def report(findings: Iterable[Finding]) -> int:
    """Print the result of every check, also of those that passed. Returns the exit status: 1 if
    any check found a problem, else 0."""
    listed = list(findings)
    for finding in listed:
        sys.stdout.write(f"{line(finding)}\n")
    return 0 if are_ok(listed) else 1


def line(finding: Finding) -> str:
    """The line for a finding: what was checked, whether it is so, and if not, why."""
    return f"no   {finding.what}: {finding.problem}" if finding.problem else f"yes  {finding.what}"


def main() -> None:
    """Run the checks, print the findings, and exit with 0 if all pass, else 1."""
    try:
        findings = asyncio.run(run(vars(options())))
    except NoConnection as problem:
        findings = [Finding("this pod can connect to the API server", str(problem))]
    sys.exit(report(findings))


if __name__ == "__main__":
    main()
