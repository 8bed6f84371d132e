"""Include direction: a folder may include only what its row in ARCHITECTURE.md names.

The table between the `layers` markers there is the single source. A row's kind adds rules:
`pure` folders see no thread, lock, clock, socket or file, not even through another header;
`backend` folders are included only by folders whose rows name them: those put parts together; and
by the tests of every folder whose row names the interface. A
`room` is a part of the folder that it lies in: it may include the other folders that the row of
that folder names, and of that folder only what its own row names. Who may include the folder may
include its rooms. The tests of a room may include all of the folder.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import check_python_layers
from repo import ROOT, Finding, code_only, files, is_cxx, line_of, read, report

TABLE_FILE = "ARCHITECTURE.md"
TABLE = re.compile(r"<!-- layers -->(.*?)<!-- /layers -->", re.DOTALL)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?:"(?P<own>[^"]+)"|<(?P<system>[^>]+)>)', re.M)
IMPURE = re.compile(
    r"^(thread|mutex|shared_mutex|condition_variable|atomic|future|semaphore|barrier|latch"
    r"|stop_token|fstream|iostream|filesystem|asio\b.*|spdlog/.*|sys/.*|netinet/.*|arpa/.*|netdb\.h"
    r"|unistd\.h|fcntl\.h|poll\.h|pthread\.h|time\.h|ctime)$"
)
PUBLIC = "include/byteps"
ANYTHING = "anything"
ROOMS = "its rooms"


@dataclass(frozen=True)
class Layer:
    folder: str
    may_include: frozenset[str]
    kind: str  # "", "pure", "backend", "room"
    door: "Layer | None" = None  # of a room: the folder that it is a part of
    has_rooms: bool = False  # the folder itself may include its rooms

    def is_pure(self) -> bool:
        return self.kind == "pure" or (self.door is not None and self.door.is_pure())

    def may(self, target: "Layer") -> bool:
        """Whether this row names the folder `target`, or the one that it is a room of."""
        if target.folder in self.may_include:
            return True
        if target.door is None:
            return False
        if target.door.folder == self.folder:
            return self.has_rooms
        is_beside = self.door is not None and self.door.folder == target.door.folder
        return not is_beside and target.door.folder in self.may_include


@dataclass(frozen=True)
class Include:
    line: int
    target: str
    system: bool


def parse_table(text: str) -> dict[str, Layer]:
    """Rows `| folder | may include | kind |`; throws ValueError on a table that cannot be right."""
    match = TABLE.search(text)
    if not match:
        raise ValueError(f"{TABLE_FILE} has no table between <!-- layers --> markers")
    layers: dict[str, Layer] = {}
    for row in match.group(1).splitlines():
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        if len(cells) != 3 or "`" not in cells[0]:
            continue
        folder = cells[0].strip("`").rstrip("/")
        door = None
        if cells[2] == "room":
            door = layers.get(folder.rsplit("/", 1)[0])
            if door is None:
                raise ValueError(f"{folder} is a room; the folder that it lies in must stand above")
        beside = f"{door.folder}/" if door else "src/"
        names = re.findall(r"`([^`]+)`", cells[1])
        if cells[1] == ANYTHING:
            names = [ANYTHING]
        allowed = frozenset(n if "/" in n or n == ANYTHING else beside + n for n in names)
        unknown = [n for n in allowed if n not in layers and n != ANYTHING]
        if unknown:
            raise ValueError(f"{folder} may include {unknown}, which must stand above it")
        if door:
            allowed |= door.may_include
        layers[folder] = Layer(folder, allowed, cells[2], door, cells[1].endswith(ROOMS))
    return layers


def layer_of(path: str, layers: dict[str, Layer]) -> Layer | None:
    """The longest row that is a prefix of `path`."""
    parts = path.split("/")[:-1]
    for length in range(len(parts), 0, -1):
        layer = layers.get("/".join(parts[:length]))
        if layer:
            return layer
    return None


def normalize(target: str) -> str:
    return f"include/{target}" if target.startswith("byteps/") else target


def includes_of(text: str) -> list[Include]:
    code = code_only(re.sub(r'(#\s*include\s+)"([^"]+)"', r"\1<@\2>", text))
    found = []
    for match in INCLUDE.finditer(code):
        target = match.group("system")
        own = target.startswith(("@", "byteps/"))
        name = normalize(target.lstrip("@"))
        found.append(Include(line_of(code, match.start()), name, not own))
    return found


def is_test(path: str) -> bool:
    return path.endswith(("_test.cc", "_benchmark.cc", "_fuzz.cc")) or "conformance" in path


def is_part_of_tests(path: str) -> bool:
    return is_test(path) or "for_test" in path


def check_include(path: str, include: Include, layers: dict[str, Layer]) -> Iterator[Finding]:
    own = layer_of(path, layers)
    target = layer_of(include.target, layers)
    if own is None:
        yield Finding(path, include.line, f"its folder has no row in {TABLE_FILE}")
        return
    if target is None:
        if "/" not in include.target:
            advice = "write the path from the root of the repository"
            yield Finding(path, include.line, f'includes "{include.target}": {advice}')
        return
    if own.door and is_part_of_tests(path):
        own = replace(own.door, has_rooms=True)
    if target.folder == own.folder or ANYTHING in own.may_include:
        return
    if target.kind == "backend":
        interface = target.folder.rsplit("/", 1)[0]
        composes = target.folder in own.may_include
        tests = is_test(path) and (path.startswith(f"{interface}/") or own.may(layers[interface]))
        if not composes and not tests:
            text = f"includes {include.target}: its row must name {target.folder}"
            yield Finding(path, include.line, text)
        return
    inside_own_parent = own.kind == "backend" and own.folder.startswith(f"{target.folder}/")
    if not own.may(target) and not inside_own_parent:
        allowed = ", ".join(sorted(own.may_include)) or "nothing of ours"
        text = f"includes {include.target}; {own.folder} may include {allowed}"
        yield Finding(path, include.line, text)


def impure_through(path: str, graph: dict[str, list[Include]]) -> Iterator[tuple[Include, str]]:
    """Each include of `path` that brings in an impure header, with the chain that shows how."""
    for first in graph[path]:
        chain = impure_chain(first, graph, set())
        if chain:
            yield first, " -> ".join(chain)


def impure_chain(include: Include, graph: dict[str, list[Include]], seen: set[str]) -> list[str]:
    if include.system:
        return [f"<{include.target}>"] if IMPURE.match(include.target) else []
    if include.target in seen:
        return []
    seen.add(include.target)
    for inner in graph.get(include.target, []):
        chain = impure_chain(inner, graph, seen)
        if chain:
            return [include.target, *chain]
    return []


def check_pure(path: str, graph: dict[str, list[Include]]) -> Iterator[Finding]:
    for include, chain in impure_through(path, graph):
        yield Finding(path, include.line, f"a pure folder brings in {chain}")


def check_guard(path: str, root: Path) -> Iterator[Finding]:
    once = path.endswith(".h") and not path.startswith(PUBLIC) and not path.endswith("-inl.h")
    if once and "#pragma once" not in read(path, root):
        yield Finding(path, 1, "has no '#pragma once'")


def check_own_header_first(path: str, graph: dict[str, list[Include]]) -> Iterator[Finding]:
    header = re.sub(r"\.cc$", ".h", path)
    if not path.endswith(".cc") or header not in graph or not graph[path]:
        return
    first = graph[path][0]
    if first.target != header:
        yield Finding(path, first.line, f'include "{header}" first')


def check(root: Path = ROOT) -> Iterator[Finding]:
    layers = parse_table(read(TABLE_FILE, root))
    paths = [p for p in files(root) if is_cxx(p)]
    graph = {p: includes_of(read(p, root)) for p in paths}
    for path in paths:
        layer = layer_of(path, layers)
        for include in graph[path]:
            if not include.system:
                yield from check_include(path, include, layers)
        if layer and layer.is_pure() and not is_test(path):
            yield from check_pure(path, graph)
        yield from check_guard(path, root)
        yield from check_own_header_first(path, graph)


if __name__ == "__main__":
    sys.exit(report("layers", [*check(), *check_python_layers.check()]))
