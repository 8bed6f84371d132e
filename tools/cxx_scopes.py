"""A brace scanner for C++: where functions begin and end, which types there are, what stands at
namespace scope.

A heuristic, not a parser: it works on code without comments and strings, in the style that
clang-format gives this repository.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from repo import code_only, line_of

_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
_SKIPPED = re.compile(r"\s*(?:(?:public|private|protected)\s*:\s*)*")
_PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)


@dataclass(frozen=True)
class Function:
    name: str
    first_line: int
    last_line: int

    @property
    def lines(self) -> int:
        return self.last_line - self.first_line + 1


@dataclass(frozen=True)
class Statement:
    """Code up to a ';'. `scope` is 'namespace', 'type' or 'function'."""

    text: str
    line: int
    scope: str


@dataclass(frozen=True)
class Type:
    """A class, struct, union or enum with a body, not inside a function. `name` has the namespaces
    and the outer types. `is_private`: one of these has no name, so no other file can mean the type.
    `word`: class, struct, union or enum. `body`: the code between the braces, from line `body_line`
    on.
    """

    word: str
    name: str
    line: int
    is_private: bool
    body: str
    body_line: int


def prepare(text: str) -> str:
    """Code only, without preprocessor lines."""
    return _PREPROCESSOR.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), code_only(text))


def _without_template(head: str) -> str:
    return re.sub(r"^\s*template\s*<[^{};]*?>\s*(?=class|struct|union)", "", head)


def _kind_of(head: str, outer: str) -> str:
    """What the brace after `head` opens, inside a scope of kind `outer`."""
    if outer == "function":
        return "function"
    match = _SCOPE.search(_without_template(head))
    if match and (match.group(1) == "namespace" or match.group(1) == "extern"):
        return "namespace" if "(" not in head or match.group(1) == "namespace" else "function"
    if match and not re.search(r"\)\s*(const|noexcept|override|final|->|$)", head.strip()):
        return "enum" if match.group(1) == "enum" else "type"
    if re.search(r"\)", head) and not re.search(r"=\s*(\w|::|<|>|,)*$", head.strip()):
        return "function"
    return "initializer"


def _name_of(head: str) -> str:
    match = re.search(r"([~\w:]+|operator\s*\S+)\s*\(", head)
    return match.group(1) if match else "?"


_ATTRIBUTES = re.compile(r"\[\[.*?\]\]|\balignas\s*\([^()]*\)|\bfinal\b", re.DOTALL)


def _scope_name(head: str) -> str:
    """The name that `head` gives to a namespace or a type; "" if it gives none."""
    word = _SCOPE.search(_without_template(head))
    if not word:
        return ""
    rest = re.sub(r"^\s*(class|struct)\b", "", word.string[word.end() :])  # of "enum class"
    rest = re.split(r"(?<!:):(?!:)", _ATTRIBUTES.sub(" ", rest))[0]  # without bases
    name = re.search(r"[\w:]+(\s*<.*>)?\s*$", rest, re.DOTALL)
    return re.sub(r"\s+", "", name.group(0)) if name else ""


class _Scanner:
    def __init__(self, text: str) -> None:
        self.code = prepare(text)
        self.stack: list[tuple[str, int, str]] = []  # kind, offset where the head begins, head
        self.start = 0

    def outer(self) -> str:
        return self.stack[-1][0] if self.stack else "namespace"

    def head_offset(self) -> int:
        skipped = _SKIPPED.match(self.code, self.start)
        return skipped.end() if skipped else self.start

    def scan(self) -> Iterator[Function | Statement | Type]:
        parens = 0
        for offset, char in enumerate(self.code):
            if char in "()":
                parens += 1 if char == "(" else -1
            elif char == "{":
                yield from self.open(offset, parens)
            elif char == "}":
                yield from self.close(offset)
            elif char == ";" and parens <= 0 and self.outer() != "initializer":
                scope = {"function": "function", "type": "type"}.get(self.outer(), "namespace")
                head = self.head_offset()
                yield Statement(self.code[head:offset].strip(), line_of(self.code, head), scope)
                self.start = offset + 1

    def open(self, offset: int, parens: int) -> Iterator[Type]:
        head = self.code[self.head_offset() : offset]
        kind = _kind_of(head, self.outer())
        if parens > 0 and kind != "function":
            kind = "initializer"
        self.stack.append((kind, self.head_offset(), head))
        if kind in ("type", "enum"):
            heads = [head for _, _, head in self.stack if not head.startswith("extern")]
            names = [_scope_name(head) for head in heads]
            line = line_of(self.code, self.head_offset())
            body = self.code[offset + 1 : self.closing(offset)]
            body_line = line_of(self.code, offset)
            word = _SCOPE.search(_without_template(head))
            yield Type(
                word.group(1) if word else "", "::".join(names), line, "" in names, body, body_line
            )
        if kind != "initializer":
            self.start = offset + 1

    def closing(self, offset: int) -> int:
        """Where the brace ends that opens at `offset`."""
        depth = 0
        for brace in re.finditer(r"[{}]", self.code[offset:]):
            depth += 1 if brace.group() == "{" else -1
            if depth == 0:
                return offset + brace.start()
        return len(self.code)

    def close(self, offset: int) -> Iterator[Function]:
        if not self.stack:
            return
        kind, begin, head = self.stack.pop()
        if kind == "function" and self.outer() != "function":
            first, last = line_of(self.code, begin), line_of(self.code, offset)
            yield Function(_name_of(head), first, last)
        if kind != "initializer":
            self.start = offset + 1


@functools.cache
def _items(text: str) -> list[Function | Statement | Type]:
    return list(_Scanner(text).scan())


def functions(text: str) -> list[Function]:
    return [item for item in _items(text) if isinstance(item, Function)]


def statements(text: str) -> list[Statement]:
    return [item for item in _items(text) if isinstance(item, Statement)]


def types(text: str) -> list[Type]:
    return [item for item in _items(text) if isinstance(item, Type)]
