"""Code coverage of a few simulated seeds: branches of the core, brokers and the operator's loop.

`python -m e2e.sim.reached` simulates seeds that were chosen to cover much code together, prints
the coverage of every module, and fails if the total is below `LEAST`.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import slipcover

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = {
    "chiplog_core": "core",
    "chiplog_broker": "broker-image",
    "chiplog_operator": "operator",
    "chiplog_wire": "wire",
}
"""Package -> the directory that contains it."""
LEAST: Final = 0.85
SHOWN: Final = 100
"""The most characters printed for the numbers of lines that did not run."""
LEFT_OUT: Final[Mapping[str, str]] = {
    "chiplog_broker.__main__": "the entry of a process",
    "chiplog_broker.main": "the entry of a process: arguments, signals, the machine's event loop",
    "chiplog_broker.member": "what a process in a pod is made of: certificates, files, sockets",
    "chiplog_broker.directory_ports": "what a standalone process is made of",
    "chiplog_broker.process": "reads this machine's /proc",
    "chiplog_broker.full_collections": "the process's garbage collector",
    "chiplog_broker.logging_setup": "where log lines go; a simulated cluster writes none",
    "chiplog_broker.metadata.standalone": "a broker without Kubernetes: one process, no replicas",
    "chiplog_broker.metadata.standalone_membership": "a broker without Kubernetes",
    "chiplog_broker.metadata.standalone_plan": "a broker without Kubernetes",
    "chiplog_broker.ports.clock": "the machine's clock",
    "chiplog_broker.ports.machine": "the machine's boot id and its termination log",
    "chiplog_broker.ports.net": "sockets",
    "chiplog_broker.ports.rng": "the machine's chance",
    "chiplog_broker.ports.system_disk": "files",
    "chiplog_broker.server.exposition.certificates": "what Prometheus asks over HTTP",
    "chiplog_broker.server.exposition.cleaner": "what Prometheus asks over HTTP",
    "chiplog_broker.server.exposition.disk": "what Prometheus asks over HTTP",
    "chiplog_broker.server.exposition.partitions": "what Prometheus asks over HTTP",
    "chiplog_broker.server.exposition.replicas": "what Prometheus asks over HTTP",
    "chiplog_broker.server.exposition.requests": "what Prometheus asks over HTTP",
    "chiplog_broker.server.exposition.scrape": "what Prometheus asks over HTTP",
    "chiplog_broker.server.exposition.topics": "what Prometheus asks over HTTP",
    "chiplog_broker.server.file_sending": "os.sendfile from a file to a socket",
    "chiplog_broker.server.guarded": "HTTP, which no simulated process serves",
    "chiplog_broker.server.http": "HTTP, which no simulated process serves",
    "chiplog_broker.server.incarnation": "what is asked over HTTP",
    "chiplog_broker.server.metrics": "what Prometheus asks over HTTP",
    "chiplog_broker.server.operator_site": "HTTP, which no simulated process serves",
    "chiplog_broker.server.operator_tls": "HTTP, which no simulated process serves",
    "chiplog_core.telemetry.build_info": "what Prometheus asks over HTTP",
    "chiplog_core.telemetry.findings": "what `chiplog check` and `helm test` print",
    "chiplog_core.telemetry.log_lines": "where log lines go; a simulated cluster writes none",
    "chiplog_core.telemetry.series": "what Prometheus asks over HTTP",
    "chiplog_core.version": "what --version prints",
}
WAITING: Final = (
    "chiplog_broker.coordinator.resetting",
    "chiplog_broker.groups.reset_value",
    "chiplog_broker.groups.retention_value",
    "chiplog_broker.groups.transactions",
    "chiplog_broker.handlers.authorized.changes",
    "chiplog_broker.handlers.authorized.groups",
    "chiplog_broker.handlers.authorized.guard",
    "chiplog_broker.handlers.authorized.topics",
    "chiplog_broker.handlers.client_quotas",
    "chiplog_broker.handlers.group_description",
    "chiplog_broker.handlers.group_facts",
    "chiplog_broker.handlers.group_resets",
    "chiplog_broker.handlers.group_retention",
    "chiplog_broker.handlers.inquiry_table",
    "chiplog_broker.handlers.log_positions",
    "chiplog_broker.handlers.scram",
    "chiplog_broker.handlers.slices",
    "chiplog_broker.metadata.standalone_acls",
    "chiplog_broker.metadata.standalone_quotas",
    "chiplog_broker.metadata.standalone_users",
    "chiplog_broker.metadata.stored_list",
    "chiplog_broker.security.alerts",
    "chiplog_broker.security.credentials",
    "chiplog_broker.security.oauth",
    "chiplog_broker.security.plain",
    "chiplog_broker.security.tls",
    "chiplog_broker.security.x509",
    "chiplog_broker.server.inquiries",
    "chiplog_broker.server.tls_accepting",
    "chiplog_broker.server.tls_sending",
    "chiplog_core.authorizer.acls",
    "chiplog_core.authorizer.filters",
    "chiplog_core.authorizer.index",
    "chiplog_core.certificates.progress",
    "chiplog_core.client_quotas.entities",
    "chiplog_core.client_quotas.listed",
    "chiplog_core.client_quotas.mutation_quota",
    "chiplog_core.client_quotas.table",
    "chiplog_core.cron",
    "chiplog_core.group_watch",
    "chiplog_core.groups.reset",
    "chiplog_core.groups.reset_plan",
    "chiplog_core.manifest.documents",
    "chiplog_core.model.group_exchange",
    "chiplog_core.model.rebalance",
    "chiplog_core.model.rebalance_status",
    "chiplog_core.model.spark",
    "chiplog_core.model.spark_result",
    "chiplog_core.model.spark_run",
    "chiplog_core.model.verification",
    "chiplog_core.naming.peers",
    "chiplog_core.planner.admin.users",
    "chiplog_core.planner.leadership.leader_orders",
    "chiplog_core.rebalance",
    "chiplog_core.signature",
    "chiplog_core.spark",
    "chiplog_core.token_claims",
    "chiplog_core.users.access",
    "chiplog_core.users.statuses",
    "chiplog_core.validate.consumer_group",
    "chiplog_core.validate.outside",
    "chiplog_core.validate.rebalance",
    "chiplog_core.validate.spark_conf",
    "chiplog_core.validate.user",
    "chiplog_core.validate.verification",
    "chiplog_wire.sealing",
    "chiplog_wire.verifiers",
)
"""Modules, with all in them, that these simulations do not call, or reach less than 85 % of: for
ConsumerGroups, which need HTTP between operator and brokers, for transactions, Rebalances and Spark
jobs, and those parts of TLS and of users that need sockets, tokens, or users' mistakes."""
OPERATORS_LOOP: Final = (
    "apply",
    "cached_api",
    "caches",
    "changes",
    "concurrency",
    "confirm",
    "events",
    "execute",
    "keyed_loops",
    "leadership",
    "lease",
    "liveness",
    "loop",
    "maps_checks",
    "observe",
    "orphans",
    "parsed",
    "status_patch",
    "system",
    "targets",
    "client_writes",
    "views",
    "waking",
    "watching",
    "write_results",
    "writes",
)
"""The operator's modules that decide and act. The others are handlers for Kopf, HTTP, and the
setup of a process."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Coverage of one module: `there` counts its lines and branches, `ran` those that ran."""

    module: str
    there: int
    ran: int
    missing: str
    """The lines that did not run, like "3-5, 8"."""

    @property
    def share(self) -> float:
        return self.ran / self.there if self.there else 1.0


