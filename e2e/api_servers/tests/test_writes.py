"""What operator and brokers write in simulated clusters, the real API server takes and keeps."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from chiplog_kube.kinds import BROKERS, Kind
from e2e import measured
from e2e.api_servers.alike import Differ
from e2e.api_servers.servers import make_namespace, real_side, started
from e2e.api_servers.written import Replay, Write, recorded
from e2e.lanes import is_full
from e2e.loopback.api_server import ApiServer
from e2e.sim.api_store import copied
from e2e.sim.faults.mistakes import ELSEWHERE
from e2e.sim.kubelet import NAMESPACE
from e2e.sim.operators import HOME
from e2e.sim.seed import mix_of, replicas_of, run_seed

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("no_log_lines"),
]

CHOSEN = 2
"""A seed in which everything is written that `EXPECTED` names."""
SEEDS = tuple(range(1, 61)) if is_full() else (CHOSEN,)
FAULTS_S = 150.0 if is_full() else 40.0
EXPECTED = frozenset(
    {
        *("create Broker", "create BrokerCluster", "create Lease", "create PartitionMap"),
        *("create Topic", "patch Broker", "patch BrokerCluster", "patch Lease", "patch Topic"),
        *("replace Broker", "replace Lease", "replace PartitionMap", "apply_new ConfigMap"),
        *(
            "apply_new Lease",
            "apply_new PodDisruptionBudget",
            "apply_new Role",
            "apply_new RoleBinding",
        ),
        *(
            "apply Secret",
            "apply_new Service",
            "apply_new ServiceAccount",
            "apply_new StatefulSet",
        ),
    }
)


@cache
def writes_of(seed: int) -> tuple[Write, ...]:
    with recorded() as writes:
        run_seed(seed, replace(mix_of(seed, replicas_of(seed)), faults_s=FAULTS_S))
    return tuple(writes.all)


@contextmanager
def begun(server: ApiServer) -> Iterator[Replay]:
    for namespace in (NAMESPACE, HOME, ELSEWHERE):
        make_namespace(server, namespace)
    with real_side(server) as real:
        yield Replay(real)


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Replay]:
    """On a server of its own: all seeds have the same names."""
    with started(tmp_path / "server") as server, begun(server) as one:
        yield one


@pytest.mark.parametrize("seed", SEEDS)
def test_all_that_is_written_comes_to_the_same(seed: int, replay: Replay) -> None:
    for write in writes_of(seed):
        replay.play(write)
    assert seed != CHOSEN or replay.seen.keys() >= EXPECTED
    made: Counter[str] = replay.seen
    measured.note(
        f"seed {seed}: {made.total()} writes of a simulated cluster came to the same on the real "
        f"API server; {made['a mistake']} mistakes of users only it refused"
    )


def place_of(writes: Sequence[Write], verb: str, kind: Kind, part: str, since: int = 0) -> int:
    """The place of the first such write that names this part of the object."""
    return next(
        place
        for place, one in enumerate(writes)
        if place > since and one.verb == verb and one.kind is kind and one.body.get(part)
    )


def test_what_only_the_real_one_refuses_or_drops_is_seen(server: ApiServer) -> None:
    """A rule and a field of a definition: the simulated one knows neither."""
    writes = writes_of(CHOSEN)
    ruled = place_of(writes, "replace", BROKERS, "spec")
    pruned = place_of(writes, "patch", BROKERS, "status", since=ruled)
    with begun(server) as replay:
        for write in writes[:ruled]:
            replay.play(write)
        with pytest.raises(Differ, match="Invalid"):
            replay.play(with_session(writes[ruled], -1))
        for write in writes[ruled:pruned]:
            replay.play(write)
        with pytest.raises(Differ, match="mood"):
            replay.play(with_mood(writes[pruned]))


def with_session(write: Write, session: int) -> Write:
    body = copied(write.body)
    body["spec"]["session"] = session
    return replace(write, body=body)


def with_mood(write: Write) -> Write:
    assert isinstance(write.outcome.value, dict)
    body, answer = copied(write.body), copied(write.outcome.value)
    body["status"]["mood"] = answer["status"]["mood"] = "good"
    return replace(write, body=body, outcome=write.outcome._replace(value=answer))
