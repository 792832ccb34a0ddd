"""What the operator tells the owners of ConsumerGroups, and of objects that do not read."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from chiplog_core import api
from chiplog_core.conditions import ConditionType, Verdict, merge
from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.model.broker_cluster import BrokerClusterStatus
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.group_status import ConsumerGroupStatus
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.topic import TopicStatus
from chiplog_core.planner.actions import Report
from chiplog_core.planner.settings import Settings, paused
from chiplog_core.planner.verdicts import holds, paused_verdict, refused
from chiplog_core.planner.world import Unreadable, World
from chiplog_core.problems import InvalidManifest
from chiplog_core.validate.consumer_group import check_group, check_group_in_cluster

S = TypeVar("S", TopicStatus, ConsumerGroupStatus, BrokerClusterStatus)


def group_reports(world: World, settings: Settings, now: datetime) -> Iterator[Report]:
    """What is wrong with each ConsumerGroup, or that nothing is."""
    for group in world.groups:
        meta = group.metadata
        if meta.deletion_timestamp is not None:
            continue
        verdicts = [_group_verdict(group, settings)]
        if paused(meta):
            verdicts.append(paused_verdict())
        status = replace(with_verdicts(group.status, verdicts, meta, now), group_id=group.group_id)
        if status != group.status:
            yield Report(kind=api.CONSUMER_GROUP, metadata=meta, status=status)


def unreadable_reports(world: World, now: datetime) -> Iterator[Report]:
    """Why objects that do not read cannot be followed. All else in their status stays."""
    for unreadable in world.unreadable:
        if unreadable.metadata.deletion_timestamp is None:
            if unreadable.kind == api.CONSUMER_GROUP:
                yield from _unreadable(unreadable, ConsumerGroupStatus(), now)
            else:
                yield from _unreadable(unreadable, TopicStatus(), now)


def published(manifest: Mapping[str, object], nothing: S) -> S:
    """The status of a manifest whose spec does not read; `nothing` where that does not either."""
    try:
        found: S = read(object_shape(type(nothing)), manifest, "status", Unknown.IGNORE)
    except InvalidManifest:
        return nothing
    return found


def with_verdicts(status: S, verdicts: list[Verdict], meta: Metadata, now: datetime) -> S:
    """The status with these conditions, as of the object's present generation."""
    conditions = merge(status.conditions, verdicts, observed_generation=meta.generation, now=now)
    return replace(status, observed_generation=meta.generation, conditions=conditions)


def _unreadable(unreadable: Unreadable, nothing: S, now: datetime) -> Iterator[Report]:
    before = published(unreadable.manifest_status, nothing)
    after = with_verdicts(before, [refused(unreadable.problems)], unreadable.metadata, now)
    if after != before:
        yield Report(kind=unreadable.kind, metadata=unreadable.metadata, status=after)


def _group_verdict(group: ConsumerGroup, settings: Settings) -> Verdict:
    problems = check_group(group)
    if settings.cluster is not None:
        problems = (*problems, *check_group_in_cluster(group, settings.cluster))
    return refused(problems) if problems else holds(ConditionType.READY, "Ready")
