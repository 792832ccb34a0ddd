"""Planted bug: a topic that was created again is taken for its deleted predecessor."""

from typing import Final
from uuid import UUID

from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.planner.topics import topic_maps
from e2e.sim.mutants.mutant import FORK, LOSS, Mutant, Plant, mix


async def _log_of_the_name(
    replicas: Replicas, name: TopicPartition, topic_id: UUID, config: LogConfig
) -> PartitionLog:
    """Use the log of any topic with this name, whatever its topic id."""
    log = replicas._directory.logs.get(name)  # noqa: SLF001
    return log or await replicas._directory.create(name, topic_id, config)  # noqa: SLF001


MUTANTS: Final = (
    Mutant(
        "a topic that is made anew has the data of the one before",
        mix(3, 3.0, "topic deleted", "power cut"),
        LOSS | FORK | {"old-in-new", "not-healed"},
        (
            Plant(topic_maps, "unconfirmed", lambda _spec: ()),
            Plant(Replicas, "_log", _log_of_the_name),
        ),
    ),
)
