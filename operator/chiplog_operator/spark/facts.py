"""What is known when an object that runs Spark jobs is checked: of its cluster and its run."""

from dataclasses import dataclass

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.rebalance import Rebalance, RebalanceMeasure
from chiplog_core.model.rebalance_status import Proposal, RebalanceState
from chiplog_core.model.spark import SparkLauncher
from chiplog_core.model.spark_run import ApplicationStatus
from chiplog_core.model.verdicts import problems_text
from chiplog_core.model.verification import Verification
from chiplog_core.observed.pinned import NONE_PINNED, Pinned, pinned_partitions
from chiplog_core.problems import Problem
from chiplog_core.rebalance.approval import MoveBases, move_bases
from chiplog_core.rebalance.usable_brokers import brokers_of, departing_brokers
from chiplog_core.spark.broker_access import (
    NO_ACCESS,
    BrokerAccess,
    broker_access,
    user_of_jobs,
)
from chiplog_core.spark.choice import choose
from chiplog_core.spark.choices import Allowed, check_choice, check_own_choice, in_namespace
from chiplog_core.spark.following import CLUSTER_SETTINGS
from chiplog_core.spark.rebalance_request import sends_limits
from chiplog_core.spark.rebalance_view import RebalanceView
from chiplog_core.spark.runs import ObservedRun, is_watched
from chiplog_core.spark.topic_choice import Topics, WaitReason
from chiplog_core.spark.verification_steps import VerificationView
from chiplog_core.topic_name import is_internal
from chiplog_core.validate.rebalance import check_rebalance, check_rebalance_in_cluster
from chiplog_core.validate.spark_conf import check_spark
from chiplog_core.validate.verification import (
    check_verification,
    check_verification_in_cluster,
)
from chiplog_kube import kinds
from chiplog_kube.manifests import key_of, labels_of, uid_of
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.observe import Observer
from chiplog_operator.spark.applications import Applications, Offered


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Collects the facts for one operator process."""

    caches: Caches
    observer: Observer
    applications: Applications
    spark_image: str
    allowed: Allowed

    async def of_verification(
        self, resource: Verification, key: ClusterKey, cluster: BrokerCluster | None, refusal: str
    ) -> VerificationView:
        """Everything on which the next step of a Verification depends, except for its repairs.
        `refusal` says why its application could not be created; empty if it could."""
        namespace, application = resource.metadata.namespace, resource.status.application
        offer = await self._offer(cluster, namespace, application)
        access, no_access = self._access(key, cluster, namespace)
        wait_reason = self._wait_reason(key, cluster, namespace) or no_access or offer.wait_reason
        problems = (*check_verification(resource), *offer.problems)
        if cluster is not None:
            problems += check_verification_in_cluster(resource, cluster)
            problems += self._check_choice(resource, cluster)
        return VerificationView(
            verification=resource,
            problems=problems,
            wait_reason=wait_reason,
            access=access,
            topics=self._topics(key),
            # The application is read before the Brokers: a broker that refused to serve it has
            # reported that in its status by then.
            seen=await self._seen(namespace, application),
            brokers=self.observer.from_caches(key).brokers,
            launcher=offer.launcher,
            refusal=refusal,
        )

    async def of_rebalance(
        self, resource: Rebalance, key: ClusterKey, cluster: BrokerCluster | None, refusal: str
    ) -> RebalanceView:
        """Everything on which the next step of a Rebalance depends. `refusal` says why its
        application could not be created; empty if it could."""
        namespace, application = resource.metadata.namespace, resource.status.application
        problems = check_rebalance(resource)
        wait_reason = self._no_cluster(key, cluster, "its load is not measured")
        offer, access = _Offer(), NO_ACCESS
        if resource.spec.measure is RebalanceMeasure.SPARK:
            offer = await self._offer(cluster, namespace, application)
            access, no_access = self._access(key, cluster, namespace)
            no_job = self._wait_reason(key, cluster, namespace) or no_access
            no_job = no_job or offer.as_wait_reason
            wait_reason = wait_reason or _or_by_brokers(no_job)
        if cluster is not None:
            problems += check_rebalance_in_cluster(resource, cluster)
            problems += self._check_choice(resource, cluster)
        world = self.observer.from_caches(key)
        pinned = NONE_PINNED if cluster is None else pinned_partitions(world, cluster)
        return RebalanceView(
            rebalance=resource,
            problems=problems,
            # Approved moves do not depend on the launcher.
            wait_reason=wait_reason,
            access=access,
            topics=sorted(name for name in self._topics(key) if not is_internal(name)),
            brokers=brokers_of(world),
            sends_limits=cluster is not None and sends_limits(resource.spec, cluster),
            pinned=pinned,
            launcher=offer.launcher,
            seen=await self._seen(namespace, application),
            refusal=refusal,
            other_rebalance=self._rebalance_in_progress(resource, key),
            move_bases=None
            if cluster is None
            else self._move_bases(key, resource.status.proposal, pinned, departing_brokers(world)),
        )

    def _rebalance_in_progress(self, resource: Rebalance, key: ClusterKey) -> str:
        """Namespace and name of another Rebalance of the cluster whose moves are in progress or
        paused; empty if there is none."""
        rebalancing = RebalanceState.REBALANCING.value
        for manifest in self.caches.members(kinds.REBALANCES, key):
            status = manifest.get("status") or {}
            is_other = uid_of(manifest) != resource.metadata.uid
            # A paused one has its former state in `resumes`.
            if is_other and rebalancing in {status.get("state"), status.get("resumes")}:
                return "/".join(key_of(manifest))
        return ""

    def _move_bases(
        self,
        key: ClusterKey,
        proposal: Proposal | None,
        pinned: Pinned,
        departing: frozenset[BrokerId],
    ) -> MoveBases | None:
        """The states of the topics that the proposal moves; None if a map cannot be parsed."""
        maps = self.observer.maps(key)
        if maps is None:
            return None
        moved_topics = set() if proposal is None else proposal.moved_topics
        return move_bases(
            (partition_map.spec for name, partition_map in maps.items() if name in moved_topics),
            pinned,
            departing,
        )

    async def _seen(
        self, namespace: str, application: ApplicationStatus | None
    ) -> ObservedRun | None:
        """The state of the application in an object's status. None if there is none, if it cannot
        change any more, or if a request failed."""
        if application is None or not is_watched(application):
            return None
        return await self.applications.observe(namespace, application)

    def _check_choice(
        self, resource: Verification | Rebalance, cluster: BrokerCluster
    ) -> tuple[Problem, ...]:
        """Problems with the image, ServiceAccount and Spark settings that the object chooses for
        its job, rather than the cluster."""
        if resource.spec.spark is None:
            return ()
        namespace = resource.metadata.namespace
        of_cluster = in_namespace(cluster.spec.spark, cluster.metadata.namespace, namespace)
        return check_own_choice(resource.spec.spark, of_cluster, namespace, self.allowed)

    def _no_cluster(
        self, key: ClusterKey, cluster: BrokerCluster | None, consequence: str
    ) -> WaitReason | None:
        """Why nothing can be done in this cluster, followed by the `consequence`; None if it
        exists."""
        meta = self.observer.metadata(key)
        if not meta.uid:
            message = (
                f"there is no BrokerCluster {key.name} in namespace {key.namespace}: create it, "
                "or delete this object. The operator does not see clusters in namespaces that it "
                "does not watch"
            )
            return WaitReason("ClusterNotFound", message)
        if cluster is None:
            message = (
                f"the spec of BrokerCluster {key.name} is refused, so {consequence}: "
                "correct the problems that its condition Ready lists"
            )
            return WaitReason("ClusterNotReadable", message)
        if meta.deletion_timestamp is not None:
            message = f"BrokerCluster {key.name} is being deleted, so {consequence}"
            return WaitReason("ClusterEnding", message)
        return None

    def _wait_reason(
        self, key: ClusterKey, cluster: BrokerCluster | None, namespace: str
    ) -> WaitReason | None:
        """Why no job can run in this cluster; None if one can."""
        missing = self._no_cluster(key, cluster, "no Spark job is started")
        if missing is not None or cluster is None:
            return missing
        spark = in_namespace(cluster.spec.spark, key.namespace, namespace)
        problems = (*check_spark(spark), *check_choice(spark, namespace, self.allowed))
        if problems:
            problems_text = "; ".join(map(str, problems))
            return WaitReason(CLUSTER_SETTINGS, f"in BrokerCluster {key.name}: {problems_text}")
        if not self.spark_image and spark.image is None:
            message = (
                "there is no image for Spark jobs: set sparkImage of the operator's chart, or "
                "spec.spark.image of the BrokerCluster for jobs in its own namespace"
            )
            return WaitReason("NoImage", message)
        return None

    def _access(
        self, key: ClusterKey, cluster: BrokerCluster | None, namespace: str
    ) -> tuple[BrokerAccess, WaitReason | None]:
        """How jobs of this namespace connect to the brokers, and why they cannot; None if they
        can."""
        if cluster is None:
            return NO_ACCESS, None
        name = user_of_jobs(cluster, namespace)
        users, _ = ((), ()) if name is None else self.observer.users(key)
        user = next((one for one in users if one.metadata.name == name), None)
        access = broker_access(cluster, namespace, user)
        return (NO_ACCESS, access) if isinstance(access, WaitReason) else (access, None)

    async def _offer(
        self,
        cluster: BrokerCluster | None,
        namespace: str,
        application: ApplicationStatus | None,
    ) -> "_Offer":
        """The launcher for a run that begins now, or why there is none. While a run is in progress,
        nothing is requested, and the result does not matter."""
        if cluster is None or is_watched(application):
            return _Offer()
        spark = cluster.spec.spark
        wanted = SparkLauncher.AUTO if spark is None else spark.launcher
        offered = Offered()
        if wanted is not SparkLauncher.JOB:
            offered = await self.applications.offered(namespace)
            if offered.unknown:
                return _Offer(wait_reason=WaitReason("LauncherUnknown", offered.unknown))
        chosen = choose(wanted, offered.versions)
        if isinstance(chosen, Problem):
            return _Offer(problems=(chosen,))
        return _Offer(launcher=chosen)

    def _topics(self, key: ClusterKey) -> Topics:
        """The names of all topics that brokers serve, each with the labels of its Topic object
        (empty without one)."""
        labels_by_uid = {
            uid_of(manifest): labels_of(manifest)
            for manifest in self.caches.members(kinds.TOPICS, key)
        }
        found = {}
        for manifest in self.caches.members(kinds.PARTITION_MAPS, key):
            spec = manifest.get("spec") or {}
            if spec.get("current") and isinstance(spec.get("topicName"), str):
                found[spec["topicName"]] = labels_by_uid.get(spec.get("ownerUID", ""), {})
        return found


def _or_by_brokers(reason: WaitReason | None) -> WaitReason | None:
    """Why no job can measure a Rebalance, with what to do instead."""
    if reason is None:
        return None
    remedy = "or set spec.measure of the Rebalance to Brokers, which needs no job"
    return WaitReason(reason.reason, f"{reason.message}, {remedy}")


@dataclass(frozen=True, slots=True)
class _Offer:
    """The launcher, or why there is none: a wrong setting, or something that is missing now."""

    launcher: SparkLauncher = SparkLauncher.JOB
    problems: tuple[Problem, ...] = ()
    wait_reason: WaitReason | None = None

    @property
    def as_wait_reason(self) -> WaitReason | None:
        """Why no Spark application can be created now; None if one can."""
        if self.wait_reason is None and self.problems:
            return WaitReason(self.problems[0].reason.value, problems_text(self.problems))
        return self.wait_reason
