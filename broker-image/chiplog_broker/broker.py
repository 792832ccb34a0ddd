"""One broker: creates its parts, starts them in order and stops them in reverse order.

A broker opens its logs, joins its cluster, learns its topics and only then listens. When it stops,
it closes its listeners first and writes the mark of a clean shutdown last.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from chiplog_broker.broker_events import BrokerEvents, BrokerParts
from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.errors import CannotStart
from chiplog_broker.fetch_sessions.cache import FetchSessionCache
from chiplog_broker.handlers.pacing import Pacing
from chiplog_broker.handlers.read_replicas import ReadReplicas
from chiplog_broker.handlers.table import Parts, handler_table
from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.metadata.port import Membership, MetadataStore, Node, OpenedData
from chiplog_broker.metadata.standalone_acls import StandaloneAcls
from chiplog_broker.metadata.standalone_membership import StandaloneMembership
from chiplog_broker.metadata.standalone_quotas import StandaloneQuotas
from chiplog_broker.metadata.standalone_users import StandaloneUsers
from chiplog_broker.metadata.view import BrokerView, ClusterView
from chiplog_broker.partitions.housekeeping import Housekeeping
from chiplog_broker.partitions.isolation import silence_s
from chiplog_broker.partitions.replicas import ReplicaParts, Replicas
from chiplog_broker.partitions.settings import log_config, topic_log_config
from chiplog_broker.partitions.silence import SilenceWatch
from chiplog_broker.partitions.throttle import ReplicationThrottle
from chiplog_broker.partitions.waiting import FetchWaiters
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.peers.spreading import Spreading
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.rng import Rng
from chiplog_broker.process import Allowance
from chiplog_broker.replication.manager import ReplicaFetching
from chiplog_broker.security.audit import AuditLog
from chiplog_broker.security.authorization import AclStore
from chiplog_broker.security.cluster_access import ClusterAccess
from chiplog_broker.security.listener_security import OAUTHBEARER
from chiplog_broker.security.no_logins import NoLogins
from chiplog_broker.security.plain import Derivations
from chiplog_broker.security.quota_store import KnownQuotas, NoUsers, QuotaStore
from chiplog_broker.security.sasl import Attempt
from chiplog_broker.security.scram_store import CredentialChange, ScramStore
from chiplog_broker.security.users import UserLogins, Users
from chiplog_broker.server.dispatch import Dispatcher
from chiplog_broker.server.health import Health
from chiplog_broker.server.limits import ConnectionLimits, ConnectionQuota
from chiplog_broker.server.listening import Acceptor
from chiplog_broker.server.loop_lag import measure_lag
from chiplog_broker.server.memory import UNBOUNDED
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.throttling import Throttling
from chiplog_broker.server.tls_accepting import TlsDoor
from chiplog_broker.settings import setting
from chiplog_broker.storage.directory import LogDirectory, OpenOptions, StoragePorts
from chiplog_broker.storage.errors import StorageError
from chiplog_broker.transaction_coordinator.coordinator import TransactionCoordinator
from chiplog_broker.transaction_coordinator.marker_sending import MarkerSender
from chiplog_broker.transaction_coordinator.marker_writing import MarkerWriter
from chiplog_broker.transaction_coordinator.verifying import TransactionVerifier
from chiplog_core.broker_shares import (
    DescriptorShares,
    MemoryShares,
    connection_shares,
    descriptor_shares,
    memory_shares,
)
from chiplog_core.config import broker_keys as keys
from chiplog_core.config.effective import TopicConfig, broker_value, topic_defaults
from chiplog_core.ids import MAX_INT32

if TYPE_CHECKING:
    from chiplog_broker.security.oauth.signing_keys import KeySource
    from chiplog_broker.server.exposition.scrape import Exposition
    from chiplog_broker.server.inquiries import InquiryServer
    from chiplog_broker.server.operator_tls import OperatorTls

logger = logging.getLogger(__name__)

UNLIMITED = Allowance()


@dataclass(frozen=True, slots=True)
class Ports:
    """The services outside the broker that it uses, except sockets."""

    clock: Clock
    rng: Rng
    data: Disk
    metadata: Disk
    allowance: Allowance = UNLIMITED
    """The memory and descriptors that the process may use."""


class Broker:
    """One broker process, standalone or on Kubernetes."""

    inquiries: "InquiryServer | None" = None
    """Answers the operator's inquiries; None for a standalone broker, or without the secret that
    authenticates the operator."""
    operator_tls: "OperatorTls | None" = None
    """How inquiries are answered with TLS; None if they are answered in plain text."""
    api_server_keys: "KeySource | None" = None
    """The keys for tokens of ServiceAccounts; None for a standalone broker."""
    first_users: Sequence[CredentialChange] = ()
    """The users that a standalone broker adds at its start, unless it has them."""
    waits_for_others: bool = False
    """Whether CreateTopics is answered only when the other live brokers know the topic, too."""
    door_class: type[TlsDoor] = TlsDoor
    """Accepts connections with TLS; a simulated broker has another one, without sockets."""

    def __init__(
        self,
        ports: Ports,
        config: Mapping[str, str],
        listeners: list[Listener],
        data_path: str,
        membership: Membership | None = None,
        dialer: Dialer | None = None,
    ) -> None:
        """Without a `membership` the broker is standalone; without a `dialer` it follows no
        leaders. `data_path` is the directory of the logs, as messages and clients get it."""
        self._ports = ports
        self._config = config
        self._listeners = listeners
        self._data_path = data_path
        self._dialer = dialer
        memory_bytes = setting(config, keys.MEMORY_BYTES)  # -1: what the process may use
        self.shares = memory_shares(
            ports.allowance.memory_bytes if memory_bytes < 0 else memory_bytes
        )
        """The memory that clients and maintenance may use."""
        self._descriptors = descriptor_shares(ports.allowance.descriptors)
        self._is_standalone = membership is None
        self._acls: AclStore | None = None
        self._scram: ScramStore
        self._quota_store: QuotaStore
        self._watched_access: ClusterAccess | None = None
        self.users = Users(ports.rng)
        """The users that may log in."""
        self.quotas = KnownQuotas()
        """How much of this broker its clients may use."""
        self._audit = AuditLog(ports.clock.monotonic_s)
        self._membership = membership or StandaloneMembership(ports.metadata, ports.rng, config)
        self.health = Health(
            catching_up=self._membership.is_ready, incarnation=self._membership.incarnation
        )
        self.requests = RequestMetrics()
        self.requests.certificates = {one.name: None for one in listeners if one.tls is not None}
        self.throttle = ReplicationThrottle(ports.clock, config)
        """Limits the copies of replicas that this broker sends and fetches."""
        # Stops the started parts, the last one first.
        self._exit_stack = AsyncExitStack()
        self.acceptors: list[Acceptor] = []
        self.addresses: dict[str, tuple[str, int]] = {}
        """Listener -> the host and port that were bound, as its configuration advertises them."""
        self.fetching: ReplicaFetching | None = None
        """Fetches the partitions that other brokers lead; None without a `dialer`."""
        self.fetch_sessions = FetchSessionCache(
            setting(config, keys.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS),
            partial(session_id, ports.rng),
            self.shares.session_partitions,
        )
        """The fetch sessions of consumers and followers (KIP-227)."""
        self._parts = BrokerParts()
        self._events = BrokerEvents(self._parts, self._membership, self.health)
        self._cluster: ClusterView
        self._replicas: Replicas
        self._coordinator: Coordinator
        self._marker_writer: MarkerWriter
        self._transactions: TransactionCoordinator
        self._verifier: TransactionVerifier
        self._directory: LogDirectory

    async def start(self) -> None:
        """Recover the logs, then serve.

        Raises `CannotStart`, and then everything that was opened is closed again.
        """
        try:
            await self._start()
        except (OSError, ValueError, StorageError) as problem:
            await self._exit_stack.aclose()
            raise CannotStart(str(problem)) from problem
        except BaseException:
            await self._exit_stack.aclose()
            raise

    async def _start(self) -> None:
        """Start all parts in order. For each, what stops it is pushed onto the exit stack."""
        ports, membership = self._ports, self._membership
        take_lock(ports.metadata, self._data_path)
        await self._open_access()
        self._exit_stack.push_async_callback(membership.close)
        cluster_id = await membership.begin(self._events)
        self._events.waits_for("")  # `begin` may have waited for something
        broker_id = setting(self._config, keys.NODE_ID)
        self._cluster = ClusterView(cluster_id, broker_id)
        self._directory = await self._open_logs(cluster_id, broker_id)
        selector = ReadReplicas(self._cluster, self._config)
        self.fetching = self._new_fetching()
        self._replicas = self._parts.replicas = Replicas(
            broker_id,
            self._directory,
            ReplicaParts(
                fetch_waiters=FetchWaiters(ports.clock.monotonic_s),
                clock=ports.clock,
                events=self._events,
                fetchers=self.fetching,
                lag_max_s=self._lag_max_s,
                consumers_read_followers=lambda: selector.is_rack_aware,
            ),
        )
        self._exit_stack.push_async_callback(self._close_logs)
        if self.fetching is not None:
            self._exit_stack.push_async_callback(self.fetching.close)
        self._coordinator = self._parts.coordinator = Coordinator(
            self._cluster, self._replicas, ports.clock, ports.rng, self._config
        )
        self._exit_stack.push_async_callback(self._coordinator.close)
        self._marker_writer = MarkerWriter(self._replicas, self._coordinator, ports.clock)
        self._transactions = self._parts.transactions = TransactionCoordinator(
            self._cluster,
            self._replicas,
            ports.clock,
            MarkerSender(self._cluster, self._marker_writer, self._dialer, ports.clock),
            self._config,
        )
        self._exit_stack.push_async_callback(self._transactions.close)
        self._verifier = TransactionVerifier(self._cluster, self._transactions, self._dialer)
        self._exit_stack.push_async_callback(self._verifier.close)
        self._exit_stack.push_async_callback(membership.leave)
        store = await membership.join(
            Node(
                cluster=self._cluster,
                replicas=self._replicas,
                data=self._opened_data(),
                access=self._watched_access,
                certificates=self.requests.certificates,
            )
        )
        self._parts.silence = self._silence_watch()
        housekeeping = self._parts.housekeeping = Housekeeping(
            self._directory,
            self._replicas,
            ports.clock,
            self._config,
            self._parts.silence,
            self.shares.compaction_bytes,
        )
        housekeeping.start()
        self._exit_stack.push_async_callback(housekeeping.stop)
        self.health.started = True
        measuring = asyncio.get_running_loop().create_task(
            measure_lag(ports.clock, self.requests.event_loop_lag)
        )
        self._exit_stack.callback(measuring.cancel)
        await self._listen(store)
        self.health.serving = True
        logger.info(
            "started",
            extra={
                "broker_id": broker_id,
                "session": self._cluster.session,
                "topics": len(self._cluster),
            },
        )

    async def _open_access(self) -> None:
        """Prepare the users, ACLs and quotas: on Kubernetes they become known after the join. A
        standalone broker reads its own and adds its first users; raises `ValueError` or
        `OSError`."""
        has_authorizer = bool(setting(self._config, keys.AUTHORIZER_CLASS_NAME))
        if not self._is_standalone:
            has_logins = any(map(has_passwords, self._listeners))
            access = ClusterAccess(self.users, has_logins=has_logins, quotas=self.quotas)
            if has_authorizer:
                self._acls = access
            if has_authorizer or has_logins:
                self._scram = self._quota_store = self._watched_access = access
            else:
                self._scram, self._quota_store = NoLogins(), NoUsers(self.quotas)
            return
        if has_authorizer:
            self._acls = StandaloneAcls(self._ports.metadata, self._config)
        self._quota_store = StandaloneQuotas(self._ports.metadata, self.quotas)
        self._scram = store = StandaloneUsers(self._ports.metadata, self.users)
        await store.add_missing(self.first_users)

    async def deposed(self) -> str:
        """Wait until another process is admitted as this broker, or a task of this one fails.

        Returns the reason. The process must end then.
        """
        return await self._membership.deposed()

    async def stop(self) -> None:
        """Answer waiting requests, stop serving, and close the logs cleanly if the disk allows
        it."""
        self.health.serving = False
        await self._membership.drain()
        await self._exit_stack.aclose()
        logger.info("stopped", extra={"session": self._cluster.session})

    def _new_fetching(self) -> ReplicaFetching | None:
        """The part that fetches from leaders on other brokers; None without a `dialer`. It starts
        its first task with the first partition to follow."""
        if self._dialer is None:
            return None
        ports = self._ports
        return ReplicaFetching(
            self._cluster, self._dialer, ports.clock, ports.rng, self._config, self.throttle
        )

    def _new_spreading(self) -> Spreading | None:
        """The part that waits until the other brokers know a new topic; None if CreateTopics does
        not wait for them."""
        if self._dialer is None or not self.waits_for_others:
            return None
        spreading = Spreading(self._cluster, self._dialer, self._ports.clock)
        self._exit_stack.push_async_callback(spreading.close)
        return spreading

    def _silence_watch(self) -> SilenceWatch | None:
        """The part that finds isolated leaders on this broker: leaders that reach neither the API
        server nor a follower. None for a standalone broker: no other broker could lead."""
        authority = self._membership.authority
        if authority is None:
            return None
        return SilenceWatch(
            self._replicas, self._cluster, self._ports.clock, authority, self._silence_s
        )

    async def _close_logs(self) -> None:
        """Close the logs and write the mark of a clean shutdown. An error is only logged."""
        await self._replicas.close()
        try:
            await self._directory.close(self._replicas.high_watermarks(), self._cluster.session)
        except StorageError as failed:
            # Without the mark of a clean shutdown the next start verifies the logs.
            logger.error("not_closed_cleanly", extra={"reason": str(failed)})

    def exposition(self) -> "Exposition":
        """The metrics that `/metrics` serves."""
        # Imported after the start, which it would delay.
        from chiplog_broker.server.exposition.scrape import Exposition  # noqa: PLC0415

        return Exposition(
            self._cluster,
            self._replicas,
            self.requests,
            self.fetch_sessions,
            self._config,
            self.throttle,
            self._transactions,
        )

    async def _open_logs(self, cluster_id: str, broker_id: int) -> LogDirectory:
        """Open and recover all logs, with the settings of the topics that the last process knew.
        For each replica in which recovery found a problem, a line is logged."""
        configs = {topic.name: topic_log_config(topic) for topic in self._membership.known_topics()}
        default_config = log_config(TopicConfig({}, topic_defaults(self._config)))
        ports = self._ports
        directory = await LogDirectory.open(
            StoragePorts(ports.data, ports.clock, ports.rng),
            OpenOptions(
                node_id=broker_id,
                cluster_id=cluster_id,
                config_of=lambda name: configs.get(name.topic, default_config),
            ),
            self._events,
        )
        for report in directory.report.partitions:
            if report.reason:
                logger.warning(
                    "log_recovered",
                    extra={
                        "partition": str(report.partition),
                        "verdict": report.verdict.value,
                        "reason": report.reason,
                    },
                )
        return directory

    def _opened_data(self) -> OpenedData:
        """The state of the data directory, for the membership."""
        directory = self._directory
        return OpenedData(
            storage_uuid=directory.identity.directory_id,
            # The mark of a clean shutdown calls the session Kafka's "broker epoch".
            closed_in_session=directory.report.broker_epoch,
        )

    def _lag_max_s(self) -> float:
        return setting(self._config, keys.REPLICA_LAG_TIME_MAX_MS) / 1000

    def _silence_s(self) -> float:
        """How long a leader may have no contact with followers and API server before it counts as
        isolated: at least twice the time that a follower's fetch may wait."""
        return silence_s(setting(self._config, keys.REPLICA_FETCH_WAIT_MAX_MS) / 1000)

    async def _listen(self, store: MetadataStore) -> None:
        """Bind all listeners, publish their addresses, then accept connections."""
        pacing = Pacing(self._ports.clock, self._config)
        parts = Parts(
            self._cluster,
            self._replicas,
            store,
            self._ports.clock,
            self._ports.data,
            self._config,
            self._data_path,
            self.requests,
            self.fetch_sessions,
            self._coordinator,
            self._transactions,
            self._marker_writer,
            self._verifier,
            self._new_spreading(),
            pacing,
            self.throttle,
            self._audit,
            self._scram,
            self._quota_store,
            self._acls,
        )
        table = handler_table(parts)
        self._coordinator.start()
        self._transactions.start()
        throttling = Throttling(self._ports.clock, self.requests)
        throttling.use(self.quotas.table)
        self.quotas.on_change(throttling.use)
        dispatcher = Dispatcher(table, self.requests, throttling)
        self._exit_stack.push_async_callback(dispatcher.drain)
        # Clients that use up all connections, memory or descriptors must not keep brokers from
        # each other.
        quotas = {
            is_internal: ConnectionQuota(
                connection_limits(
                    self._config,
                    self.shares,
                    self._descriptors,
                    is_internal=is_internal,
                    have_tls=any(
                        one.tls is not None
                        for one in self._listeners
                        if one.is_internal is is_internal
                    ),
                )
            )
            for is_internal in (False, True)
        }
        self.requests.budgets = [quota.memory for quota in quotas.values()]
        self.acceptors = acceptors = [
            Acceptor(
                listener,
                dispatcher,
                quotas[listener.is_internal],
                self._ports.clock,
                self.requests,
                self._audit,
                door_class=self.door_class,
            )
            for listener in map(self._with_plain_text, self._with_logins())
        ]
        endpoints = {}
        for acceptor in acceptors:
            self._exit_stack.push_async_callback(acceptor.close)
            self.users.on_change(acceptor.close_ended)
            self.quotas.on_change(acceptor.unmute)
            bound = await acceptor.bind()
            if acceptor.tls_files is not None:
                self.requests.certificates[bound.name] = acceptor.tls_files
            endpoints[bound.name] = (bound.advertised_host, bound.advertised_port)
        # No client is accepted before all addresses are known: the first answer contains them.
        self.addresses = endpoints
        rack = broker_value(self._config, keys.BROKER_RACK)
        self._membership.listening(BrokerView(self._cluster.broker_id, rack, endpoints))
        for acceptor in acceptors:
            await acceptor.accept()
        # Requests that wait to join a group, or for their quota, are answered first; their
        # connections are closed after that.
        self._exit_stack.push_async_callback(self._coordinator.close)
        self._exit_stack.push_async_callback(self._transactions.close)
        self._exit_stack.callback(pacing.stop)
        self._answer_inquiries(parts)

    def _with_plain_text(self, listener: Listener) -> Listener:
        """The listener; the internal one does without TLS while a broker uses plain text still, or
        again."""
        if not listener.is_internal:
            return listener
        return replace(listener, accepts_plain_text=lambda: self._cluster.has_plain_brokers)

    def _with_logins(self) -> list[Listener]:
        """The listeners; those with mechanisms of SASL let users log in. Raises `CannotStart`."""
        derivations = Derivations()
        self._exit_stack.callback(derivations.close)
        return [
            replace(
                listener,
                logins=UserLogins(
                    self.users,
                    self._ports.rng,
                    derivations,
                    [one for one in listener.mechanisms if one != OAUTHBEARER],
                    listener.session_s,
                    self._token_logins(listener),
                ),
            )
            if listener.mechanisms
            else listener
            for listener in self._listeners
        ]

    def _token_logins(self, listener: Listener) -> dict[str, Callable[[], Attempt]]:
        """How users log in with tokens on a listener; empty if they cannot. The keys of the issuer
        are fetched from now on. Raises `CannotStart`."""
        if listener.tokens is None:
            return {}
        # Imported only where it is used: it needs a library for cryptography.
        from chiplog_broker.security.oauth.logins import begin  # noqa: PLC0415

        attempt, fetching = begin(
            listener.name, listener.tokens, self.api_server_keys, self._ports.clock
        )
        self._exit_stack.callback(fetching.cancel)
        return {OAUTHBEARER: attempt}

    def _answer_inquiries(self, parts: Parts) -> None:
        """Answer the operator's inquiries from now on, if this broker accepts them."""
        if self.inquiries is None:
            return
        # A standalone broker starts without the modules for objects of Kubernetes.
        from chiplog_broker.handlers.inquiry_table import inquiry_table  # noqa: PLC0415

        self.inquiries.open(inquiry_table(parts))
        self._exit_stack.callback(self.inquiries.close)


