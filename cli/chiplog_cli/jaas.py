"""`sasl.jaas.config`: the one entry of a JAAS configuration that Kafka's clients have."""

import re
from dataclasses import dataclass
from typing import Final

_ENTRY: Final = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*);\s*",
    re.DOTALL | re.IGNORECASE,
)
_VALUE: Final = r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'|[^\s=;\"']+"
_OPTION: Final = re.compile(rf"\s*(?P<name>[\w.$-]+)\s*=\s*(?P<value>{_VALUE})", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
SASL_JAAS_CONFIG: Final = "sasl.jaas.config"
EXAMPLE: Final = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="NAME" password="PASSWORD";'
)
EXAMPLE_FOR_TOKENS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required ;"
)


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """A login module with its options. They may contain secrets."""

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.module})"


def parse_jaas(text: str, example: str = EXAMPLE) -> JaasEntry:
    """The entry. Raises `ValueError`, whose message has nothing of the text but has the example."""
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise ValueError(f"it is no entry that ends with a semicolon, like {example}")
    options, at, given = {}, 0, entry["options"].rstrip()
    while at < len(given):
        option = _OPTION.match(given, at)
        if option is None:
            raise ValueError(f'its options are not all like name="value", as in {example}')
        options[option["name"]] = _unquoted(option["value"])
        at = option.end()
    return JaasEntry(entry["module"], options)


def _unquoted(value: str) -> str:
    """A value without its quotes and escapes."""
    return _ESCAPE.sub(r"\1", value[1:-1]) if value[0] in "\"'" else value
