"""Carries out what `chiplog_core.spark` asks for: actions, then the status, then Events."""

import logging
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from chiplog_core.limits import MAX_LABEL_LENGTH
from chiplog_core.model.actions import Announce, EventType, Report
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.rebalance_status import RebalanceStatus
from chiplog_core.model.spark import SparkOverrides
from chiplog_core.model.verification import Verification, VerificationStatus
from chiplog_core.naming import api, labels
from chiplog_core.spark.application import Application, Job, Owner
from chiplog_core.spark.choices import Allowed, in_namespace
from chiplog_core.spark.requests import JobKind, Request, ResultPlace
from chiplog_core.spark.runs import deadline_s
from chiplog_core.spark.settings import PodDefaults, Run, application, in_foreign_namespace, merged
from chiplog_core.spark.short_error import short_error
from chiplog_core.spark.states import with_hint
from chiplog_core.spark.steps import Launch, OrderRefetch, Remove, RemoveAnnotation, Step
from chiplog_kube.api import ApiError, Conflict, KubeApi, Unavailable
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.execute import Executor
from chiplog_operator.spark.applications import Applications
from chiplog_operator.spark.repairing import Repairing
from chiplog_operator.targets import KIND_OF
from chiplog_operator.writes import Authority, NotActive, same_version

logger = logging.getLogger(__name__)

SparkResource: TypeAlias = Verification | Rebalance
S = TypeVar("S", VerificationStatus, RebalanceStatus)

