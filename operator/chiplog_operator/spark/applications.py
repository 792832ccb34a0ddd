"""Applications at the API server: which launchers it offers, what is there, making, removing.

Applications are asked for one by one while they run and not watched: there are few of them, and
the kinds of the Spark operators may come and go while this process runs.
"""

import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from chiplog_core.manifest.documents import Flaw, UnreadableDocument
from chiplog_core.model.spark import SparkLauncher
from chiplog_core.model.spark_result import RESULT_KEY, Result
from chiplog_core.model.spark_run import ApplicationStatus, RunProgress, RunState
from chiplog_core.naming import labels, taken_names
from chiplog_core.spark import choice, pod_states, states
from chiplog_core.spark.application import APPLICATION_LABEL, Application, Owner, result_key_of
from chiplog_core.spark.pods import object_of
from chiplog_core.spark.progress import PROGRESS_KEY, progress_of
from chiplog_core.spark.requests import REQUEST_KEY, Request
from chiplog_core.spark.runs import ObservedRun
from chiplog_core.spark.signing import KEY_NAME, SIGNATURE_KEY, is_signed, signed
from chiplog_kube import kinds
from chiplog_kube.api import AlreadyExists, ApiError, Forbidden, KubeApi, Manifest, NotFound
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import key_of, labels_of, metadata, uid_of
from chiplog_operator.clock import Clock
from chiplog_operator.writes import NameTaken

logger = logging.getLogger(__name__)

LAUNCHED: Final[Mapping[SparkLauncher, Kind]] = {
    SparkLauncher.KUBEFLOW: kinds.KUBEFLOW_APPLICATIONS,
    SparkLauncher.APACHE: kinds.APACHE_APPLICATIONS,
    SparkLauncher.JOB: kinds.JOBS,
}
"""The kind of object that each launcher runs."""

MADE: Final[Mapping[str, Kind]] = {
    kind.kind: kind
    for kind in (kinds.CONFIG_MAPS, kinds.SERVICE_ACCOUNTS, kinds.ROLES, kinds.ROLE_BINDINGS)
}
"""The kinds of objects that are created before the launched one."""

OF_NOBODY: Final = f"{APPLICATION_LABEL}=none"
"""A label selector that no object matches, because names of applications end in eight digits."""
OFFERED_FOR_S: Final = 30.0
"""The API server is asked this often which kinds it offers."""


OtherOwners: TypeAlias = Collection[taken_names.Identity]


@dataclass(frozen=True, slots=True)
class Offered:
    """The `group/version` pairs with a SparkApplication, or why that is not known."""

    versions: frozenset[str] = frozenset()
    unknown: str = ""


