"""A request of an admin client that cannot be decided yet."""

from dataclasses import dataclass

from chiplog_core.admin.codes import Code


@dataclass(frozen=True, slots=True)
class Waiting:
    """The request cannot be decided yet. If that is still so at its deadline, the client gets this
    error."""

    why: str
    code: Code = Code.REQUEST_TIMED_OUT
