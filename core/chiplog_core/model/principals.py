"""The principals of users."""

from typing import Final

from chiplog_core.model.user import User, UserAuthenticationType

USER_TYPE: Final = "User:"
"""How the principals of all users begin."""

ANONYMOUS_NAME: Final = "ANONYMOUS"
"""The name of clients that do not authenticate."""

MAX_COMMON_NAME_LENGTH: Final = 64
"""Characters of the common name in a certificate (RFC 5280)."""

_WITH_CERTIFICATE = (UserAuthenticationType.TLS, UserAuthenticationType.TLS_EXTERNAL)


def has_certificate(user: User) -> bool:
    """Whether the user authenticates with a certificate."""
    return user.spec.authentication_type in _WITH_CERTIFICATE


def username_of(user: User) -> str:
    """The name by which brokers know the user: the one in its spec; else the subject of its
    certificate in RFC 2253, or the name of the object. No name of an object contains `=`, so only
    Users with a name in their spec can have the same as others."""
    if user.spec.username is not None:
        return user.spec.username
    name = user.metadata.name
    return f"CN={name}" if has_certificate(user) else name


def principal_of(user: User) -> str:
    """Kafka's principal of the user, like `User:CN=alice`."""
    return f"{USER_TYPE}{username_of(user)}"


def super_user(text: str) -> str:
    """The principal of an entry in `superUsers`, which may leave `User:` out, as in Strimzi."""
    return text if text.startswith(USER_TYPE) else f"{USER_TYPE}{text}"
