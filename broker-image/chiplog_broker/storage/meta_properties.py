"""`meta.properties`: the owner of a data directory, in Java's properties format, version 1."""

from dataclasses import dataclass
from uuid import UUID

from chiplog_broker.ports.checksum_line import with_checksum, without_checksum
from chiplog_core.ids import Uuid

VERSION = "1"
COMMENT = b"#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The broker and cluster that a directory belongs to, and its own id."""

    node_id: int
    cluster_id: str
    directory_id: UUID


def encode_identity(identity: Identity) -> bytes:
    """The content of `meta.properties`, with a checksum in a comment."""
    lines = (
        "#",
        f"version={VERSION}",
        f"node.id={identity.node_id}",
        f"cluster.id={_escape(identity.cluster_id)}",
        f"directory.id={Uuid(identity.directory_id.bytes)}",
    )
    return with_checksum("".join(f"{line}\n" for line in lines).encode(), COMMENT)


def decode_identity(data: bytes) -> Identity:
    """The identity in a `meta.properties` file. Raises `ValueError` unless the file names the node,
    the cluster and the directory, and its checksum, if it has one, is right."""
    content = without_checksum(data, COMMENT)
    properties = dict(_properties(content.decode()))
    if properties.get("version") != VERSION:
        raise ValueError("not a meta.properties file of version 1")
    try:
        return Identity(
            node_id=int(properties["node.id"]),
            cluster_id=properties["cluster.id"],
            directory_id=UUID(bytes=Uuid.from_text(properties["directory.id"]).value),
        )
    except KeyError as error:
        raise ValueError(f"{error} is missing") from None


def _properties(text: str) -> list[tuple[str, str]]:
    """The (name, value) pairs of a file in Java's properties format."""
    pairs = []
    for line in text.splitlines():
        if line and line[0] not in "#!":
            name, _, value = line.partition("=")
            pairs.append((name.strip(), _unescape(value.strip())))
    return pairs


def _escape(value: str) -> str:
    """Put a backslash before the characters that have a meaning in Java's properties format."""
    return "".join(f"\\{character}" if character in "\\=:#!" else character for character in value)


def _unescape(value: str) -> str:
    """Replace each backslash and the character after it by that character."""
    characters = iter(value)
    return "".join(
        next(characters, "") if character == "\\" else character for character in characters
    )
