"""What the claims of a signed token (RFC 7519) prove: who its holder is, and until when.

The signature was verified before. Nothing of a token is in a message: it may be logged.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from chiplog_core.limits import MAX_USERNAME_LENGTH

MAX_TIME_S: Final = 2**40
"""Larger numbers of seconds are no time."""
RESERVED: Final = ("ANONYMOUS", "*")
"""Kafka's names of those without a login, and of everybody."""
ACCOUNT_PREFIX: Final = "system:serviceaccount:"
"""How the names of Kubernetes' ServiceAccounts begin."""

_ACCOUNT: Final = re.compile(
    re.escape(ACCOUNT_PREFIX) + r"([a-z0-9][-a-z0-9]{0,62}):([a-z0-9][-.a-z0-9]{0,252})"
)
_KUBERNETES: Final = "kubernetes.io"
"""The claim of tokens that are bound to an object; those without an end do not have it."""


class TokenRefused(Exception):  # noqa: N818 - a name for what happened
    """The token does not prove who its holder is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """Which tokens a listener accepts."""

    issuer: str
    audiences: tuple[str, ...]
    """A token must be for one of them."""
    name_claim: str = "sub"
    """The claim with the name of the user."""
    skew_s: float = 30
    """How far the clocks of issuer and broker may differ."""
    are_of_kubernetes: bool = False
    """Whether only tokens of ServiceAccounts are accepted."""


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """Who a token is for."""

    username: str
    valid_s: float
    """How long the token is still accepted; above 0."""


def holder(claims: Mapping[str, object], rules: TokenRules, now_s: float) -> TokenHolder:
    """Who the holder of a token with these claims is. `now_s` are seconds since the epoch. Raises
    `TokenRefused`."""
    if rules.are_of_kubernetes and rules.issuer in rules.audiences:
        # Otherwise every pod's token for the API server could be used here, and the other way.
        raise TokenRefused("the audience of the listener is that of the API server itself")
    if claims.get("iss") != rules.issuer:
        raise TokenRefused("the token is from another issuer")
    _check_audience(claims.get("aud"), rules.audiences)
    ends_s = _time(claims, "exp")
    if ends_s is None:
        raise TokenRefused("the token has no exp, so it would never expire")
    valid_s = ends_s + rules.skew_s - now_s
    if valid_s <= 0:
        raise TokenRefused("the token has expired")
    for claim in ("nbf", "iat"):
        begins_s = _time(claims, claim)
        if begins_s is not None and begins_s - rules.skew_s > now_s:
            raise TokenRefused(f"the token is not valid yet, by its {claim}")
    name = _account(claims) if rules.are_of_kubernetes else _username(claims, rules.name_claim)
    return TokenHolder(name, valid_s)


def _check_audience(given: object, accepted: tuple[str, ...]) -> None:
    """Raise `TokenRefused` unless the token is for one of the accepted audiences."""
    audiences = given if isinstance(given, list) else [given]
    if not any(isinstance(one, str) and one in accepted for one in audiences):
        raise TokenRefused("the token is for another audience")


def _time(claims: Mapping[str, object], claim: str) -> float | None:
    """A claim that is a time in seconds since the epoch; None if there is none. Raises
    `TokenRefused`."""
    given = claims.get(claim)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TokenRefused(f"the claim {claim} of the token is not a number")
    if not 0 <= given <= MAX_TIME_S:  # false for NaN, too
        raise TokenRefused(f"the claim {claim} of the token is not a time")
    return float(given)


def _username(claims: Mapping[str, object], claim: str) -> str:
    """The name in a claim. Raises `TokenRefused`, also for names that only certificates and
    ServiceAccounts have: who may choose a name at the issuer must not become one of those."""
    name = claims.get(claim)
    if not isinstance(name, str) or not 0 < len(name) <= MAX_USERNAME_LENGTH:
        raise TokenRefused(f"the token has no name in its claim {claim}")
    if not name.isprintable() or name != name.strip():
        raise TokenRefused(f"the claim {claim} of the token is not a printable name")
    if name in RESERVED or "=" in name or name.startswith(ACCOUNT_PREFIX):
        raise TokenRefused(f"the name in the claim {claim} of the token is reserved")
    return name


def _account(claims: Mapping[str, object]) -> str:
    """The name of the ServiceAccount that a token is for. Raises `TokenRefused`, also for a token
    of the older kind, which is not bound to its account."""
    name, bound = claims.get("sub"), claims.get(_KUBERNETES)
    match = _ACCOUNT.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise TokenRefused("the token is not that of a ServiceAccount")
    account = bound.get("serviceaccount") if isinstance(bound, Mapping) else None
    if (
        not isinstance(bound, Mapping)
        or not isinstance(account, Mapping)
        or (bound.get("namespace"), account.get("name")) != match.groups()
        or not account.get("uid")
    ):
        raise TokenRefused("the token is not bound to its ServiceAccount")
    return match[0]
