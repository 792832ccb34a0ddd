"""A broker's metrics, read as Prometheus reads them."""

from prometheus_client.parser import text_string_to_metric_families

from chiplog_broker.broker import Broker

Samples = dict[tuple[str, ...], float]


async def told(broker: Broker) -> Samples:
    """(name, label values in the order of the labels' names…) -> value."""
    text = (await broker.exposition().text()).decode()
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            at = (one.name, *(value for _, value in sorted(one.labels.items())))
            assert at not in found, f"{at} is told twice"
            found[at] = one.value
    return found
