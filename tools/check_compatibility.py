"""docs/compatibility.md is true to the code: every public name of byteps.torch, and what the
modules for other frameworks have beside it, has a row, every row that works has a test in
tools/compatibility_tests.txt, and every test in that list exists."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from compatibility_tests import LIST, PROMISES, Shown, functions, rows, shown
from repo import ROOT, Finding, read, report

MODULE = "python/byteps/torch/__init__.py"
# What every module has; its rows are those of byteps.torch.
BASICS = "python/byteps/common/basics.py"
# The rows of these are `byteps.MODULE.NAME`.
FRAMEWORKS = ("tensorflow", "keras", "jax", "mxnet", "numpy")
STATES = ("works", "differs", "not yet")
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


def names_of_frameworks(root: Path) -> set[str]:
    """The public names of the modules for frameworks, as their rows have them."""
    everywhere = public_names(BASICS, root)
    names: set[str] = set()
    for framework in FRAMEWORKS:
        own = public_names(f"python/byteps/{framework}/__init__.py", root) - everywhere
        names |= {f"byteps.{framework}.{name}" for name in own}
    return names


def check(page: str, listed: str, public: set[str], tests: set[str]) -> Iterator[Finding]:
    evidence: dict[str, list[Shown]] = {}
    for one in shown(listed):
        evidence.setdefault(one.name, []).append(one)
        if one.test not in tests:
            yield Finding(LIST, one.line, f"{one.name}: there is no test {one.test}")
    states: dict[str, str] = {}
    for row in rows(page):
        name = row.name
        if row.state not in STATES:
            text = f"{name}: '{row.state}' is none of {', '.join(STATES)}"
            yield Finding(PROMISES, row.line, text)
        if name in states:
            yield Finding(PROMISES, row.line, f"{name} has two rows")
        states[name] = row.state
        if row.state == "works" and name not in evidence:
            yield Finding(PROMISES, row.line, f"{name} works, but {LIST} names no test of it")
        simple = NAME.match(name)
        if simple and row.state == "not yet" and simple[1] in public:
            yield Finding(PROMISES, row.line, f"{name} is there: it is no longer 'not yet'")
    for name in sorted(evidence.keys() - states.keys()):
        yield Finding(LIST, evidence[name][0].line, f"{PROMISES} has no row {name}")
    for missing in sorted(public - {name.strip("`") for name in states}):
        yield Finding(MODULE, 1, f"'{missing}' has no row in {PROMISES}")


def main() -> int:
    public = public_names(MODULE, ROOT) | names_of_frameworks(ROOT)
    tests = set(functions(ROOT))
    return report("compatibility", check(read(PROMISES), read(LIST), public, tests))


if __name__ == "__main__":
    sys.exit(main())
