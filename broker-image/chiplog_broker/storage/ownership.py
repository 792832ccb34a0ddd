"""The owner of a data directory, and whether its last broker shut down cleanly."""

from uuid import UUID

from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.rng import Rng
from chiplog_broker.ports.whole_files import read_file
from chiplog_broker.storage.clean_shutdown import decode_clean_shutdown
from chiplog_broker.storage.errors import WrongDirectoryError
from chiplog_broker.storage.meta_properties import Identity, decode_identity, encode_identity
from chiplog_broker.storage.names import CLEAN_SHUTDOWN, META_PROPERTIES, ROOT, partition_in_name


async def take_clean_mark(disk: Disk) -> tuple[bool, int | None]:
    """Remove the mark of a clean shutdown, durably.

    Returns whether there was one, and the broker epoch in it, which is None if unreadable.
    """
    if not disk.exists(CLEAN_SHUTDOWN):
        return False, None
    broker_epoch = decode_clean_shutdown(read_file(disk, CLEAN_SHUTDOWN))
    disk.remove(CLEAN_SHUTDOWN)
    await disk.sync_directory(ROOT)
    return True, broker_epoch


async def identify(disk: Disk, rng: Rng, node_id: int, cluster_id: str) -> Identity:
    """The identity of the directory. An empty directory gets this broker as its owner.

    Raises `WrongDirectoryError` if it belongs to another broker, or its owner is unknown.
    """
    if not disk.exists(META_PROPERTIES):
        if any(partition_in_name(name) for name in disk.names(ROOT)):
            raise WrongDirectoryError(
                f"the data directory has replicas, but no {META_PROPERTIES}, so it is unknown "
                "which broker they belong to: restore this file, or give the broker an empty "
                "volume, and it fetches everything from other brokers"
            )
        identity = Identity(
            node_id=node_id,
            cluster_id=cluster_id,
            directory_id=UUID(bytes=rng.token(16), version=4),
        )
        await disk.replace(META_PROPERTIES, encode_identity(identity))
        return identity
    try:
        identity = decode_identity(read_file(disk, META_PROPERTIES))
    except ValueError as error:
        raise WrongDirectoryError(f"{META_PROPERTIES} cannot be parsed: {error}") from error
    if (identity.node_id, identity.cluster_id) != (node_id, cluster_id):
        raise WrongDirectoryError(
            f"the data directory belongs to broker {identity.node_id} of cluster "
            f"{identity.cluster_id}, not to broker {node_id} of cluster {cluster_id}: mount the "
            "volume of this broker, or an empty one"
        )
    return identity
