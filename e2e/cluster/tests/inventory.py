"""Everything a cluster could leave on a machine, as sets that can be compared."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster import host, mounts, processes
from e2e.cluster.shell import run


@dataclass(frozen=True, slots=True)
class Inventory:
    """What is on the machine at one moment."""

    mounts: frozenset[str]
    loop_devices: frozenset[str]
    links: frozenset[str]
    addresses: frozenset[str]
    routes: frozenset[str]
    namespaces: frozenset[str]
    rules: frozenset[str]
    cgroups: frozenset[str]
    processes: frozenset[str]
    settings: frozenset[str]

    def added_since(self, earlier: "Inventory") -> dict[str, list[str]]:
        """What is here and was not; empty where nothing was added."""
        before = asdict(earlier)
        found = {name: sorted(now - before[name]) for name, now in asdict(self).items()}
        return {name: things for name, things in found.items() if things}


def lines(*command: str) -> frozenset[str]:
    return frozenset(line.strip() for line in run(*command, check=False).splitlines())


def outside(directory: Path, paths: Iterable[str]) -> frozenset[str]:
    return frozenset(path for path in paths if not Path(path).is_relative_to(directory))


def take(tests: Path) -> Inventory:
    """Read the machine's state.

    Counters and ages are left out: they change by themselves. So are disks of files below `tests`,
    the temporary directory of all tests: those of other tests come and go at the same time.
    """
    rules = [
        line
        for family in ("iptables-save", "ip6tables-save")
        for line in run(family).splitlines()
        if line.startswith(("-A", ":KUBE"))
    ]
    return Inventory(
        mounts=outside(tests, mounts.points()),
        loop_devices=outside(
            tests, lines("losetup", "--list", "--noheadings", "--output", "BACK-FILE")
        ),
        links=frozenset(path.name for path in Path("/sys/class/net").iterdir()),
        addresses=frozenset(
            " ".join(line.split()[1:4]) for line in run("ip", "-o", "address").splitlines()
        ),
        routes=lines("ip", "route"),
        namespaces=lines("lsns", "--type", "net", "--noheadings", "--output", "NS"),
        rules=frozenset(rules) | lines("nft", "list", "tables"),
        cgroups=frozenset(
            str(path) for path in Path("/sys/fs/cgroup").rglob("*chiplog*") if path.is_dir()
        ),
        processes=frozenset(processes.command_line(one.pid) for one in processes.marked()),
        settings=frozenset(
            f"{name}={host.setting(name).read_text().strip()}"
            for name in host.SETTINGS
            if host.setting(name).exists()
        ),
    )
