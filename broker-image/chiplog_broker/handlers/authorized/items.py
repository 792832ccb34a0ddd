"""Rules for requests that name several resources, each with a result of its own."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from chiplog_broker.handlers.authorized.asking import (
    FAILED,
    NAMES_PER_STEP,
    Asking,
    Merge,
    Reduced,
    Verdict,
    changed,
)
from chiplog_core.authorizer.acls import CLUSTER_NAME, Operation, ResourceType
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.steps import Steps

Needed = tuple[ResourceType, str]
"""The resource for which an item needs the permission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerItem:
    """Each item of a request needs a permission for the resource that it names.

    Denied items are taken out of the request, and get an error in the answer.
    """

    items: str
    """The field of the request with the items."""
    operation: Operation
    needs: Callable[[Asking, Any], Needed | None]
    """The resource of an item; None for an item that its handler refuses anyway, before it says
    anything about the resource."""
    results: str
    """The field of the answer with the results."""
    refusal: Callable[[Any, ErrorCode], object]
    """Makes the result of a denied item from the item and the error."""
    is_named_once: bool = False
    """Whether the handler refuses all items that name the same resource: these are not checked, as
    Kafka refuses them first."""
    instead: Operation | None = None
    """A permission for the cluster that replaces those for the items."""

    def __call__(self, asking: Asking) -> Steps[Verdict]:
        items = getattr(asking.message, self.items)
        if self.instead is not None and asking.sees(
            self.instead, ResourceType.CLUSTER, CLUSTER_NAME
        ):
            return None
        denied = yield from self._denied(asking, items)
        if not denied:
            return None
        allowed = [item for place, item in enumerate(items) if place not in denied]
        refusals = tuple(self.refusal(items[place], code) for place, code in denied.items())
        return Reduced(
            changed(asking.message, **{self.items: type(items)(allowed)}),
            adding(self.results, refusals),
        )

    def _denied(self, asking: Asking, items: Iterable[Any]) -> Steps[dict[int, ErrorCode]]:
        """The places of the denied items, each with its error."""
        needed = [self.needs(asking, item) for item in items]
        times = Counter(needed) if self.is_named_once else Counter()
        denied = {}
        for place, resource in enumerate(needed):
            if place % NAMES_PER_STEP == NAMES_PER_STEP - 1:
                yield None
            if resource is None or times[resource] > 1:
                continue
            if not asking.may(self.operation, *resource):
                denied[place] = FAILED[resource[0]]
        return denied


def adding(field: str, results: Iterable[object]) -> Merge:
    """A merge that adds these results to a field of the answer."""

    def merge(answer: Any) -> Steps[object]:
        yield from ()
        return changed(answer, **{field: (*getattr(answer, field), *results)})

    return merge


def topic_in(field: str) -> Callable[[Asking, Any], Needed]:
    """The items are about topics, whose names are in this field."""
    return lambda _, item: (ResourceType.TOPIC, getattr(item, field))


def group(_: Asking, group_id: str) -> Needed:
    """The items are the ids of groups."""
    return ResourceType.GROUP, group_id
