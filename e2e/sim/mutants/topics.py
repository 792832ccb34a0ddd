"""Topics taken for deleted that are not, and new ones taken for old ones of the same name."""

from dataclasses import replace
from typing import Final

from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.model.partition_map import PartitionMapSpec
from chiplog_core.model.topic import Topic
from chiplog_core.planner import deletion, topic_maps
from chiplog_core.planner.topic_maps import MapPlanner
from chiplog_kube.api import ApiError, ObjectList
from chiplog_kube.kinds import Kind
from chiplog_operator.watching import Watching
from e2e.sim.mutants.mutant import FORK, LOSS, Mutant, Plant, mix

_sound_wished = MapPlanner._wished  # noqa: SLF001


async def _list_or_nothing(watching: Watching, kind: Kind) -> None:
    cache = watching._caches[kind]  # noqa: SLF001
    for namespace in watching._namespaces:  # noqa: SLF001
        since = cache.now()
        try:
            listed = await watching._api.list_(kind, namespace)  # noqa: SLF001
        except ApiError:
            listed = ObjectList([], "0")
        cache.replace(listed, namespace, since=since)


def _bury_without_owner(
    planner: MapPlanner, spec: PartitionMapSpec, owner: Topic | None
) -> PartitionMapSpec:
    if owner is not None or not spec.generations:
        return _sound_wished(planner, spec, owner)
    buried = map(deletion._tombstone, spec.generations)  # noqa: SLF001
    tombstones = (*spec.tombstones, *buried)
    return replace(spec, owner_uid=None, current=None, generations=(), tombstones=tombstones)


async def _log_of_the_name(
    replicas: Replicas, name: TopicPartition, topic_id: object, config: LogConfig
) -> PartitionLog:
    log = replicas._directory.logs.get(name)  # noqa: SLF001
    return log or await replicas._directory.create(name, topic_id, config)  # type: ignore[arg-type]  # noqa: SLF001


MUTANTS: Final = (
    Mutant(
        "an empty list of Topics means that all are deleted",
        mix(1, 3.0, "API server struggling", "operator killed"),
        LOSS | {"not-healed", "not-readable"},
        (
            Plant(Watching, "_list", _list_or_nothing),
            Plant(MapPlanner, "_wished", _bury_without_owner),
        ),
    ),
    Mutant(
        "a topic that is made anew has the data of the one before",
        mix(3, 5.0, "topic deleted", "power cut"),
        LOSS | FORK | {"old-in-new"},
        (
            Plant(topic_maps, "unconfirmed", lambda _spec: ()),
            Plant(Replicas, "_log", _log_of_the_name),
        ),
    ),
)
