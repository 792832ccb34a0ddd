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
WHOLE_NUMBER = "type(self) == int || self.matches(r'^[+-]?\\d{1,19}$')"
"""Short: the API server takes each value for three megabytes when it counts what its rules cost."""
UNITS = {
    ".ms": (" of milliseconds", "604800000 for seven days"),
    ".seconds": (" of seconds", "604800 for seven days"),
    ".minutes": (" of minutes", "10080 for seven days"),
    ".hours": (" of hours", "168 for seven days"),
    ".bytes": (" of bytes", "1073741824 for 1 GiB"),
}
LARGEST_EXACT_FLOAT = 2**53
"""The API server keeps bounds as floats."""


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
    restart = " A change restarts the brokers, one at a time." if key.needs_restart else ""
    default = "" if key.default is None else f" Kafka type {key.value_type.type.value}, default "
    shown = "" if key.default is None else f"{key.format(key.default)}."
    return f"{key.doc}{default}{shown}{restart}"


def _value_schema(key: ConfigKey[Any]) -> dict[str, Any]:
    match key.value_type.type:
        case ConfigType.BOOLEAN:
            # Where only one is allowed, the operator refuses the other: it can say why.
            return {
                "x-kubernetes-preserve-unknown-fields": True,
                "enum": [True, False, "true", "false"],
            }
        case ConfigType.INT | ConfigType.LONG:
            return {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                # The API server has one budget for all rules of a kind, and each of these spends of
                # it: keys that nobody copies from Kafka's documentation have to do with a pattern.
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
    """A rule in place of a pattern, of which a user would read nothing but the expression."""
    return {"x-kubernetes-validations": [Rule(rule, message).to_manifest()]}


def _whole_number(name: str) -> str:
    """What is to be written, with an example in the unit that the key's name ends with."""
    unit, example = next(
        (found for ending, found in UNITS.items() if name.endswith(ending)), ("", "3")
    )
    return f"a whole number{unit}, like {example}"


def _bounds(key: ConfigKey[Any]) -> dict[str, Any]:
    bounds = {"minimum": key.minimum, "maximum": key.maximum}
    return {
        name: bound
        for name, bound in bounds.items()
        if bound is not None and abs(bound) <= LARGEST_EXACT_FLOAT
    }
