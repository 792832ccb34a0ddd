"""Replaces the code of a function by a mutant's, in a process that was forked for this mutant.

Only the function's code object is replaced, not the function: so modules that imported it, and
properties and decorators that hold it, run the mutant. Nothing is written to disk, and the change
cannot be undone.
"""

import gc
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from e2e.mutants.mutations import Mutant

Functions = dict[str, list[FunctionType]]


class NotSwappedError(Exception):
    """The mutated module cannot be compiled or imported, or it lacks the function."""


def functions_of(module: ModuleType) -> Functions:
    """Qualified name -> the functions of this name that the module defined.

    There are several of one name if it is defined again, as the setter of a property.
    """
    return _defined_in(vars(module))


def swap(mutant: Mutant, module: ModuleType, functions: Functions) -> None:
    """Replace the function's code, and its defaults if they are mutated, by the mutant's.

    `functions` are those of the original module. Raises `NotSwappedError`.
    """
    name = mutant.function
    code = compile(mutant.source, str(module.__file__), "exec", dont_inherit=True)
    codes = [one for one in _codes(code) if one.co_qualname == name]
    originals = functions.get(name, [])
    if not originals or len(originals) != len(codes):
        raise NotSwappedError(
            f"the module has {len(originals)} functions {name}, the mutated one {len(codes)}"
        )
    try:
        defaults = _defaults(code, module, name) if mutant.of_default else []
        for function, mutated in zip(originals, codes, strict=True):
            function.__code__ = mutated
        for function, (positional, named) in zip(originals, defaults, strict=False):
            function.__defaults__, function.__kwdefaults__ = positional, named
    except Exception as error:  # the mutated module may fail in any way when it is executed
        raise NotSwappedError(str(error)) from error


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code objects of functions and classes in a module or class, not of nested functions."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            if "<locals>" not in one.co_qualname:
                yield from _codes(one)


def _defined_in(namespace: dict[str, Any]) -> Functions:
    """All existing functions of the module with this namespace, each name's in source order.

    The garbage collector finds also those that only a property or decorator refers to.
    """
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
    exec(code, namespace)  # noqa: S102 - the module's own code with one mutation
    return [(one.__defaults__, one.__kwdefaults__) for one in _defined_in(namespace)[name]]
