"""The maps that this broker has applied, on its own disk: the backup of the metadata (R6).

There is one file for each topic name. It is replaced atomically and durably before the map is
applied.
"""

import logging

from chiplog_broker.metadata.json_files import read_json, write_json
from chiplog_broker.ports.disk import Disk
from chiplog_core.manifest.writing import write
from chiplog_core.model.partition_map import PartitionMap, PartitionMapSpec
from chiplog_core.naming.api import API_VERSION
from chiplog_core.naming.names import object_name
from chiplog_core.problems import InvalidManifest

logger = logging.getLogger(__name__)

MAPS = "maps"
SUFFIX = ".json"


class MapFiles:
    """The directory of maps. Every call raises `OSError`."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def read_all(self) -> dict[str, PartitionMapSpec]:
        """Topic name -> the map of the topic that was applied last; all are durable. Raises
        `ValueError` if a file cannot be read.

        A broker must not start without a damaged file's content: metadata would go back.
        """
        self._disk.make_directory(MAPS)
        # A kill may have left a file whose name is in the page cache only.
        await self._disk.sync_directory(MAPS)
        found = {}
        for name in self._disk.names(MAPS):
            # Other names are temporary files that a power cut has left.
            if name.endswith(SUFFIX):
                spec = self._read(f"{MAPS}/{name}")
                found[spec.topic_name] = spec
        return found

    async def put(self, spec: PartitionMapSpec) -> None:
        """Store the map of a topic in place of the stored one, durable on return."""
        await write_json(self._disk, _path(spec.topic_name), {"spec": write(spec)})

    async def remove(self, topic: str) -> None:
        """Delete the file of a topic that has no map and no data here."""
        self._disk.remove(_path(topic))
        await self._disk.sync_directory(MAPS)

    async def remove_all(self) -> None:
        """Delete all files."""
        for name in self._disk.names(MAPS):
            self._disk.remove(f"{MAPS}/{name}")
        await self._disk.sync_directory(MAPS)

    def _read(self, path: str) -> PartitionMapSpec:
        """The map in a file. Raises `ValueError` naming the file if it cannot be read."""
        try:
            found = read_json(self._disk, path)
            # As an object of the API, of which only the spec is used.
            manifest = {
                "apiVersion": API_VERSION,
                "kind": PartitionMap.KIND.kind,
                "metadata": {"name": "cached"},
                "spec": found["spec"],
            }
            return PartitionMap.from_manifest(manifest).spec
        except (ValueError, TypeError, LookupError, InvalidManifest) as error:
            raise ValueError(f"{path} was changed or is damaged: {error}") from error


def _path(topic: str) -> str:
    return f"{MAPS}/{object_name(topic)}{SUFFIX}"
