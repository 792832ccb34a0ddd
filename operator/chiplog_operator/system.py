"""All parts of one operator process, connected. No Kopf, no HTTP, no clock of its own."""

import asyncio
import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from chiplog_core.ids import TopicId
from chiplog_core.planner.plan import plan
from chiplog_core.spark.choices import Allowed
from chiplog_kube import kinds
from chiplog_kube.api import KubeApi
from chiplog_kube.kinds import Kind
from chiplog_operator.apply import Applier
from chiplog_operator.caches import JOB_KINDS, USER_KINDS, Caches
from chiplog_operator.certificates.issued_to_users import IssuedToUsers
from chiplog_operator.certificates.own import OwnCertificates
from chiplog_operator.changes import Changes
from chiplog_operator.clock import Clock
from chiplog_operator.execute import Executor
from chiplog_operator.groups.loop import GroupPorts, GroupsLoopParts, GroupsLoops
from chiplog_operator.groups.password import Passwords
from chiplog_operator.groups.port import HttpGroupsPort
from chiplog_operator.health_port import Net, SystemNet
from chiplog_operator.liveness import Liveness
from chiplog_operator.loop import Loops, Meter, Parts, Planner
from chiplog_operator.maps_checks import MapsChecks
from chiplog_operator.observe import Observer
from chiplog_operator.refusals import Refusals
from chiplog_operator.spark.applications import Applications
from chiplog_operator.spark.carrying_out import Tools
from chiplog_operator.spark.loads import Loads
from chiplog_operator.spark.loop import FiguresListener, SparkLoop, SparkParts
from chiplog_operator.spark.repairing import Repairing
from chiplog_operator.users.clients_credentials import StoredByClients
from chiplog_operator.users.loop import UsersLoops, UsersParts
from chiplog_operator.watching import Watching
from chiplog_operator.write_results import WriteResults
from chiplog_operator.writes import Authority


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of an operator process."""

    instance: str
    """The name of this operator process in Events."""
    broker_image: str
    spark_image: str = ""
    """The image of Spark jobs for clusters whose spec has none. If empty, each cluster must set
    one."""
    spark_allowed: Allowed = field(default_factory=Allowed)
    """The images and ServiceAccounts that Spark jobs may use."""
    operator_namespace: str = ""
    """The namespace of the operator's pods; empty if it does not run in a pod. It then
    neither makes nor watches NetworkPolicies, which name its pods."""
    namespaces: Sequence[str] = ()
    """The namespaces to watch for clusters; all if empty."""
    watched_users: Sequence[Kind] = ()
    """Kinds of users' objects that Kopf does not watch, so that the operator does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Randomness:
    """Everything random, so that a simulator can own it."""

    new_topic_id: Callable[[], TopicId] = lambda: TopicId.draw(secrets.token_bytes)
    spread: Callable[[], float] = random.random
    new_name: Callable[[], str] = lambda: secrets.token_hex(12)
    """A random id that was not drawn before."""
    new_key: Callable[[], str] = lambda: secrets.token_hex(32)
    """A key that cannot be guessed."""


class System:
    """An operator that is active."""

    def __init__(  # noqa: PLR0913 - its ports
        self,
        api: KubeApi,
        settings: Settings,
        *,
        clock: Clock,
        authority: Authority,
        meter: Meter,
        randomness: Randomness | None = None,
        planner: Planner = plan,
        net: Net | None = None,
        groups: GroupPorts | None = None,
        spark: FiguresListener | None = None,
        keeps_users: bool = False,
    ) -> None:
        """Without `groups`, consumer groups are not reconciled; without `spark`, no Spark jobs;
        without `keeps_users`, no users."""
        randomness = randomness or Randomness()
        changes = Changes(clock)
        self.liveness = Liveness(api, clock, changes)
        self.caches = Caches(changes, self.liveness)
        checks = MapsChecks(randomness.new_name, changes)
        self.watching = Watching(
            api,
            self.caches,
            self.liveness,
            checks,
            clock=clock,
            namespaces=settings.namespaces,
            spread=randomness.spread,
            watched_users=settings.watched_users,
            unwatched=() if settings.operator_namespace else (kinds.NETWORK_POLICIES,),
            listed_users=USER_KINDS if spark is None else (*USER_KINDS, *JOB_KINDS),
        )
        results = WriteResults(clock)
        observer = Observer(
            api,
            self.caches,
            self.watching,
            self.liveness,
            results,
            checks=checks,
            clock=clock,
            namespaces=settings.namespaces,
        )
        self.refusals = Refusals(
            net or SystemNet(),
            self.caches,
            observer,
            self.liveness,
            clock=clock,
            changed=changes.processes,
        )
        own_certificates = OwnCertificates()
        passwords = Passwords(api, own_certificates)
        executor = Executor(
            api,
            self.caches,
            results,
            checks=checks,
            clock=clock,
            authority=authority,
            instance=settings.instance,
            meter=meter,
            credentials=StoredByClients(api, authority, passwords),
        )
        issued_to_users = IssuedToUsers(are_known=not keeps_users)
        parts = Parts(
            caches=self.caches,
            observer=observer,
            executor=executor,
            applier=Applier(
                api,
                self.caches,
                clock=clock,
                authority=authority,
                broker_image=settings.broker_image,
                operator_namespace=settings.operator_namespace,
                issued_to_users=issued_to_users,
                own_certificates=own_certificates,
            ),
            clock=clock,
            meter=meter,
            planner=planner,
            new_topic_id=randomness.new_topic_id,
        )
        self.loops = Loops(parts, changes.clusters)
        self.group_loops: GroupsLoops | None = None
        if groups is not None:
            self.group_loops = GroupsLoops(
                GroupsLoopParts(
                    caches=self.caches,
                    observer=observer,
                    executor=executor,
                    passwords=passwords,
                    api=api,
                    authority=authority,
                    clock=clock,
                    ports=groups,
                ),
                changes.groups,
            )
        self.users_loops: UsersLoops | None = None
        if keeps_users:
            self.users_loops = UsersLoops(
                UsersParts(
                    api=api,
                    caches=self.caches,
                    observer=observer,
                    executor=executor,
                    authority=authority,
                    clock=clock,
                    issued=issued_to_users,
                ),
                changes.users,
            )
        self.spark: SparkLoop | None = None
        if spark is not None:
            tools = Tools(
                api=api,
                caches=self.caches,
                executor=executor,
                applications=Applications(api, clock, randomness.new_key),
                authority=authority,
                repairing=Repairing(self.caches, observer, executor),
                spark_image=settings.spark_image,
                spark_allowed=settings.spark_allowed,
            )
            self.spark = SparkLoop(
                SparkParts(
                    caches=self.caches,
                    observer=observer,
                    tools=tools,
                    loads=Loads(
                        HttpGroupsPort(clock) if groups is None else groups.port, passwords
                    ),
                    clock=clock,
                    figures_listener=spark,
                    woken=changes.jobs,
                )
            )

    async def run(self) -> None:
        """Run all parts of the operator until cancelled, or until one of them fails. Nothing is
        decided before every kind was listed once."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.watching.run(), name="watching")
            await self.watching.wait_until_complete()
            group.create_task(self.liveness.run(), name="liveness")
            group.create_task(self.loops.run(), name="loops")
            group.create_task(self.refusals.run(), name="refusals")
            if self.group_loops is not None:
                group.create_task(self.group_loops.run(), name="groups")
            if self.users_loops is not None:
                group.create_task(self.users_loops.run(), name="users")
            if self.spark is not None:
                group.create_task(self.spark.run(), name="spark")
