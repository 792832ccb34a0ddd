"""The nodes: a broker's StatefulSet, pod, container and process, as the API server shows them.

The kubelet restarts a container with a growing delay. It reports a process's termination message
0.3 to 0.7 s after its end. A node without power reports nothing; when it is back, it does not know
how its processes ended.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from chiplog_broker.broker import Broker, Ports
from chiplog_broker.config_file import checked, member_listeners, parse_properties
from chiplog_broker.errors import CannotStart
from chiplog_broker.metadata.kubernetes.membership import KubernetesMembership, MemberPorts
from chiplog_broker.metadata.kubernetes.process import Process as BrokerProcess
from chiplog_broker.metadata.kubernetes.process import new_incarnation
from chiplog_broker.metadata.listeners import internal_listener
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.ports.net import SystemNet
from chiplog_broker.security.credentials import Credentials, FixedCredentials, Keyring
from chiplog_core.config.broker_keys import DISK_RESERVE_BYTES
from chiplog_core.ids import BrokerId
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import ObjectKey
from chiplog_operator.views import SELECTED_NODE
from e2e.sim.api_server import ApiServer
from e2e.sim.disk import Disks, VolumeCopy
from e2e.sim.health_port import serve_health
from e2e.sim.loop import Process, SimClock, SimLoop
from e2e.sim.mounts import Mounts
from e2e.sim.network import Network
from e2e.sim.tls import SimDoor

NAMESPACE: Final = "shop"
CLUSTER: Final = "demo"
PASSWORD: Final = "pencil"  # noqa: S105 - of nobody
GRACE_S: Final = 30.0
NOT_ALIVE_S: Final = 5.0
"""The kubelet stops a container whose liveness probe has failed for longer than this."""
LONGEST_BACKOFF_S: Final = 8.0
POLL_S: Final = 0.1
RECONCILE_S: Final = 10.0
"""How often the kubelet compares a pod's status at the API server with its own, and writes it again
if it differs, as after a restore of etcd: `syncPeriod` of Kubernetes' status manager."""
RESERVE_BYTES: Final = 6_000


def reserve_bytes(broker_id: int) -> int:
    """The disk reserve of a broker: brokers with even ids have one and refuse producers before
    their disk is full; the others notice it by a write that fails."""
    return RESERVE_BYTES if broker_id % 2 == 0 else 0


