"""Which brokers are removed when spec.replicas is lowered.

Those that the annotation `chiplog.dev/remove-broker-ids` names go first, in its order, then those
that are on their way, then the highest ids. An id is never used again, so what the annotation names
may be gone already: it can stay in a manifest.
"""

import re
from collections.abc import Collection, Mapping
from itertools import count, islice

from chiplog_core.ids import BrokerId
from chiplog_core.model.annotations import field_of, shown
from chiplog_core.model.broker import Broker, BrokerIntent
from chiplog_core.model.verdicts import brokers_named
from chiplog_core.naming import labels
from chiplog_core.problems import Problem

_IDS = re.compile(r"[0-9]{1,5}(\s*,\s*[0-9]{1,5})*")

Brokers = Mapping[BrokerId, Broker]


def named_for_removal(
    annotations: Mapping[str, str], brokers: Brokers
) -> tuple[tuple[BrokerId, ...], Problem | None]:
    """The ids that the annotation names, in its order, and what is wrong with it; then nobody is
    named. `brokers` are all that ever were."""
    value = annotations.get(labels.REMOVE_BROKER_IDS, "").strip()
    if not value:
        return (), None
    field = field_of(labels.REMOVE_BROKER_IDS)
    # Strimzi's remove-node-ids has brackets.
    has_brackets = value.startswith("[") and value.endswith("]")
    inner = value[1:-1].strip() if has_brackets else value
    if not _IDS.fullmatch(inner):
        remedy = 'write ids of brokers, like "2,5", or remove it'
        return (), Problem(field, f"is {shown(value)}, which is no list of ids", remedy)
    found = tuple(dict.fromkeys(BrokerId(int(one)) for one in inner.split(",")))
    missing = [one for one in found if one not in brokers]
    if missing:
        staying = [one for one, broker in sorted(brokers.items()) if not broker.spec.retired]
        message = f"names {brokers_named(missing)}, which never existed"
        some = f"name some of the {brokers_named(staying)}" if staying else "wait for the brokers"
        remedy = f"{some}, or remove it"
        return (), Problem(field, message, remedy)
    return found, None


def staying_ids(brokers: Brokers, replicas: int, named: Collection[BrokerId]) -> list[BrokerId]:
    """The ids of the brokers that stay or are to be created, in order. `named` are those that a
    user wants to be removed first, in this order."""
    existing = {one for one, broker in brokers.items() if not broker.spec.retired}
    usable = (one for one in map(BrokerId, count(1)) if one not in brokers or one in existing)
    ids = {*islice(usable, replicas), *existing}
    removing = {one for one in existing if brokers[one].spec.intent is BrokerIntent.REMOVE}
    order = {broker_id: place for place, broker_id in enumerate(named)}
    first_to_go = sorted(
        ids, key=lambda one: (order.get(one, len(order)), one not in removing, -one)
    )
    return sorted(first_to_go[len(ids) - replicas :])
