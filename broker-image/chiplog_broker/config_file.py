"""`server.properties`: Kafka's configuration file, for settings that need a restart."""

import re
from collections.abc import Mapping
from pathlib import Path

from chiplog_broker.errors import CannotStart
from chiplog_broker.metadata.listeners import INTERNAL_NAME, Listener
from chiplog_broker.security.listener_security import WITHOUT_MAP, security_of_listeners
from chiplog_core.config import java_properties
from chiplog_core.config.given import given_broker_config
from chiplog_wire.security_protocol import SecurityProtocol

DEFAULT_LISTENERS = "PLAINTEXT://127.0.0.1:9092"
DEFAULT_MEMBER_LISTENERS = "plain://0.0.0.0:9092"
MEMBER_NAME = "[a-z0-9]+"
EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound


class InvalidConfigFile(CannotStart):
    """A configuration that the broker cannot start with; the text has one problem per line."""


def parse_properties(text: str) -> dict[str, str]:
    """Key -> value. Raises `InvalidConfigFile` for a key given twice or a line without value."""
    try:
        return java_properties.parse_properties(text)
    except ValueError as error:
        raise InvalidConfigFile(f"server.properties {error}") from None


def checked(settings: Mapping[str, str]) -> Mapping[str, str]:
    """The settings in Kafka's own form. Raises `InvalidConfigFile` naming every problem."""
    # `by_operator`: this file may have the keys that users may not set in a BrokerCluster.
    given = given_broker_config(settings, "server.properties", by_operator=True)
    if given.problems:
        raise InvalidConfigFile("\n".join(map(str, given.problems)))
    return given.values


def read_config(path: Path | None) -> Mapping[str, str]:
    """The checked settings of a file; empty if `path` is None. Raises `InvalidConfigFile`."""
    try:
        text = path.read_text() if path else ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigFile(f"--config {path} cannot be read: {error}") from error
    config = checked(parse_properties(text))
    if "log.dirs" in config:
        raise InvalidConfigFile(
            "server.properties[log.dirs] is set by --standalone or --data: remove it"
        )
    return config


def standalone_config(path: Path | None) -> Mapping[str, str]:
    """The configuration of a standalone broker. Raises `InvalidConfigFile`."""
    config = read_config(path)
    if config.get("default.replication.factor", "1") != "1":
        raise InvalidConfigFile(
            "server.properties[default.replication.factor] asks for more than one broker: "
            "remove it, or set it to 1"
        )
    return config


def member_config(path: Path | None, broker_id: int) -> dict[str, str]:
    """The configuration of a broker that the operator admits. Raises `InvalidConfigFile`."""
    config = read_config(path)
    if config.get("node.id", str(broker_id)) != str(broker_id):
        raise InvalidConfigFile(
            f"server.properties[node.id] is {config['node.id']}, but --broker-id is {broker_id}: "
            "remove node.id from the file"
        )
    return {**config, "node.id": str(broker_id)}


def listeners(config: Mapping[str, str]) -> list[Listener]:
    """The listeners of a standalone broker, from the keys `listeners` and `advertised.listeners`
    and those for their security. Raises `CannotStart`."""
    bound = split_listeners(config.get("listeners") or DEFAULT_LISTENERS, "listeners")
    given = split_listeners(config.get("advertised.listeners", ""), "advertised.listeners")
    for name, (host, _) in given.items():
        if name not in bound or host in EVERY_ADDRESS:
            raise InvalidConfigFile(
                f"server.properties[advertised.listeners] has {name}://{host}: use only listeners "
                "from the key listeners, each with an address that clients can reach"
            )
    # A listener that is not advertised, or with port 0, is advertised as it is bound.
    advertised = dict.fromkeys(bound, ("", 0)) | given
    security = security_of_listeners(config, bound, WITHOUT_MAP)
    return [
        Listener(
            name,
            host,
            port,
            advertised[name][0] or advertised_host_for(host),
            advertised[name][1] or port,
            tls=security[name].tls,
            mechanisms=security[name].mechanisms,
            session_s=security[name].session_s,
            tokens=security[name].tokens,
        )
        for name, (host, port) in bound.items()
    ]


def member_listeners(config: Mapping[str, str]) -> list[Listener]:
    """The listeners of a broker whose advertised addresses the operator determines.

    They have the names of BrokerCluster.spec.listeners; without a map of protocols all are in plain
    text. Raises `CannotStart`.
    """
    if config.get("advertised.listeners"):
        raise InvalidConfigFile(
            "server.properties[advertised.listeners] is set by the operator in the Broker object: "
            "remove it"
        )
    found = split_listeners(config.get("listeners") or DEFAULT_MEMBER_LISTENERS, "listeners")
    for name in found:
        if re.fullmatch(MEMBER_NAME, name) is None or name == INTERNAL_NAME:
            raise InvalidConfigFile(
                f"server.properties[listeners] has the name {name}: use lower-case letters and "
                f"digits; the broker adds {INTERNAL_NAME} itself"
            )
    security = security_of_listeners(
        config, found, dict.fromkeys(found, SecurityProtocol.PLAINTEXT)
    )
    return [
        Listener(
            name,
            host,
            port,
            host,
            port,
            tls=security[name].tls,
            mechanisms=security[name].mechanisms,
            session_s=security[name].session_s,
            tokens=security[name].tokens,
        )
        for name, (host, port) in found.items()
    ]


def split_listeners(text: str, key: str) -> dict[str, tuple[str, int]]:
    """Listener name -> (host, port) of `NAME://host:port,…`; a bare `host:port` is PLAINTEXT.

    Raises `InvalidConfigFile`, whose message names `key`.
    """
    found: dict[str, tuple[str, int]] = {}
    for part in filter(None, (entry.strip() for entry in text.split(","))):
        name, separator, address = part.rpartition("://")
        host, _, port = address.rpartition(":")
        name = name if separator else "PLAINTEXT"
        if not port.isdigit() or int(port) > 65535 or name in found:
            raise InvalidConfigFile(
                f"server.properties[{key}] has {part!r}: write NAME://host:port, "
                "each name once, like PLAINTEXT://127.0.0.1:9092"
            )
        found[name] = host.strip("[]"), int(port)
    return found


def advertised_host_for(host: str) -> str:
    """The host that clients get if no address is advertised: the host that the listener is bound
    to, or this machine's loopback address if the listener is bound to all addresses."""
    return "127.0.0.1" if host in EVERY_ADDRESS else host
