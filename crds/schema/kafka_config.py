"""The schema of Kafka configuration in a manifest.

Every key of the table is a property, so that `kubectl explain topic.spec.config` is the list of
them and a number out of range is refused at once. Unknown keys are kept rather than pruned: the
operator refuses them by name, while pruning would silently drop what a user asked for.

A value may be written as its own type or as text (`3` or `"3"`), because both are what people
write. Kubernetes knows "integer or string" but no "boolean or string" or "number or string", so
those keys have no type; their values or their range say what is allowed.
"""

from typing import Any

from chiplog_core.config.key import ConfigKey, KeyTable
from chiplog_core.config.value_types import ConfigType
from crds.schema.rules import Rule

MAX_VALUE_LENGTH = 1_024
WHOLE_NUMBER = "type(self) == int || self.matches(r'^[+-]?\\d+$')"
"""A CEL rule for whole numbers. The API server assumes values of three megabytes when it estimates
the costs of rules, multiplies that by a quarter of the length of the regular expression, rounded
up, and refuses a kind whose rules are too expensive together. So it is short, and `maxLength`
limits the digits."""
WHOLE_NUMBER_LENGTH = 19
"""As many digits as the largest number has. No key allows a negative number as long as that."""
UNITS = {
    ".ms": (" of milliseconds", "604800000 for seven days"),
    ".seconds": (" of seconds", "604800 for seven days"),
    ".minutes": (" of minutes", "10080 for seven days"),
    ".hours": (" of hours", "168 for seven days"),
    ".bytes": (" of bytes", "1073741824 for 1 GiB"),
}
LARGEST_EXACT_FLOAT = 2**53
"""The API server stores bounds as floats, which are exact up to this number."""


def config_schema(table: KeyTable, max_entries: int) -> dict[str, Any]:
    """The schema of an object whose fields are configuration keys."""
    return {
        "type": "object",
        "maxProperties": max_entries,
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            name: {"description": _description(key), **_value_schema(key)}
            for name, key in sorted(table.items())
            if key.set_by is None
        },
    }


def _description(key: ConfigKey[Any]) -> str:
    """The key's meaning, with type and default if it has one, and whether a change restarts."""
    restart = " A change restarts the brokers, one at a time." if key.needs_restart else ""
    default = (
        ""
        if key.default is None
        else f" Kafka type {key.value_type.type.value}, default {key.format(key.default)}."
    )
    return f"{key.doc}{default}{restart}"


def _value_schema(key: ConfigKey[Any]) -> dict[str, Any]:
    """The schema of a key's value, which users may write as its own type or as a string."""
    match key.value_type.type:
        case ConfigType.BOOLEAN:
            # Both values are listed even if the key allows only one: the operator refuses the other
            # one with a reason.
            return {
                "x-kubernetes-preserve-unknown-fields": True,
                "enum": [True, False, "true", "false"],
            }
        case ConfigType.INT | ConfigType.LONG:
            return {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "maxLength": WHOLE_NUMBER_LENGTH,
                # The API server limits the total cost of a kind's rules. So Chiplog's own keys,
                # which nobody copies from Kafka's documentation, only have a pattern, whose error
                # message shows the regular expression.
                **(
                    {"pattern": "^[+-]?[0-9]{1,19}$"}
                    if key.name.startswith("chiplog.")
                    else _explained(WHOLE_NUMBER, f"must be {_whole_number(key.name)}")
                ),
                **_bounds(key),
            }
        case ConfigType.DOUBLE:
            return {
                "x-kubernetes-preserve-unknown-fields": True,
                "pattern": "^[+-]?[0-9]*[.]?[0-9]+([eE][+-]?[0-9]+)?$",
                **_bounds(key),
            }
        case ConfigType.STRING if key.choices:
            return {"type": "string", "enum": list(key.choices)}
        case ConfigType.LIST if key.choices:
            word = f"({'|'.join(str(choice) for choice in key.choices)})"
            return {
                "type": "string",
                "maxLength": MAX_VALUE_LENGTH,
                **_explained(
                    f"self.matches('^ *{word}( *, *{word})* *$')",
                    f"must be {' or '.join(map(str, key.choices))}, "
                    f"or several of them: {','.join(map(str, key.choices))}",
                ),
            }
        case _:
            return {"type": "string", "maxLength": MAX_VALUE_LENGTH}


def _explained(rule: str, message: str) -> dict[str, Any]:
    """A rule instead of a pattern: it has a message, while the error for a pattern only shows the
    regular expression."""
    return {"x-kubernetes-validations": [Rule(rule, message).to_manifest()]}


def _whole_number(name: str) -> str:
    """The words for a whole number, with an example, in the unit that a key's name ends with."""
    unit, example = next(
        (found for ending, found in UNITS.items() if name.endswith(ending)), ("", "3")
    )
    return f"a whole number{unit}, like {example}"


def _bounds(key: ConfigKey[Any]) -> dict[str, Any]:
    """The schema's minimum and maximum. Bounds that a float cannot hold exactly are left out; the
    operator checks them."""
    bounds = {"minimum": key.minimum, "maximum": key.maximum}
    return {
        name: bound
        for name, bound in bounds.items()
        if bound is not None and abs(bound) <= LARGEST_EXACT_FLOAT
    }
