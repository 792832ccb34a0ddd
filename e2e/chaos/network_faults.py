"""Faults of the network: leaders that are cut off, and an API server that is unavailable."""

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.chaos.scene import Scene, check_effect
from e2e.cluster import control_plane, cut, outage
from e2e.cluster.cut import Cut
from e2e.cluster.kubectl import eventually

CLIENT_PORTS = (9092, 9094)
ANSWER_LIMIT_S = 60


@contextmanager
def cut_two_ways(scene: Scene) -> Iterator[None]:
    """A leader is cut off from the API server and the other brokers; clients still reach it."""
    broker = scene.some_leader()
    with deposing(scene, broker, cut.whole(scene.ip(broker))):
        yield


@contextmanager
def cut_one_way(scene: Scene) -> Iterator[None]:
    """A leader's packets to the API server and other brokers are lost; theirs reach it."""
    broker = scene.some_leader()
    with deposing(scene, broker, cut.outgoing(scene.ip(broker))):
        yield


@contextmanager
def cut_from_api_server(scene: Scene) -> Iterator[None]:
    """A leader is cut off from the API server only; it reaches all other brokers and clients."""
    broker = scene.some_leader()
    with deposing(scene, broker, cut.from_api_server(scene.ip(broker))):
        yield


@contextmanager
def deposing(scene: Scene, broker: int, what: Cut) -> Iterator[None]:
    """Apply this cut, and run the block once the broker leads nothing; the cut ends with the
    block."""
    led = scene.led_by(broker)
    with cut.made(what):
        scene.wait_deposed(broker, led)
        yield
        check_effect("a packet dropped", cut.dropped())


@contextmanager
def cut_from_clients(scene: Scene) -> Iterator[None]:
    """A leader is cut off from its clients only; it must keep its leadership."""
    broker = scene.some_leader()
    session = scene.session(broker)
    with cut.made(cut.from_clients(scene.ip(broker), CLIENT_PORTS)):
        yield
        check_effect("a packet dropped", cut.dropped())
    assert scene.session(broker) == session, (
        f"broker {broker} has a new session, though only its clients were cut off from it"
    )


@contextmanager
def api_server_stopped(scene: Scene) -> Iterator[None]:
    """The API server is stopped, and started again."""
    with outage.stopped():
        yield
        check_effect("an API server that answers nothing", not control_plane.api_server_ready())
    eventually("the API server answers", lambda: bool(scene.places()), ANSWER_LIMIT_S)
    scene.operator.wait_whole()
