"""What a user sees instead of a traceback."""

# ruff: noqa: N818 - errors are named for what they say


class CannotDo(Exception):
    """A command that cannot be done: one line that says what is wrong and what to do about it."""

    def __init__(self, message: str, remedy: str = "") -> None:
        """`message` says what is wrong, and `remedy` what to do; empty if nothing is known."""
        self.message = message
        self.remedy = remedy
        super().__init__(f"{message}: {remedy}" if remedy else message)


class NotLetIn(CannotDo):
    """A broker was reached, but client and broker do not accept each other."""


class BrokerRefused(CannotDo):
    """A broker answered with an error, or not at all."""

    def __init__(self, code: str, message: str, remedy: str = "") -> None:
        """`code` is the error's name in Kafka's protocol, like UNKNOWN_TOPIC_OR_PARTITION."""
        self.code = code
        super().__init__(message, remedy)