JOB_OF: Final[Mapping[str, tuple[JobKind, Job]]] = {
    api.VERIFICATION.kind: (JobKind.VERIFICATION, Job.VERIFY),
    api.REBALANCE.kind: (JobKind.REBALANCE, Job.REBALANCE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the steps of Spark jobs are carried out with."""

    api: KubeApi
    caches: Caches
    executor: Executor
    applications: Applications
    authority: Authority
    repairing: Repairing
    spark_image: str
    spark_allowed: Allowed


@dataclass(slots=True)
class CarryingOut:
    """Carries out the steps of one operator process, and remembers why launches failed."""

    tools: Tools
    _refusals: dict[tuple[str, str], str] = field(default_factory=dict)
    _obstacles: dict[tuple[str, str], str] = field(default_factory=dict)

    def obstacle(self, resource: SparkResource) -> str:
        """Why the last attempt to create the application in the object's status failed and will be
        repeated. Empty if it succeeded, or was refused for good (`refusal`)."""
        application = resource.status.application
        if application is None:
            return ""
        return self._obstacles.get((resource.metadata.namespace, application.name), "")

    def refusal(self, resource: SparkResource) -> str:
        """Why the API server refused to create the application in the object's status; empty if it
        did not."""
        application = resource.status.application
        if application is None:
            return ""
        return self._refusals.get((resource.metadata.namespace, application.name), "")

    async def carry_out(
        self, key: ClusterKey, resource: SparkResource, cluster: BrokerCluster | None, step: Step[S]
    ) -> bool:
        """Carry out a step: its actions, then the status, then Events. Returns whether all of it is
        done; a failure is logged. Raises `NotActive`."""
        if not self.tools.authority.is_held():
            raise NotActive
        try:
            for action in step.actions:
                await self._act(key, resource, cluster, action)
        except ApiError as error:
            meta = resource.metadata
            facts = {"object": meta.name, "namespace": meta.namespace, "error": str(error)}
            logger.warning("spark_job_not_carried_out", extra=facts)
            if all(isinstance(action, Launch) for action in step.actions):
                # The status does not depend on the failed action, and it says why nothing was
                # created.
                await self._report(key, resource, step)
            return False
        return await self._report(key, resource, step)

    async def _act(
        self,
        key: ClusterKey,
        resource: SparkResource,
        cluster: BrokerCluster | None,
        action: object,
    ) -> None:
        """Carry out one action. Raises `ApiError`s."""
        namespace = resource.metadata.namespace
        match action:
            case Launch():
                assert cluster is not None, "nothing is launched without a cluster"
                await self._launch(resource, cluster, action)
            case Remove():
                await self.tools.applications.remove(namespace, action.name, action.launcher)
            case RemoveAnnotation():
                await self._remove_annotation(resource)
            case OrderRefetch():
                await self.tools.repairing.order(key, action)

    async def _launch(
        self, resource: SparkResource, cluster: BrokerCluster, launch: Launch
    ) -> None:
        """Create an application. If that fails, keep why, for `obstacle` or `refusal`, and raise
        the `ApiError`."""
        application = application_of(resource, cluster, launch, self.tools.spark_image)
        request = request_of(resource, launch)
        name = resource.metadata.namespace, launch.name
        try:
            await self.tools.applications.launch(launch.launcher, application, request)
        except (Unavailable, Conflict) as error:
            self._obstacles[name] = with_hint(short_error(str(error)))
            raise
        except ApiError as error:
            self._refusals[name] = with_hint(short_error(str(error)))
            raise
        self._obstacles.pop(name, None)

    async def _remove_annotation(self, resource: SparkResource) -> None:
        """Remove the annotation by which a user gave a command, so that it is carried out once."""
        meta, kind = resource.metadata, KIND_OF[resource.KIND.kind]
        patch = {"metadata": {**same_version(meta), "annotations": {labels.REBALANCE: None}}}
        patched = await self.tools.api.patch(
            kind, meta.namespace, meta.name, patch, field_manager=labels.OPERATOR
        )
        self.tools.caches[kind].put(patched)

    async def _report(self, key: ClusterKey, resource: SparkResource, step: Step[S]) -> bool:
        """Write the status if the object still has the version that was read, and then create the
        Events. Returns whether the status was written; if not, there are no Events."""
        meta = resource.metadata
        if any(isinstance(action, RemoveAnnotation) for action in step.actions):
            # Removing the annotation gave the object another version.
            meta = _as_it_is_now(resource, self.tools.caches)
        report = Report(kind=resource.KIND, metadata=meta, status=step.status)
        outcome = await self.tools.executor.execute(key, [report])
        if not outcome.is_complete:
            return False
        for notice in step.events:
            await self.tools.executor.announce(
                Announce(
                    kind=resource.KIND.kind,
                    api_version=api.API_VERSION,
                    metadata=resource.metadata,
                    type=EventType.WARNING if notice.is_warning else EventType.NORMAL,
                    reason=notice.reason,
                    message=notice.message,
                )
            )
        return True

    def forget_all_but(self, named: Container[tuple[str, str]]) -> None:
        """Forget applications that no status names. `named` has namespaces and names."""
        self._refusals = {key: refusal for key, refusal in self._refusals.items() if key in named}
        self._obstacles = {
            key: obstacle for key, obstacle in self._obstacles.items() if key in named
        }


def _as_it_is_now(resource: SparkResource, caches: Caches) -> Metadata:
    """The object's metadata as cached now, with the resource version of the last own write."""
    meta = resource.metadata
    manifest = caches[KIND_OF[resource.KIND.kind]].get(meta.namespace, meta.name)
    return meta if manifest is None else type(resource).from_manifest(manifest).metadata


def application_of(
    resource: SparkResource, cluster: BrokerCluster, launch: Launch, image: str
) -> Application:
    """The complete application of a run, from the object, the cluster and the operator's default
    `image`."""
    meta, overrides = resource.metadata, resource.spec.spark or SparkOverrides()
    _, job = JOB_OF[resource.KIND.kind]
    template = cluster.spec.template
    limit = resource.spec.time_limit
    run = Run(
        name=launch.name,
        namespace=meta.namespace,
        owner=Owner(
            api_version=api.API_VERSION, kind=resource.KIND.kind, name=meta.name, uid=meta.uid
        ),
        job=job,
        volumes=launch.access.volumes,
        labels={
            "app.kubernetes.io/name": "chiplog",
            "app.kubernetes.io/part-of": "chiplog",
            labels.MANAGED_BY: labels.OPERATOR,
            labels.SPARK_OWNER_KIND: resource.KIND.kind,
            **({labels.SPARK_OWNER: meta.name} if len(meta.name) <= MAX_LABEL_LENGTH else {}),
        },
        active_deadline_s=None if limit is None else deadline_s(limit),
    )
    defaults = PodDefaults(
        image=image,
        image_pull_policy=cluster.spec.image_pull_policy,
        image_pull_secrets=() if template is None else template.image_pull_secrets,
    )
    of_cluster = in_namespace(cluster.spec.spark, cluster.metadata.namespace, meta.namespace)
    settings = merged(of_cluster, overrides)
    if meta.namespace != cluster.metadata.namespace:
        settings = in_foreign_namespace(settings)
    return application(run, settings, defaults)


def request_of(resource: SparkResource, launch: Launch) -> Request:
    """The request that the job reads: what to do, how to connect, and where to write the result."""
    kind, _ = JOB_OF[resource.KIND.kind]
    return Request(
        kind=kind,
        application=launch.name,
        namespace=resource.metadata.namespace,
        bootstrap=launch.access.bootstrap,
        connection=launch.access.connection,
        result=ResultPlace(config_map=f"{launch.name}-result"),
        job=launch.job,
    )
