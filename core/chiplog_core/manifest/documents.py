"""JSON documents that the operator and a Spark job write for each other, and their strict parsing.

Parsing fails for a few reasons. Each has a name (`Flaw`), because the operator reacts differently
to them and shows them as reasons of conditions.
"""

import json
from enum import StrEnum
from typing import Any, NoReturn, cast

VERSION = 1
"""The version of both documents. It is raised only for a change that older readers would
misunderstand, not for new fields."""


class Flaw(StrEnum):
    """Why a document is not accepted, as a reason in CamelCase."""

    TOO_LARGE = "TooLarge"
    NOT_JSON = "NotJson"
    """It is not JSON, or not a JSON object."""
    WRONG_VERSION = "WrongVersion"
    OF_ANOTHER = "OfAnotherApplication"
    NOT_OURS = "NotOurs"
    """It does not have the signature of the expected driver, so somebody else has written it."""
    INVALID = "Invalid"
    """A field is missing or has an invalid value."""


class UnreadableDocument(ValueError):  # noqa: N818 - named for what it says
    """A request or a result that must not be used; its message says what is wrong with it."""

    def __init__(self, flaw: Flaw, message: str) -> None:
        super().__init__(message)
        self.flaw = flaw


def object_of(text: str | bytes, what: str, *, limit_bytes: int) -> dict[str, Any]:
    """The JSON object in `text`, which must have the version `VERSION`, or none.

    `what` is the name of the document in messages, like "request". Raises `UnreadableDocument`.
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
