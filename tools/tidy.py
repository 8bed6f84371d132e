"""Style rules that a program can check: sizes, words, comments, paths, globals, names of classes.

A line may carry `tidy-allow(rule): reason` in a comment, on itself or on the line above it.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from cxx_scopes import functions, statements, types
from repo import ROOT, Finding, code_only, files, is_cxx, line_of, read, report
from tidy_comments import check_comments
from tidy_constructors import constructors
from tidy_paths import check_paths
from tidy_rules import (
    COLUMNS_MAX,
    FILE_LINES_MAX,
    FOLDER_FILES_MAX,
    FUNCTION_LINES_MAX,
    NOT_PRODUCTION,
    PRODUCTION,
    REFERENCES_MAX,
    RULES,
    Rule,
)

ALLOW = re.compile(r"tidy-allow\((?P<rule>[a-z-]+)\): \S")
FORBIDDEN_LIST = "tools/forbidden.txt"
SOURCES = (".h", ".cc", ".py", ".sh", ".fbs", ".cmake", ".pml")
BLOB_BYTES_MAX = 512 * 1024


def allowed(rule: str, lines: list[str], line: int) -> bool:
    """True when `line` (from 1) or the one above it carries an exception with a reason."""
    for index in (line - 1, line - 2):
        if 0 <= index < len(lines):
            match = ALLOW.search(lines[index])
            if match and match.group("rule") == rule:
                return True
    return False


def check_rule(rule: Rule, path: str, text: str, code: str) -> Iterator[Finding]:
    searched = text if rule.in_text else code
    lines = text.splitlines()
    for match in rule.pattern.finditer(searched):
        line = line_of(searched, match.start())
        if not allowed(rule.name, lines, line):
            yield Finding(path, line, f"'{match.group(0).strip()}': {rule.advice} [{rule.name}]")


def check_words(path: str, text: str) -> Iterator[Finding]:
    code = code_only(text) if is_cxx(path) else text
    for rule in RULES:
        if rule.applies(path):
            yield from check_rule(rule, path, text, code)


def is_source(path: str) -> bool:
    return path.endswith(SOURCES) or path == "dev" or path.endswith("CMakeLists.txt")


def check_size(path: str, text: str) -> Iterator[Finding]:
    if not is_source(path):
        return
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield Finding(path, len(lines), f"{len(lines)} lines; split at {FILE_LINES_MAX}")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX:
            yield Finding(path, number, f"{len(line)} columns; wrap at {COLUMNS_MAX}")


def is_production(path: str) -> bool:
    is_source_file = path.startswith(PRODUCTION) and path.endswith((".h", ".cc"))
    return is_source_file and not any(part in path for part in NOT_PRODUCTION)


def check_folders(paths: Iterable[str]) -> Iterator[Finding]:
    counts = Counter(path.rpartition("/")[0] for path in paths if is_production(path))
    for folder, count in counts.items():
        if count > FOLDER_FILES_MAX:
            text = f"{count} production files; make rooms at {FOLDER_FILES_MAX}"
            yield Finding(folder, 1, text)


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno or node.lineno


def check_functions(path: str, text: str) -> Iterator[Finding]:
    spans: list[tuple[str, int, int]] = []
    if is_cxx(path):
        spans = [(f.name, f.first_line, f.last_line) for f in functions(text)]
    elif path.endswith(".py"):
        spans = list(python_functions(text))
    for name, first, last in spans:
        if last - first + 1 > FUNCTION_LINES_MAX:
            count = last - first + 1
            yield Finding(path, first, f"{name}: {count} lines; split at {FUNCTION_LINES_MAX}")


_NOT_A_VARIABLE = re.compile(
    r"^(?:\[\[.*?\]\]\s*|__extension__\s+)*"
    r"(using|typedef|template|class|struct|union|enum|friend|static_assert|extern|namespace|concept"
    r"|public|private|protected|return|if|for|while|goto|case|default|asm)\b"
)
_CONSTANT = re.compile(r"\b(constexpr|const|consteval)\b")


def is_mutable_global(text: str, scope: str) -> bool:
    if not text or _NOT_A_VARIABLE.match(text) or _CONSTANT.search(text.split("=")[0]):
        return False
    if re.search(r"\boperator\W", text):
        return False
    if scope == "function":
        return bool(re.match(r"(static|thread_local)\b", text))
    head = re.split(r"=|\{", text)[0]
    if scope == "type":
        return bool(re.match(r"(inline\s+)?static\b|static\s+inline\b", text)) and "(" not in head
    return "(" not in head and bool(re.match(r"[\w:<>,*&\s\[\]]+\s[\w:]+(\[.*\])?\s*$", head))


def check_globals(path: str, text: str) -> Iterator[Finding]:
    if not is_cxx(path) or path.endswith(".c"):
        return
    lines = text.splitlines()
    for statement in statements(text):
        mutable = is_mutable_global(statement.text, statement.scope)
        if mutable and not allowed("global", lines, statement.line):
            name = statement.text.split("=")[0].strip()[:60]
            advice = "make it a member of the object that owns it, or constexpr"
            yield Finding(path, statement.line, f"mutable global '{name}': {advice} [global]")


def check_class_names(texts: dict[str, str]) -> Iterator[Finding]:
    """Two files that define a type of the same full name. Linkers do not notice it, and keep the
    functions of either; so it holds for tests, too: a test is linked with the code that it tests.
    """
    first: dict[str, tuple[str, int]] = {}
    for path, text in texts.items():
        for found in types(text):
            if found.is_private or allowed("class", text.splitlines(), found.line):
                continue
            other, line = first.setdefault(found.name, (path, found.line))
            if other != path:
                advice = f"is also defined in {other}:{line}; rename one of the two [class]"
                yield Finding(path, found.line, f"'{found.name}' {advice}")


def check_constructors(texts: dict[str, str]) -> Iterator[Finding]:
    production = {path: text for path, text in texts.items() if is_production(path)}
    for found in constructors(production):
        lines = production[found.path].splitlines()
        if found.references <= REFERENCES_MAX or allowed("constructor", lines, found.line):
            continue
        advice = f"takes {found.references} references; at most {REFERENCES_MAX} [constructor]"
        yield Finding(found.path, found.line, f"'{found.name}' {advice}")


def forbidden_patterns(text: str) -> list[re.Pattern[str]]:
    lines = (line.strip() for line in text.splitlines())
    return [re.compile(line) for line in lines if line and not line.startswith("#")]


def check_forbidden(path: str, text: str, patterns: list[re.Pattern[str]]) -> Iterator[Finding]:
    if path == FORBIDDEN_LIST:
        return
    for pattern in patterns:
        for match in pattern.finditer(text):
            advice = f"does not belong in the repository ({FORBIDDEN_LIST})"
            yield Finding(path, line_of(text, match.start()), f"'{match.group(0)}' {advice}")


def check_text(path: str, text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            yield Finding(path, number, "white space at the end of the line")
    if text and not text.endswith("\n"):
        yield Finding(path, text.count("\n") + 1, "no line end at the end of the file")


def check_file(path: str, text: str, patterns: list[re.Pattern[str]]) -> Iterator[Finding]:
    yield from check_words(path, text)
    yield from check_comments(path, text)
    yield from check_size(path, text)
    yield from check_functions(path, text)
    yield from check_globals(path, text)
    yield from check_forbidden(path, text, patterns)
    yield from check_text(path, text)


def check(root: Path = ROOT) -> Iterator[Finding]:
    patterns = forbidden_patterns(read(FORBIDDEN_LIST, root))
    cxx: dict[str, str] = {}
    paths = files(root)
    yield from check_folders(paths)
    for path in paths:
        data = (root / path).read_bytes()
        if len(data) > BLOB_BYTES_MAX:
            yield Finding(path, 1, f"{len(data)} bytes; generated data does not belong here")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue  # golden bytes, pictures
        if "\0" not in text:
            yield from check_file(path, text, patterns)
            if is_cxx(path):
                cxx[path] = text
    yield from check_class_names(cxx)
    yield from check_constructors(cxx)
    yield from check_paths(cxx, set(paths))


if __name__ == "__main__":
    sys.exit(report("tidy", check()))
