"""Whether brokers check what clients may do."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from chiplog_core.limits import MAX_SUPER_USERS
from chiplog_core.manifest.constraints import Items
from chiplog_core.model.access_list import Principal


class AuthorizationType(StrEnum):
    """How it is decided what clients may do."""

    SIMPLE = "simple"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAuthorization:
    """How it is decided what clients may do."""

    type: Annotated[
        AuthorizationType,
        "simple: a client may do what the rules of its User object allow, and nothing else. A "
        "client that does not authenticate is User:ANONYMOUS, for which there are no rules.",
    ]
    super_users: Annotated[
        tuple[Principal, ...],
        "Clients that may do everything, like admin or CN=admin. A change takes effect without a "
        "restart.",
        Items(MAX_SUPER_USERS, unique=True),
    ] = ()
