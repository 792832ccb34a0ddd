"""The credentials of each user of a cluster: its Secret, and what follows from it.

A user's Secret is read when its User changes, and every `READ_AGAIN_S`: somebody may have deleted
it, or changed the password that another Secret gives.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from chiplog_core.certificates.authority import Issued
from chiplog_core.certificates.servers import why_issued
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.principals import username_of
from chiplog_core.model.user import SecretKeyRef, User, UserAuthenticationType
from chiplog_core.naming import labels, names
from chiplog_core.problems import Problem, Reason
from chiplog_core.users.statuses import Outcome
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, KubeApi, Manifest, get_or_none
from chiplog_kube.manifests import labels_of, metadata, uid_of, version_of
from chiplog_operator.certificates.issued_to_users import UNKNOWN
from chiplog_operator.certificates.issuing import Owner
from chiplog_operator.certificates.material import LeafMaterial, log_issue
from chiplog_operator.clock import Clock
from chiplog_operator.concurrency import run_concurrently
from chiplog_operator.users.clients_authority import ClientsCa
from chiplog_operator.users.secret import (
    CERTIFICATE,
    KEY,
    PASSWORD,
    Entries,
    certificate_entries,
    is_of,
    needs_write,
    password_entries,
    secret_of_user,
    text_in,
    verifiers_in,
    why_taken,
)
from chiplog_operator.users.verifiers import Verifier
from chiplog_operator.writes import AGAIN, IN_FLIGHT, Authority, NotActive

logger = logging.getLogger(__name__)

READ_AGAIN_S = 60.0
BATCH = 100
"""Users whose Secrets are read and written in one pass. Other changes do not wait longer for it."""
RETRY = "another attempt"
RETRY_AFTER_S = 1.0
"""A user that waits is not looked at more often."""

TOKENS = frozenset({"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"})
"""Types of Secrets that no password comes from: they would be copied."""

WITH_SECRET = (UserAuthenticationType.TLS, UserAuthenticationType.SCRAM_SHA_512)


class _Unusable(Exception):  # noqa: N818 - named for what it says
    """A user cannot have credentials."""

    def __init__(self, problem: Problem, *, for_now: bool = False) -> None:
        """`for_now`: it is probably about to be corrected, so try again soon."""
        self.problem = problem
        self.for_now = for_now
        super().__init__(str(problem))


@dataclass(slots=True, kw_only=True)
class Held:
    """What is known of one user's credentials."""

    inputs: object = None
    """What the last decision was made from; None if there must be another one."""
    read_at_s: float = 0.0
    outcome: Outcome = field(default_factory=lambda: Outcome(waits_for="its credentials"))
    verifier: Verifier | None = None
    keeps_stored: bool = True
    """Whether the verifier that brokers have may be this User's. Without a Secret that was made for
    it, it is of an earlier User with the same name, whose password must not work any more."""
    issued: Issued | None = UNKNOWN
    """The certificate in its Secret, or `UNKNOWN` until that is read; None if it has none."""

    def fail(self, problem: Problem, inputs: object) -> None:
        """The credentials stay what they are; `inputs` as for a decision."""
        self.outcome = replace(self.outcome, problems=(problem,), waits_for="")
        self.inputs = inputs


