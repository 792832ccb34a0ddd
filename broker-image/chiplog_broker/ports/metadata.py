"""Where the cluster's metadata is kept and changed."""

from collections.abc import Awaitable, Callable
from typing import Protocol
from uuid import UUID

from chiplog_broker.metadata.operations import Operation, Outcome
from chiplog_broker.metadata.view import TopicView

TopicChanged = Callable[[TopicView], Awaitable[None]]
TopicDeleted = Callable[[str, UUID], Awaitable[None]]


class MetadataStore(Protocol):
    """A file in standalone mode, the Kubernetes API otherwise."""

    async def start(self, changed: TopicChanged, deleted: TopicDeleted) -> None:
        """Report every topic there is, and from then on every change, one after another."""

    async def submit(self, operation: Operation) -> Outcome:
        """Have an admin operation carried out; returns when this broker has seen its effect."""

    async def close(self) -> None:
        """Stop reporting."""
