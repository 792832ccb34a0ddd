"""Brokers that replicate while TLS between them is switched on, and off again, one by one."""

import asyncio
from functools import partial
from pathlib import Path

from chiplog_broker.security.listener_security import ClientAuth, TlsSettings
from chiplog_broker.server.listening import Acceptor
from chiplog_broker.server.tls_sending import is_encrypted
from chiplog_core.ids import BrokerId
from chiplog_core.naming.peers import broker_host, is_broker
from e2e.kafka.certificates import Authority
from tests.metadata.kubernetes.brokers_kit import ALL, CLUSTER, NAMESPACE, Brokers, run


def certificates(directory: Path) -> dict[int, TlsSettings]:
    ca, found = Authority.create("cluster"), {}
    for number in ALL:
        host = broker_host(CLUSTER, NAMESPACE, BrokerId(number))
        place = ca.write(ca.peer(host, "127.0.0.1").write(directory / f"tls-{number}"))
        admitted = partial(is_broker, cluster=CLUSTER, namespace=NAMESPACE)
        found[number] = TlsSettings(place, place, ClientAuth.REQUIRED, is_admitted=admitted)
    return found


async def roll(brokers: Brokers, broker_id: int) -> None:
    """Restart a broker, whose leaderships others take over."""
    others = tuple(one for one in ALL if one != broker_id)
    await brokers.stop(broker_id)
    brokers.fence(broker_id)
    brokers.lead(others[0], isr=others)
    await brokers.settled(others[0])
    await brokers.produce(others[0], b"while one is away")
    await brokers.start(broker_id)
    brokers.lead(others[0], isr=others)
    await brokers.settled(others[0])


def internal(brokers: Brokers, broker_id: int) -> Acceptor:
    return brokers.up[broker_id].broker.acceptors[1]


async def each_leads_once(brokers: Brokers) -> dict[int, set[bool]]:
    """Every broker fetches from every other one. Returns of each whether its followers' connections
    use TLS."""
    found = {}
    for leader in ALL:
        brokers.lead(leader)
        await brokers.settled(leader)
        await brokers.produce(leader, b"led by %d" % leader)
        await brokers.equal(brokers.ends()[leader])
        found[leader] = {
            is_encrypted(one.transport) for one in internal(brokers, leader)._connections
        }
    return found


def test_tls_is_switched_on_and_off_again_broker_by_broker(
    brokers: Brokers, tmp_path: Path
) -> None:
    of_all = certificates(tmp_path)

    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1)
        await brokers.settled(1)
        assert await each_leads_once(brokers) == {1: {False}, 2: {False}, 3: {False}}
        for broker_id in (2, 3, 1):
            brokers.tls[broker_id] = of_all[broker_id]
            await roll(brokers, broker_id)
            found = await each_leads_once(brokers)
        # What was opened before the last one had rolled is closed by the next sweep.
        for broker_id in ALL:
            assert not brokers.up[broker_id].broker._cluster.has_plain_brokers
            internal(brokers, broker_id).sweep(asyncio.get_running_loop().time())
        found = await each_leads_once(brokers)
        assert found == {1: {True}, 2: {True}, 3: {True}}
        for broker_id in (3, 1, 2):
            del brokers.tls[broker_id]
            await roll(brokers, broker_id)
            found = await each_leads_once(brokers)
        assert found == {1: {False}, 2: {False}, 3: {False}}
        ends = brokers.ends()
        assert set(ends.values()) == {max(ends.values())}

    run(brokers, scenario)
