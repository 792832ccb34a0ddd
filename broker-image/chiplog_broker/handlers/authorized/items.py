"""Rules for requests that name several resources, each with a result of its own."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

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

MAX_UNSLICED_RESULTS: Final = 500
"""Results of denied items that are made at once: a millisecond. More are made in another thread."""
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
        refused = [(items[place], code) for place, code in denied.items()]
        if sum(size(item) for item, _ in refused) > MAX_UNSLICED_RESULTS:
            refusals = yield partial(self._refusals, refused)
        else:
            refusals = self._refusals(refused)
        return Reduced(
            changed(asking.message, **{self.items: type(items)(allowed)}),
            adding(self.results, refusals),
        )

    def _refusals(self, refused: Iterable[tuple[Any, ErrorCode]]) -> tuple[object, ...]:
        """The results of the denied items."""
        return tuple(self.refusal(item, code) for item, code in refused)

    def _denied(self, asking: Asking, items: Iterable[Any]) -> Steps[dict[int, ErrorCode]]:
        """The places of the denied items, each with its error."""
        needed = []
        for item in items:
            needed.append(self.needs(asking, item))
            if not len(needed) % (10 * NAMES_PER_STEP):
                yield None
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


def size(item: Any) -> int:
    """The number of results that an item gets: one for each of its partitions."""
    for field in ("partitions", "partition_indexes"):
        parts = getattr(item, field, None)
        if parts is not None:
            return len(parts)
    return 1


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
