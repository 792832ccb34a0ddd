"""JSON that the operator and a Spark job leave for each other, read by both sides strictly.

Reading fails in few ways, and what follows from each is another thing: so they have names, which
are the reasons that the operator shows.
"""

import json
from enum import StrEnum
from typing import Any, NoReturn, cast

VERSION = 1
"""Of both documents. Fields are added without a new one; a new one says that an old reader would
misunderstand."""


class Flaw(StrEnum):
    """Why a document does not count, as a reason in CamelCase."""

    TOO_LARGE = "TooLarge"
    NOT_JSON = "NotJson"
    """Neither is JSON that is no object."""
    WRONG_VERSION = "WrongVersion"
    OF_ANOTHER = "OfAnotherApplication"
    NOT_OURS = "NotOurs"
    """It is not signed by the driver that was asked for it: somebody else has put it there."""
    INVALID = "Invalid"
    """A field is missing, or of a wrong form."""


class UnreadableDocument(ValueError):  # noqa: N818 - named for what it says
    """A request or a result that must not be acted upon; `str()` says what to do about it."""

    def __init__(self, flaw: Flaw, message: str) -> None:
        super().__init__(message)
        self.flaw = flaw


def object_of(text: str | bytes, what: str, *, limit_bytes: int) -> dict[str, Any]:
    """The JSON object in `text`, which must have our version.

    `what` names the document in messages. Raises `UnreadableDocument`.
    """
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    if len(data) > limit_bytes:
        message = f"the {what} has {len(data)} bytes, and the limit is {limit_bytes}"
        raise UnreadableDocument(Flaw.TOO_LARGE, message)
    try:
        value = json.loads(data, parse_constant=_refused)
    except (ValueError, RecursionError) as problem:
        raise UnreadableDocument(Flaw.NOT_JSON, f"the {what} is not JSON ({problem})") from problem
    if not isinstance(value, dict):
        raise UnreadableDocument(Flaw.NOT_JSON, f"the {what} is JSON, but not an object")
    version = value.get("version", VERSION)
    if type(version) is not int or version != VERSION:  # True equals 1
        message = (
            f"the {what} has version {version!r}, but this program reads version {VERSION}: use "
            "the same release of the operator and the Spark image"
        )
        raise UnreadableDocument(Flaw.WRONG_VERSION, message)
    return cast("dict[str, Any]", value)


def text_of(value: dict[str, Any]) -> str:
    """A document in the form in which it is stored. Raises `ValueError` for values that JSON
    does not have, like NaN."""
    return json.dumps({"version": VERSION, **value}, separators=(",", ":"), allow_nan=False)


def _refused(constant: str) -> NoReturn:
    """Refuse NaN and Infinity, which `json.loads` accepts otherwise."""
    raise ValueError(f"{constant} is not a JSON number")
