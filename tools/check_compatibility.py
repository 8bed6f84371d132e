"""docs/compatibility.md is true to the code: every public name of byteps.torch has a row, every
name that a row calls working is there, and every test that a row names exists."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from repo import ROOT, Finding, read, report

PAGE = "docs/compatibility.md"
MODULE = "python/byteps/torch/__init__.py"
TESTS = "tests/python"
STATES = ("works", "differs", "not yet")
ROW = re.compile(r"^\| (?P<names>[^|]+) \| (?P<state>[^|]+) \| (?P<rest>[^|]*) \|$")
TEST = re.compile(r"`([a-z0-9_]+)\.(\w+)`")
NAME = re.compile(r"^`(\w+)`$")


def module_path(module: str, root: Path) -> str | None:
    """The file of a module of the package, by its dotted name."""
    base = "python/" + module.replace(".", "/")
    for path in (f"{base}.py", f"{base}/__init__.py"):
        if (root / path).is_file():
            return path
    return None


def public_names(path: str, root: Path) -> set[str]:
    """What `__all__` of a module holds: a list, and the lists of other modules added to it."""
    tree = ast.parse(read(path, root))
    modules = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names: set[str] = set()
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            continue
        value = getattr(node, "value", None)
        if isinstance(value, ast.List):
            names |= {str(item.value) for item in value.elts if isinstance(item, ast.Constant)}
        elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            other = module_path(modules[value.value.id], root)
            names |= public_names(other, root) if other else set()
    return names


def functions(root: Path) -> set[str]:
    """The functions of all tests, as module.function."""
    found = set()
    for path in (root / TESTS).rglob("*.py"):
        for name in re.findall(r"^def (\w+)\(", path.read_text(), re.MULTILINE):
            found.add(f"{path.stem}.{name}")
    return found


def check(page: str, public: set[str], tests: set[str]) -> Iterator[Finding]:
    rows: dict[str, str] = {}
    for number, line in enumerate(page.splitlines(), 1):
        row = ROW.match(line)
        if row is None or set(row["names"]) <= {"-"} or row["state"].strip() == "":
            continue
        name, state = row["names"].strip(), row["state"].strip()
        if state not in STATES:
            yield Finding(PAGE, number, f"{name}: '{state}' is none of {', '.join(STATES)}")
        if name in rows:
            yield Finding(PAGE, number, f"{name} has two rows")
        rows[name] = state
        named = [f"{module}.{test}" for module, test in TEST.findall(row["rest"])]
        for test in named:
            if test not in tests:
                yield Finding(PAGE, number, f"{name}: there is no test {test}")
        if state == "works" and not named:
            yield Finding(PAGE, number, f"{name} works, but no test is named that shows it")
        simple = NAME.match(name)
        if simple and state == "not yet" and simple[1] in public:
            yield Finding(PAGE, number, f"{name} is there: it is no longer 'not yet'")
    for missing in sorted(public - {row.strip("`") for row in rows}):
        yield Finding(MODULE, 1, f"'{missing}' has no row in {PAGE}")


def main() -> int:
    public = public_names(MODULE, ROOT)
    return report("compatibility", check(read(PAGE), public, functions(ROOT)))


if __name__ == "__main__":
    sys.exit(main())
