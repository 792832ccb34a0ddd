"""The node ports that are asked for when Services are made."""

from dataclasses import replace

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec, NodePorts
from chiplog_core.model.metadata import Metadata
from chiplog_core.planner.brokers.node_ports import BOOTSTRAP, node_ports_of


def broker(broker_id: int, *held: NodePorts) -> Broker:
    return Broker(
        metadata=Metadata(name=f"demo-{broker_id}", namespace="home"),
        spec=BrokerSpec(
            cluster="demo",
            cluster_id="c",
            broker_id=BrokerId(broker_id),
            intent=BrokerIntent.SERVE,
            node_ports=held,
        ),
    )


def test_each_broker_asks_for_its_own_ports_and_the_lowest_id_for_the_bootstrap_service() -> None:
    first = broker(1, NodePorts(listener="external", broker=30_001, bootstrap=30_000))
    second = broker(2, NodePorts(listener="external", broker=30_002, bootstrap=30_999))

    assert node_ports_of([second, first]) == {
        1: {"external": 30_001},
        2: {"external": 30_002},
        BOOTSTRAP: {"external": 30_000},
    }


def test_a_port_that_was_not_allocated_yet_is_not_asked_for() -> None:
    half = broker(1, NodePorts(listener="external", broker=30_001))
    other = broker(2, NodePorts(listener="external", bootstrap=30_000))

    assert node_ports_of([half]) == {1: {"external": 30_001}}
    assert node_ports_of([half, other]) == {
        1: {"external": 30_001},
        BOOTSTRAP: {"external": 30_000},
    }


def test_a_retired_broker_holds_no_ports() -> None:
    gone = broker(1, NodePorts(listener="external", broker=30_001, bootstrap=30_000))

    assert node_ports_of([replace(gone, spec=replace(gone.spec, retired=True))]) == {}