def has_passwords(listener: Listener) -> bool:
    """Whether users log in with passwords on a listener."""
    return any(one != OAUTHBEARER for one in listener.mechanisms)


def session_id(rng: Rng) -> int:
    """A random id for a fetch session, which is hard to guess: 31 bits, as ids are positive
    int32."""
    return int.from_bytes(rng.token(4), "big") >> 1


def take_lock(metadata: Disk, data_path: str) -> None:
    """Lock the broker's directory until this process ends. Raises `CannotStart` if another process
    holds the lock; the message names `data_path`."""
    try:
        metadata.lock(".lock")
    except BlockingIOError as held:
        raise CannotStart(
            f"{data_path} is in use by another broker: stop it, or choose another directory"
        ) from held


def connection_limits(
    config: Mapping[str, str],
    memory: MemoryShares,
    descriptors: DescriptorShares,
    *,
    is_internal: bool,
    have_tls: bool = False,
) -> ConnectionLimits:
    """The limits of the internal listener (`is_internal`), or of all other listeners together, from
    Kafka's configuration keys and the available memory and descriptors. `have_tls`: one of these
    listeners uses TLS."""
    idle_ms = setting(config, keys.CONNECTIONS_MAX_IDLE_MS)
    frame_bytes = setting(config, keys.SOCKET_REQUEST_MAX_BYTES)
    budget_bytes = memory.brokers_bytes if is_internal else memory.clients_bytes
    # Connections get no descriptor with this number or a higher one: those are left for files.
    descriptors_below = descriptors.brokers_below if is_internal else descriptors.clients_below
    derived = connection_shares(memory, descriptors_below, have_tls=have_tls)
    return ConnectionLimits(
        max_connections=or_derived(setting(config, keys.MAX_CONNECTIONS), derived.in_all),
        max_connections_per_ip=or_derived(
            setting(config, keys.MAX_CONNECTIONS_PER_IP), derived.of_one_address
        ),
        # One request may not take the whole memory: others must be read next to it.
        max_frame_bytes=min(frame_bytes, budget_bytes // 2),
        max_idle_s=idle_ms / 1000 if idle_ms >= 0 else float("inf"),
        memory_bytes=budget_bytes,
        # Other brokers are trusted, so their answers have no limit.
        answer_bytes=UNBOUNDED if is_internal else memory.answer_bytes,
        descriptors_below=descriptors_below,
    )


def or_derived(given: int, derived: int) -> int:
    """`given`, the configured limit; `derived` if `given` is Kafka's default, which means no
    limit."""
    return derived if given == MAX_INT32 else given
