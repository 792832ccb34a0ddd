"""A simulated cluster as a whole: nodes, operators, an API server, clients, and one clock."""

import asyncio
import hashlib
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any, Final, TypeAlias

from chiplog_core.config.broker_keys import RACK_AWARE_SELECTOR, REPLICA_SELECTOR_CLASS
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_operator.resources.secret import internal_secret
from e2e.sim.api_server import ApiServer
from e2e.sim.api_store import ApiStore, Backup
from e2e.sim.clients import FEW_PARTITIONS, Auditor, Consumer, Habits, Notebook, Producer
from e2e.sim.decisions import DecisionTrace
from e2e.sim.inquiries import SimGroupsPort, SimInquiries
from e2e.sim.kubelet import CLUSTER, NAMESPACE, PASSWORD, Node, SimContext
from e2e.sim.logs import AppendTrace, replicas_on
from e2e.sim.loop import START_S, Process, SimLoop
from e2e.sim.maps import States, damaged_in, in_sync_in, partitions_in, states_in
from e2e.sim.mounts import Mounts
from e2e.sim.move_watch import MoveWatch
from e2e.sim.network import Network
from e2e.sim.observer import Scenery
from e2e.sim.operators import HOME, Operator, causes
from e2e.sim.pipelining import PipeliningProducer
from e2e.sim.roles import ACTING, role_of_broker, role_of_operator
from e2e.sim.throttle_watch import ThrottleWatch
from e2e.sim.upkeep_watch import UpkeepWatch
from e2e.sim.watch import Watch
from e2e.sim.wire import TopicPartition

EPOCH: Final = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
ZONE: Final = "topology.kubernetes.io/zone"
READS_IN_RACKS: Final[dict[str, Any]] = {
    "rack": {"topologyKey": ZONE},
    "config": {REPLICA_SELECTOR_CLASS.name: RACK_AWARE_SELECTOR},
}


UNDER_WAY: Final = frozenset({RebalanceState.REBALANCING, RebalanceState.PENDING_PROPOSAL})
"""States that a Rebalance leaves by itself in a cluster that is well."""
MountsOf: TypeAlias = Callable[[int, Path, random.Random], Mounts]
"""Makes the mounted Secrets of a broker's pod below a directory."""