class Credentials:
    """The credentials of all users of one cluster."""

    def __init__(self, api: KubeApi, authority: Authority, clock: Clock) -> None:
        self._api = api
        self._authority = authority
        self._clock = clock
        self._held: dict[str, Held] = {}
        """By the uid of the User."""
        self.are_pending = False
        """Whether there are users that did not fit into the last batch."""

    def of(self, user: User) -> Held:
        """What is known of the user's credentials."""
        return self._held.setdefault(user.metadata.uid, Held())

    @property
    def are_waiting(self) -> bool:
        """Whether some users have to wait, or another attempt is needed for them."""
        return any(held.inputs is None for held in self._held.values())

    def is_known(self, user: User) -> bool:
        """Whether the user's credentials were looked at since the start of this process."""
        return self.of(user).read_at_s > 0

    def issued(self, users: Iterable[User]) -> tuple[Issued, ...] | None:
        """The certificates that users have; None if those of some are not known yet."""
        with_certificate = [
            user for user in users if user.spec.authentication_type is UserAuthenticationType.TLS
        ]
        if not all(map(self.is_known, with_certificate)):
            return None
        found = (self.of(user).issued for user in with_certificate)
        return tuple(one for one in found if one is not None)

    async def update(
        self, cluster: BrokerCluster, users: Iterable[User], ca: ClientsCa, stored: dict[str, str]
    ) -> None:
        """Make the Secrets of these users what they should be. `stored` are the verifiers that
        brokers have. Raises `NotActive`."""
        now_s = self._clock.monotonic_s()
        wanted = {user.metadata.uid: user for user in users}
        self._held = {uid: held for uid, held in self._held.items() if uid in wanted}
        due = []
        for user in wanted.values():
            held = self.of(user)
            waits = held.inputs is None and self.is_known(user)
            is_changed = not waits and held.inputs != _inputs(user, cluster, ca)
            # Those that wait come in turn with those that are read again: however many they are,
            # certificates are renewed.
            every_s = RETRY_AFTER_S if waits else READ_AGAIN_S
            if is_changed or now_s - held.read_at_s >= every_s:
                due.append((not is_changed, held.read_at_s, user.metadata.name, user))
        due.sort(key=lambda one: one[:3])
        self.are_pending = len(due) > BATCH

        async def one(user: User) -> None:
            await self._update(cluster, user, ca, stored.get(user.metadata.name, ""))

        await run_concurrently(one, [user for *_, user in due[:BATCH]], max_concurrent=IN_FLIGHT)

    async def _update(self, cluster: BrokerCluster, user: User, ca: ClientsCa, stored: str) -> None:
        """Make one user's Secret what it should be."""
        self._check_active()
        held, inputs = self.of(user), _inputs(user, cluster, ca)
        try:
            await self._settle(cluster, user, ca, stored, held)
            held.inputs = None if held.outcome.waits_for else inputs
        except _Unusable as unusable:
            held.fail(unusable.problem, None if unusable.for_now else inputs)
        except AGAIN as error:
            facts = {"user": user.metadata.name, "error": str(error)}
            logger.info("credentials_again", extra=facts)
            held.inputs = None
            if not held.read_at_s:
                return
        except ApiError as error:
            message = f"has credentials in Secret {user.metadata.name}, which is refused: {error}"
            held.fail(
                Problem("spec.authentication", message, "correct that", Reason.NOT_ALLOWED), inputs
            )
        except NotActive:
            raise
        except Exception as error:  # noqa: BLE001 - see below
            # One user must not keep the others from losing their permissions. The text of the error
            # may have a part of a password.
            facts = {"user": user.metadata.name, "error": type(error).__name__}
            logger.error("credentials_failed", extra=facts)
            message = f"cannot be handled: {type(error).__name__}"
            held.fail(
                Problem("spec.authentication", message, "report this", Reason.INTERNAL_ERROR),
                inputs,
            )
        held.read_at_s = self._clock.monotonic_s()

    async def _settle(
        self, cluster: BrokerCluster, user: User, ca: ClientsCa, stored: str, held: Held
    ) -> None:
        """Decide and write. Raises `_Unusable` and `ApiError`s."""
        type_ = user.spec.authentication_type
        if type_ not in WITH_SECRET:
            if user.status.secret is not None:
                await self._remove_secret(cluster, user)
            held.outcome, held.verifier, held.issued = Outcome(), None, None
            return
        found = await self._get(user.metadata.namespace, user.metadata.name)
        held.keeps_stored = False
        if found is not None and (why := why_taken(user, found, cluster.metadata.name)):
            held.issued = None
            message = f"is also the name of a Secret that is not this User's ({why})"
            remedy = "delete the Secret, or create the User with another name"
            raise _Unusable(Problem("metadata.name", message, remedy, Reason.RESOURCE_CONFLICT))
        earlier = found if found is not None and is_of(user, found) else None
        held.keeps_stored = earlier is not None
        issued = None
        if type_ is UserAuthenticationType.TLS:
            held.verifier = None
            entries, issued = self._certificate(user, ca, earlier, held)
        else:
            entries = await self._password(user, cluster.metadata.name, earlier, stored, held)
        if entries is None:
            return
        wanted = secret_of_user(user, cluster.metadata.name, entries)
        if needs_write(found, wanted):
            await self._write(found, wanted)
        held.issued = issued
        held.outcome = Outcome(secret=user.metadata.name)

    def _certificate(
        self, user: User, ca: ClientsCa, found: Manifest | None, held: Held
    ) -> tuple[Entries | None, Issued | None]:
        """The entries of a user with a certificate, and what this says; None if it has to wait for
        one. The user has what `held` says until they are written."""
        if ca.problem:
            message = f"is tls, but no certificate can be issued: {ca.problem}"
            raise _Unusable(Problem("spec.authentication.type", message, "correct that"))
        now, name = self._clock.now(), user.metadata.name
        material, term = ca.material, ca.term
        leaf = None
        if material is not None and found is not None:
            leaf = LeafMaterial.read(
                text_in(found, CERTIFICATE), text_in(found, KEY), material.certificates
            )
        if material is not None and term is not None:
            facts = held.issued = None if leaf is None else leaf.facts
            why = why_issued(facts, frozenset(), material.facts, term, now, checked_by=ca.brokers)
            if why is not None:
                log_issue(f"user {name}", why)
                leaf = LeafMaterial.issue(material, Owner.user(name), term, now)
        if leaf is None or material is None:
            held.outcome = Outcome(waits_for=ca.why_waiting(now) or RETRY)
            return None, None
        authorities = "".join(material.pems)
        entries = certificate_entries(name, authorities, leaf.certificate, leaf.key, found)
        return entries, leaf.facts

    async def _password(
        self, user: User, cluster: str, found: Manifest | None, stored: str, held: Held
    ) -> Entries:
        """The entries of a user with a password, whose verifier is then known."""
        authentication = user.spec.authentication
        if authentication is not None and authentication.verifier_key is not None:
            return _set_by_client(authentication.verifier_key, user, found, held)
        given = None if authentication is None else authentication.password
        if given is not None:
            password = await self._given(user, given.value_from.secret_key_ref, cluster)
        else:
            password = text_in(found, PASSWORD) or secrets.token_urlsafe(24)
        try:
            held.verifier = await asyncio.to_thread(_verifier, password, stored, held.verifier)
        except ValueError as error:
            message = f"cannot be used: {error}"
            raise _Unusable(
                Problem("spec.authentication.password", message, "choose another one")
            ) from error
        # A client is about to replace the password: its verifier is stored before it is named.
        return {**verifiers_in(found), **password_entries(username_of(user), password)}

    async def _given(self, user: User, reference: SecretKeyRef, cluster: str) -> str:
        """The password in a user's Secret."""
        field_ = "spec.authentication.password.valueFrom.secretKeyRef"
        if reference.name in names.secrets_of(cluster):
            # Also one without the operator's label: a CA that its owner provides.
            message = f"names Secret {reference.name}, which is the cluster's own"
            raise _Unusable(Problem(field_, message, "name another one", Reason.NOT_ALLOWED))
        found = await self._get(user.metadata.namespace, reference.name)
        if found is not None and labels_of(found).get(labels.MANAGED_BY) == labels.OPERATOR:
            message = f"names Secret {reference.name}, which the operator made"
            raise _Unusable(Problem(field_, message, "name one of your own", Reason.NOT_ALLOWED))
        if found is not None and found.get("type") in TOKENS:
            message = f"names Secret {reference.name}, which has the token of an account"
            raise _Unusable(Problem(field_, message, "name another one", Reason.NOT_ALLOWED))
        password = text_in(found, reference.key)
        if not password:
            message = f"names entry {reference.key} of Secret {reference.name}: there is none"
            problem = Problem(field_, message, "create it, or remove the field")
            raise _Unusable(problem, for_now=True)
        return password

    async def _get(self, namespace: str, name: str) -> Manifest | None:
        return await get_or_none(self._api, kinds.SECRETS, namespace, name)

    def _check_active(self) -> None:
        """Raise `NotActive` if another operator may be active. To be called right before a write:
        the lease may have been lost while a Secret was read."""
        if not self._authority.is_held():
            raise NotActive

    async def _write(self, found: Manifest | None, wanted: Manifest) -> None:
        self._check_active()
        if found is None:
            await self._api.apply_new(kinds.SECRETS, wanted, field_manager=labels.OPERATOR)
            return
        # Of exactly this version: a client's credential that came since must not be lost.
        exactly = {"uid": uid_of(found), "resourceVersion": version_of(found)}
        manifest = {**wanted, "metadata": {**metadata(wanted), **exactly}}
        await self._api.apply(kinds.SECRETS, manifest, field_manager=labels.OPERATOR)

    async def _remove_secret(self, cluster: BrokerCluster, user: User) -> None:
        """Delete the Secret of a user that has no credentials of the operator any more."""
        name, namespace = user.metadata.name, user.metadata.namespace
        found = await self._get(namespace, name)
        if found is None or why_taken(user, found, cluster.metadata.name):
            return
        self._check_active()
        await self._api.delete(
            kinds.SECRETS, namespace, name, uid=uid_of(found), resource_version=version_of(found)
        )


