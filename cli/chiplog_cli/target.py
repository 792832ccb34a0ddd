"""Which cluster a command is about, out of its options and the environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = "CHIPLOG_BOOTSTRAP"
KUBECONFIG = "KUBECONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class ByAddress:
    """A cluster that is given by the addresses of brokers."""

    bootstrap_servers: str
    given_by: str
    """The option or environment variable with the addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByName:
    """A BrokerCluster on Kubernetes; a namespace of None is that of the kubeconfig's context."""

    name: str
    namespace: str | None
    kubeconfig: Path | None
    context: str | None
    """The context in the kubeconfig; None for its current one."""
    listener: str | None
    user: str | None = None
    """The User whose credentials are used; None for nobody's."""


ONLY_WITH_CLUSTER = ("namespace", "kubeconfig", "context", "listener", "user")


def target(given: Mapping[str, str | None], environment: Mapping[str, str]) -> ByAddress | ByName:
    """The cluster that the options name. A `ValueError` says which option is missing or too many.

    `given` holds bootstrap_server, cluster, namespace, kubeconfig, context, listener, user and
    command_config, None where an option was not used. Options win over the environment.
    """
    address, name = given["bootstrap_server"], given["cluster"]
    if address and name:
        raise ValueError(
            "--bootstrap-server and --cluster cannot be used together: use one of them"
        )
    if given["user"] and given["command_config"]:
        raise ValueError("--user and --config cannot be used together: use one of them")
    if name:
        path = given["kubeconfig"]
        return ByName(
            name=name,
            namespace=given["namespace"],
            kubeconfig=Path(path) if path else None,
            context=given["context"],
            listener=given["listener"],
            user=given["user"],
        )
    for option in ONLY_WITH_CLUSTER:
        if given[option]:
            raise ValueError(f"--{option} needs --cluster: name the BrokerCluster")
    if address:
        return ByAddress(bootstrap_servers=address, given_by="--bootstrap-server")
    if environment.get(ENVIRONMENT):
        return ByAddress(bootstrap_servers=environment[ENVIRONMENT], given_by=ENVIRONMENT)
    raise ValueError(
        "no cluster is given: use --bootstrap-server HOST:PORT, or --cluster NAME on Kubernetes, "
        f"or set {ENVIRONMENT}"
    )


def addresses(bootstrap_servers: str) -> list[tuple[str, int]]:
    """The addresses in `host:port,[::1]:port`. A `ValueError` says how to write them."""
    return [_address(text.strip()) for text in bootstrap_servers.split(",")]


def _address(text: str) -> tuple[str, int]:
    """Host and port. An IPv6 address is in brackets. Raises `ValueError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not an address: write HOST:PORT, like 127.0.0.1:9092")
    return host.removeprefix("[").removesuffix("]"), int(port)


def kubeconfigs_of(environment: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """The files that kubectl would read: those in KUBECONFIG, else the one in the home directory if
    it exists.

    Empty if there is none, as in a pod.
    """
    named = tuple(Path(path) for path in environment.get(KUBECONFIG, "").split(":") if path)
    at_home = home / ".kube" / "config"
    return named or ((at_home,) if at_home.is_file() else ())
