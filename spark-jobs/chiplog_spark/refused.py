"""The error of a job that a user must correct: another attempt would fail in the same way."""

import re


class Refused(Exception):  # noqa: N818 - named for what it says
    """The job cannot be done as requested.

    `reason` is one word in CamelCase, like `TopicUnknown` or `OffsetOutOfRange`; the message is a
    sentence that names the field or the setting and the remedy.
    """

    def __init__(self, reason: str, message: str) -> None:
        assert re.fullmatch("[A-Z][A-Za-z0-9]*", reason), f"{reason!r} is not CamelCase"
        super().__init__(message)
        self.reason = reason
