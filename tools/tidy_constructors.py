"""Counts the references that a C++ constructor takes: so many objects the new one depends on.

References to options, a driver or a clock do not count, and neither do those to types of the
standard library. A struct counts once. A struct of which most members are references only bundles
arguments, so each of its references counts.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cxx_scopes import Type, types

_SURROUNDINGS = re.compile(r"(?:Options|Driver|Clock)$")
_NO_MEMBER = re.compile(
    r"(?:using|typedef|friend|static|class|struct|union|enum|template)\b|.*\boperator\b"
)
_LABEL = re.compile(r"\b(?:public|private|protected)\s*:(?!:)")


@dataclass(frozen=True)
class Constructor:
    name: str  # of the class, with its namespaces
    path: str
    line: int
    references: int


def _without(text: str, left: str, right: str, instead: str = "") -> str:
    """`text` without what stands between brackets, at any depth."""
    kept, depth = [], 0
    for char in text:
        if char == left:
            depth += 1
        elif char == right and depth:
            depth -= 1
            kept.append(instead if depth == 0 else "")
        elif depth == 0:
            kept.append(char)
    return "".join(kept)


def _closing(text: str, at: int) -> int:
    """Where the bracket ends that opens at `at`."""
    depth = 0
    for offset in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[offset], 0)
        if depth == 0:
            return offset
    return len(text)


def _members(body: str) -> list[str]:
    """The declarations of data members, without what they are initialized with."""
    flat = _LABEL.sub("", _without(_without(body, "{", "}", ";"), "<", ">"))
    parts = (re.sub(r"\s+", " ", part.split("=")[0]).strip() for part in flat.split(";"))
    return [
        part for part in parts if " " in part and "(" not in part and not _NO_MEMBER.match(part)
    ]


def _referred(declaration: str) -> str | None:
    """The type that a parameter or member refers to; None if it is no reference that counts."""
    match = re.search(r"([\w:]+)\s*&(?!&)\s*\w*$", _without(declaration, "<", ">").strip())
    if not match or "&&" in declaration or match.group(1).startswith("std::"):
        return None
    return None if _SURROUNDINGS.search(match.group(1)) else match.group(1)


def _bundled(found: Type) -> int | None:
    """How many references count in a struct of references; None if it is no such struct."""
    members = _members(found.body) if found.word == "struct" else []
    references = [member for member in members if re.search(r"&\s*\w+$", member)]
    if not references or 2 * len(references) <= len(members):
        return None
    return sum(_referred(member) is not None for member in references)


class _Bundles:
    """The structs of references of all files, found by their names as a compiler finds them."""

    def __init__(self, all_types: Iterable[Type]) -> None:
        self.counts = {tuple(found.name.split("::")): _bundled(found) for found in all_types}

    def find(self, name: str, scope: str) -> int | None:
        """How many references the type named in `scope` bundles; None if it is no bundle."""
        outer, inner = tuple(scope.split("::")), tuple(name.split("::"))
        keys = ((*outer[:length], *inner) for length in range(len(outer), -1, -1))
        return next((self.counts[key] for key in keys if key in self.counts), None)


def _parameters(text: str) -> list[str]:
    flat = text
    for left, right in ("<>", "()", "{}"):
        flat = _without(flat, left, right)
    return [part.split("=")[0].strip() for part in flat.split(",")]


def _count(parameter: str, scope: str, bundles: _Bundles) -> int:
    words = re.match(r"(?:const\s+)?(?P<type>[\w:]+)[\s&]*\w*$", parameter)
    bundled = bundles.find(words.group("type"), scope) if words and "&&" not in parameter else None
    return bundled if bundled is not None else int(_referred(parameter) is not None)


def _constructors(path: str, found: Type, bundles: _Bundles) -> Iterator[Constructor]:
    name = found.name.rpartition("::")[2]
    for match in re.finditer(rf"(?<![\w~:.>]){re.escape(name)}\s*\(", found.body):
        end = _closing(found.body, match.end() - 1)
        if not re.match(r"\s*(?:[;:{]|noexcept|=)", found.body[end + 1 :]):
            continue
        parameters = _parameters(found.body[match.end() : end])
        references = sum(_count(parameter, found.name, bundles) for parameter in parameters)
        line = found.body_line + found.body.count("\n", 0, match.start())
        yield Constructor(found.name, path, line, references)


def constructors(texts: dict[str, str]) -> Iterator[Constructor]:
    """All constructors that stand in the class."""
    all_types = {path: types(text) for path, text in texts.items()}
    bundles = _Bundles(found for of_file in all_types.values() for found in of_file)
    for path, of_file in all_types.items():
        for found in of_file:
            if re.fullmatch(r"\w+", found.name.rpartition("::")[2]):
                yield from _constructors(path, found, bundles)
