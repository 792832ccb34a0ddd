"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554)."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.security.scram_store import CredentialChange, ScramStore
from chiplog_broker.server.call import Call
from chiplog_core.authorizer.acls import MAX_FIELD_LENGTH
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.scram import Mechanism, ScramCredential, derived_keys, saslprep
from chiplog_wire.verifiers import why_not_stored

MECHANISMS: Final = {1: Mechanism.SCRAM_SHA_256, 2: Mechanism.SCRAM_SHA_512}
NUMBERS: Final = {mechanism: number for number, mechanism in MECHANISMS.items()}
MAX_NAME_LENGTH: Final = MAX_FIELD_LENGTH
"""As in ACLs. The store is written as a whole."""
MAX_SALTED_BYTES: Final = 1024
"""It is the result of a hash, of 64 bytes at most. Megabytes would hold the event loop."""
TWICE: Final = "A user credential cannot be altered twice in the same request"


class Invalid(Exception):  # noqa: N818 - a name for what happened
    """A change that is not acceptable."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class ScramHandlers:
    """Describes and changes the credentials of a store."""

    def __init__(self, store: ScramStore, long_work: LongWork) -> None:
        self._store = store
        self._long_work = long_work

    async def describe_user_scram_credentials(self, call: Call[Any]) -> object:
        """The mechanisms and iterations of the requested users; of all without names in the
        request."""
        types, slices = answers(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS), self._long_work.slices()
        found: dict[str, list[object]] = {}
        for (mechanism, name), credential in tuple(self._store.verifiers.items()):
            await slices.pause()
            info = types.CredentialInfo(
                mechanism=NUMBERS[mechanism], iterations=credential.iterations
            )
            found.setdefault(name, []).append(info)
        times = Counter(user.name for user in call.message.users or ()) or dict.fromkeys(found, 1)
        results = []
        for name, count in times.items():
            await slices.pause()
            results.append(described(types, name, count, found.get(name, [])))
        return types.DescribeUserScramCredentialsResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            error_message=None,
            results=tuple(results),
        )

    async def alter_user_scram_credentials(self, call: Call[Any]) -> object:
        """Store and delete credentials; one result for each user."""
        valid, errors = await self._checked(call.message)
        try:
            refused = await self._store.alter(tuple(valid.values()), call.peer.principal)
        except OSError as failed:
            errors |= dict.fromkeys(valid, Invalid(ErrorCode.kafka_storage_error, str(failed)))
        else:
            errors |= {name: Invalid(code, why) for name, (code, why) in refused.items()}
        types = answers(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
        return types.AlterUserScramCredentialsResponse(
            throttle_time=NO_THROTTLE,
            results=tuple(
                altered(types, name, errors.get(name)) for name in sorted({*valid, *errors})
            ),
        )

    async def _checked(
        self, request: Any
    ) -> tuple[dict[str, CredentialChange], dict[str, Invalid]]:
        """The valid changes and the errors of the others, by user. A user may have one change in a
        request, as in Kafka."""
        valid: dict[str, CredentialChange] = {}
        errors: dict[str, Invalid] = {}
        slices = self._long_work.slices()
        for name, entry in entries(request):
            await slices.pause()
            if name in errors:
                continue
            if valid.pop(name, None) is not None:
                errors[name] = Invalid(ErrorCode.duplicate_resource, TWICE)
                continue
            try:
                valid[name] = self._change_of(entry)
            except Invalid as invalid:
                errors[name] = invalid
        return valid, errors

    def _change_of(self, entry: Any) -> CredentialChange:
        """The change that an entry asks for. Raises `Invalid`."""
        mechanism = MECHANISMS.get(entry.mechanism)
        if not entry.name:
            raise Invalid(ErrorCode.unacceptable_credential, "Username must not be empty")
        if mechanism is None:
            raise Invalid(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
        if not hasattr(entry, "iterations"):
            if (mechanism, entry.name) not in self._store.verifiers:
                raise Invalid(
                    ErrorCode.resource_not_found,
                    "Attempt to delete a user credential that does not exist",
                )
            return CredentialChange(mechanism, entry.name, None)
        check_upsertion(entry)
        keys = derived_keys(mechanism, entry.salted_password)
        credential = ScramCredential(bytes(entry.salt), entry.iterations, (keys,))
        return CredentialChange(mechanism, entry.name, credential)


def entries(request: Any) -> Iterator[tuple[str, Any]]:
    """The user and the entry of each change."""
    for entry in (*request.deletions, *request.upsertions):
        yield entry.name, entry


def check_upsertion(entry: Any) -> None:
    """Raise `Invalid` if a credential cannot be stored."""
    why = why_not_stored(entry.iterations, entry.salt) or why_not_given(entry)
    if why:
        raise Invalid(ErrorCode.unacceptable_credential, why)


def why_not_given(entry: Any) -> str:
    """Why the name or the salted password is not acceptable; empty if they are."""
    if len(entry.name) > MAX_NAME_LENGTH or len(entry.salted_password) > MAX_SALTED_BYTES:
        return (
            f"A name has at most {MAX_NAME_LENGTH} characters, and a salted password at most "
            f"{MAX_SALTED_BYTES} bytes"
        )
    if not entry.salted_password:
        return "The password must not be empty"
    try:
        saslprep(entry.name)
    except ValueError as error:
        return str(error)
    return ""


def described(types: Any, user: str, times: int, infos: list[object]) -> object:
    """The result of a DescribeUserScramCredentials for a user that was requested `times`."""
    code, message = ErrorCode.none, None
    if times > 1:
        code = ErrorCode.duplicate_resource
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    elif not infos:
        code = ErrorCode.resource_not_found
        message = f"Attempt to describe a user credential that does not exist: {user}"
    return types.DescribeUserScramCredentialsResult(
        user=user,
        error_code=code,
        error_message=message,
        credential_infos=() if message else tuple(infos),
    )


def altered(types: Any, user: str, error: Invalid | None) -> object:
    """The result of an AlterUserScramCredentials for one user."""
    return types.AlterUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else str(error),
    )
