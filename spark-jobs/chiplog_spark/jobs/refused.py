"""What a job raises where only a person can help: no other attempt would end otherwise."""

import re


class Refused(Exception):  # noqa: N818 - named for what it says
    """The job cannot be done as it was asked.

    `reason` is one word in CamelCase, like `TopicUnknown` or `OffsetOutOfRange`; the message is a
    sentence that names the field or the setting and the remedy.
    """

    def __init__(self, reason: str, message: str) -> None:
        assert re.fullmatch("[A-Z][A-Za-z0-9]*", reason), f"{reason!r} is not CamelCase"
        super().__init__(message)
        self.reason = reason