class SeededRng:
    """The broker's port for random numbers, which come from the seed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def token(self, size_bytes: int) -> bytes:
        return self._chance.randbytes(size_bytes)


@dataclass(slots=True)
class Machine:
    """The `Machine` port of one node."""

    boot: str
    termination_log: str = ""

    def boot_id(self) -> str:
        return self.boot

    def leave(self, termination_message: str) -> None:
        self.termination_log = termination_message


@dataclass(frozen=True, slots=True, kw_only=True)
class SimContext:
    """The services that all nodes and operators share."""

    loop: SimLoop
    network: Network
    server: ApiServer
    chance: random.Random
    faults: "Counter[str]"
    epoch_s: float


class Node:
    """One node with the pod of one broker."""

    def __init__(self, context: SimContext, broker_id: int) -> None:
        self._context = context
        self._chance = random.Random(context.chance.getrandbits(64))  # noqa: S311
        self.broker_id = BrokerId(broker_id)
        self.host = names.pod(CLUSTER, self.broker_id)
        self._key = ObjectKey(NAMESPACE, self.host)
        self.disks = Disks(self._chance, context.faults)
        self.clock = SimClock(context.loop, context.epoch_s)
        self.machine = Machine(f"boot-{broker_id}-1")
        self.has_power = True
        self.broker: Broker | None = None
        self.process: Process | None = None
        self.starts = 0
        self.exits: list[str] = []
        """Reasons of processes that ended without being killed."""
        self._stopping: asyncio.Event  # set as by SIGTERM
        self._ended: asyncio.Future[str]  # completed with the reason of the process's end
        self._boots = 1
        self.dead: list[Process] = []
        """Earlier processes, which have ended."""
        self.has_claim = False
        """Whether the volume has a claim, with which users and the operator can replace it."""
        self.inquiries: Callable[[], Any] | None = None
        """Makes what answers the operator's inquiries to a process; None for no answers."""
        self.mounts: Mounts | None = None
        """The files of certificates; None in simulations without users."""

    # -- faults

    def kill(self) -> bool:
        """Send SIGKILL to the broker's process; False if none is running."""
        return self._end("killed")

    def cut_power(self) -> None:
        """Cut the machine's power: its process ends, and unsynced writes may be lost."""
        self._context.network.without_power.add(self.host)
        self.has_power = False
        self._end("power", silently=True)
        self.disks.power_cut()

    def power_on(self) -> None:
        """Restore the machine's power. It has another boot id then; nothing happens if it is on."""
        if self.has_power:
            return
        self._change_boot_id()
        self.has_power = True
        self._context.network.without_power.discard(self.host)
        self._context.network.heal()

    def mount_again(self, *, in_order: bool) -> None:
        """End the pod's process and mount its volume again, with an empty page cache.

        If not `in_order`, the volume was detached without unmounting: unsynced writes may be lost.
        """
        self._end("killed")
        self._change_boot_id()
        if in_order:
            self.disks.mount_again()
        else:
            self.disks.power_cut()

    def put_back(self, copy: VolumeCopy) -> None:
        """End the pod's process and replace its volume by an older copy."""
        self._end("killed")
        self._change_boot_id()
        self.disks.put_back(copy)

    def lose_volume(self) -> None:
        """End the process and replace its volume by an empty one."""
        self._end("killed")
        self.disks.lose_volume()

    def _change_boot_id(self) -> None:
        """Change the boot id, by which a broker learns that its page cache may be another one.

        The next process runs in another pod, or after another start of the kernel.
        """
        self._boots += 1
        self.machine.boot = f"boot-{self.broker_id}-{self._boots}"

    def pause(self) -> None:
        if self.process is not None:
            self.process.is_paused = True

    def resume(self) -> None:
        if self.process is not None and self.process.is_paused:
            self._context.loop.resume(self.process)

    # -- the life of a pod

    async def run(self) -> None:
        """Act as the StatefulSet's controller and this node's kubelet: create the pod, run it."""
        store = self._context.server.store
        name = names.stateful_set(CLUSTER, self.broker_id)
        while True:
            await asyncio.sleep(POLL_S)
            wanted = store.peek(kinds.STATEFUL_SETS, NAMESPACE, name)
            if wanted is not None and self.has_power and not self._context.server.is_away:
                if store.peek(kinds.PODS, *self._key) is None:
                    if self.has_claim and not self._may_create_pod(wanted):
                        continue
                    store.create(kinds.PODS, self._new_pod(wanted))
                    if self.mounts is not None:
                        self.mounts.use(wanted["spec"]["template"])
                await self._run_pod()

    def _may_create_pod(self, wanted: Manifest) -> bool:
        """Whether a pod of the StatefulSet can start here: the node is not cordoned, and the claim
        of its volume exists. A missing claim is created. One that was deleted goes now, with the
        volume, since no pod has it any more (`pvc-protection`)."""
        store = self._context.server.store
        node = store.peek(kinds.NODES, "", f"node-{self.broker_id}") or {}
        if node.get("spec", {}).get("unschedulable"):
            return False
        key = ObjectKey(NAMESPACE, names.volume_claim(CLUSTER, self.broker_id))
        claim = store.peek(kinds.VOLUME_CLAIMS, *key)
        if claim is None:
            store.create(kinds.VOLUME_CLAIMS, self._new_claim(key, wanted))
        elif "deletionTimestamp" in claim["metadata"]:
            store.remove(kinds.VOLUME_CLAIMS, key)
            self.lose_volume()
            return False
        return True

    def _new_claim(self, key: ObjectKey, wanted: Manifest) -> Manifest:
        """A bound claim as the controller of StatefulSets creates it from the template."""
        (template,) = wanted["spec"]["volumeClaimTemplates"]
        return {
            "metadata": {
                "namespace": key.namespace,
                "name": key.name,
                "labels": dict(wanted["spec"]["selector"]["matchLabels"]),
                "annotations": {SELECTED_NODE: f"node-{self.broker_id}"},
                "finalizers": ["kubernetes.io/pvc-protection"],
            },
            "spec": {**template["spec"], "volumeName": f"volume-{self.broker_id}"},
            "status": {"phase": "Bound", "capacity": template["spec"]["resources"]["requests"]},
        }

    async def _run_pod(self) -> None:
        """Run one container after another until the pod is deleted, then remove the pod."""
        backoff_s = 0.0
        while True:
            await asyncio.sleep(backoff_s + self._chance.uniform(0.3, 1.5))
            await self._until(lambda: self.has_power)
            if self._is_deleted():
                break
            if self.mounts is not None and not self.mounts.are_complete():
                continue
            began_s = self._context.loop.time()
            self._start()
            how = await self._watch_container()
            if how != "power":
                await asyncio.sleep(self._chance.uniform(0.3, 0.7))
            await self._write_status(self._status(how))
            lasted_s = self._context.loop.time() - began_s
            backoff_s = 0.0 if lasted_s > 30.0 else min(max(backoff_s * 2, 0.5), LONGEST_BACKOFF_S)
        await self._when_reachable()
        if self._context.server.store.peek(kinds.PODS, *self._key) is not None:
            self._context.server.store.remove(kinds.PODS, self._key)

    async def _watch_container(self) -> str:
        """Probe and report until the process has ended; returns the reason of its end.

        A process whose pod is deleted, or whose liveness probe fails for too long, gets SIGTERM,
        and SIGKILL after the grace period.
        """
        was_ready: bool | None = None
        stop_by_s: float | None = None
        alive_s = reconciled_s = self._context.loop.time()
        while not self._ended.done():
            await asyncio.wait({self._ended}, timeout=0.5)
            now_s = self._context.loop.time()
            if self.broker is not None and self.broker.health.liveness()[0]:
                alive_s = now_s
            is_unwanted = now_s - alive_s > NOT_ALIVE_S or self._is_deleted()
            if stop_by_s is None and is_unwanted and self.process is not None:
                stop_by_s = now_s + GRACE_S
                self._context.loop.call_soon(self._stopping.set, context=self.process.context)
            elif stop_by_s is not None and now_s > stop_by_s:
                self._end("killed after the grace period")
            self._sync_mounts(now_s)
            is_ready = self.broker is not None and self.broker.health.readiness()[0]
            is_written = is_ready == was_ready
            if now_s - reconciled_s >= RECONCILE_S:
                reconciled_s = now_s
                is_written = is_written and self._is_at_the_server(self._status(""))
            if not is_written and not self._ended.done():
                was_ready = is_ready
                await self._write_status(self._status(""))
        return self._ended.result()

    def _sync_mounts(self, now_s: float) -> None:
        """Update the files of mounted Secrets, if it is time and the API server answers."""
        if self.mounts is not None and self._context.server.answers(f"node-{self.broker_id}"):
            self.mounts.sync_if_due(now_s)

    def _is_deleted(self) -> bool:
        """Whether the pod is deleted; False while the node cannot learn that."""
        server = self._context.server
        if not server.answers(f"node-{self.broker_id}"):
            return False
        pod = server.store.peek(kinds.PODS, *self._key)
        return pod is None or "deletionTimestamp" in pod["metadata"]

    def _is_at_the_server(self, status: Manifest) -> bool:
        """Whether the pod has this status at the API server, or does not exist there."""
        pod = self._context.server.store.peek(kinds.PODS, *self._key)
        return pod is None or status.items() <= pod["status"].items()

    async def _when_reachable(self) -> None:
        await self._until(lambda: not self._context.server.is_away)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():  # noqa: ASYNC110 - nothing notifies of it
            await asyncio.sleep(POLL_S)

    async def _write_status(self, status: Manifest) -> None:
        """Write the pod's status, when the API server can be reached."""
        await self._when_reachable()
        if self._context.server.store.peek(kinds.PODS, *self._key) is not None:
            self._context.server.store.patch(
                kinds.PODS, self._key, {"status": status}, subresource="status"
            )

    def _new_pod(self, wanted: Manifest) -> Manifest:
        """The pod of the StatefulSet `wanted`, with the labels and annotations of its template."""
        template = wanted["spec"]["template"]
        meta = template["metadata"]
        owner = {"kind": "StatefulSet", "uid": wanted["metadata"]["uid"]}
        return {
            "metadata": {
                **({"ownerReferences": [owner]} if self.has_claim else {}),
                "namespace": NAMESPACE,
                "name": self.host,
                "labels": dict(meta.get("labels") or {}),
                "annotations": dict(meta.get("annotations") or {}),
            },
            "spec": {"nodeName": f"node-{self.broker_id}"},
            "status": {"phase": "Pending"},
        }

    def _status(self, ended: str) -> Manifest:
        """The pod's status; `ended` is the reason of its process's end, empty while it runs."""
        is_ready = self.broker is not None and self.broker.health.readiness()[0]
        container: Manifest = {"name": "broker"}
        if not ended:
            container["state"] = {"running": {}}
        elif ended == "power":
            container["state"] = {"waiting": {"reason": "ContainerCreating"}}
            container["lastState"] = {"terminated": {"exitCode": 255, "reason": "Unknown"}}
        else:
            last = {
                "message": self.machine.termination_log,
                "exitCode": 137,
                "reason": "Error",
            }
            container["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
            container["lastState"] = {"terminated": last}
        ready = "True" if is_ready and not ended else "False"
        return {
            "phase": "Running",
            "podIP": self.host,
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [container],
        }

    # -- the process

    def _start(self) -> None:
        """Start a process of the broker; if its settings are refused, it ends at once."""
        self.starts += 1
        process = Process(f"broker-{self.broker_id}#{self.starts}", self.host)
        self.process = process
        self._ended = self._context.loop.create_future()
        self._stopping = asyncio.Event()
        try:
            self.broker = self._new_broker()
        except CannotStart as problem:
            self.exits.append(str(problem))
            self._end(str(problem))
            return
        process.spawn(self._serve(process, self.broker), process.name)

    async def _serve(self, process: Process, broker: Broker) -> None:
        """Run a broker as `chiplog_broker.main.serve` does, without probes, and note its end."""
        how = "stopped"
        try:
            await self._serve_until(broker)
        except CannotStart as problem:
            how = str(problem)
            self.exits.append(how)
        except Exception as fault:  # noqa: BLE001 - a process that fails ends
            how = repr(fault)
            self.exits.append(how)
        if self.process is process:
            self._context.loop.call_soon(self._end, how, context=self._context.network.context)

    async def _serve_until(self, broker: Broker) -> None:
        """Start the broker, and stop it when the kubelet asks for it or it is deposed.

        Raises `CannotStart` if the broker was deposed: another process has its broker id.
        """
        loop = self._context.loop
        await serve_health(broker.health)
        stop = loop.create_task(self._stopping.wait())
        start = loop.create_task(broker.start())
        await asyncio.wait({start, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not start.done():
            start.cancel()
            await asyncio.wait({start})
            return
        await start
        ended = loop.create_task(broker.deposed())
        await asyncio.wait({ended, stop}, return_when=asyncio.FIRST_COMPLETED)
        why = ended.result() if ended.done() else ""
        ended.cancel()
        await broker.stop()
        if why:
            raise CannotStart(f"this process must stop: {why}")

    def _new_broker(self) -> Broker:
        """A broker with the settings of its ConfigMap and this node's disks, clock and network.

        Raises `CannotStart` for settings that a broker refuses.
        """
        context, disks = self._context, self.disks
        found = context.server.store.peek(
            kinds.CONFIG_MAPS, NAMESPACE, names.broker_config(CLUSTER)
        )
        text = (found or {}).get("data", {}).get("server.properties", "")
        config = {
            **checked(parse_properties(text)),
            "node.id": str(self.broker_id),
            DISK_RESERVE_BYTES.name: str(reserve_bytes(self.broker_id)),
        }
        rng = SeededRng(self._chance)
        api = context.server.client(self.host)
        credentials = FixedCredentials(Credentials("chiplog", PASSWORD))
        keyring = Keyring(credentials, rng)
        dialer = Dialer(SystemNet().connect, rng, credentials, f"broker-{self.broker_id}")
        membership = KubernetesMembership(
            BrokerProcess(
                cluster=CLUSTER,
                namespace=NAMESPACE,
                broker_id=self.broker_id,
                incarnation=new_incarnation(rng),
                version="sim",
            ),
            MemberPorts(
                api=api,
                clock=self.clock,
                rng=rng,
                metadata=disks.metadata,
                data=disks.data,
                machine=self.machine,
                close_api=api.close,
                internal=credentials,
            ),
            config,
        )
        listeners = member_listeners(config)
        if self.mounts is not None:
            listeners = [self.mounts.placed(one) for one in listeners]
        listeners.append(internal_listener("", keyring))
        ports = Ports(self.clock, rng, disks.data, disks.metadata)
        broker = Broker(ports, config, listeners, "data", membership, dialer)
        broker.door_class = SimDoor
        if self.inquiries is not None:
            broker.inquiries = self.inquiries()
        return broker

    def _end(self, how: str, *, silently: bool = False) -> bool:
        """End the process, with `how` as the reason; False if none is running.

        `silently` stands for a power cut: nothing resets its connections, and the caller handles
        the disks.
        """
        process = self.process
        if process is None:
            return False
        process.is_alive = False
        self.dead.append(process)
        self.process = self.broker = None
        self._context.network.ended(process, silently=silently)
        self._context.server.ended(self.host)
        if not silently:
            self.disks.process_ended()
        if not self._ended.done():
            self._ended.set_result(how)
        return True
