"""The file of --config."""

from pathlib import Path

from chiplog_cli.client_config import ClientConfig, client_config
from chiplog_cli.errors import CannotDo
from chiplog_core.config.java_properties import parse_properties


def read_config(path: Path) -> ClientConfig:
    """What the file and the stores that it names say. Paths in it are relative to the current
    directory, as in Kafka's tools. Raises `CannotDo`."""
    try:
        # Java's encoding of properties files.
        properties = parse_properties(path.read_text(encoding="latin-1"))
        return client_config(properties, lambda location: Path(location).read_bytes())
    except OSError as error:
        raise CannotDo(f"--config {path}: {error.strerror or error}", "correct the path") from None
    except ValueError as error:
        raise CannotDo(f"--config {path}: {error}") from None
