"""The options of a read as values; a wrong option is refused by its name.

The names are those of Spark's Kafka source and of Kafka's clients, if these have one.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

from chiplog_spark.wire.access import MECHANISMS, Access, Address, Login, Tls, addresses_of
from chiplog_spark.wire.facts import EARLIEST, LATEST, Isolation
from chiplog_spark.wire.verdicts import LEADER
from chiplog_wire.scram import Mechanism
from chiplog_wire.security_protocol import SecurityProtocol

BOOTSTRAP_SERVERS: Final = "bootstrap.servers"
TOPIC: Final = "topic"
REPLICA: Final = "replica"
PARTITIONS: Final = "partitions"
MODE: Final = "mode"
STARTING: Final = "startingOffsets"
ENDING: Final = "endingOffsets"
RECORDS_PER_SPLIT: Final = "recordsPerSplit"
WITH_PAYLOAD: Final = "withPayload"
FAIL_ON_DATA_LOSS: Final = "failOnDataLoss"
MAX_PER_TRIGGER: Final = "maxOffsetsPerTrigger"
ISOLATION_LEVEL: Final = "isolation.level"
USERNAME: Final = "sasl.username"
PASSWORD_FILE: Final = "sasl.password.file"  # noqa: S105 (an option's name)
MECHANISM: Final = "sasl.mechanism"
SECURITY_PROTOCOL: Final = "security.protocol"
CA_FILE: Final = "ssl.ca.location"
CERTIFICATE_FILE: Final = "ssl.certificate.location"
KEY_FILE: Final = "ssl.key.location"
REQUEST_TIMEOUT: Final = "request.timeout.ms"
API_TIMEOUT: Final = "default.api.timeout.ms"
NAMES: Final = (
    *(BOOTSTRAP_SERVERS, TOPIC, REPLICA, PARTITIONS, MODE, STARTING, ENDING, RECORDS_PER_SPLIT),
    *(WITH_PAYLOAD, FAIL_ON_DATA_LOSS, MAX_PER_TRIGGER, ISOLATION_LEVEL),
    *(USERNAME, PASSWORD_FILE, MECHANISM, SECURITY_PROTOCOL, CA_FILE, CERTIFICATE_FILE, KEY_FILE),
    *(REQUEST_TIMEOUT, API_TIMEOUT),
)
_OF_TLS: Final = (CA_FILE, CERTIFICATE_FILE, KEY_FILE)
_BY_LOWER_CASE: Final = {
    **{name.lower(): name for name in NAMES},
    # The name that it has in Spark's Kafka source, and the one in the style of that source.
    "kafka.isolation.level": ISOLATION_LEVEL,
    "isolationlevel": ISOLATION_LEVEL,
}

RECORDS_A_SPLIT: Final = 100_000
MAX_OFFSET: Final = 2**63 - 1

Bound: TypeAlias = int | Mapping[int, int]
"""`EARLIEST` or `LATEST` for all partitions, or an offset or one of the two for each."""
Value = TypeVar("Value")


class BadOption(ValueError):  # noqa: N818 - the reason that a user reads
    """An option with an invalid value. Names the option and the remedy."""

    reason = "InvalidOption"

    def __init__(self, option: str, what: str, remedy: str) -> None:
        super().__init__(option, what, remedy)
        self.option = option

    def __str__(self) -> str:
        option, what, remedy = self.args
        return f"{self.reason}: option {option}: {what}; {remedy}"


class Mode(Enum):
    """The kind of rows of a read."""

    RECORDS = "records"
    BATCHES = "batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One read of one topic."""

    access: Access
    topic: str
    replica: int = LEADER
    partitions: frozenset[int] | None = None
    """The partitions to read; None for all."""
    mode: Mode = Mode.RECORDS
    starting: Bound = EARLIEST
    ending: Bound = LATEST
    records_per_split: int = RECORDS_A_SPLIT
    with_payload: bool = False
    fails_on_data_loss: bool = True
    max_per_trigger: int | None = None
    isolation: Isolation = Isolation.READ_COMMITTED
    marked_below: int = 0
    """With `READ_UNCOMMITTED`: below this offset aborted batches are marked. Not an option of
    users."""


def mode_of(options: Mapping[str, str]) -> Mode:
    """The value of option `mode`; the values of other options are not checked."""
    return _read_option(_known_options(options), MODE, _mode, Mode.RECORDS)


def with_payload(options: Mapping[str, str]) -> bool:
    """The value of option `withPayload`; the values of other options are not checked."""
    return _read_option(_known_options(options), WITH_PAYLOAD, _boolean, False)


