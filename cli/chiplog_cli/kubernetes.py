"""BrokerClusters and Topics as the API server has them, and how we reach it."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from chiplog_cli.errors import CannotDo
from chiplog_cli.kube_view import Described, topics_of_cluster
from chiplog_cli.listener_choice import by_config, by_credentials
from chiplog_cli.security import Reached, Security
from chiplog_cli.target import ByName, kubeconfigs_of
from chiplog_cli.user_secret import credentials_in
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.topic import Topic
from chiplog_core.problems import InvalidManifest
from chiplog_kube.api import ApiError, Forbidden, KubeApi, NotFound
from chiplog_kube.connection import Connection, NoConnection
from chiplog_kube.finding import find
from chiplog_kube.http_api import HttpKubeApi
from chiplog_kube.http_transport import Limits
from chiplog_kube.kinds import BROKER_CLUSTERS, SECRETS, TOPICS
from chiplog_kube.kubeconfig import connect

Answer = TypeVar("Answer")


class Kubernetes:
    """One BrokerCluster on Kubernetes, as options name it. Raises `CannotDo`."""

    def __init__(self, named: ByName, timeout_s: float) -> None:
        self._named = named
        self._limits = Limits(connect_s=min(5.0, timeout_s), request_s=timeout_s, list_s=timeout_s)
        own = (named.kubeconfig,) if named.kubeconfig else None
        paths = own or kubeconfigs_of(os.environ, Path.home())
        self._in_cluster = not paths
        try:
            self._connection = _connection(paths, named.context)
        except NoConnection as error:
            raise CannotDo(
                f"--cluster {named.name}: {error}",
                "use --kubeconfig FILE, --context NAME, or --bootstrap-server HOST:PORT",
            ) from error
        self._namespace = named.namespace or self._connection.namespace

    def reached(self, given: Security | None) -> Reached:
        """Where and how to connect to the cluster: as `given`, as the User of --user, or as
        nobody."""
        named, in_cluster = self._named, self._in_cluster
        if given is not None:
            cluster = self._ask(self._cluster)
            return by_config(cluster, named.listener, given, in_cluster=in_cluster)
        if named.user is None:
            cluster = self._ask(self._cluster)
            return by_credentials(cluster, named.listener, None, in_cluster=in_cluster)
        cluster, secret = self._ask(partial(self._cluster_and_secret, user=named.user))
        credentials = credentials_in(secret, named.user)
        return by_credentials(cluster, named.listener, credentials, in_cluster=in_cluster)

    def describe(self) -> Described:
        """The cluster with the Topics of all namespaces, or only of its own if the user must not
        list others."""
        return self._ask(self._described)

    def describe_some(self, selector: str, topics_in: str | None) -> Described:
        """The cluster with those of its Topics that are in one namespace and have these labels. The
        namespace is the cluster's own if `topics_in` is None."""

        async def described(api: KubeApi) -> Described:
            cluster = await self._cluster(api)
            found = await api.list_(TOPICS, topics_in or self._namespace, labels=selector)
            topics = [Topic.from_manifest(manifest) for manifest in found.items]
            return Described(cluster=cluster, topics=topics_of_cluster(topics, cluster))

        return self._ask(described)

    async def _described(self, api: KubeApi) -> Described:
        """The cluster with its Topics in all namespaces, or only in its own if the user must not
        list others. Raises `ApiError`s and `CannotDo`."""
        cluster = await self._cluster(api)
        try:
            found = await api.list_(TOPICS)
        except Forbidden:
            found = await api.list_(TOPICS, self._namespace)
        topics = [Topic.from_manifest(manifest) for manifest in found.items]
        return Described(cluster=cluster, topics=topics_of_cluster(topics, cluster))

    async def _cluster(self, api: KubeApi) -> BrokerCluster:
        """The BrokerCluster. Raises `CannotDo` if it does not exist, and `ApiError`s."""
        try:
            found = await api.get(BROKER_CLUSTERS, self._namespace, self._named.name)
        except NotFound as error:
            raise CannotDo(
                f"--cluster: there is no BrokerCluster '{self._named.name}' in namespace "
                f"'{self._namespace}'",
                "`kubectl get brokerclusters -A` lists all; set its namespace with -n",
            ) from error
        return BrokerCluster.from_manifest(found)

    async def _cluster_and_secret(
        self, api: KubeApi, *, user: str
    ) -> tuple[BrokerCluster, Mapping[str, Any]]:
        """The BrokerCluster, and the Secret with the credentials of a User, which has its name and
        is in the cluster's namespace. Raises as `_cluster`."""
        cluster = await self._cluster(api)
        try:
            return cluster, await api.get(SECRETS, self._namespace, user)
        except NotFound as error:
            raise CannotDo(
                f"--user: there is no Secret '{user}' in namespace '{self._namespace}'",
                f"`kubectl get users.chiplog.dev -n {self._namespace}` lists the Users; one "
                "that is Ready with authentication.type tls or scram-sha-512 has such a Secret",
            ) from error

    def _ask(self, question: Callable[[KubeApi], Awaitable[Answer]]) -> Answer:
        """Ask the API server, and run until it has answered. Raises `CannotDo`."""

        async def answered() -> Answer:
            async with HttpKubeApi(self._connection, self._limits) as api:
                return await question(api)

        return _run(answered(), self._connection)


def _connection(paths: Sequence[Path], context: str | None) -> Connection:
    """The connection of these kubeconfigs, which may run a login program; without any, that of
    the pod. Raises `NoConnection`."""
    if paths:
        return connect(paths, context or "")
    if context:
        raise NoConnection(f"--context {context}: there is no kubeconfig in which to find it")
    return find(None)


def _run(answered: "Awaitable[Answer]", connection: Connection) -> Answer:
    """Run until the API server has answered, and return the answer. Raises `CannotDo`."""

    async def answer() -> Answer:
        return await answered

    try:
        return asyncio.run(answer())
    except InvalidManifest as error:
        raise CannotDo(
            f"an object of the cluster on Kubernetes cannot be parsed: {error}",
            "update this program if the cluster is newer",
        ) from error
    except ApiError as error:
        raise CannotDo(
            f"request to the API server {connection.server} failed: {error}",
            "check --kubeconfig and --context, and whether `kubectl get brokerclusters` works",
        ) from error
