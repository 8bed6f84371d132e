"""Small wrong edits of a file: what each kind looks like, and where it can be made.

Works on lines of code without comments and strings, in the style that the formatters give this
repository: binary operators have spaces around them, a statement of one line ends in its line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from repo import code_only


@dataclass(frozen=True, order=True)
class Edit:
    """In `path`, line `line` (from 1) becomes `new`."""

    path: str
    line: int
    kind: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        lines = text.split("\n")
        if lines[self.line - 1] != self.old:
            raise ValueError(f"{self.path}:{self.line} is not what the edit was made for")
        lines[self.line - 1] = self.new
        return "\n".join(lines)


@dataclass(frozen=True)
class _Kind:
    name: str
    pattern: re.Pattern[str]
    replace: str  # \1 is what stays of the match


def _swap(name: str, *pairs: tuple[str, str]) -> list[_Kind]:
    """Both ways, between spaces."""
    return [
        _Kind(name, re.compile(rf"(?<= ){re.escape(a)}(?= )"), b)
        for one, other in pairs
        for a, b in ((one, other), (other, one))
    ]


_COMMON = [
    *_swap("comparison", ("==", "!=")),
    *_swap("border", ("<", "<="), (">", ">=")),
    *_swap("arithmetic", ("+", "-"), ("*", "/")),
    *_swap("assignment", ("+=", "-=")),
    _Kind("one off", re.compile(r"(?<= [+-] )1\b(?![.0-9])"), "2"),
]

_CXX = [
    *_COMMON,
    *_swap("logic", ("&&", "||")),
    _Kind("logic", re.compile(r"(?<=[( ])!(?=[A-Za-z_(])"), ""),
    _Kind(
        "condition",
        re.compile(r"^(\s*(?:\} else )?if \().*(?=\) (?:\{|return|continue|break)[^\n]*$)"),
        r"\1true",
    ),
    _Kind(
        "condition",
        re.compile(r"^(\s*(?:\} else )?if \().*(?=\) (?:\{|return|continue|break)[^\n]*$)"),
        r"\1false",
    ),
    _Kind("answer", re.compile(r"\breturn true;"), "return false;"),
    _Kind("answer", re.compile(r"\breturn false;"), "return true;"),
    # A call or an assignment that stands alone; a declaration has two words before its name.
    _Kind(
        "statement",
        re.compile(
            r"^(\s*)(?:[\w.:>\[\]*-]+\([^{}]*\)|[\w.>\[\]-]+ [-+|&]?= [^{}]*|\+\+[\w.>-]+);$"
        ),
        r"\1;",
    ),
]

_PYTHON = [
    *_COMMON,
    *_swap("logic", ("and", "or")),
    _Kind("logic", re.compile(r"\bnot (?!in\b)"), ""),
    _Kind("condition", re.compile(r"^(\s*(?:el)?if ).*(?=:$)"), r"\1True"),
    _Kind("condition", re.compile(r"^(\s*(?:el)?if ).*(?=:$)"), r"\1False"),
    _Kind("answer", re.compile(r"\breturn True$"), "return False"),
    _Kind("answer", re.compile(r"\breturn False$"), "return True"),
    _Kind(
        "statement",
        re.compile(r"^(\s*)[A-Za-z_][\w.\[\]]*(?:\([^{}]*\)| [-+|]?= [^{}]*)$"),
        r"\1pass",
    ),
]

_PYTHON_TEXT = re.compile(
    r'"""(?:.|\n)*?"""' r"|'''(?:.|\n)*?'''" r'|[rbf]*"(?:\\.|[^"\\\n])*"' r"|#[^\n]*"
)

# What has no meaning for the program: asking the compiler, including, naming, logging.
_SKIPPED = re.compile(
    r"^\s*(#|import |from |using |template|static_assert|namespace|class |struct |enum |@|def |"
    r"(log_|log|BYTEPS_LOG)\b)|\boperator\b|override;|= default|= 0;"
)


def _code(path: str, text: str) -> str:
    if not path.endswith(".py"):
        return code_only(text)
    return _PYTHON_TEXT.sub(lambda found: re.sub(r"[^\n]", "\x00", found.group(0)), text)


def edits_of(path: str, text: str) -> Iterator[Edit]:
    """Every edit that can be made in the file; the compiler may refuse some."""
    kinds = _PYTHON if path.endswith(".py") else _CXX
    lines = text.split("\n")
    for number, code in enumerate(_code(path, text).split("\n"), start=1):
        line = lines[number - 1]
        if not code.strip() or _SKIPPED.search(code):
            continue
        for kind in kinds:
            # Columns of code and line agree: what is blanked keeps its length.
            for match in kind.pattern.finditer(code):
                start, end = match.span()
                new = line[:start] + match.expand(kind.replace) + line[end:]
                if new != line:
                    yield Edit(path, number, kind.name, line, new)
