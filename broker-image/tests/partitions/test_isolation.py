"""When a leader counts as cut off: a table of facts."""

import pytest

from chiplog_broker.partitions.isolation import (
    NEVER_S,
    SILENCE_S,
    LastContact,
    is_isolated,
    silence_s,
)

NOW_S = 1000.0
LONG_AGO_S = NOW_S - SILENCE_S
JUST_NOW_S = NOW_S - SILENCE_S + 0.001

SILENT = {
    "followers_s": LONG_AGO_S,
    "authority_s": LONG_AGO_S,
    "led_since_s": LONG_AGO_S,
    "running_since_s": LONG_AGO_S,
}


@pytest.mark.parametrize(
    ("but", "isolated"),
    [
        ({}, True),
        ({"followers_s": NEVER_S}, True),
        ({"followers_s": JUST_NOW_S}, False),
        ({"authority_s": JUST_NOW_S}, False),
        ({"led_since_s": JUST_NOW_S, "followers_s": NEVER_S}, False),
        ({"running_since_s": JUST_NOW_S}, False),
    ],
)
def test_no_contact_for_too_long(but: dict[str, float], isolated: bool) -> None:
    last = LastContact(waits_for_others=True, **(SILENT | but))
    assert is_isolated(last, NOW_S) is isolated


def test_who_waits_for_nobody_never_is() -> None:
    last = LastContact(waits_for_others=False, **(SILENT | {"followers_s": NEVER_S}))
    assert not is_isolated(last, NOW_S)


@pytest.mark.parametrize(
    ("fetch_wait_max_s", "silence"), [(0.0, SILENCE_S), (0.5, SILENCE_S), (9.0, 18.0)]
)
def test_followers_that_wait_long_are_not_silent(fetch_wait_max_s: float, silence: float) -> None:
    assert silence_s(fetch_wait_max_s) == silence
