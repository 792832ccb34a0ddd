"""Generates the mutants of a module with mutmut's operators.

mutmut's visitor chooses the places, with two differences. mutmut skips decorated functions, because
it replaces functions; here only their code is replaced (`swap`), so that properties and context
managers are mutated, too. And texts for people are not mutated: log lines and the messages of
errors and assertions. mutmut itself skips docstrings, annotations and constants of modules.
"""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import libcst
from libcst import matchers
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import Mutation, MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

LOGGED: Final = matchers.Call(func=matchers.Attribute(value=matchers.Name("logger")))
FOR_TYPES: Final = matchers.Call(func=matchers.Name("cast"))
TEXT: Final = matchers.SimpleString() | matchers.FormattedString() | matchers.ConcatenatedString()
RAISED: Final = matchers.Raise(exc=matchers.Call(args=[matchers.AtLeastN(matchers.Arg(TEXT), n=1)]))


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one function."""

    function: str
    """The function's name, after its class's name and a dot if it is a method."""
    number: int
    """Running number, from 1 on, among equal changes of equal lines in the same function."""
    before: str
    """The changed lines as they were, in one line without indentation."""
    after: str
    """The same lines with the change."""
    lines: range
    """Line numbers of the mutated code in the original module."""
    function_lines: range
    of_default: bool
    """Whether the change is in a parameter's default value."""
    source: str
    """The whole module with the change."""

    @property
    def key(self) -> str:
        """Identifies a mutant in stored results, also when other code moves it to other lines."""
        return f"{self.function} | {self.before} | {self.after} | {self.number}"


class _Places(MutationVisitor):
    """mutmut's visitor, which also visits decorated functions and skips texts for people."""

    def __init__(self) -> None:
        super().__init__(mutation_operators, IgnoredCode(set(), set(), set()))
        self._texts: set[libcst.CSTNode] = set()

    def _skip_node_and_children(self, node: libcst.CSTNode) -> bool:
        """Whether this node, with all in it, is not mutated. mutmut's visitor calls this."""
        if isinstance(node, libcst.Assert) and node.msg is not None:
            self._texts.add(node.msg)
        if isinstance(node, libcst.Raise) and matchers.matches(node, RAISED):
            return True
        if node in self._texts or matchers.matches(node, LOGGED | FOR_TYPES):
            return True
        if isinstance(node, libcst.FunctionDef) and node.decorators:
            return False
        return super()._skip_node_and_children(node)


def mutants_of(source: str) -> list[Mutant]:
    """Every mutant of a module's source, in the order of their places, without duplicates."""
    wrapper = MetadataWrapper(libcst.parse_module(source), unsafe_skip_copy=True)
    visitor = _Places()
    wrapper.visit(visitor)
    positions = wrapper.resolve(PositionProvider)
    names = dict(_functions(wrapper.module))
    found: list[Mutant] = []
    seen = {source}
    counts: dict[tuple[str, str, str], int] = {}
    for one in visitor.mutations:
        function = one.contained_by_top_level_function
        if not isinstance(function, libcst.FunctionDef) or function not in names:
            continue
        mutated = _with(wrapper.module, one)
        if mutated in seen:
            continue
        seen.add(mutated)
        before, after = _difference(source, mutated)
        same = names[function], before, after
        counts[same] = counts.get(same, 0) + 1
        found.append(
            Mutant(
                *(names[function], counts[same], before, after),
                lines=_lines(positions[one.original_node]),
                function_lines=_lines(positions[function]),
                of_default=_is_of_default(function, one.original_node),
                source=mutated,
            )
        )
    return found


def _functions(module: libcst.Module) -> Iterator[tuple[libcst.FunctionDef, str]]:
    """The functions of a module and the methods of its classes, with their names."""
    for statement in module.body:
        if isinstance(statement, libcst.FunctionDef):
            yield statement, statement.name.value
        if isinstance(statement, libcst.ClassDef):
            for inner in statement.body.body:
                if isinstance(inner, libcst.FunctionDef):
                    yield inner, f"{statement.name.value}.{inner.name.value}"


def _with(module: libcst.Module, mutation: Mutation) -> str:
    """The module's source with the mutation."""
    changed = module.deep_replace(mutation.original_node, mutation.mutated_node)
    assert isinstance(changed, libcst.Module)
    return changed.code


def _difference(source: str, mutated: str) -> tuple[str, str]:
    """The lines from the first to the last difference, in both sources, each as one line."""
    old, new = source.splitlines(), mutated.splitlines()
    edits = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changed = [one for one in edits if one[0] != "equal"]
    first, last = changed[0], changed[-1]
    return _joined(old[first[1] : last[2]]), _joined(new[first[3] : last[4]])


def _joined(lines: Sequence[str]) -> str:
    return " ".join(line.strip() for line in lines)


def _lines(position: CodeRange) -> range:
    return range(position.start.line, position.end.line + 1)


def _is_of_default(function: libcst.FunctionDef, node: libcst.CSTNode) -> bool:
    """Whether the node is in the function's list of parameters, so in a default value."""
    return any(node is one for one in _walk(function.params))


def _walk(node: libcst.CSTNode) -> Iterator[libcst.CSTNode]:
    """The node and all nodes in it."""
    yield node
    for child in node.children:
        yield from _walk(child)