def main() -> int:
    """Simulate and print the coverage; exit status 1 if it is too low or there are anomalies."""
    measure = slipcover.Slipcover(branch=True)
    sources = [ROOT / directory / package for package, directory in PACKAGES.items()]
    anomalies = 0
    with slipcover.ImportManager(measure, slipcover.FileMatcher(sources=sources)):
        # Imported here, so that statements that run at import are measured, too.
        from e2e.sim.seed import quiet, run_seed  # noqa: PLC0415

        quiet()
        for seed, mix in runs():
            result = run_seed(seed, mix)
            anomalies += len(result.anomalies)
            say(
                f"seed {seed} x{result.replicas}: {result.processor_s:.1f} s {result.anomalies[:3]}"
            )
    found = sorted(reached(measure.get_coverage()["files"]), key=lambda one: one.module)
    for one in found:
        say(f"{one.share:7.1%} {one.there:6d}  {one.module:64s}{one.missing}")
    for package in PACKAGES:
        _say_all(package, [one for one in found if one.module.split(".")[0] == package])
    share = _say_all("all", found)
    return 1 if anomalies or share < LEAST else 0


def _say_all(name: str, found: list[Reach]) -> float:
    """Print the total coverage of these modules, and return it as a share of 1."""
    there, ran = sum(one.there for one in found), sum(one.ran for one in found)
    say(f"{ran / there:7.1%} {there:6d}  {name}: {len(found)} modules")
    return ran / there


def _compacted(habits: Any, weights: dict[str, float]) -> Any:
    """A mix with permanent compaction and scrubbing. Keys are unique, so no record may vanish."""
    from e2e.sim.faults import Mix  # noqa: PLC0415

    return Mix(
        replicas=3,
        faults_s=70.0,
        every_s=4.0,
        weights=weights,
        habits=habits,
        topic_config={
            "cleanup.policy": "compact",
            "segment.ms": "2000",
            "min.cleanable.dirty.ratio": "0.01",
        },
        cluster_config={"log.cleaner.backoff.ms": "500", "chiplog.scrub.interval.ms": "5000"},
    )


