"""Statuses of objects whose specs cannot be parsed.

ConsumerGroups that can be parsed are reported by `group_watch`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.model.actions import Report
from chiplog_core.model.broker_cluster import BrokerClusterStatus
from chiplog_core.model.conditions import Verdict, merge
from chiplog_core.model.group_status import ConsumerGroupStatus
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.topic import TopicStatus
from chiplog_core.model.verdicts import refused
from chiplog_core.naming import api
from chiplog_core.observed.world import Unreadable, World
from chiplog_core.problems import InvalidManifest

S = TypeVar("S", TopicStatus, ConsumerGroupStatus, BrokerClusterStatus)


def unreadable_reports(world: World, now: datetime) -> Iterator[Report]:
    """The statuses of objects that cannot be parsed. Only their conditions change."""
    for unreadable in world.unreadable:
        if unreadable.metadata.deletion_timestamp is None:
            if unreadable.kind == api.CONSUMER_GROUP:
                yield from _unreadable(unreadable, ConsumerGroupStatus(), now)
            else:
                yield from _unreadable(unreadable, TopicStatus(), now)


def published(manifest: Mapping[str, object], nothing: S) -> S:
    """The status of a manifest whose spec cannot be parsed; `nothing` if the status cannot be
    parsed either."""
    try:
        found: S = read(object_shape(type(nothing)), manifest, "status", Unknown.IGNORE)
    except InvalidManifest:
        return nothing
    return found


def with_verdicts(status: S, verdicts: list[Verdict], meta: Metadata, now: datetime) -> S:
    """The status with these conditions, for the object's present generation."""
    conditions = merge(status.conditions, verdicts, observed_generation=meta.generation, now=now)
    return replace(status, observed_generation=meta.generation, conditions=conditions)


def _unreadable(unreadable: Unreadable, nothing: S, now: datetime) -> Iterator[Report]:
    """The status that says why the object cannot be parsed, if it is not published yet. `nothing`
    is an empty status of the object's kind."""
    before = published(unreadable.manifest_status, nothing)
    after = with_verdicts(before, [refused(unreadable.problems)], unreadable.metadata, now)
    if after != before:
        yield Report(kind=unreadable.kind, metadata=unreadable.metadata, status=after)
