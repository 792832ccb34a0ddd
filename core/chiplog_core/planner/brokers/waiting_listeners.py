"""The listeners that cannot be advertised as their load balancers are now."""

from collections.abc import Iterator, Mapping, Sequence

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.listener import Listener, ListenerType
from chiplog_core.observed.world import World
from chiplog_core.planner.brokers.endpoints import host_of, listener_service

MAX_NAMED = 5


def waiting_listeners(
    world: World, cluster: BrokerCluster, broker_ids: Sequence[BrokerId]
) -> Iterator[str]:
    """For each of these listeners, which Services it waits for, and what to do."""
    for listener in cluster.listeners:
        if listener.type is not ListenerType.LOAD_BALANCER:
            continue
        advertised = dict(_advertised(world, cluster, listener, broker_ids))
        lacking = [name for name in advertised if not world.service_addresses.get(name)]
        if lacking:
            yield (
                f"listener {listener.name} waits for the address of a load balancer in the status "
                f"of Service {_named(lacking)}: check that Kubernetes has a controller for load "
                "balancers, and the Events of the Service"
            )
        outdated = [
            name
            for name, host in advertised.items()
            if name not in lacking and host not in {None, world.service_addresses[name]}
        ]
        if outdated:
            yield (
                f"listener {listener.name} does not advertise the new address of Service "
                f"{_named(outdated)} yet: it waits until brokers have the certificates with it, "
                "which takes some minutes"
            )


def _advertised(
    world: World, cluster: BrokerCluster, listener: Listener, broker_ids: Sequence[BrokerId]
) -> Iterator[tuple[str, str | None]]:
    """The names of the listener's Services, and the host that is advertised for each: empty if
    there is none yet, None if it does not depend on the Service."""
    if listener.has_bootstrap_service:
        servers = {one.name: one.bootstrap_servers for one in cluster.status.listeners}
        yield listener_service(world, listener), host_of(servers.get(listener.name, ""))
    for broker_id in broker_ids:
        hosts = _hosts(world, broker_id)
        is_given = listener.given_host(broker_id) is not None
        host = None if is_given else hosts.get(listener.name, "")
        yield listener_service(world, listener, broker_id), host


def _hosts(world: World, broker_id: BrokerId) -> Mapping[str, str]:
    """The hosts that a broker advertises, by listener."""
    broker = world.brokers.get(broker_id)
    endpoints = () if broker is None else broker.spec.endpoints
    return {endpoint.listener: endpoint.host for endpoint in endpoints}


def _named(services: Sequence[str]) -> str:
    more = f" and {len(services) - MAX_NAMED} more" if len(services) > MAX_NAMED else ""
    return f"{', '.join(services[:MAX_NAMED])}{more}"