def runs() -> Iterator[tuple[int, Any]]:
    """(seed, mix) of each simulation: faults, changes by users, moves, upkeep, logins, groups."""
    from e2e.sim.clients import SPARING  # noqa: PLC0415
    from e2e.sim.faults import (  # noqa: PLC0415
        FAULT_NAMES,
        OF_ACCOUNTS,
        OF_GROUPS,
        OF_MOVES,
        OF_UPKEEP,
        OF_USERS,
        Mix,
        restores,
    )
    from e2e.sim.groups.habits import GroupHabits  # noqa: PLC0415
    from e2e.sim.users.habits import UserHabits  # noqa: PLC0415

    evils = [name for name in FAULT_NAMES if name not in {*OF_USERS, *restores.ACTS}]
    evil, users = dict.fromkeys(evils, 1.0), dict.fromkeys(OF_USERS, 1.0)
    few = dict.fromkeys(OF_USERS, 0.5)
    back = evil | dict.fromkeys(restores.ACTS, 6.0)
    yield 10, _compacted(replace(SPARING, has_keys=True), evil | few)
    for seed, replicas, every_s, weights in (
        (1, 3, 0.7, users),
        (2, 1, 0.7, users),
        (3, 3, 2.0, evil | few),
        (4, 3, 4.0, back),
        (5, 1, 3.0, evil),
        (6, 3, 4.0, evil),
        (7, 3, 2.0, evil),
        (8, 1, 1.5, evil | few),
        (9, 3, 2.5, back),
        (21, 3, 0.5, evil | users),
        (22, 1, 0.5, evil | users),
        (27, 3, 0.5, users),
    ):
        mix = Mix(
            replicas=replicas,
            faults_s=70.0,
            every_s=every_s,
            weights=weights,
            habits=SPARING,
            reads_in_racks=replicas > 1 and seed % 2 == 1,
        )
        yield seed, mix
    moves = dict.fromkeys([*OF_MOVES, *OF_UPKEEP], 1.0)
    for seed, replicas, weights in ((31, 1, moves), (32, 3, moves | dict.fromkeys(evils, 0.1))):
        yield (
            seed,
            Mix(
                brokers=replicas + 2,
                replicas=replicas,
                faults_s=70.0,
                every_s=2.0,
                weights=weights,
                habits=SPARING,
            ),
        )
    of_users = [*OF_ACCOUNTS, "broker killed", "API server struggling", "partition"]
    yield (
        41,
        Mix(
            brokers=2,
            operators=1,
            faults_s=100.0,
            every_s=1.2,
            weights=dict.fromkeys(of_users, 1.0),
            producers=1,
            consumers=1,
            habits=SPARING,
            users=UserHabits(pause_s=0.5, reauth_s=5.0),
        ),
    )
    of_groups = dict.fromkeys(OF_GROUPS, 1.0)
    for seed, retention_minutes in ((11, 0), (12, 1)):
        yield (
            seed,
            Mix(
                consumers=0,
                faults_s=200.0,
                every_s=2.0,
                weights=of_groups,
                habits=SPARING,
                groups=GroupHabits(commit_s=2.0, retention_minutes=retention_minutes),
            ),
        )


def is_counted(module: str) -> bool:
    """Whether a module counts for the coverage, because a simulation can reach it."""
    package, _, name = module.partition(".")
    if any(module == one or module.startswith(f"{one}.") for one in WAITING):
        return False
    return module not in LEFT_OUT and (package != "chiplog_operator" or name in OPERATORS_LOOP)


def reached(files: Mapping[str, Any]) -> Iterator[Reach]:
    """The coverage of every module that counts, from SlipCover's findings by file path."""
    for path, found in files.items():
        module = module_of(Path(path))
        if is_counted(module):
            ran = len(found["executed_lines"]) + len(found["executed_branches"])
            left = len(found["missing_lines"]) + len(found["missing_branches"])
            yield Reach(module, ran + left, ran, spans(found["missing_lines"]))


def spans(lines: list[int]) -> str:
    """Line numbers as text, with ranges for consecutive ones, like "3-5, 8"; cut at `SHOWN`."""
    found: list[list[int]] = []
    for one in lines:
        if found and found[-1][1] + 1 >= one:
            found[-1][1] = one
        else:
            found.append([one, one])
    text = ", ".join(f"{first}-{last}" if first != last else f"{first}" for first, last in found)
    return text if len(text) <= SHOWN else text[:SHOWN] + " …"


def module_of(path: Path) -> str:
    """The dotted name of the module in this file."""
    parts = path.with_suffix("").parts
    start = next(number for number, part in enumerate(parts) if part in PACKAGES)
    return ".".join(parts[start:]).removesuffix(".__init__")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