def _set_by_client(entry: str, user: User, found: Manifest | None, held: Held) -> Entries:
    """The entries of a user whose password a client has set: nobody else knows it. Raises
    `_Unusable` while there is no such entry."""
    field_ = "spec.authentication.verifierKey"
    name = user.metadata.name
    text = text_in(found, entry)
    if not text:
        message = f"names entry {entry} of Secret {name}: there is none"
        remedy = "set the password again, or remove the field"
        raise _Unusable(Problem(field_, message, remedy), for_now=True)
    try:
        held.verifier = Verifier.read(text)
    except ValueError as error:
        message = f"names entry {entry} of Secret {name}, which cannot be read"
        remedy = "set the password again, or remove the field"
        raise _Unusable(Problem(field_, message, remedy)) from error
    return verifiers_in(found)


def _inputs(user: User, cluster: BrokerCluster, ca: ClientsCa) -> object:
    """What a user's credentials depend on, except Secrets."""
    is_tls = user.spec.authentication_type is UserAuthenticationType.TLS
    return (
        cluster.metadata.uid,
        user.spec.authentication,
        user.spec.template,
        user.spec.username,
        ca.identity if is_tls else None,
    )


def _verifier(password: str, stored: str, held: Verifier | None) -> Verifier:
    """The verifier of a password: the known one if it fits, so that brokers need not read another.
    Raises `ValueError` for a password that Kafka's clients cannot send."""
    candidates = [] if held is None else [held]
    if held is None and stored:
        try:
            candidates.append(Verifier.read(stored))
        except ValueError:
            logger.warning("verifier_unreadable")
    return next((one for one in candidates if one.fits(password)), None) or Verifier.of(password)