class Applications:
    """All applications of one operator process."""

    def __init__(self, api: KubeApi, clock: Clock, draw_key: Callable[[], str]) -> None:
        """`draw_key` returns a text that nobody can guess."""
        self._draw_key = draw_key
        self._api = api
        self._clock = clock
        self._offered: dict[str, tuple[float, Offered]] = {}

    async def offered(self, namespace: str) -> Offered:
        """The `SparkApplication` kinds that the API server serves and the operator may use in this
        namespace. The answer is kept for `OFFERED_FOR_S`; a failure is not."""
        now_s = self._clock.monotonic_s()
        at_s, known = self._offered.get(namespace, (float("-inf"), Offered()))
        if now_s - at_s < OFFERED_FOR_S:
            return known
        versions = set()
        for kind in (kinds.KUBEFLOW_APPLICATIONS, kinds.APACHE_APPLICATIONS):
            try:
                await self._api.list_(kind, namespace, labels=OF_NOBODY)
            except NotFound:
                continue
            except ApiError as error:
                return Offered(unknown=f"{kind.kind} {kind.api_version} cannot be listed: {error}")
            versions.add(kind.api_version)
        found = Offered(frozenset(versions))
        self._offered[namespace] = now_s, found
        return found

    async def observe(self, namespace: str, application: ApplicationStatus) -> ObservedRun | None:
        """The state of an application that was launched, and then its result. None if a request
        failed, so that nothing is known."""
        try:
            return await self._observe(namespace, application)
        except ApiError as error:
            facts = {"application": application.name, "namespace": namespace, "error": str(error)}
            logger.warning("application_not_seen", extra=facts)
            return None

    async def _observe(self, namespace: str, application: ApplicationStatus) -> ObservedRun:
        """The state of a launched application, and its result. Raises `ApiError`s.

        The result is read after the state: an application that has ended has written it by then.
        """
        kind = LAUNCHED[application.launcher]
        try:
            launched = await self._api.get(kind, namespace, application.name)
        except NotFound:
            result, _ = await self._read_result(namespace, application.name)
            return ObservedRun(state=RunState.GONE, kind=kind.kind, result=result)
        pods = await self._api.list_(
            kinds.PODS, namespace, labels=f"{APPLICATION_LABEL}={application.name}"
        )
        events: list[Manifest] = []
        if application.launcher is SparkLauncher.JOB and not pods.items:
            # Only the Job's Events say why no pod could be created.
            selector = f"involvedObject.uid={uid_of(launched)}"
            found = await self._api.list_(kinds.EVENTS, namespace, fields=selector)
            events = sorted(found.items, key=lambda event: str(event.get("lastTimestamp") or ""))
        phase = states.observed(
            application.launcher, launched, pods.items, self._clock.now(), events
        )
        is_being_deleted = "deletionTimestamp" in metadata(launched)
        result, progress = await self._read_result(namespace, application.name)
        return ObservedRun(
            state=RunState.UNKNOWN if is_being_deleted else RunState(phase.name.value),
            kind=kind.kind,
            reason=phase.reason,
            message=phase.message,
            must_be_stopped=phase.must_be_stopped,
            is_delayed=phase.is_delayed and not is_being_deleted,
            executors=pod_states.running_executors(pods.items),
            driver_end=pod_states.end_of_driver(pods.items),
            attempt=states.attempt(application.launcher, launched),
            result=result,
            progress=progress,
        )

    async def _read_result(
        self, namespace: str, name: str
    ) -> tuple[Result | UnreadableDocument | None, RunProgress | None]:
        """The driver's result and its progress, each None if there is none. A result that is not
        signed by the driver, or cannot be parsed, is an `UnreadableDocument`."""
        try:
            found = await self._api.get(kinds.CONFIG_MAPS, namespace, f"{name}-result")
        except NotFound:
            return None, None
        data = found.get("data") or {}
        progress = progress_of(data.get(PROGRESS_KEY), application=name)
        text = data.get(RESULT_KEY)
        if not isinstance(text, str) or not text:
            return None, progress
        found_text = data.get(SIGNATURE_KEY)
        key = await self._key(namespace, result_key_of(name))
        # Without access to Secrets there is no key, and nothing is signed.
        is_accepted = key is None or is_signed(
            key, name, text, found_text if isinstance(found_text, str) else ""
        )
        if not is_accepted:
            message = (
                f"the result in ConfigMap {name}-result is not signed by the driver of this run: "
                "somebody else wrote it, or operator and Spark image have different versions. "
                "Start another run"
            )
            return UnreadableDocument(Flaw.NOT_OURS, message), progress
        try:
            return Result.from_json(text, application=name), progress
        except UnreadableDocument as unreadable:
            return unreadable, progress

    async def _key(self, namespace: str, name: str) -> str | None:
        """The key in a Secret, with which a driver signs; empty if there is no such Secret or key.
        None if the operator must not read Secrets in this namespace: no driver there has a key."""
        try:
            found = await self._api.get(kinds.SECRETS, namespace, name)
        except NotFound:
            return ""
        except Forbidden:
            return None
        try:
            return b64decode((found.get("data") or {})[KEY_NAME], validate=True).decode()
        except (KeyError, TypeError, ValueError):
            return ""

    async def launch(
        self, launcher: SparkLauncher, application: Application, request: Request
    ) -> None:
        """Create all objects of the application. Existing ones stay. Raises `ApiError`s; call it
        again then.

        At first the objects are owned by the object that asked for the run, and finally by the
        launched object, so that all are deleted when its time to live is over.
        """
        kind, wanted = LAUNCHED[launcher], choice.launch(launcher, application)
        other_owners = (
            taken_names.identity_of(application.owner.to_reference()),
            taken_names.Identity(kind.api_version.partition("/")[0], kind.kind, application.name),
        )
        await self._make(wanted, application, request, other_owners)
        try:
            created = await self._api.create(kind, wanted.launched, field_manager=labels.OPERATOR)
        except AlreadyExists:
            created = await self._ours(kind, wanted.launched, other_owners)
        facts = {"application": application.name, "namespace": application.namespace}
        logger.info("application_launched", extra={**facts, "launcher": launcher.value})
        owner = Owner(
            api_version=kind.api_version, kind=kind.kind, name=application.name, uid=uid_of(created)
        )
        owned = choice.owned_by(owner, application)
        await self._make(choice.launch(launcher, owned), owned, request, other_owners)

    async def _make(
        self,
        wanted: choice.Launch,
        application: Application,
        request: Request,
        other_owners: OtherOwners,
    ) -> None:
        """Create the objects that must exist before the launched one, or apply them if they exist:
        key, request, an empty ConfigMap for the result, and what the launcher needs."""
        key = await self._make_key(application, other_owners)
        data_field = {"data": signed(key, application.name, {REQUEST_KEY: request.to_json()})}
        for name, parts in (
            (application.request_config_map, data_field),
            (application.result_config_map, {}),
        ):
            manifest = object_of(application, "v1", "ConfigMap", name, parts)
            await self._apply(kinds.CONFIG_MAPS, manifest, other_owners)
        for manifest in wanted.before:
            files = manifest.get("data")  # only ConfigMaps have data
            data_field = {"data": signed(key, application.name, files)} if files else {}
            await self._apply(MADE[manifest["kind"]], {**manifest, **data_field}, other_owners)

    async def _make_key(self, application: Application, other_owners: OtherOwners) -> str:
        """The key with which operator and driver sign, in a Secret that is created if needed. Empty
        if the operator must not read Secrets, so that nothing is signed."""
        name = application.result_key
        known = await self._key(application.namespace, name)
        if known is None:
            return ""
        key = known or self._draw_key()
        parts: Manifest = {
            "data": {KEY_NAME: b64encode(key.encode()).decode()},
            "type": "Opaque",
        }
        secret = object_of(application, "v1", "Secret", name, parts)
        await self._apply(kinds.SECRETS, secret, other_owners)
        return key

    async def _apply(self, kind: Kind, wanted: Manifest, other_owners: OtherOwners) -> None:
        """Create the object, or apply it if it exists and is ours."""
        try:
            await self._api.apply_new(kind, wanted, field_manager=labels.OPERATOR)
        except AlreadyExists:
            uid = uid_of(await self._ours(kind, wanted, other_owners))
            with_uid = {**wanted, "metadata": {**wanted["metadata"], "uid": uid}}
            await self._api.apply(kind, with_uid, field_manager=labels.OPERATOR)

    async def _ours(self, kind: Kind, wanted: Manifest, other_owners: OtherOwners) -> Manifest:
        """The existing object with the name of a wanted one. Raises `NameTaken` if it does not
        belong to the application."""
        found = await self._api.get(kind, *key_of(wanted))
        why = taken_names.why_not_ours(
            metadata(found), metadata(wanted), label=APPLICATION_LABEL, other_owners=other_owners
        )
        if why:
            name = key_of(wanted).name
            raise NameTaken(taken_names.taken_message(kind.kind, name, "application", why))
        return found

    async def remove(self, namespace: str, name: str, launcher: SparkLauncher) -> None:
        """Delete the launched object, which owns the others. Raises `ApiError`s.

        If it was never created, because it was refused, the others are deleted one by one.
        """
        kind = LAUNCHED[launcher]
        own = _labels_of(name)
        try:
            found = await self._api.get(kind, namespace, name)
            if own.items() <= labels_of(found).items():
                await self._api.delete(kind, namespace, name, uid=uid_of(found))
                facts = {"application": name, "namespace": namespace}
                logger.info("application_removed", extra=facts)
                return
        except NotFound:
            pass
        await self._remove_rest(namespace, name, ",".join(f"{key}={own[key]}" for key in own))

    async def _remove_rest(self, namespace: str, name: str, own_labels: str) -> None:
        """Delete the objects that were created before the launched one. They are found by their
        labels, and their names begin with the application's."""
        for kind in MADE.values():
            found = await self._api.list_(kind, namespace, labels=own_labels)
            for manifest in found.items:
                object_name: str = metadata(manifest)["name"]
                if not object_name.startswith(f"{name}-"):
                    continue  # another object with our label
                with suppress(NotFound):
                    await self._api.delete(kind, namespace, object_name, uid=uid_of(manifest))
        await self._remove_key(namespace, name)

    async def _remove_key(self, namespace: str, application: str) -> None:
        """Delete the Secret with the key. Secrets cannot be listed. If the operator must not
        read it, it has not created one."""
        name = result_key_of(application)
        with suppress(NotFound, Forbidden):
            found = await self._api.get(kinds.SECRETS, namespace, name)
            if _labels_of(application).items() <= labels_of(found).items():
                await self._api.delete(kinds.SECRETS, namespace, name, uid=uid_of(found))


def _labels_of(application: str) -> Mapping[str, str]:
    """The labels of every object of an application."""
    return {APPLICATION_LABEL: application, labels.MANAGED_BY: labels.OPERATOR}
