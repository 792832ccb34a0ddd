"""Checks of a configuration from a manifest, an admin request or a properties file.

A manifest may contain `3`, `true` or `"3"`. All become Kafka's text form, so that
`retention.ms: 3600000` and `retention.ms: "3600000"` are the same configuration. Unknown keys are
refused: if a misspelled retention key were ignored, records would be deleted too early.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chiplog_core.config.broker_keys import (
    BROKER_KEYS,
    GROUP_MAX_SESSION_TIMEOUT_MS,
    GROUP_MIN_SESSION_TIMEOUT_MS,
    broker_key,
)
from chiplog_core.config.key import ConfigKey, KeyTable
from chiplog_core.config.topic_keys import (
    ABSENT_TOPIC_KEYS,
    COMPRESSION_TYPE,
    MAX_COMPACTION_LAG_MS,
    MIN_COMPACTION_LAG_MS,
    PRODUCER_COMPRESSION,
    TOPIC_KEYS,
)
from chiplog_core.problems import Problem, Reason, nearest

LARGEST_EXACT_FLOAT = 2**53
"""Above this, a JSON number that was parsed as a float may have lost digits."""


@dataclass(frozen=True, slots=True)
class GivenConfig:
    """The checked configuration: the values that could be read, and the problems with the
    others."""

    values: Mapping[str, str]
    problems: tuple[Problem, ...]


def given_topic_config(
    given: Mapping[str, object], field: str = "spec.config", *, by_client: bool = False
) -> GivenConfig:
    """Check a topic's own configuration. Problems name the key as `field[key]`.

    `by_client` allows the keys that only Kafka's clients set.
    """
    checked = _check(given, TOPIC_KEYS, field)
    problems = (
        *checked.problems,
        *(() if by_client else _clients_keys(checked.values, field)),
        *_wrong_order(checked.values, field, MIN_COMPACTION_LAG_MS, MAX_COMPACTION_LAG_MS),
    )
    return GivenConfig(checked.values, problems)


def given_broker_config(
    given: Mapping[str, object], field: str = "spec.config", *, by_operator: bool = False
) -> GivenConfig:
    """Check a cluster's broker configuration.

    The operator writes some keys itself (`listeners`, `node.id` …). They are refused unless
    `by_operator` is true. A broker reads its own `server.properties` with `by_operator`.
    """
    checked = _check(given, BROKER_KEYS, field)
    problems = (
        *checked.problems,
        *(() if by_operator else _operators_keys(checked.values, field)),
        *_wrong_order(
            checked.values, field, GROUP_MIN_SESSION_TIMEOUT_MS, GROUP_MAX_SESSION_TIMEOUT_MS
        ),
    )
    return GivenConfig(checked.values, problems)


def _check(given: Mapping[str, object], table: KeyTable, field: str) -> GivenConfig:
    """Read every key. The result has the values that could be read and a problem for each of the
    others. `field` is the path of the configuration, which begins the path of each problem."""
    values: dict[str, str] = {}
    problems: list[Problem] = []
    for name, value in sorted(given.items()):
        found = _read(name, value, table, f"{field}[{name}]")
        if isinstance(found, Problem):
            problems.append(found)
        else:
            values[name] = found
    return GivenConfig(values, tuple(problems))


def _read(name: str, value: object, table: KeyTable, path: str) -> str | Problem:
    """The value in Kafka's text form, or the problem with it."""
    key = broker_key(name) if table is BROKER_KEYS else table.get(name)
    if key is None:
        return _unknown(name, table, path)
    text = _as_text(value)
    if text is None:
        return Problem(path, f"is {_type_name(value)}", "write a string, a number or a boolean")
    try:
        return key.format(key.parse(text))
    except ValueError as expected:
        reason = Reason.NOT_SUPPORTED if key.because else Reason.INVALID_CONFIG
        return Problem(path, f"is {text!r}", f"set it to {expected}", reason)


def _unknown(name: str, table: KeyTable, path: str) -> Problem:
    """The problem with a key that does not exist: it is not supported, or probably misspelled."""
    if table is TOPIC_KEYS and name in ABSENT_TOPIC_KEYS:
        return Problem(
            path,
            f"is a Kafka key that Chiplog does not support: {ABSENT_TOPIC_KEYS[name]}",
            "remove it",
            Reason.NOT_SUPPORTED,
        )
    near = nearest(name, table)
    return Problem(
        path,
        f"is not a {table.level} configuration key",
        f"did you mean {near}?" if near else "remove it; the reference lists all keys",
    )


def _as_text(value: object) -> str | None:
    """Kafka's text for a scalar of a manifest; None for anything that is not a scalar."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | str():
            return str(value)
        case float() if value.is_integer() and abs(value) <= LARGEST_EXACT_FLOAT:
            return str(int(value))  # 1e3 in YAML is the number 1000
        case float():
            return repr(value)
        case _:
            return None


def _type_name(value: object) -> str:
    """What a value that is not a scalar is called in messages."""
    match value:
        case None:
            return "empty"
        case list() | tuple():
            return "a list"
        case _:
            return "an object"


def _operators_keys(values: Mapping[str, str], field: str) -> list[Problem]:
    """A problem for each key that only the operator may write."""
    return [
        Problem(f"{field}[{name}]", "is written by the operator", f"set {key.set_by}")
        for name in values
        if (key := broker_key(name)) is not None and key.set_by is not None
    ]


def _clients_keys(values: Mapping[str, str], field: str) -> list[Problem]:
    """A problem for each key that only Kafka's clients may set."""
    return [
        Problem(
            f"{field}[{name}]",
            "is set by Kafka's tools while replicas move",
            f"remove it; to limit moves, set {TOPIC_KEYS[name].set_by}",
            Reason.NOT_SUPPORTED,
        )
        for name in values
        if TOPIC_KEYS[name].set_by is not None
    ]


def warn_about_values(
    given: Mapping[str, object], field: str = "spec.config"
) -> tuple[Problem, ...]:
    """Warnings for values that are valid but have no effect, although the user may rely on them."""
    name = COMPRESSION_TYPE.name  # the same for topics and for brokers
    value = str(given.get(name, PRODUCER_COMPRESSION)).strip()
    if value == PRODUCER_COMPRESSION:
        return ()
    return (
        Problem(
            f"{field}[{name}]",
            f"is {value}, but brokers store each batch as its producer compressed it",
            f"set compression.type of the producers, and {PRODUCER_COMPRESSION} here",
            Reason.NOT_SUPPORTED,
        ),
    )


def _wrong_order(
    values: Mapping[str, str], field: str, lower: ConfigKey[Any], upper: ConfigKey[Any]
) -> list[Problem]:
    """A problem if the lower of two bounds is above the upper one."""
    if lower.name not in values and upper.name not in values:
        return []
    low = int(values.get(lower.name, lower.format(lower.default)))
    high = int(values.get(upper.name, upper.format(upper.default)))
    if low <= high:
        return []
    return [
        Problem(
            f"{field}[{lower.name}]",
            f"is {low}, above {upper.name}, which is {high}",
            f"lower {lower.name} or raise {upper.name}",
        )
    ]