def parsed(options: Mapping[str, str], *, is_streaming: bool) -> Options:
    """Parse the options of a batch read or a streaming read. Raises `BadOption`."""
    given = _known_options(options)
    topic = _required_option(given, TOPIC, "the name of one topic")
    if is_streaming and ENDING in given:
        raise BadOption(ENDING, "a stream has no end", "remove it, or read a batch")
    if not is_streaming and MAX_PER_TRIGGER in given:
        raise BadOption(MAX_PER_TRIGGER, "only a stream has triggers", "remove it")
    default_start: Bound = LATEST if is_streaming else EARLIEST  # as Spark's Kafka source
    starting = _read_option(given, STARTING, bound_of(topic), default_start)
    if starting == LATEST and not is_streaming:
        raise BadOption(
            STARTING, "a batch that starts at the end is empty", "set it to earliest or to offsets"
        )
    default_end: Bound = LATEST
    ending = _read_option(given, ENDING, bound_of(topic), default_end)
    if ending == EARLIEST:
        raise BadOption(
            ENDING, "a batch that ends at the beginning is empty", "set it to latest or to offsets"
        )
    mode = _read_option(given, MODE, _mode, Mode.RECORDS)
    payload = _read_option(given, WITH_PAYLOAD, _boolean, False)
    if payload and mode is not Mode.BATCHES:
        raise BadOption(WITH_PAYLOAD, "only batches have payloads", "set mode=batches")
    return Options(
        access=_access(given),
        topic=topic,
        replica=_read_option(given, REPLICA, _replica, LEADER),
        partitions=_read_option(given, PARTITIONS, _partitions, None),
        mode=mode,
        starting=starting,
        ending=ending,
        records_per_split=_read_option(given, RECORDS_PER_SPLIT, _positive, RECORDS_A_SPLIT),
        with_payload=payload,
        fails_on_data_loss=_read_option(given, FAIL_ON_DATA_LOSS, _boolean, True),
        max_per_trigger=_read_option(given, MAX_PER_TRIGGER, _positive, None),
        isolation=_isolation_of(given, mode),
    )


def _isolation_of(given: Mapping[str, str], mode: Mode) -> Isolation:
    """The value of option `isolation.level`. Batches are read as they are stored, with those of
    open and aborted transactions and with end markers. Raises `BadOption`."""
    if mode is Mode.RECORDS:
        return _read_option(given, ISOLATION_LEVEL, _isolation, Isolation.READ_COMMITTED)
    isolation = _read_option(given, ISOLATION_LEVEL, _isolation, Isolation.READ_UNCOMMITTED)
    if isolation is not Isolation.READ_UNCOMMITTED:
        raise BadOption(
            ISOLATION_LEVEL, "batches are read as they are stored", "remove it, or set mode=records"
        )
    return isolation


def bound_of(topic: str) -> Callable[[str], Bound]:
    """A parser of `earliest`, `latest`, or the JSON of Spark's Kafka source for this topic."""

    def read(text: str) -> Bound:
        match text.strip().lower():
            case "earliest":
                return EARLIEST
            case "latest":
                return LATEST
        return offsets_in(text, topic)

    return read


def offsets_in(text: str, topic: str) -> dict[int, int]:
    """Parses JSON like `{"topic":{"0":23,"1":-2}}`; returns offsets by partition.

    Raises `ValueError`.
    """
    try:
        parsed_json = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is neither earliest, latest nor JSON ({error})") from None
    if not isinstance(parsed_json, dict) or set(parsed_json) != {topic}:
        raise ValueError(f"it must contain exactly the topic {topic}")
    of_topic = parsed_json[topic]
    if not isinstance(of_topic, dict) or not of_topic:
        raise ValueError("it names no partition")
    return {_index(index): _offset(index, offset) for index, offset in of_topic.items()}


def _index(text: str) -> int:
    """Parses the number of a partition. Raises `ValueError`."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a partition")
    return int(text)


def _offset(index: str, value: Any) -> int:
    """The offset of partition `index` in parsed JSON; -2 and -1 mean earliest and latest."""
    # In Python a bool is an int, too.
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"the offset of partition {index} is not an integer")
    if not EARLIEST <= value <= MAX_OFFSET:
        raise ValueError(f"the offset of partition {index} is {value}, which is out of range")
    return value


def _known_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options under their names in `NAMES`, since Spark passes names in lower case.

    Raises `BadOption` for an unknown name, and for two values of one option.
    """
    given: dict[str, str] = {}
    for name, value in options.items():
        known = _BY_LOWER_CASE.get(name.lower())
        if known is None:
            raise BadOption(name, "there is no such option", f"use {', '.join(NAMES)}")
        if given.setdefault(known, value) != value:
            raise BadOption(known, "it is set twice, to different values", "remove one of them")
    return given


_REMEDIES: Final = {
    BOOTSTRAP_SERVERS: "set it to host:port, or to several, separated by commas",
    REPLICA: "set it to leader or to the id of a broker",
    PARTITIONS: "set it to partition numbers, separated by commas",
    MODE: "set it to records or batches",
    STARTING: "set it to earliest, latest, or offsets like "
    '{"topic":{"0":23,"1":-2}}, where -2 is earliest and -1 latest',
    ENDING: 'set it to latest, or to offsets like {"topic":{"0":23,"1":-1}}, where -1 is latest',
    ISOLATION_LEVEL: "set it to read_committed or read_uncommitted",
    SECURITY_PROTOCOL: f"set it to one of {', '.join(one.value for one in SecurityProtocol)}",
    MECHANISM: f"set it to one of {', '.join(MECHANISMS)}",
}


