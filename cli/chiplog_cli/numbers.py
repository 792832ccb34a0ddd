"""Numbers and lists of them as users type them. Whatever does not read is a `ValueError`."""

MAX_SPAN = 100_000
"""A range may have this many partitions, so that a typing error does not fill the memory."""


def partition_numbers(text: str) -> tuple[int, ...]:
    """The numbers in a text like `0,2,4-7`, sorted. Both ends of a range are included. Raises
    `ValueError`."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise ValueError(
                f"{text!r} is not a list of partitions: write numbers and ranges, like 0,2,4-7"
            )
        low, high = int(first), int(last) if dash else int(first)
        if not 0 <= high - low < MAX_SPAN:
            raise ValueError(
                f"{part.strip()!r} is not a range of partitions: write the smaller number first, "
                f"and at most {MAX_SPAN} partitions"
            )
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def key_and_value(text: str) -> tuple[str, str]:
    """The parts of `retention.ms=1000`. The value may be empty or contain equals signs. Raises
    `ValueError`."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"{text!r} has no value: write KEY=VALUE, like retention.ms=86400000")
    return key.strip(), value.strip()


def _is_number(text: str) -> bool:
    """Whether the text is a whole number that a partition can have: below 10 digits."""
    return text.isascii() and text.isdigit() and len(text) < 10
