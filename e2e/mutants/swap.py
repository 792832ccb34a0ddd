"""A mutant takes the place of the sound function, in a process of its own.

What a function runs is replaced, not the function: a module that imported it, or holds it in a
property or behind a decorator, runs the mutant. Nothing is written to disk. There is no way back,
so this is for a process that was forked for one mutant.
"""

import gc
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from e2e.mutants.mutations import Mutant

Functions = dict[str, list[FunctionType]]


class NotSwappedError(Exception):
    """The module does not even begin with this mutant, or the function is not there."""


def functions_of(module: ModuleType) -> Functions:
    """Every function that the module defined, by its name below that of its class."""
    return _defined_in(vars(module))


def swap(mutant: Mutant, module: ModuleType, functions: Functions) -> None:
    """Replace the function's code by the mutant's."""
    name = mutant.function
    code = compile(mutant.source, str(module.__file__), "exec", dont_inherit=True)
    codes = [one for one in _codes(code) if one.co_qualname == name]
    sound = functions.get(name, [])
    if not sound or len(sound) != len(codes):
        raise NotSwappedError(f"{len(sound)} functions {name}, {len(codes)} mutants")
    try:
        defaults = _defaults(code, module, name) if mutant.of_default else []
        for function, mutated in zip(sound, codes, strict=True):
            function.__code__ = mutated
        for function, (positional, named) in zip(sound, defaults, strict=False):
            function.__defaults__, function.__kwdefaults__ = positional, named
    except Exception as error:  # whatever the mutant does when it is defined
        raise NotSwappedError(str(error)) from error


def _codes(code: CodeType) -> Iterator[CodeType]:
    """What it defines, not what functions of it define."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            if "<locals>" not in one.co_qualname:
                yield from _codes(one)


def _defined_in(namespace: dict[str, Any]) -> Functions:
    found: Functions = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__globals__ is namespace:
            found.setdefault(one.__qualname__, []).append(one)
    for same in found.values():
        same.sort(key=lambda one: one.__code__.co_firstlineno)
    return found


def _defaults(
    code: CodeType, module: ModuleType, name: str
) -> list[tuple[tuple[Any, ...] | None, dict[str, Any] | None]]:
    """The default arguments, positional and by keyword, of each function `name` in a module."""
    namespace: dict[str, Any] = {
        "__name__": module.__name__,
        "__package__": module.__package__,
        "__file__": module.__file__,
    }
    exec(code, namespace)  # noqa: S102 - our own code, a little changed
    return [(one.__defaults__, one.__kwdefaults__) for one in _defined_in(namespace)[name]]