def _read_option(
    given: Mapping[str, str], name: str, read: Callable[[str], Value], default: Value
) -> Value:
    """The value of an option, parsed by `read`, or the default. Raises `BadOption`."""
    if name not in given:
        return default
    try:
        return read(given[name])
    except ValueError as error:
        remedy = _REMEDIES.get(name, "correct or remove it")
        raise BadOption(name, str(error), remedy) from None


def _required_option(given: Mapping[str, str], name: str, meaning: str) -> str:
    """The text of an option; raises `BadOption` with its meaning if it is missing."""
    value = given.get(name, "").strip()
    if not value:
        raise BadOption(name, "it is missing", f"set it to {meaning}")
    return value


def _access(given: Mapping[str, str]) -> Access:
    """How to connect and log in: the options for addresses, TLS, user and timeouts."""
    _required_option(given, BOOTSTRAP_SERVERS, "host:port")
    no_addresses: tuple[Address, ...] = ()
    bootstrap = _read_option(given, BOOTSTRAP_SERVERS, addresses_of, no_addresses)
    mechanism = _read_option(given, MECHANISM, _mechanism, Mechanism.SCRAM_SHA_512)
    login = None
    if USERNAME in given or PASSWORD_FILE in given:
        username = _required_option(
            given, USERNAME, f"the user whose password is in {PASSWORD_FILE}"
        )
        file = _required_option(
            given, PASSWORD_FILE, "the path of a mounted file with the password"
        )
        login = Login(username, file, mechanism)
    elif MECHANISM in given:
        raise BadOption(
            MECHANISM, "it has no effect without a user", f"set {USERNAME} and {PASSWORD_FILE} too"
        )
    return Access(
        bootstrap,
        login,
        tls=_tls(given, has_login=login is not None),
        request_timeout_ms=_read_option(given, REQUEST_TIMEOUT, _positive, 30_000),
        patience_ms=_read_option(given, API_TIMEOUT, _positive, 60_000),
    )


def _tls(given: Mapping[str, str], *, has_login: bool) -> Tls | None:
    """The options for TLS; None for plain text. Without `security.protocol` a login, or its
    absence, decides. Raises `BadOption`."""
    default = SecurityProtocol.SASL_PLAINTEXT if has_login else SecurityProtocol.PLAINTEXT
    protocol = _read_option(given, SECURITY_PROTOCOL, _protocol, default)
    if protocol.has_sasl is not has_login:
        if has_login:
            remedy = f"set it to SASL_SSL or SASL_PLAINTEXT, or remove {USERNAME}"
        else:
            remedy = f"set {USERNAME} and {PASSWORD_FILE} too"
        raise BadOption(SECURITY_PROTOCOL, f"it is {protocol.value}", remedy)
    if not protocol.has_tls:
        unused = next((name for name in _OF_TLS if name in given), None)
        if unused is not None:
            remedy = f"set {SECURITY_PROTOCOL} to SSL or SASL_SSL too"
            raise BadOption(unused, "it has no effect without TLS", remedy)
        return None
    if KEY_FILE in given and CERTIFICATE_FILE not in given:
        raise BadOption(KEY_FILE, "there is no certificate", f"set {CERTIFICATE_FILE} too")
    return Tls(given.get(CA_FILE), given.get(CERTIFICATE_FILE), given.get(KEY_FILE))


def _replica(text: str) -> int:
    return LEADER if text.strip().lower() == "leader" else _number(text, 0, 2**31 - 1)


def _partitions(text: str) -> frozenset[int] | None:
    return frozenset(_number(part, 0, 2**31 - 1) for part in text.split(","))


def _positive(text: str) -> int:
    return _number(text, 1, MAX_OFFSET)


def _number(text: str, lowest: int, highest: int) -> int:
    """Parses an integer within these bounds, both inclusive. Raises `ValueError`."""
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdigit() and lowest <= int(stripped) <= highest):
        raise ValueError(f"{text!r} is not a number from {lowest} to {highest}")
    return int(stripped)


def _mode(text: str) -> Mode:
    return Mode(text.strip().lower())


def _isolation(text: str) -> Isolation:
    """Parses the name of an isolation level. Raises `ValueError` for another text."""
    levels = {level.name: level for level in Isolation}
    name = text.strip().upper()
    if name not in levels:
        raise ValueError(f"{text!r} is not an isolation level")
    return levels[name]


def _mechanism(text: str) -> Mechanism:
    return Mechanism(text.strip().upper())


def _protocol(text: str) -> SecurityProtocol:
    return SecurityProtocol(text.strip().upper())


def _boolean(text: str) -> bool:
    """Parses "true" or "false" in any case. Raises `ValueError` for another text."""
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError(f"{text!r} is neither true nor false")
