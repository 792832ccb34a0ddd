"""The part of an object's metadata that Chiplog reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from chiplog_core.ids import MAX_INT64
from chiplog_core.limits import MAX_NAME_LENGTH
from chiplog_core.manifest.constraints import Entries, Items, Length, Range

Name = Annotated[str, Length(MAX_NAME_LENGTH, minimum=1)]
Uid = Annotated[str, Length(128, minimum=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Name, uid and other metadata of an object. Kubernetes validates these fields."""

    name: Name
    namespace: Annotated[str, Length(MAX_NAME_LENGTH)] = ""
    uid: Annotated[str, Length(128)] = ""
    generation: Annotated[int, Range(0, MAX_INT64)] = 0
    resource_version: Annotated[str, Length(128)] = ""
    labels: Annotated[Mapping[str, Annotated[str, Length(63)]], Entries(1_000)] = field(
        default_factory=dict
    )
    annotations: Annotated[Mapping[str, Annotated[str, Length(262_144)]], Entries(1_000)] = field(
        default_factory=dict
    )
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    finalizers: Annotated[tuple[Name, ...], Items(100)] = ()
