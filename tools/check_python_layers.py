"""Import direction: a module of `byteps` may import only what its row in ARCHITECTURE.md names.

The table between the `python layers` markers there is the single source. A row is a package, or a
module that stands apart from the rest of its package; `__init__` is the door of a package. All
imports count: those inside functions, those for types alone, and `importlib.import_module("name")`.
Modules must not import each other in a circle either. That Python runs the `__init__` of a package
before any module of the package is no import: the module needs nothing of it.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from repo import ROOT, Finding, files, read

TABLE_FILE = "ARCHITECTURE.md"
TABLE = re.compile(r"<!-- python layers -->(.*?)<!-- /python layers -->", re.DOTALL)
FOLDER = "python/"
PACKAGE = "byteps"
DOOR = "__init__"
RELATIVE = "."


@dataclass(frozen=True)
class Import:
    line: int
    module: str


def parse_table(text: str) -> dict[str, frozenset[str]]:
    """Rows `| room | may import |`: rooms by name, with the rooms that each may import. Throws
    ValueError on a table that cannot be right."""
    match = TABLE.search(text)
    if not match:
        raise ValueError(f"{TABLE_FILE} has no table between <!-- python layers --> markers")
    rows: dict[str, frozenset[str]] = {}
    for line in match.group(1).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 2 or "`" not in cells[0]:
            continue
        room = f"{PACKAGE}.{cells[0].strip('`')}"
        allowed = frozenset(f"{PACKAGE}.{name}" for name in re.findall(r"`([^`]+)`", cells[1]))
        unknown = sorted(name for name in allowed if name not in rows)
        if unknown:
            raise ValueError(f"{room} may import {unknown}, which must stand above it")
        rows[room] = allowed
    return rows


def module_of(path: str) -> str | None:
    """The module of a file, a door with its `__init__`; None: the file is none of the package."""
    name, _, suffix = path.removeprefix(FOLDER).partition(".")
    if not path.startswith(f"{FOLDER}{PACKAGE}/") or suffix not in ("py", "pyi"):
        return None
    return name.replace("/", ".")


def room_of(module: str, rows: Iterable[str]) -> str | None:
    """The longest row that is `module` or a package around it."""
    around = [room for room in rows if f"{module}.".startswith(f"{room}.")]
    return max(around, key=len, default=None)


def imports_of(text: str, modules: Mapping[str, str]) -> list[Import]:
    """What a file imports of the package, by module."""
    found = []
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.append(Import(node.lineno, RELATIVE))
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "importlib.import_module":
            names = [str(a.value) for a in node.args if isinstance(a, ast.Constant)]
        for name in names:
            module = _module_named(name, modules)
            if module is not None:
                found.append(Import(getattr(node, "lineno", 0), module))
    return found


def _module_named(name: str, modules: Mapping[str, str]) -> str | None:
    """The module that has the name, or something of the name; None: none of the package."""
    if name.split(".")[0] != PACKAGE:
        return None
    owner = name.rpartition(".")[0]
    tries = (name, f"{name}.{DOOR}", owner, f"{owner}.{DOOR}")
    return next((one for one in tries if one in modules), None)


def check_imports(
    module: str, path: str, imports: Iterable[Import], rows: Mapping[str, frozenset[str]]
) -> Iterator[Finding]:
    own = room_of(module, rows)
    if own is None:
        yield Finding(path, 1, f"{module} has no row in the table of Python in {TABLE_FILE}")
        return
    for one in imports:
        if one.module == RELATIVE:
            yield Finding(path, one.line, "imports by a relative name: write the whole name")
        target = room_of(one.module, rows)
        if target is not None and target != own and target not in rows[own]:
            allowed = ", ".join(sorted(rows[own])) or "nothing of ours"
            yield Finding(path, one.line, f"imports {one.module}; {own} may import {allowed}")


def circles(graph: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Each set of modules that import each other in a circle, as the way around one circle."""
    done: set[str] = set()
    for start in graph:
        if start not in done:
            yield from _circles_from(start, graph, done)


def _circles_from(
    start: str, graph: Mapping[str, Iterable[str]], done: set[str]
) -> Iterator[list[str]]:
    """Walks in depth from `start`; an import of a module that is on the way is a circle."""
    way = [start]
    ahead = [iter(graph.get(start, ()))]
    done.add(start)
    while way:
        following = next(ahead[-1], None)
        if following is None:
            way.pop()
            ahead.pop()
        elif following in way:
            yield [*way[way.index(following) :], following]
        elif following not in done:
            done.add(following)
            way.append(following)
            ahead.append(iter(graph.get(following, ())))


def check(root: Path = ROOT) -> Iterator[Finding]:
    rows = parse_table(read(TABLE_FILE, root))
    modules = {module: path for path in files(root) if (module := module_of(path))}
    imports = {module: imports_of(read(path, root), modules) for module, path in modules.items()}
    for module, path in modules.items():
        yield from check_imports(module, path, imports[module], rows)
    graph = {module: [one.module for one in found] for module, found in imports.items()}
    for circle in circles(graph):
        first = next(one for one in imports[circle[0]] if one.module == circle[1])
        way = " -> ".join(circle)
        yield Finding(modules[circle[0]], first.line, f"modules import each other: {way}")
    for room in rows:
        if not any(room_of(module, rows) == room for module in modules):
            yield Finding(TABLE_FILE, 1, f"the table of Python has a row {room}, which has no file")