class World:
    """One simulated cluster and its clients."""

    reserved_topics: frozenset[str] = frozenset()
    """Topics that the usual clients neither write to nor read from."""

    def __init__(self, loop: SimLoop, seed: str, brokers: int, operators: int) -> None:
        self.loop = loop
        self.chance = random.Random(seed)  # noqa: S311 - not for secrets
        self.faults: Counter[str] = Counter()
        self.hits: Counter[tuple[str, str]] = Counter()
        """(fault, role of the process that it hit) -> how often."""
        self.hash = hashlib.blake2b(digest_size=8)
        self.network = Network(loop, self.own_chance())
        loop.network = self.network
        self.store = ApiStore(now=self.now)
        self.server = ApiServer(loop, self.store, self.network, self.own_chance(), self.faults)
        self.server.on_write.append(self.trace)
        self.trace_of_appends = AppendTrace()
        self.trace_of_decisions = DecisionTrace(self.store, loop.time)
        self._context = context = SimContext(
            loop=loop,
            network=self.network,
            server=self.server,
            chance=self.own_chance(),
            faults=self.faults,
            epoch_s=EPOCH.timestamp(),
        )
        self.nodes: dict[int, Node] = {}
        self.upkeep_watch: UpkeepWatch | None = None
        """None in simulations without upkeep."""
        self._mounts_of: MountsOf | None = None
        self._files: tempfile.TemporaryDirectory[str] | None = None
        """The files of mounted Secrets; None in simulations without users."""
        for number in range(1, brokers + 1):
            self._add_machine(number)
        self.operators = [Operator(context, number) for number in range(1, operators + 1)]
        self.notebook = Notebook(loop.time, epoch_s=EPOCH.timestamp() - START_S)
        self.notebook.history.epoch_ms = int(self.notebook.epoch_s * 1000)
        self.scenery = scenery = Scenery(
            store=self.store,
            nodes=self.nodes,
            decisions=self.trace_of_decisions,
            history=self.notebook.history,
            now_s=loop.time,
        )
        self.watch = Watch(scenery, self.notebook.now_ms)
        self.move_watch = MoveWatch(scenery)
        self.reads_in_racks = False
        """Whether consumers name a rack in their fetches, each the rack of another broker."""
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self._client_processes: dict[str, Process] = {}
        """Name of a producer or consumer -> its process."""
        self.clients: list[Process] = []
        self.used_partitions: list[TopicPartition] = []
        """The partitions that clients write to and read from."""
        self._background_tasks: list[asyncio.Task[None]] = []
        self.topic_defaults: dict[str, Any] = {}
        """Fields of the spec that all Topics have: `replicas`, and the `config` that suits it."""
        self.topic_configs: dict[str, dict[str, str]] = {}
        """Topic -> settings that only it has."""
        self.has_changed_brokers = False
        """Whether a user changed the number or the settings of the brokers."""
        self._adds_nodes = False
        self.wanted_topics: set[str] = set()
        """Topics that users deleted in order to create them again."""
        self._asked_s: dict[str, float] = {}
        """Topic -> when a user requested it, in seconds of the loop's time."""
        self.bad_disk = 1 + random.Random(f"{seed} bad disk").randrange(brokers)  # noqa: S311
        """The only broker whose disk damages files, so that undamaged replicas are left."""

    def own_chance(self) -> random.Random:
        """A new random stream. Each part of the simulation has its own, so that the draws of one
        part do not change those of another."""
        return random.Random(self.chance.getrandbits(64))  # noqa: S311

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.loop.now_s - START_S)

    def trace(self, *what: object) -> None:
        """Add an event and its time to the digest of this run."""
        self.hash.update(repr((round(self.loop.now_s, 9), *what)).encode())

    # -- what a user does

    def begin(self) -> None:
        """Create the objects that exist before any cluster; start the nodes and operators."""
        store = self.store
        for kind, name in (
            (kinds.DEFINITIONS, "topics.chiplog.dev"),
            (kinds.NAMESPACES, NAMESPACE),
            (kinds.NAMESPACES, HOME),
        ):
            store.create(kind, {"metadata": {"name": name}})
        for number in self.nodes:
            self._register_node(number)
        parts: list[Operator | Node] = [*self.operators, *self.nodes.values()]
        for one in parts:
            self._background_tasks.append(self.loop.create_task(one.run()))
        self.keep(self.watch.run())

    def _add_machine(self, number: int) -> None:
        """Add a machine for broker `number`; `_register_node` makes it known to the API server."""
        node = self.nodes[number] = Node(self._context, number)
        node.disks.on_append = self.trace_of_appends.wrote
        node.disks.on_deletion = lambda disks, path: self.move_watch.deletes(number, disks, path)
        if self.upkeep_watch is not None:
            _serve_upkeep(node)
        self._mount(node)

    def _register_node(self, number: int) -> None:
        """Create the Node object of machine `number`."""
        address = {"type": "InternalIP", "address": f"198.18.0.{number}"}
        meta = {"name": f"node-{number}", "labels": {ZONE: rack_of(number)}}
        self.store.create(kinds.NODES, {"metadata": meta, "status": {"addresses": [address]}})

    def restore(self, backup: Backup, *, bump: int = 0) -> None:
        """Restore etcd from a backup; `bump` is that of `ApiStore.restore`.

        The kubelets of machines that were added after the backup register them again.
        """
        self.store.restore(backup, bump=bump)
        self.trace_of_decisions.restored()
        for number in self.nodes:
            if self.store.peek(kinds.NODES, "", f"node-{number}") is None:
                self._register_node(number)

    def prepare_upkeep(self) -> None:
        """Let volumes have claims, let operators carry out Rebalances, and observe all that. To be
        called before `begin`; without it no fault of the family `upkeep` works."""
        self.upkeep_watch = UpkeepWatch(self.scenery, self.watch)
        throttle_watch = ThrottleWatch(self.scenery, self.network)
        self.keep(self.upkeep_watch.run(self.is_calm))
        self.keep(throttle_watch.run())
        for operator in self.operators:
            operator.groups_port = SimGroupsPort(operator.host, self.network, self.nodes)
        for node in self.nodes.values():
            _serve_upkeep(node)

    def serve_users(self, mounts_of: MountsOf) -> None:
        """Let operators reconcile Users, and pods mount their Secrets. To be called before `begin`;
        without it no listener has TLS or logins."""
        self._mounts_of = mounts_of
        self._files = tempfile.TemporaryDirectory(prefix="chiplog-sim-")
        for operator in self.operators:
            operator.keeps_users = True
        for node in self.nodes.values():
            self._mount(node)

    def _mount(self, node: Node) -> None:
        """Let the pods of this machine mount Secrets."""
        if self._mounts_of is not None and self._files is not None:
            root = Path(self._files.name)
            node.mounts = self._mounts_of(int(node.broker_id), root, self.own_chance())

    def expect_lost_claim(self, uid: str) -> None:
        """Note that a user deletes this volume claim: no decision of the operator lets it go."""
        assert self.upkeep_watch is not None, "there are claims only for upkeep"
        self.upkeep_watch.by_hand.add(uid)

    def wants_fewer_brokers(self) -> bool:
        """Whether the cluster's spec asks for fewer brokers than there are."""
        cluster = self.store.get(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER)
        specs = [one["spec"] for one in self.store.all_of(kinds.BROKERS)]
        there = sum(not spec.get("retired") for spec in specs)
        return int(cluster["spec"]["replicas"]) < there

    def note_places(self) -> None:
        """Note partitions that are not where they are placed; the cluster has recovered."""
        if self.upkeep_watch is not None:
            self.upkeep_watch.note_places()

    def is_calm(self) -> bool:
        """Whether an operator is at work, and everything reaches everything else."""
        server, network = self.server, self.network
        is_served = not (
            server.is_away
            or server.refused_share
            or server.lost_answer_share
            or server.late_share
            or server.watch_delay_s
        )
        is_connected = not (
            network.blocked or network.without_power or network.slow_ways_s or network.slow_ends_s
        )
        return (
            is_served
            and is_connected
            and any(
                one.is_active and one.process is not None and not one.process.is_paused
                for one in self.operators
            )
        )

    def add_node(self) -> None:
        """Add a machine for one more broker, and let consumers read from that broker, too."""
        number = len(self.nodes) + 1
        self._add_machine(number)
        self._register_node(number)
        self._background_tasks.append(self.loop.create_task(self.nodes[number].run()))
        for one in self.consumers:
            self._client_processes[one.name].spawn(one.read_from(number), one.name)

    def add_nodes_as_needed(self) -> None:
        """From now on, add a machine for each new broker that the operator makes."""
        if self._adds_nodes:
            return
        self._adds_nodes = True

        async def watch() -> None:
            while True:
                numbers = [one["spec"]["brokerId"] for one in self.store.all_of(kinds.BROKERS)]
                while len(self.nodes) < max(numbers, default=0):
                    self.add_node()
                await asyncio.sleep(0.5)

        self.keep(watch())

    def apply_cluster(self, **spec: Any) -> None:
        given = {"replicas": len(self.nodes), "storage": {"size": "1Gi"}, **spec}
        made = self.store.create(kinds.BROKER_CLUSTERS, manifest("BrokerCluster", CLUSTER, given))
        # The operator keeps an existing password. One of its own would come from the machine's
        # random numbers and differ in each run.
        secret = internal_secret(BrokerCluster.from_manifest(made), PASSWORD)
        self.store.create(kinds.SECRETS, secret)

    def apply_topic(self, name: str, partitions: int, **spec: Any) -> None:
        given = {"clusterRef": {"name": CLUSTER}, "partitions": partitions, **spec}
        self.note_request(name)
        self.store.create(kinds.TOPICS, manifest("Topic", name, given))

    def config_of(self, topic: str) -> dict[str, Any]:
        """The settings with which a topic is created."""
        return {**self.topic_defaults.get("config", {}), **self.topic_configs.get(topic, {})}

    def make_topic(self, name: str, partitions: int) -> None:
        """Create a Topic with the fields that all Topics of this run have."""
        self.apply_topic(
            name, partitions, **{**self.topic_defaults, "config": self.config_of(name)}
        )

    def note_request(self, topic: str) -> None:
        """Note the time at which a user requests a topic, unless it exists already."""
        if self.store.peek(kinds.TOPICS, NAMESPACE, topic) is None:
            self._asked_s[topic] = self.loop.time()

    def start_clients(self, producers: int, consumers: int, pause_s: float, habits: Habits) -> None:
        """Start this many producers and consumers for all partitions that exist now.

        A producer pauses up to `pause_s` between two batches.
        """
        self.used_partitions = self._open_partitions()
        self.trace_of_appends.keeps_places = habits.keys > 0
        for number in range(1, producers + 1):
            # The first of several producers uses acks=1: it is an additional load, and its records
            # are not checked, because they may be lost.
            acks = -1 if number > 1 or producers == 1 else 1
            is_slower = habits.quietness and acks > 0
            self.start_producer(
                self.used_partitions, acks, 2 * pause_s if is_slower else pause_s, habits
            )
        for number in range(1, consumers + 1):
            consumer = Consumer(
                f"c{number}", self.bootstrap, self.own_chance(), self.notebook, habits
            )
            # The first consumer reads records as they come; the others pause, and then read more.
            consumer.is_lazy = number > 1
            consumer.rack = rack_of(number) if self.reads_in_racks else ""
            self.consumers.append(consumer)
            self._client_processes[consumer.name] = process = self.new_client(consumer.name)
            process.spawn(consumer.run(self.used_partitions, sorted(self.nodes)), consumer.name)
        self._adapt_pace()

    def start_producer(
        self,
        partitions: list[TopicPartition],
        acks: int,
        pause_s: float,
        habits: Habits,
        padding: str = "",
    ) -> None:
        """Start one more producer. `padding` becomes part of its name and so of each record."""
        name = f"p{len(self.producers) + 1}{padding}"
        made = PipeliningProducer if acks < 0 and habits.in_flight > 1 else Producer
        producer = made(name, self.bootstrap, self.own_chance(), self.notebook, habits)
        producer.acks, producer.pause_s = acks, pause_s
        self.producers.append(producer)
        self._client_processes[name] = process = self.new_client(name)
        process.spawn(producer.run(partitions), name)

    def _adapt_pace(self) -> None:
        """Let producers pause longer the more partitions there are: the total load stays equal."""
        for one in self.producers:
            if one.habits.quietness:
                one.crowding = max(1.0, len(self.used_partitions) / FEW_PARTITIONS)

    def use_new_partitions(self) -> None:
        """Let clients write to and read from partitions that were created since the last call."""
        history = self.notebook.history
        for partition in self._open_partitions():
            if partition in self.used_partitions or str(partition) in history.deleted:
                continue
            self.used_partitions.append(partition)
            history.made[str(partition)] = self._asked_s.get(partition.topic, 0.0)
            for producer in self.producers:
                self._client_processes[producer.name].spawn(
                    producer.write(partition), producer.name
                )
            for consumer in self.consumers:
                consumer.follow(partition)
        self._adapt_pace()

    def _open_partitions(self) -> list[TopicPartition]:
        """All partitions that the usual clients use."""
        found = partitions_in(self.store)
        return [one for one in found if one.topic not in self.reserved_topics]

    def expect_deletion(self, topic: str) -> None:
        """Note that a user deletes this topic: checkers expect nothing of it from now on."""
        for partition in {*partitions_in(self.store), *self.used_partitions}:
            if partition.topic == topic:
                self.notebook.history.deleted.setdefault(str(partition), self.loop.time())
        self.used_partitions = [one for one in self.used_partitions if one.topic != topic]

    def as_client(self, name: str, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run `work` as a new client process on its own host; a failure is noted as a problem."""
        task = self.new_client(name).spawn(work, name)
        task.add_done_callback(self.client_ended)
        return task

    def client_ended(self, task: "asyncio.Task[Any]") -> None:
        """Note a client that ended with an exception: it would observe nothing from then on."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.notebook.problems.append(f"{task.get_name()} ended: {causes(fault)}")

    def new_client(self, name: str, host: str = "") -> Process:
        """A process of a client, on its own host unless `host` is given."""
        process = Process(name, host or f"client-{name}")
        self.clients.append(process)
        return process

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` outside of all simulated processes until the simulation ends."""
        self._background_tasks.append(self.loop.create_task(work))

    @property
    def bootstrap(self) -> list[str]:
        return [one.host for one in self.nodes.values()]

    async def audit(self) -> None:
        """Read all partitions to their ends, at the same time, into the history."""
        auditor = Auditor("auditor", self.bootstrap, self.own_chance(), self.notebook)

        async def everything() -> None:
            async with asyncio.TaskGroup() as group:
                for one in self.used_partitions:
                    group.create_task(auditor.read(one))

        await self.as_client("auditor", everything())

    def read_disks(self) -> None:
        """Copy into the history what brokers wrote and what their disks hold now."""
        history = self.notebook.history
        history.appends = self.trace_of_appends.appends
        history.placed = self.trace_of_appends.placed()
        history.decisions = self.trace_of_decisions.decisions
        disks = {number: node.disks for number, node in self.nodes.items()}
        in_sync, damaged = in_sync_in(self.store), damaged_in(self.store)
        history.replicas = list(replicas_on(disks, in_sync, damaged))
        self.move_watch.note_leaks()

    # -- how it is

    def count_hit(self, whom: Operator | Node) -> None:
        """Count that the current fault hit a process of this role."""
        if isinstance(whom, Operator):
            role = role_of_operator(is_active=whom.is_active)
        else:
            role = role_of_broker(self.store, whom.broker_id)
        self.hits[ACTING.get(), role] += 1

    def why_unwell(self) -> str:
        """The first thing that is not as it should be, as text; empty if all is well."""
        for topic in self.store.all_of(kinds.TOPICS):
            if not is_ready(topic):
                return f"Topic {topic['metadata']['name']} is not Ready"
        for number, node in self.nodes.items():
            spec = (self.store.peek(kinds.BROKERS, NAMESPACE, f"{CLUSTER}-{number}") or {}).get(
                "spec", {}
            )
            if spec.get("retired") or (not spec and not self._lacks_brokers()):
                continue
            if spec.get("fenced") or not spec.get("session"):
                return f"broker {number} is not admitted"
            if node.broker is None or not node.broker.health.readiness()[0]:
                return f"broker {number} is not ready"
        if self.has_changed_brokers and not self._is_quiesced():
            return f"the condition Quiesced of BrokerCluster {CLUSTER} is not True for its spec"
        for one in self.store.all_of(kinds.REBALANCES):
            if one.get("status", {}).get("state") in UNDER_WAY:
                return f"Rebalance {one['metadata']['name']} is {one['status']['state']}"
        states = list(states_in(self.store))
        return self._why_maps_lag(states) or self._why_sessions_lag(states)

    def _lacks_brokers(self) -> bool:
        """Whether fewer brokers exist than the cluster is to have. A machine whose broker was added
        after the backup that etcd was restored from has none."""
        cluster = self.store.peek(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER)
        brokers = self.store.all_of(kinds.BROKERS)
        found = sum(not one["spec"].get("retired", False) for one in brokers)
        return cluster is None or found < cluster["spec"]["replicas"]

    def _why_sessions_lag(self, states: States) -> str:
        """Text about an ISR member whose session is newer than its Broker object; else empty.

        This is so after etcd was restored from a backup. The leader removes such a member once it
        has lagged for long enough.
        """
        sessions = {
            one["spec"]["brokerId"]: one["spec"].get("session", 0)
            for one in self.store.all_of(kinds.BROKERS)
        }
        for one, state in states:
            for ref in state.isr:
                if ref.session > sessions.get(ref.broker_id, 0):
                    return f"{one} has {ref} in its ISR, whose broker has an earlier session"
        return ""

    def _why_maps_lag(self, states: States) -> str:
        """Text about a partition of which a broker has a newer entry than the map; else empty.

        This is so after etcd was restored from a backup. Until the operator reconciles again,
        every ten seconds, everything else looks as it should.
        """
        stored = {
            (one.topic_id, one.number): (str(one), int(state.partition_epoch))
            for one, state in states
        }
        for number, node in self.nodes.items():
            for topic in getattr(node.broker, "_cluster", ()):
                for view in topic.partitions:
                    label, epoch = stored.get((topic.topic_id, view.index), ("", inf))
                    if view.partition_epoch > epoch:
                        return f"the map of {label} is older than what broker {number} knows"
        return ""

    def _is_quiesced(self) -> bool:
        """Whether the cluster's condition Quiesced is True for its current spec."""
        cluster = self.store.peek(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER) or {}
        return any(
            one["type"] == "Quiesced"
            and one["status"] == "True"
            and one["observedGeneration"] == cluster["metadata"]["generation"]
            for one in cluster.get("status", {}).get("conditions", [])
        )

    def has_records_at_risk(self) -> bool:
        """Whether a condition of a Topic or of the cluster has the reason RecordsAtRisk.

        No in-sync replica of a partition is sure to have all acknowledged records then.
        """
        return any(
            one.get("reason") == "RecordsAtRisk"
            for kind in (kinds.TOPICS, kinds.BROKER_CLUSTERS)
            for manifest in self.store.all_of(kind)
            for one in manifest.get("status", {}).get("conditions", [])
        )

    def is_without_sound_disks(self) -> bool:
        """Whether for some partition the disks of all in-sync replicas had errors or damage."""
        return any(
            all(self.nodes[one].disks.error_count for one in in_sync)
            for in_sync in in_sync_in(self.store).values()
        )

    def heal(self) -> None:
        """End every fault, create the topics again that users want, and repair damaged disks."""
        server = self.server
        server.is_away = False
        server.refused_share = server.lost_answer_share = server.late_share = (
            server.watch_delay_s
        ) = 0.0
        self.network.slowest_s = 0.002
        for name in sorted(self.wanted_topics):
            if self.store.find(kinds.TOPICS, NAMESPACE, name) is None:
                self.make_topic(name, 1)
        for node in self.nodes.values():
            if node.disks.is_refused:
                node.lose_volume()
            if node.disks.damaged:
                # A running broker does not verify all files; one that starts uncleanly does.
                node.disks.lose_clean_mark()
                node.kill()
            node.resume()
            node.power_on()
            node.disks.heal()
        for one in self.operators:
            one.resume()
        self.network.heal()

    def everybody(self) -> list[Process]:
        """All processes of this run, also those that ended."""
        found = list(self.clients)
        parts: list[Operator | Node] = [*self.operators, *self.nodes.values()]
        for one in parts:
            found += one.dead
            if one.process is not None:
                found.append(one.process)
        return found

    async def end(self) -> None:
        """Cancel all tasks and wait for them, so that none is left for the garbage collector.

        Their disks are detached and the API server is away: what they still do changes nothing.
        """
        self.server.is_away = True
        if self._files is not None:
            self._files.cleanup()
        for node in self.nodes.values():
            node.disks.process_ended()
        tasks = list(self._background_tasks)
        for process in self.everybody():
            process.is_alive, process.steps_left = True, None
            self.loop.resume(process)
            tasks += [task for task in process.tasks if not task.done()]
        for _ in range(20):
            tasks = [task for task in tasks if not task.done()]
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=30.0)


def _serve_upkeep(node: Node) -> None:
    """Let this machine have what `World.prepare_upkeep` promises."""
    node.has_claim = True
    node.inquiries = SimInquiries


def rack_of(number: int) -> str:
    """The zone of a node; no two nodes share one."""
    return f"zone-{number}"


def manifest(kind: str, name: str, spec: dict[str, Any]) -> Manifest:
    return {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": kind,
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": spec,
    }


def is_ready(topic: Manifest) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True"
        for one in topic.get("status", {}).get("conditions", [])
    )
